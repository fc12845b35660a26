import { afterAll, beforeAll, expect, test } from "bun:test"
import { newRequestId } from "../../src/http/edge.ts"
import type { Person } from "../gateway/harness.ts"
import { type BrowserWorld, eventually, everyLook, openBrowser } from "./harness.ts"

let world: BrowserWorld
let model: string
let customer: Person
let key: string

beforeAll(async () => {
  world = await openBrowser()
  model = await world.gateway.model({ format: "chat", model: "kapal-cepat", script: "input=1000&output=20" })
  customer = await world.gateway.person(100_000)
  key = (await world.gateway.key(customer)).key
  for (let calls = 0; calls < 3; calls++) await buy(key)
})
afterAll(() => world[Symbol.asyncDispose]())

const isStream = (request: { url(): string }) => request.url().endsWith("/events")

/** A call of 1,000 and 20 tokens: 1,000 × 1,000 + 20 × 5,000 micro-rupiah, that is Rp 1.10. */
async function buy(withKey: string): Promise<void> {
  const body = { model, messages: [{ role: "user", content: "Halo" }] }
  const response = await world.gateway.post("/v1/chat/completions", withKey, body)
  expect([response.status, response.headers.get("x-cost-rp")]).toEqual([200, "1.1"])
  await response.text()
}

test.each(everyLook)("home is accessible and fits: %o", async (look) => {
  await using visit = await world.visit({ ...look, person: customer })
  await visit.open("/")
  await visit.page.locator("canvas").waitFor()
  await visit.screenshot("home")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test.each(everyLook)("a new account's home is accessible and fits: %o", async (look) => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ ...look, person })
  await visit.open("/")
  await visit.screenshot("home-new")
  await visit.expectAccessible()
  await visit.expectNoSidewaysScroll()
})

test("home says that an empty balance lasts for nothing, and one that was topped up does not", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/")
  await visit.page.getByText("Calls are refused until you top up").waitFor()
  await world.gateway.topUp(person, 10_000)
  await visit.page.getByText("No usage in the last 7 days").waitFor()
})

test("home tells the balance, what was spent, and the calls it went to", async () => {
  await using visit = await world.visit({ person: customer, language: "id" })
  await visit.open("/")
  const main = visit.page.getByRole("main")
  await main.getByText("Rp\u00A099.996,70").waitFor()
  await eventually(async () =>
    expect(await main.getByText("Rp\u00A03,30", { exact: true }).count()).toBeGreaterThanOrEqual(2),
  )
  await main.getByText("3 panggilan").waitFor()
  await eventually(async () => expect(await main.getByRole("row", { name: /kapal-cepat/ }).count()).toBe(3))
  const chart = visit.page.getByRole("table", { name: "Pengeluaran 30 hari terakhir" })
  await eventually(async () => expect(await chart.getByRole("row").count()).toBe(31))
  await eventually(async () => expect(await chart.getByRole("row").last().innerText()).toContain("Rp\u00A03,30"))
})

