/** `/operator/profit` and exchange rates by the API; and that nothing of what calls cost is anywhere that a customer looks. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { ProfitQuestion, ProfitRow } from "../../../src/store/operator/profit.ts"
import { pagesOf } from "../../../src/http/operator/profit.ts"
import { readExchangeRates } from "../../../src/catalogue/exchange.ts"
import { type ExchangeOutcome, readExchangeSource } from "../../../src/server/chores.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { exchangeRateStore, type ExchangeRateStore } from "../../../src/store/costs.ts"
import { changeRole } from "../../../src/store/operator/role.ts"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"

let gateway: TestGateway
let operator: Person
let customer: Person
let store: ExchangeRateStore
let database: ReturnType<typeof openDatabase>
const requests: string[] = []

const PASSWORD = "correct horse battery"
const cost = { currency: "USD", input: "3", output: "15", cache_read: "0.3", cache_write: "3.75" }

async function signed(way: "sign-up" | "sign-in"): Promise<Person> {
  const body = JSON.stringify({ email: "operator@example.com", password: PASSWORD })
  const response = await fetch(`${gateway.url}/auth/${way}`, { method: "POST", body })
  const { account, session_token: token } = (await response.json()) as {
    account: { id: string }
    session_token: string
  }
  return { accountId: account.id, token }
}

const ask = async (path: string, body?: object) => {
  const init = body && { method: "POST", body: JSON.stringify(body) }
  const response = await gateway.dashboard(operator, `/operator/${path}`, init)
  return { status: response.status, text: await response.text() }
}
type Figures = Readonly<Record<string, number>>
const json = async <T = unknown>(path: string): Promise<T> => JSON.parse((await ask(path)).text) as T

interface ProfitTold {
  readonly data: readonly Figures[]
  readonly total: Figures
  readonly leaks: Readonly<Record<string, Figures>>
  readonly under: readonly { readonly model: string }[]
}

const set = (currency: string, rupiah: string, more = {}) => ask("exchange-rates", { currency, rupiah, ...more })
const rates = (idr: unknown) => () => Response.json({ base: "USD", date: "2026-11-22", rates: { IDR: idr, EUR: 0.92 } })

beforeAll(async () => {
  let url = ""
  gateway = await startTestGateway({ databaseUrl: (given) => (url = given) })
  await signed("sign-up")
  database = openDatabase({ url, connections: 1 })
  const act = { requestId: "cmd_first", operatorId: undefined, address: undefined }
  await changeRole(database, { email: "operator@example.com" }, { role: "owner", act, keepsAnOwner: false })
  store = exchangeRateStore(database)
  operator = await signed("sign-in")
  await gateway.sql`
    insert into exchange_rates (currency, unit_micro, source, effective_at) values ('USD', 16000000000, 'operator', '2026-01-01')`
  customer = await gateway.person(100_000)
  const { key } = await gateway.key(customer)
  const script = "input=1000&output=20"
  const models = [
    await gateway.model({ format: "chat", model: "known", cost, script }),
    await gateway.model({ format: "chat", model: "unknown", script }),
    await gateway.model({
      format: "chat",
      model: "again",
      cost,
      max_output_tokens: 20_000,
      script: `${script}&fault=cut&after=3&times=1`,
    }),
  ]
  for (const model of [...models, "known"]) {
    const body = { model, max_tokens: 20_000, messages: [{ role: "user", content: "Hi" }] }
    const response = await gateway.post("/v1/chat/completions", key, body)
    await response.text()
    requests.push(response.headers.get("x-request-id") ?? "")
    await gateway.usage(customer, requests.at(-1) ?? "")
  }
})
afterAll(async () => {
  await database.close()
  await gateway[Symbol.asyncDispose]()
})

test.each(["day", "model", "member", "account"])("the sums by %s add up to those of the records", async (by) => {
  const profit = await json<ProfitTold>(`profit?group_by=${by}`)
  const [row] = await gateway.sql<{ revenue: number; cost: number; unknown: number; calls: number }[]>`
    select sum(charge_micro)::float8 as revenue, sum(cost_micro)::float8 as cost,
      count(*) filter (where part = 0)::int as calls, count(*) filter (where cost_micro is null)::int as unknown from usage`
  const of = (name: string) => profit.data.reduce((sum, each) => sum + each[name]!, 0)
  expect({
    revenue: of("revenue_micro"),
    cost: of("cost_micro"),
    calls: of("calls"),
    unknown: of("unknown_cost"),
  }).toEqual(row!)
  expect(profit.total).toMatchObject({ margin_micro: row!.revenue - row!.cost, cost_micro: row!.cost })
})

test("as many rows come as are asked for, and it is said that there are more", async () => {
  const rows = async (limit: number) =>
    await json<ProfitTold & { truncated: boolean }>(`profit?group_by=model&limit=${limit}`)
  const { data } = await json<ProfitTold>("profit?group_by=model")
  expect(data.length).toBe(3)
  expect(await rows(2)).toMatchObject({ data: data.slice(0, 2), truncated: true })
  expect(await rows(3)).toMatchObject({ data, truncated: false })
  for (const limit of ["0", "501", "1.5", "many"]) {
    const { status, text } = await ask(`profit?limit=${limit}`)
    expect([status, text]).toEqual([400, expect.stringContaining("'limit' must be an integer from 1 to 500")])
  }
})

test("a file has all accounts, the costliest first, and begins with the first of them", async () => {
  await gateway.sql`
    insert into profit_hours
    select '2020-01-02T03:00:00Z'::timestamptz + n % 700 * interval '1 hour', 'acc_' || lpad(n::text, 4, '0'), 'm-' || n % 2, 'p/k/0', 'ok', 1, 1, 1, 0, 0,
      n * 2000000::bigint, 0, (n::bigint * 7919 % 1301) * 1000000, 0, 0, 0, 0
    from generate_series(1, 1300) n`
  const time = "from=2020-01-01&to=2020-02-05"
  const costs = Array.from({ length: 1_300 }, (_, n) => 1_300 - n)
  const whole = (await ask(`profit/export.csv?group_by=account&${time}`)).text.trimEnd().split("\r\n")
  expect(whole[0]).toStartWith("account,email,calls,")
  expect(whole.slice(1).map((line) => line.split(",")[4])).toEqual(costs.map(String))
  expect(new Set(whole.map((line) => line.split(",")[0])).size).toBe(1_301)
  const divided = (await ask(`profit/export.csv?group_by=model&split_by=account&${time}`)).text.trimEnd().split("\r\n")
  expect(divided[0]).toStartWith("model,account,email,calls,")
  expect(divided.slice(1).map((line) => line.split(",")[5])).toEqual(costs.map(String))
  const file = await gateway.dashboard(operator, `/operator/profit/export.csv?group_by=account&${time}`)
  const reader = file.body?.getReader()
  const first = new TextDecoder().decode((await reader?.read())?.value)
  expect(first.trimEnd().split("\r\n")).toEqual(whole.slice(0, 101))
  await gateway.sql`delete from profit_hours where hour < '2021-01-01'`
})

test("who comes to be among the first while a file is read is in it once, and so is who was", async () => {
  const orders = ["abcdef", "fcbade"]
  const profit = async ({ limit }: Pick<ProfitQuestion, "limit">) => {
    const order = (orders.shift() ?? "").split("").map((group) => ({ group, split: undefined }) as ProfitRow)
    return { rows: order.slice(0, limit), truncated: order.length > limit }
  }
  const pages = pagesOf({ limit: 100 } as ProfitQuestion, profit)
  const told = [await pages(2, true), await pages(3, false), await pages(3, false)]
  expect(told.map((page) => page.map(({ group }) => group).join(""))).toEqual(["ab", "fcd", "e"])
  orders.push("ab")
  const short = pagesOf({ limit: 100 } as ProfitQuestion, profit)
  expect([(await short(2, true)).length, await short(3, false), orders]).toEqual([2, [], []])
})

test("what retries cost is apart, and what is sold under its cost is named", async () => {
  const profit = await json<ProfitTold>("profit?group_by=model&split_by=member")
  const [retry] = await gateway.sql<{ cost: number }[]>`select cost_micro::float8 as cost from usage where part > 0`
  expect(retry!.cost).toBeGreaterThan(0)
  expect(profit.leaks["retries"]).toEqual({ records: 1, cost_micro: retry!.cost })
  expect(profit.under.map(({ model }) => model).sort()).toEqual(["again", "known"])
  expect((await ask("profit/export.csv?group_by=model")).text.split("\r\n")[0]).toBe(
    "model,calls,revenue_rp,cost_rp,margin_rp,estimated_rp,unknown_cost,absorbed_rp,under_cost,under_cost_rp",
  )
  expect(await json("models/known/mix")).toMatchObject({ calls: 2, customers: 1, input_tokens: 2_000, unknown_cost: 0 })
  expect((await ask("profit?group_by=day&split_by=day")).status).toBe(400)
  expect((await ask("profit?from=2020-01-01&to=2026-01-01")).status).toBe(400)
})

test("what a backend's searches cost is a leak of its own", async () => {
  const script = "input=10&output=4&searches=3"
  const model = await gateway.model({
    format: "responses",
    model: "searching",
    cost: { ...cost, per_search: "0.01" },
    script,
  })
  const { key } = await gateway.key(customer)
  const response = await gateway.post("/v1/responses", key, { model, input: "Hi" })
  await response.text()
  const told = await gateway.usage(customer, response.headers.get("x-request-id") ?? "")
  expect(told).toMatchObject({ charge_micro: 30_000, markers: [] })
  const before = await json<ProfitTold>("profit?group_by=model")
  // Three cents at Rp 16,000 a dollar.
  expect(before.leaks["searches"]).toEqual({ records: 1, cost_micro: 480_000_000 })
  expect(before.data.find((row) => (row["group"] as unknown) === "searching")).toMatchObject({
    calls: 1,
    revenue_micro: 30_000,
    cost_micro: 480_000_000 + 10 * 48_000 + 4 * 240_000,
  })
})

test("an exchange rate is refused that is none, and a jump that nobody confirmed", async () => {
  for (const wrong of ["0", "-1", "1e99", "1.0000001", "1000000001", "a lot", ""])
    expect([wrong, (await set("EUR", wrong)).status]).toEqual([wrong, 400])
  for (const wrong of ["IDR", "XXQ", "usd"]) expect([wrong, (await set(wrong, "1")).status]).toEqual([wrong, 400])
  expect((await set("EUR", "1000000000")).status).toBe(201)
  const jump = await set("USD", "19201")
  expect(jump.status).toBe(400)
  expect(jump.text).toContain("confirm_jump")
  expect((await set("USD", "19200")).status).toBe(201)
  expect((await set("USD", "40000", { confirm_jump: true })).status).toBe(201)
  const audit = await json<{ data: unknown[] }>("audit?subject=USD")
  expect(audit.data).toHaveLength(2)
})

test("a source is believed where it can be read and has not jumped, and else changes nothing", async () => {
  const logged: string[] = []
  const log = { info: (event: string) => void logged.push(event), warn: (event: string) => void logged.push(event) }
  const read = async (answer: () => Response | Promise<Response>): Promise<ExchangeOutcome[]> => {
    const outcomes: ExchangeOutcome[] = []
    const onOutcome = (outcome: ExchangeOutcome) => void outcomes.push(outcome)
    const fetch = async () => await answer()
    await readExchangeSource({ from: "https://rates.example", store, log, now: Date.now, onOutcome, fetch })
    return outcomes
  }
  const before = (await store.list(1)).find(({ currency }) => currency === "USD")
  const padded = (bytes: number) => async () => new Response((await rates(40_000)().text()).padEnd(bytes))
  expect(await read(rates(40_000))).toEqual(["same"])
  expect(await read(padded(1_048_576))).toEqual(["same"])
  expect(await read(rates(50_000))).toEqual(["jump"])
  const bad = [
    () => new Response("no", { status: 500 }),
    () => new Response("<html>"),
    padded(1_048_577),
    () => Promise.reject(new Error("away")),
    rates("much"),
    rates(0),
    rates(-1),
    () => Response.json({ base: "ZZZ", rates: { IDR: 1 } }),
    () => Response.json([]),
  ]
  for (const answer of bad) expect(await read(answer)).toEqual(["failed"])
  expect((await store.list(1)).find(({ currency }) => currency === "USD")).toEqual(before)
  expect(await read(rates(40_500.25))).toEqual(["changed"])
  expect((await store.list(1)).find(({ currency }) => currency === "USD")).toMatchObject({
    unit: 40_500_250_000n,
    source: "fetched",
  })
  expect(logged).toContain("exchange rate jumped")
  expect(logged).toContain("exchange rates not read")
})

test("a rate of another base is the quotient, rounded up", () => {
  const said = { base: "EUR", rates: { IDR: "17800", USD: "1.1" } }
  expect(readExchangeRates(said, ["USD", "EUR"])).toEqual(
    new Map([
      ["USD", 16_181_818_182n],
      ["EUR", 17_800_000_000n],
    ]) as never,
  )
})

/** Names that what calls cost goes by. `usage.cost` and `X-Cost-Rp` are what the customer pays. */
const INTERNAL = /cost_micro|margin|profit|exchange_rate|under_cost|upstream_model|unknown_cost|simulated\/default/i

