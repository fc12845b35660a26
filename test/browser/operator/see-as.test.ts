/** Seeing as a customer sees: every page of theirs with who looks and until when, nothing that can be changed, and a way out. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Person } from "../../gateway/harness.ts"
import { makeOperator } from "../../http/operator/operator.ts"
import { eventually, everyLook, type Visit } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./world.ts"

let world: OperatorWorld
let customer: Person

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  customer = await gateway.person(100_000)
  const { key } = await gateway.key(customer, { name: "Aplikasi toko" })
  const model = await gateway.model({ format: "chat", model: "contoh", script: "input=1000&output=200" })
  for (let call = 0; call < 3; call++) await say(world, key, model)
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

const BANNER = /^Operator .+ (sees the account|melihat akun)/

async function see(visit: Visit) {
  const { page } = visit
  await visit.open(`/operator/accounts/${customer.accountId}`)
  await page.getByRole("button", { name: /^(See as the customer|Lihat sebagai pelanggan)$/ }).click()
  await page.getByLabel(/^(Reason|Alasan)$/).fill("They asked about a charge")
  await page.getByRole("button", { name: /^(See the dashboard|Lihat dasbornya)$/ }).click()
  await page.getByText(BANNER).waitFor()
  await visit.settled()
}

test.each(everyLook)("each page of the customer's says who looks, is accessible and fits: %o", async (look) => {
  const operator = await makeOperator(world.gateway, "support")
  await using visit = await world.visit({ ...look, person: operator })
  const { page } = visit
  await see(visit)
  await visit.screenshot("see-as")
  for (const path of ["/", "/keys", "/usage", "/wallet", "/wallet/statement", "/settings", "/quick-start", "/models"]) {
    await visit.open(path)
    await page.getByText(BANNER).waitFor()
    await visit.expectNoSidewaysScroll()
  }
  await visit.open("/usage")
  await visit.expectAccessible()
  await page.setViewportSize({ width: 320, height: 640 })
  await visit.expectNoSidewaysScroll()
  // Nothing of the operators' is in the navigation of a customer.
  expect(await page.getByRole("link", { name: "Operator" }).count()).toBe(0)
})

test("the customer's keys and calls are there, a change is refused in words, and it ends where it began", async () => {
  const operator = await makeOperator(world.gateway, "support")
  await using visit = await world.visit({ person: operator })
  const { page } = visit
  await see(visit)
  await visit.open("/keys")
  await page.getByText("Aplikasi toko").first().waitFor()
  await visit.open("/usage")
  await page.getByRole("button", { name: "contoh" }).first().waitFor()
  const [before] = await world.gateway.sql<{ count: number }[]>`select count(*)::int as count from api_keys`
  await visit.open("/playground")
  await page.getByRole("button", { name: "Make a trial key" }).click()
  await page.getByRole("alert").getByText("auth.read_only").waitFor()
  const [after] = await world.gateway.sql<{ count: number }[]>`select count(*)::int as count from api_keys`
  expect(after).toEqual(before)
  await page.getByRole("button", { name: "End", exact: true }).click()
  await page.getByRole("button", { name: "See as the customer" }).waitFor()
  expect(new URL(page.url()).pathname).toBe(`/dashboard/operator/accounts/${customer.accountId}`)
  expect(await page.getByText(BANNER).count()).toBe(0)
})

test("a page that is open when the time is over becomes the operator's own by itself", async () => {
  const operator = await makeOperator(world.gateway, "support")
  await using visit = await world.visit({ person: operator })
  const { page } = visit
  await see(visit)
  await visit.open("/usage")
  await world.gateway.sql`update seen_accounts set until = now() where operator_id = ${operator.accountId}`
  await eventually(async () => expect(await page.getByText(BANNER).count()).toBe(0))
})

test("the customer reads in the account's history that an operator looked, and no longer does", async () => {
  const operator = await makeOperator(world.gateway, "support")
  {
    await using visit = await world.visit({ person: operator })
    await see(visit)
    await visit.page.getByRole("button", { name: "End", exact: true }).click()
    await visit.page.getByRole("button", { name: "See as the customer" }).waitFor()
  }
  await using visit = await world.visit({ person: customer })
  await visit.open("/settings")
  await visit.page.getByText("Dashboard looked at, read only").first().waitFor()
  await visit.page.getByText("Looking at the dashboard ended").first().waitFor()
})