test("what the month came to stands beside the same days of the month before, whole, where the account was there then", async () => {
  const person = await world.gateway.person(10_000)
  const { id } = await world.gateway.key(person)
  const today = Temporal.Now.plainDateISO("Asia/Jakarta")
  const first = today.with({ day: 1 }).subtract({ months: 1 })
  const last = first.add({ days: Math.min(today.day, first.daysInMonth) - 1 })
  const called = async (day: Temporal.PlainDate, time: string, charge: number) => {
    const at = day.toZonedDateTime({ timeZone: "Asia/Jakarta", plainTime: time }).epochMilliseconds
    await world.gateway.sql`
      insert into usage values (${newRequestId(at)}, 0, ${person.accountId}, ${id}, 1, ${model}, 'chat', false, 'ok', 1, 1, 0, 0,
        ${charge}, 0, 1, 1, 1, null, false, ${new Date(at)}, null, 1)`
  }
  const shows = async (language: "id" | "en", note: RegExp) => {
    await using visit = await world.visit({ person, language })
    await visit.open("/")
    await visit.page.getByText(note).waitFor()
    await visit.page.getByText(language === "id" ? "Bulan ini" : "This month", { exact: true }).waitFor()
  }
  await shows("en", new RegExp(`^${today.toLocaleString("en-GB", { month: "long", year: "numeric" })}$`))
  await world.gateway
    .sql`update accounts set created_at = ${`${first.toString()}T12:00:00Z`} where id = ${person.accountId}`
  await called(first.subtract({ days: 1 }), "23:59:59", 1_000_000)
  await called(first, "00:00:00", 20_000_000)
  await called(last, "23:59:59", 300_000_000)
  if (last.day < first.daysInMonth) await called(last.add({ days: 1 }), "00:00:00", 4_000_000_000)
  const [whole, penuh] = last.day === 1 ? ["the whole day", "sehari penuh"] : ["whole days", "hari penuh"]
  const days = last.day === 1 ? "1" : `1\u2013${last.day}`
  await shows(
    "en",
    new RegExp(`^Rp\u00A0320 on ${days} ${first.toLocaleString("en-GB", { month: "short" })}, ${whole}$`),
  )
  await shows(
    "id",
    new RegExp(`^Rp\u00A0320 pada ${days} ${first.toLocaleString("id-ID", { month: "short" })}, ${penuh}$`),
  )
})

test("a call that ends elsewhere shows up by itself, and so do the balance and a top-up", async () => {
  const person = await world.gateway.person(10_000)
  const { key: own } = await world.gateway.key(person)
  await using visit = await world.visit({ person })
  await visit.open("/")
  await visit.page.getByText("No calls yet").waitFor()
  await buy(own)
  await visit.page.getByRole("row", { name: /kapal-cepat/ }).waitFor()
  await visit.page.getByRole("main").getByText("Rp\u00A09,998.90").first().waitFor()
  await visit.page.getByRole("complementary").getByText("Rp\u00A09,998.90").waitFor()
  await world.gateway.topUp(person, 20_000)
  await visit.page.getByRole("complementary").getByText("Rp\u00A029,998.90").waitFor()
})

test("a tab in the background keeps no connection, and catches up when it is looked at again", async () => {
  const person = await world.gateway.person(10_000)
  const { key: own } = await world.gateway.key(person)
  await using visit = await world.visit({ person })
  await visit.open("/")
  await visit.page.getByText("No calls yet").waitFor()
  const hide = (hidden: boolean) =>
    visit.page.evaluate((now) => {
      Object.defineProperty(document, "hidden", { configurable: true, value: now })
      document.dispatchEvent(new Event("visibilitychange"))
    }, hidden)
  const ended = visit.page.waitForEvent("requestfailed", { predicate: isStream })
  await hide(true)
  await ended
  await buy(own)
  const begun = visit.page.waitForRequest(isStream)
  await hide(false)
  await begun
  await visit.page.getByRole("row", { name: /kapal-cepat/ }).waitFor()
  await visit.page.getByRole("complementary").getByText("Rp\u00A09,998.90").waitFor()
})

test("first steps are ticked off one by one, and go away when all are done", async () => {
  const person = await world.gateway.person()
  await using visit = await world.visit({ person })
  await visit.open("/")
  const steps = visit.page.getByRole("region", { name: "First steps" }).getByRole("listitem")
  const done = async () => (await steps.allInnerTexts()).filter((words) => words.includes("(done)")).length
  await eventually(async () => expect([await steps.count(), await done()]).toEqual([3, 0]))
  await world.gateway.topUp(person, 10_000)
  await visit.page.getByText("Top up your balance (done)").waitFor()
  const { key: own } = await world.gateway.key(person)
  await buy(own)
  await steps.first().waitFor({ state: "detached" })
})