test("no customer is told what a call costs the house: not by the API, the pages' data, events, or the document of either", async () => {
  const paths = [
    "/account",
    "/keys",
    "/usage",
    "/usage/summary",
    "/usage/errors",
    "/account/price-changes",
    "/usage/export.csv",
    "/models",
    "/v1/models",
  ]
  for (const path of [...paths, ...requests.map((id) => `/usage/${id}`), "/top-ups"]) {
    const response = await gateway.dashboard(customer, path)
    expect([path, INTERNAL.exec(await response.text())?.[0]]).toEqual([path, undefined])
  }
  for (const path of ["profit", "profit/export.csv", "exchange-rates", "models/known/mix"])
    expect([path, (await gateway.dashboard(customer, `/operator/${path}`)).status]).toEqual([path, 403])
  const { key } = await gateway.key(customer)
  const events = await gateway.dashboard(customer, "/events")
  const reader = events.body!.getReader()
  const body = { model: "known", stream: true, messages: [{ role: "user", content: "Hi" }] }
  const answer = await gateway.post("/v1/chat/completions", key, body)
  const id = answer.headers.get("x-request-id") ?? ""
  const text = await answer.text()
  // What the call cost its customer is in its stream, in one line, and it is what was charged.
  const receipt = (await (await gateway.dashboard(customer, `/usage/${id}`)).json()) as { charge_micro: number }
  const charged = `: cost_micro=${receipt.charge_micro} request_id=${id}\n`
  expect(text.split(charged)).toHaveLength(2)
  const said = `${JSON.stringify([...answer.headers])}${text.replace(charged, "")}`
  expect(INTERNAL.exec(said)?.[0]).toBeUndefined()
  let told = ""
  while (!told.includes(id)) told += new TextDecoder().decode((await reader.read()).value)
  await reader.cancel()
  expect(INTERNAL.exec(told)?.[0]).toBeUndefined()
  const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as { paths: Record<string, unknown> }
  const others = Object.entries(document.paths).filter(([path]) => !path.startsWith("/operator"))
  expect(others.length).toBeGreaterThan(20)
  // The document says of that line what it looks like.
  const described = JSON.stringify(others).replaceAll("`: cost_micro=… request_id=…`", "")
  expect(INTERNAL.exec(described)?.[0]).toBeUndefined()
  // The line of the log is the operator's, but is sent to others more often than books are.
  expect(gateway.complaints.filter((line) => INTERNAL.test(line))).toEqual([])
})
