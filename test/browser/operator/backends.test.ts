/** The operator's page of pools: what it shows of their members, and what an operator does with one that is at work. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { eventually, everyLook } from "../harness.ts"
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
  // A conversation each, as each has a key of its own: which member it is asked of is drawn, and three failures hold one back.
  const failures = () => gateway.simulator.calls.filter(({ model }) => bad.endsWith(model)).length
  for (let place = 0; place < 12 || failures() < 3; place++)
    await say(world, (await gateway.key(await gateway.person(100_000))).key, "kapal-berdua")
  await say(world, key, "plain")
  const only = {
    provider: "simulated",
    format: "chat" as const,
    model: "anthropic.claude-opus-4-5-20251101?fault=status&status=500",
  }
  await gateway.model({ format: "chat", model: "zz-claude-opus-4-5-20251101", upstreams: [only] })
  for (let place = 0; place < 3; place++)
    await say(world, (await gateway.key(await gateway.person(100_000))).key, "zz-claude-opus-4-5-20251101")
  const eight = Array.from({ length: 8 }, (_, place) => ({
    provider: "simulated",
    format: "chat" as const,
    model: `anthropic.claude-opus-5-2026-11-${place}:0${place === 5 ? "?fault=status&status=500" : ""}`,
  }))
  await gateway.model({ format: "chat", model: "kapal-delapan", upstreams: eight })
  for (let place = 0; place < 12; place++)
    await say(world, (await gateway.key(await gateway.person(100_000))).key, "kapal-delapan")
  // Written every few seconds; a page asks for hours once a minute.
  await eventually(async () => {
    const hours = await (await gateway.dashboard(world.operator, "/operator/backends/hours")).json()
    expect(hours).toEqual({
      data: expect.arrayContaining([expect.objectContaining({ first_token_p50_ms: expect.any(Number) })]),
    })
  })
}, 120_000)
afterAll(() => world[Symbol.asyncDispose]())

test.each(everyLook)(
  "pools are accessible and fit: %o",
  async (look) => {
    await using visit = await world.visit({ ...look, person: world.operator })
    await visit.open("/operator/backends")
    await visit.page.getByText(bad).first().waitFor()
    await visit.screenshot("operator-backends")
    await visit.expectAccessible()
    await visit.expectNoSidewaysScroll()
  },
  60_000,
)

test.each(everyLook)(
  "the history of backends is below them, accessible, and moves nothing when it comes: %o",
  async (look) => {
    await using visit = await world.visit({ ...look, person: world.operator })
    const { page } = visit
    const [history, events, share, first] =
      look.language === "id"
        ? ["Riwayat", "Yang terjadi", "Bagian percobaan yang gagal", "Token pertama p50"]
        : ["History", "What happened", "Share of tries that failed", "First token p50"]
    await visit.open("/operator/backends")
    const region = page.getByRole("region", { name: history })
    for (const name of [share, first]) {
      const hours = region.getByRole("table", { name, exact: true }).getByRole("row")
      await hours.first().waitFor({ state: "attached" })
      expect(await hours.count()).toBe(7 * 24 + 1)
    }
    // What is gathered is written every few seconds, and the page follows.
    await region.getByRole("table", { name: events }).getByRole("row").filter({ hasText: bad }).first().waitFor()
    await visit.expectSteady()
    await region.scrollIntoViewIfNeeded()
    await page.evaluate(() => document.querySelector(".operator-history")?.scrollIntoView())
    // Painted where it is now.
    await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted))))
    await visit.screenshot("operator-backends-history")
    await visit.expectAccessible()
    await page.setViewportSize({ width: 320, height: 640 })
    await visit.expectNoSidewaysScroll()
  },
  60_000,
)

test("the history is of one member when it is asked for, with what failed", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator/backends")
  const region = page.getByRole("region", { name: "History" })
  const rows = region.getByRole("table", { name: "What happened" }).getByRole("row")
  await rows.filter({ hasText: bad }).filter({ hasText: "server error (500), kapal-berdua" }).first().waitFor()
  await region.getByRole("combobox", { name: "Member of a pool" }).selectOption(good)
  await region.getByText("Nothing has happened yet").waitFor()
  expect(new URL(page.url()).searchParams.get("member")).toBe(good)
  await region.getByRole("combobox", { name: "Member of a pool" }).selectOption(bad)
  await rows.nth(1).getByText("Held back").waitFor()
}, 60_000)

test.each(["backends", "profit?by=model&and=member"])(
  "%s fits with pools of eight, on narrow and on wide screens",
  async (path) => {
    await using visit = await world.visit({ person: world.operator, language: "id" })
    await visit.open(`/operator/${path}`)
    await visit.page.getByText("claude-opus-5").first().waitFor()
    for (const width of [320, 390, 1280, 1440, 1920]) {
      await visit.page.setViewportSize({ width, height: 900 })
      await visit.expectNoSidewaysScroll()
      // A card hides what sticks out of it.
      const cut = await visit.page
        .locator("main table[role=table]")
        .evaluateAll((tables) =>
          tables.flatMap(({ parentElement: box }) =>
            box !== null && box.scrollWidth > box.clientWidth ? [[box.scrollWidth, box.clientWidth]] : [],
          ),
        )
      expect([width, cut]).toEqual([width, []])
    }
  },
  60_000,
)

test("members that are held back stand first, and say under their state how they failed", async () => {
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/backends")
  const first = (region: string) => visit.page.getByRole("region", { name: region }).getByRole("row").nth(1)
  for (const region of ["kapal-berdua", "Models with one backend"]) {
    await first(region).getByText("Last failure: server error (500)").waitFor()
  }
}, 60_000)

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
  const told = page.getByRole("table", { name: "What happened" }).getByRole("row").filter({ hasText: good })
  await told.getByText("Draining, weight 7, operator@example.com").waitFor()
  const [row] = await world.gateway.sql`select state, weight from member_settings where member = ${good}`
  expect(row).toEqual({ state: "draining", weight: 7n })
}, 60_000)

test("an operator writes a note for `/status` in both languages, changes it, and says that it is over", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator/backends")
  await page.getByRole("button", { name: "Write a note" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByLabel("Indonesian").fill("Model Kapal lambat.")
  await dialog.getByRole("button", { name: "Publish" }).click()
  await dialog.getByText("Write it in both languages.").waitFor()
  await dialog.getByLabel("English").fill("Kapal is slow.")
  await visit.expectAccessible()
  await visit.screenshot("operator-status-note")
  await dialog.getByRole("button", { name: "Publish" }).click()
  const row = page.getByRole("row", { name: /Kapal is (?:very )?slow.*Being worked on/ })
  await row.getByRole("button", { name: "Change" }).click()
  await dialog.getByLabel("English").fill("Kapal is very slow.")
  await dialog.getByRole("button", { name: "Save" }).click()
  await page.getByRole("row", { name: /Kapal is very slow/ }).waitFor()
  // Another operator changes it meanwhile: nobody's words are lost.
  await row.getByRole("button", { name: "Change" }).click()
  const [note] = (await (await world.gateway.dashboard(world.operator, "/operator/status-notes")).json()).data
  const text = { id: "Model Kapal lambat.", en: "Kapal is very slow. We know why." }
  const body = JSON.stringify({ text })
  await world.gateway.dashboard(world.operator, `/operator/status-notes/${note.id}`, { method: "PATCH", body })
  await dialog.getByLabel("Indonesian").fill("Masih lambat.")
  await dialog.getByRole("button", { name: "Save" }).click()
  await dialog.getByText(/somebody else has changed its words/).waitFor()
  expect(await dialog.getByLabel("Indonesian").inputValue()).toBe("Masih lambat.")
  await dialog.getByRole("button", { name: "Cancel" }).click()
  await page.getByRole("row", { name: /Kapal is very slow\. We know why\./ }).waitFor()
  const visitor = await world.visit({ language: "id" })
  await visitor.page.goto(`${world.gateway.url}/status`)
  await eventually(async () => {
    await visitor.page.reload()
    expect(await visitor.page.getByRole("main").innerText()).toMatch(/Model Kapal lambat\.[^]*Sedang ditangani\./)
  })
  await visitor.expectAccessible()
  await visitor.screenshot("status-note")
  await visitor[Symbol.asyncDispose]()
  await row.getByRole("button", { name: "Resolve" }).click()
  await dialog.getByRole("button", { name: "Resolve" }).click()
  await page.getByRole("row", { name: /Kapal is very slow.*Resolved/ }).waitFor()
})
