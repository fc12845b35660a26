/** The operator's page of pools: what it shows of their members, and what an operator does with one that is at work. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { everyLook } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./world.ts"

let world: OperatorWorld
let key: string
const good = "simulated/default/kapal-a"
const bad = "simulated/default/kapal-b?fault=status&status=500"
beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  key = (await gateway.key(await gateway.person(100_000))).key
  const upstreams = ["kapal-a", "kapal-b?fault=status&status=500"].map((model) => ({
    provider: "simulated",
    format: "chat" as const,
    model,
  }))
  await gateway.model({ format: "chat", model: "kapal-berdua", upstreams })
  // A conversation each, as each has a key of its own.
  for (let place = 0; place < 12; place++)
    await say(world, (await gateway.key(await gateway.person(100_000))).key, "kapal-berdua")
  await say(world, key, "plain")
}, 120_000)
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)(
  "pools are accessible and fit: %o",
  async (look) => {
    await using visit = await world.visit({ ...look, person: world.operator })
    await visit.open("/operator/backends")
    await visit.page.getByText(bad).waitFor()
    await visit.screenshot("operator-backends")
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  },
  60_000,
)

test("a member is tried again, drained and reweighed, with a preview of each change", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator/backends")
  const pool = page.getByRole("region", { name: "kapal-berdua" })
  const rowOf = (member: string) => pool.getByRole("row").filter({ hasText: member })
  await rowOf(bad)
    .getByText(/Held back|Being tried/)
    .waitFor()
  await rowOf(bad).getByRole("button", { name: "Try again now" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Try again now" }).click()
  await page.getByText("The member is tried again").waitFor()
  await rowOf(bad).getByText("Well", { exact: true }).waitFor()

  await rowOf(good).getByRole("button", { name: good }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Weight").fill("x")
  await dialog.getByRole("button", { name: "Review changes" }).click()
  await dialog.getByText("A whole number from 0").waitFor()
  await dialog.getByLabel("Weight").fill("7")
  await dialog.getByLabel("State").selectOption("draining")
  await dialog.getByRole("button", { name: "Review changes" }).click()
  await dialog.getByRole("status").getByText("draining").waitFor()
  await visit.expectAccessible()
  await dialog.getByRole("button", { name: "Save" }).click()
  await page.getByText("Member changed").waitFor()
  await rowOf(good).getByText("Draining").waitFor()
  const [row] = await world.gateway.sql`select state, weight from member_settings where member = ${good}`
  expect(row).toEqual({ state: "draining", weight: 7n })
}, 60_000)
