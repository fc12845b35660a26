/** The profit page, whose sums are summed again here from the records; exchange rates; and a price that is tried before it is saved. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Route } from "playwright-core"
import { formatRupiah } from "../../../src/dashboard/i18n/figures.ts"
import type { Person } from "../../gateway/harness.ts"
import { eventually, everyLook } from "../harness.ts"
import { openOperatorWorld, type OperatorWorld, say } from "./world.ts"

let world: OperatorWorld
let customer: Person
let cheap: string

const usd = (input: string, output: string) => ({
  currency: "USD",
  input,
  output,
  cache_read: "0.3",
  cache_write: "3.75",
})

beforeAll(async () => {
  world = await openOperatorWorld()
  const { gateway } = world
  await gateway.sql`
    insert into exchange_rates (currency, unit_micro, source, effective_at)
    values ('USD', 16250500000, 'operator', '2026-01-01')`
  customer = await gateway.person(100_000)
  const { key } = await gateway.key(customer)
  const script = "input=1000&output=20"
  const good = await gateway.model({ format: "chat", model: "kapal-untung", cost: usd("0.01", "0.05"), script })
  cheap = await gateway.model({ format: "chat", model: "kapal-rugi", cost: usd("3", "15"), script })
  const blind = await gateway.model({ format: "chat", model: "kapal-buta", script })
  const missing = `${script}&usage=none`
  const mute = await gateway.model({ format: "chat", model: "kapal-bisu", cost: usd("0.01", "0.05"), script: missing })
  for (const model of [good, good, good, cheap, blind, mute]) await say(world, key, model)
  const other = await gateway.person(20_000)
  await say(world, (await gateway.key(other)).key, good)
  // All are written down, and so in the sums.
  await eventually(async () => expect(await gateway.sql`select from usage`).toHaveLength(7))
}, 60_000)
afterAll(() => world[Symbol.asyncDispose]())

interface Sums {
  readonly revenue: bigint
  readonly cost: bigint
}

/** From the records themselves. */
async function summed(model?: string): Promise<Sums> {
  const { sql } = world.gateway
  const [row] = await sql<Sums[]>`
    select sum(charge_micro)::bigint as revenue, coalesce(sum(cost_micro), 0)::bigint as cost from usage
    where ${model === undefined ? sql`true` : sql`model = ${model}`}`
  if (row === undefined) throw new Error("a sum has one row")
  return row
}

const shown = (micro: bigint) => formatRupiah(micro, "en")

test.each(everyLook)("the profit page is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: world.operator })
  await visit.open("/operator/profit?by=model&and=member")
  await visit.screenshot("operator-profit")
  await visit.expectAccessible()
  for (const width of [320, 768, 1920]) {
    await visit.page.setViewportSize({ width, height: 800 })
    await visit.expectNoSidewaysScroll()
  }
})

test("the page's sums are those of the records, however they are divided", async () => {
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/profit")
  const all = await summed()
  const page = visit.page
  const figure = (label: string) => page.locator(".stat").filter({ hasText: label }).locator(".stat-value").first()
  expect(await figure("Revenue").innerText()).toBe(shown(all.revenue))
  expect(await figure("Cost").innerText()).toBe(shown(all.cost))
  expect(await figure("Margin").innerText()).toBe(shown(all.revenue - all.cost))
  await page.getByRole("group", { name: "By", exact: true }).getByText("Model").click()
  await page.waitForURL(/by=model/)
  const table = page.getByRole("table", { name: "Breakdown" })
  for (const model of ["kapal-untung", "kapal-rugi", "kapal-bisu", "kapal-buta"]) {
    const { revenue, cost } = await summed(model)
    const row = table.getByRole("row", { name: model })
    await row.waitFor()
    const cells = (await row.getByRole("cell").allInnerTexts()).map((text) => text.split("\n")[0])
    expect([model, cells[1], cells[2], cells[3]]).toEqual([model, shown(revenue), shown(cost), shown(revenue - cost)])
  }
  await table.getByRole("row", { name: "kapal-buta" }).getByText("1 not known").waitFor()
  // What is known of its costs would make a margin of all its revenue.
  const shareOf = (model: string) => table.getByRole("row", { name: model }).getByRole("cell").last().innerText()
  expect([await shareOf("kapal-buta"), await shareOf("kapal-untung")]).toEqual(["–", expect.stringContaining("%")])
  await page.getByText("at most: some costs are not known").waitFor()
  await page.getByRole("group", { name: "By", exact: true }).getByText("Account").click()
  await table.getByRole("link", { name: /@/ }).first().waitFor()
  await eventually(async () => expect(await table.getByRole("rowheader").count()).toBe(2))
})