test.each(["/account/summary", "/account/price-changes"])(
  "where home's %s could not be had, it is told once, and not asked for without an end",
  async (path) => {
    await using visit = await world.visit({ person: customer })
    const { page } = visit
    let asked = 0
    await page.route(`**${path}`, (route) => {
      asked++
      return route.fulfill({ status: 400, body: "no" })
    })
    await page.goto(`${world.gateway.url}/dashboard`)
    await page.getByRole("table", { name: "Recent calls" }).waitFor({ timeout: 20_000 })
    await Bun.sleep(2_000)
    // Once for itself, once where it is shown, and once when the connection for events stands.
    expect(asked).toBeLessThanOrEqual(3)
    if (path === "/account/summary") {
      await page.getByRole("alert").getByText("Loket cannot answer right now.").waitFor()
      await page.unroute(`**${path}`)
      await page.getByRole("button", { name: "Try again" }).click()
      await page.getByRole("main").getByText("Available balance", { exact: true }).waitFor()
    }
  },
)

test("what was spent today begins anew at the account's midnight on an open page, where nothing else happens", async () => {
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  let spent = 4_000_000
  await page.route("**/account/summary", async (route) => {
    const response = await route.fetch()
    const summary = (await response.json()) as object
    await route.fulfill({ response, json: { ...summary, spent_today_micro: spent } })
  })
  await page.route("**/events", () => undefined)
  const today = Temporal.Now.zonedDateTimeISO("Asia/Jakarta").startOfDay()
  await page.clock.install({ time: today.epochMilliseconds - 10 * 60_000 })
  await visit.open("/")
  await page.getByText("Rp\u00A04", { exact: true }).waitFor()
  spent = 0
  await page.clock.fastForward("11:00")
  await page.getByText("Rp\u00A04", { exact: true }).waitFor({ state: "detached", timeout: 15_000 })
})

test("a range that ends today goes on with the calendar on an open page", async () => {
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  await page.route("**/events", () => undefined)
  const today = Temporal.Now.zonedDateTimeISO("Asia/Jakarta").startOfDay()
  await page.clock.install({ time: today.epochMilliseconds - 10 * 60_000 })
  await visit.open("/usage?days=1")
  await page.getByText("No calls in this range").first().waitFor()
  await page.clock.fastForward("11:00")
  const calls = page.getByRole("table", { name: "Calls" }).getByRole("rowheader")
  await calls.first().waitFor({ timeout: 15_000 })
})

test.each([
  ["a balance that another process changed", "balance"],
  ["calls that ended in another process", "calls"],
])("%s bring the calls and the sums anew, and no more often than they settle", async (_, event) => {
  await using visit = await world.visit({ person: customer })
  const { page } = visit
  await page.addInitScript(() => {
    globalThis.EventSource = class extends EventTarget {
      readyState = 1
      constructor() {
        super()
        Object.assign(globalThis, { loketEvents: this })
        setTimeout(() => this.dispatchEvent(new Event("open")))
      }
      close() {}
    } as unknown as typeof EventSource
  })
  const asked: string[] = []
  const paths = ["/account/summary", "/runs", "/usage", "/usage/summary"]
  page.on("request", (request) => asked.push(new URL(request.url()).pathname))
  const { accountId } = customer
  const account = await world.gateway.balance(customer)
  const told = (balance: number) =>
    page.evaluate(
      ([name, data]) =>
        (globalThis as unknown as { loketEvents: EventTarget }).loketEvents.dispatchEvent(
          new MessageEvent(name, { data }),
        ),
      [event, JSON.stringify({ account_id: accountId, balance_micro: balance, held_micro: 0 })] as const,
    )
  for (const path of ["/", "/usage"]) {
    await visit.open(path)
    await Bun.sleep(3_000)
    const shown = paths.filter((each) => asked.includes(each) && (path === "/usage" || each !== "/runs"))
    asked.length = 0
    if (event === "balance") {
      await told(account.balance_micro)
      await Bun.sleep(1_500)
      expect(asked).toEqual([])
    }
    for (let time = 1; time <= 15; time++) {
      await told(account.balance_micro - time)
      await Bun.sleep(100)
    }
    await eventually(async () => expect(shown.filter((each) => !asked.includes(each))).toEqual([]))
    await Bun.sleep(1_500)
    expect(asked.filter((each) => each === "/usage").length).toBeLessThan(4)
    asked.length = 0
  }
})