test("a long breakdown begins with a hundred rows, and shows the rest when it is asked for", async () => {
  const { sql } = world.gateway
  const rows = (count: number) => sql`
    insert into profit_hours
    select date_trunc('hour', now(), 'UTC'), 'acc_none', 'panjang-' || n, 'p/k/1', 'ok', 1, 1, 1, 0, 0, 10, 0, n, 0, 0, 0, 0
    from generate_series(1, ${count}) n on conflict do nothing`
  await using visit = await world.visit({ person: world.operator })
  const table = visit.page.getByRole("table", { name: "Breakdown" })
  const shownRows = (count: number) =>
    eventually(async () => expect(await table.getByRole("rowheader").count()).toBe(count))
  try {
    await rows(200)
    await visit.open("/operator/profit?by=model")
    await shownRows(100)
    await visit.page.getByRole("button", { name: "Load more" }).click()
    await shownRows(204)
    // Another division is another list.
    await visit.page.getByRole("group", { name: "And by", exact: true }).getByText("Backend").click()
    await visit.page.waitForURL(/and=member/)
    await shownRows(100)
    expect(await visit.page.getByText("the CSV has all of them").count()).toBe(0)
    await rows(600)
    await visit.open("/operator/profit?by=model")
    await visit.page.getByRole("button", { name: "Load more" }).click()
    await shownRows(500)
    await visit.page.getByText("There are more rows; the CSV has all of them.").waitFor()
  } finally {
    await sql`delete from profit_hours where account_id = 'acc_none'`
  }
})

test("the choice by which sums are divided keeps the focus while others come, and rows of another division are not shown", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  await visit.open("/operator/profit")
  const table = page.getByRole("table", { name: "Breakdown" })
  await table.waitFor()
  const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>()
  await page.route(/\/operator\/profit\?.*group_by=model/, async (route) => {
    await answered
    return route.continue()
  })
  await page.getByRole("group", { name: "By", exact: true }).getByRole("radio", { name: "Day" }).focus()
  await page.keyboard.press("ArrowRight")
  await page.waitForURL(/by=model/)
  await table.waitFor({ state: "detached" })
  const figure = page.locator(".stat").filter({ hasText: "Revenue" }).locator(".stat-value").first()
  expect(await figure.innerText()).toBe(shown((await summed()).revenue))
  answer(undefined)
  await table.getByRole("row", { name: cheap }).waitFor()
  const focused = () => page.evaluate(() => document.activeElement?.closest("label")?.textContent)
  expect(await focused()).toBe("Model")
  await page.keyboard.press("ArrowRight")
  await page.waitForURL(/by=member/)
  await eventually(async () => expect(await focused()).toBe("Backend"))
})

const refuse = (route: Route) =>
  route.fulfill({
    status: 400,
    json: { error: "It broke.", code: "request.invalid", type: "invalid", request_id: "req_1", retryable: false },
  })

test("where the rest of a breakdown could not be had, its rows stay, and the button asks again", async () => {
  const { sql } = world.gateway
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  const table = page.getByRole("table", { name: "Breakdown" })
  const shownRows = (count: number) =>
    eventually(async () => expect(await table.getByRole("rowheader").count()).toBe(count))
  const rest = /\/operator\/profit\?.*limit=500/
  try {
    await sql`
      insert into profit_hours
      select date_trunc('hour', now(), 'UTC'), 'acc_none', 'panjang-' || n, 'p/k/1', 'ok', 1, 1, 1, 0, 0, 10, 0, n, 0, 0, 0, 0
      from generate_series(1, 150) n on conflict do nothing`
    await page.route(rest, refuse)
    await visit.open("/operator/profit?by=model")
    await shownRows(100)
    await page.getByRole("button", { name: "Load more" }).click()
    await page.getByText("It broke.").waitFor()
    await shownRows(100)
    await page.unroute(rest)
    await page.getByRole("button", { name: "Load more" }).click()
    await shownRows(154)
    expect(await page.getByRole("alert").count()).toBe(0)
  } finally {
    await sql`delete from profit_hours where account_id = 'acc_none'`
  }
})

test("what is sold under its cost is told first, and what leaked by why", async () => {
  await using visit = await world.visit({ person: world.operator, language: "id" })
  await visit.open("/operator/profit")
  const under = visit.page.getByRole("region", { name: "Dijual di bawah biaya" })
  await under.getByRole("row", { name: cheap }).getByText("simulated/default/kapal-rugi").waitFor()
  await eventually(async () => expect(await under.getByRole("rowheader").count()).toBe(1))
  const leaks = visit.page.getByRole("region", { name: "Yang bocor" })
  const [row] = await world.gateway.sql<{ cost: bigint }[]>`
    select sum(cost_micro)::bigint as cost from usage where status = 'usage_missing'`
  const missing = leaks.getByRole("row", { name: /Jumlah token tidak terbaca/ })
  await missing.getByText(formatRupiah(row!.cost, "id"), { exact: true }).waitFor()
  const download = visit.page.waitForEvent("download")
  await visit.page.getByRole("link", { name: "Unduh CSV" }).click()
  expect((await download).suggestedFilename()).toBe("loket-profit.csv")
})

test("an exchange rate is set, a jump wants a confirmation, and a currency without one is told", async () => {
  await world.gateway.model({ format: "chat", model: "kapal-euro", cost: { ...usd("3", "15"), currency: "EUR" } })
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/profit")
  const rates = visit.page.getByRole("region", { name: "Exchange rates" })
  await rates.getByRole("row", { name: "EUR" }).getByText("None yet").waitFor()
  await rates.getByRole("button", { name: "Set a rate" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Set an exchange rate" })
  expect(await dialog.getByLabel("Currency").inputValue()).toBe("EUR")
  await dialog.getByLabel("Rupiah for one unit").fill("17,80")
  await dialog.getByRole("button", { name: "Save rate" }).click()
  await dialog.getByText("Enter an amount of rupiah above zero.").waitFor()
  await visit.screenshot("operator-exchange-rate")
  await visit.expectAccessible()
  // As Indonesians write seventeen thousand, which is seventeen in English.
  await dialog.getByLabel("Rupiah for one unit").fill("17.800")
  await dialog.getByRole("button", { name: "Save rate" }).click()
  await dialog.getByText(/1 EUR = Rp.17\.8\. It is the first rate of EUR/).waitFor()
  await dialog.getByLabel("Rupiah for one unit").fill("17,800.25")
  await dialog.getByLabel("Yes, 1 EUR is Rp\u00A017,800.25.").check()
  await dialog.getByRole("button", { name: "Save rate" }).click()
  await rates.getByRole("row", { name: "EUR" }).getByText("Rp\u00A017,800.25", { exact: true }).waitFor()
  await rates.getByRole("button", { name: "Set a rate" }).click()
  await dialog.getByLabel("Currency").fill("usd")
  await dialog.getByLabel("Rupiah for one unit").fill("162,505")
  await dialog.getByRole("button", { name: "Save rate" }).click()
  await dialog.getByText(/1 USD = Rp.162,505\. The last rate is Rp.*tick below if it is meant/).waitFor()
  const jump = dialog.getByRole("checkbox")
  await dialog.getByLabel(/^Yes, 1 USD is Rp.162,505\.$/).waitFor()
  await jump.check()
  // What was confirmed is that figure alone.
  await dialog.getByLabel("Rupiah for one unit").fill("1,625,050")
  expect(await jump.isChecked()).toBe(false)
  await dialog.getByLabel("Rupiah for one unit").fill("162,505")
  await jump.check()
  await dialog.getByRole("button", { name: "Save rate" }).click()
  await rates.getByRole("row", { name: "USD" }).getByText("Rp\u00A0162,505", { exact: true }).waitFor()
})

test("a price shows its margin on the calls of the last days before it is saved", async () => {
  await using visit = await world.visit({ person: world.operator })
  await visit.open("/operator/models/kapal-rugi")
  await visit.page.getByRole("button", { name: "Schedule price" }).click()
  const dialog = visit.page.getByRole("dialog", { name: "Schedule price" })
  const { revenue, cost } = await summed("kapal-rugi")
  const margin = dialog.getByRole("row", { name: "Margin" }).getByRole("cell")
  await margin.first().waitFor()
  await eventually(async () => expect(await margin.first().innerText()).toStartWith(shown(revenue - cost)))
  await dialog.getByText("At this price the model is sold under its cost.").waitFor()
  await dialog.getByLabel("Input").fill("90,000")
  await dialog.getByLabel("Output").fill("300,000")
  // One call of 1,000 and 20 tokens.
  const then = 1_000n * 90_000n + 20n * 300_000n
  await dialog.getByText(shown(then), { exact: true }).waitFor()
  await eventually(async () => expect(await margin.last().innerText()).toStartWith(shown(then - cost)))
  expect(await dialog.getByText("At this price the model is sold under its cost.").count()).toBe(0)
  await visit.screenshot("operator-price-margin")
  await visit.expectAccessible()
})

test("a rate that is being written stays while the sums cannot be had, and are asked for again", async () => {
  await using visit = await world.visit({ person: world.operator })
  const { page } = visit
  let asked = 0
  await page.route(/\/operator\/profit\?/, (route) => {
    asked++
    return route.fulfill({ status: 400, body: "no" })
  })
  await visit.open("/operator/profit")
  await page.getByRole("alert").waitFor()
  await page.getByRole("button", { name: "Set a rate" }).click()
  await page.getByLabel("Currency").fill("EUR")
  const before = asked
  await eventually(async () => expect(asked).toBeGreaterThan(before))
  await Bun.sleep(500)
  expect(await page.getByLabel("Currency").inputValue()).toBe("EUR")
})

test("one record of which the cost is not known is told in the singular", async () => {
  await using visit = await world.visit({ person: world.operator })
  await visit.page.route(/\/operator\/profit\?/, async (route) => {
    const response = await route.fetch()
    const profit = (await response.json()) as { total: object }
    await route.fulfill({ response, json: { ...profit, total: { ...profit.total, unknown_cost: 1 } } })
  })
  await visit.open("/operator/profit")
  await visit.page.getByText("The cost of 1 record is not known, and not counted").waitFor()
})
