/** What each call costs the house, by what its backends count and say; and that no customer is told. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { Translated } from "../../src/language/request.ts"
import { type ModelWish, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, eventually, formats, Reading, requestId } from "./calling.ts"

let gateway: TestGateway
let person: Person
let key: string

const RATE = 16_000
const usd = { currency: "USD", input: "3", output: "15", cache_read: "0.3", cache_write: "3.75" }
/** Micro-rupiah, at $3 and $15 a million tokens and Rp 16,000 a dollar. */
const costOf = (input: number, output: number): bigint => BigInt(input) * 48_000n + BigInt(output) * 240_000n

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
  await setRate(RATE, "2026-01-01T00:00:00Z")
})
afterAll(() => gateway[Symbol.asyncDispose]())

async function setRate(rupiah: number, from: string): Promise<void> {
  await gateway.sql`
    insert into exchange_rates (currency, unit_micro, source, effective_at)
    values ('USD', ${rupiah * 1_000_000}, 'operator', ${from})`
  // With a new model the catalogue is read again, exchange rates too.
  await gateway.model({ format: "chat" })
}

interface CostRow {
  readonly part: number
  readonly status: string
  readonly member: string | null
  readonly cost_micro: bigint | null
  readonly charge_micro: bigint
}

const costsOf = (id: string): Promise<CostRow[]> =>
  eventually(
    "the records of a call",
    async () => [
      ...(await gateway.sql<CostRow[]>`
        select part, status, member, cost_micro, charge_micro from usage where request_id = ${id} order by part`),
    ],
    (rows) => rows.length > 0,
  )

/** Asks a model of this wish once, and reads the answer to its end. */
async function called(wish: ModelWish & { readonly format: Translated }, stream = false): Promise<CostRow[]> {
  const model = await gateway.model(wish)
  const response = await ask(gateway, key, wish.format, model, { stream })
  await response.text().catch(() => "")
  return await costsOf(requestId(response))
}

test.each(formats.flatMap((format) => [true, false].map((stream) => [format, stream] as const)))(
  "an answer costs what its backend counted (%s, stream: %p)",
  async (format, stream) => {
    const rows = await called({ format, cost: usd, script: "input=10&output=4" }, stream)
    expect(rows).toMatchObject([{ part: 0, status: "ok", cost_micro: costOf(10, 4), charge_micro: 30_000n }])
    expect(rows[0]?.member).toMatch(/^simulated\/default\//)
  },
)

test("a backend that counts more than was asked for bills all of it", async () => {
  const [row] = await called({ format: "chat", cost: usd, max_output_tokens: 40, script: "input=10&counted=90" })
  expect(row).toMatchObject({ status: "ok", cost_micro: costOf(10, 90) })
})

test("a bill in rupiah needs no rate, and fees and roundings are the backend's", async () => {
  const cost = { ...usd, currency: "IDR", per_call: "0.5", rounding: "per_call" as const, step: "1" }
  const [row] = await called({ format: "chat", cost, script: "input=10&output=4" })
  // Rp 0.50009, to the next rupiah.
  expect(row).toMatchObject({ cost_micro: 1_000_000n })
})

test("without a cost, or a rate of its currency, what a call costs is not known, which is not nothing", async () => {
  expect(await called({ format: "chat" })).toMatchObject([{ status: "ok", cost_micro: null }])
  expect(await called({ format: "chat", cost: { ...usd, currency: "EUR" } })).toMatchObject([{ cost_micro: null }])
})

test.each([true, false])("counts that cannot be read are estimated (stream: %p)", async (stream) => {
  const [row] = await called({ format: "chat", cost: usd, script: "input=10&output=40&usage=none" }, stream)
  expect(row).toMatchObject({ status: "usage_missing", charge_micro: 0n })
  // Not what it counted, and not far from it: an event is a token, and four letters of a whole answer are.
  expect(row?.cost_micro ?? 0n).toBeGreaterThan(costOf(1, 20))
  expect(row?.cost_micro ?? 0n).toBeLessThan(costOf(100, 160))
})

test("what a backend refuses it does not bill, and what breaks off it does", async () => {
  expect(await called({ format: "chat", cost: usd, script: "fault=status&status=400" })).toMatchObject([
    { status: "upstream_error", cost_micro: 0n },
  ])
  const broken = await called({ format: "chat", cost: usd, script: "input=10&output=30&fault=cut&after=20" }, true)
  expect(broken).toMatchObject([{ part: 0, status: "upstream_error", charge_micro: 0n }])
  expect(broken[0]?.cost_micro ?? 0n).toBeGreaterThan(costOf(1, 15))
  expect(broken[0]?.cost_micro ?? 0n).toBeLessThan(costOf(60, 60))
})

test("a try that broke off after it had content is a part of its own, and its customer is told nothing of it", async () => {
  const model = await gateway.model({
    format: "chat",
    cost: usd,
    max_output_tokens: 20_000,
    script: "input=10&output=6&fault=cut&after=3&times=1",
  })
  const response = await ask(gateway, key, "chat", model, { max_tokens: 20_000 })
  expect(response.status).toBe(200)
  await response.text()
  const rows = await costsOf(requestId(response))
  expect(rows).toMatchObject([
    { part: 0, status: "ok", cost_micro: costOf(10, 6), charge_micro: 40_000n },
    { part: 1, status: "upstream_error", charge_micro: 0n },
  ])
  expect(rows[1]?.cost_micro ?? 0n).toBeGreaterThan(0n)
  expect(await gateway.usage(person, requestId(response))).toMatchObject({ markers: [] })
})

describe("searches of a backend", () => {
  const dear = { ...usd, per_search: "0.01" }
  /** Micro-rupiah: a cent at Rp 16,000 a dollar. */
  const search = 160_000_000n

  const forms = formats.flatMap((format) => [true, false].map((stream) => [format, stream] as const))
  test.each(forms)(
    "are a part of the call's cost, and of nothing that its customer pays (%s, stream: %p)",
    async (format, stream) => {
      const rows = await called({ format, cost: dear, script: "input=10&output=4&searches=3" }, stream)
      expect(rows).toMatchObject([
        { part: 0, status: "ok", cost_micro: costOf(10, 4), charge_micro: 30_000n },
        { part: 1, status: "ok", cost_micro: 3n * search, charge_micro: 0n },
      ])
      expect(rows[1]?.member).toBe(rows[0]?.member ?? "")
    },
  )

  test.each([
    ["messages", "chat"],
    ["responses", "messages"],
    ["chat", "responses"],
  ] as const)("are counted where a %s backend answers a %s client, streaming or not", async (format, client) => {
    const model = await gateway.model({
      format,
      endpoints: [client],
      cost: dear,
      script: "input=10&output=4&searches=2",
    })
    for (const stream of [true, false]) {
      const response = await ask(gateway, key, client, model, { stream })
      expect(response.status).toBe(200)
      await response.text()
      expect(await costsOf(requestId(response))).toMatchObject([
        { charge_micro: 30_000n },
        { part: 1, cost_micro: 2n * search },
      ])
    }
  })

  test.each(["messages", "responses"] as const)("are billed of a stream that breaks off, too (%s)", async (format) => {
    const rows = await called({ format, cost: dear, script: "input=10&output=30&searches=2&fault=cut&after=10" }, true)
    expect(rows).toMatchObject([
      { part: 0, status: "upstream_error", charge_micro: 0n },
      { part: 1, cost_micro: 2n * search, charge_micro: 0n },
    ])
  })

  test("are billed of a gathered answer that breaks off, each try its own", async () => {
    const script = "input=10&output=6&searches=2&fault=cut&after=3&times=1"
    const model = await gateway.model({ format: "messages", cost: dear, max_output_tokens: 20_000, script })
    const response = await ask(gateway, key, "messages", model, { max_tokens: 20_000 })
    expect(response.status).toBe(200)
    await response.text()
    expect(await costsOf(requestId(response))).toMatchObject([
      { part: 0, status: "ok", cost_micro: costOf(10, 6), charge_micro: 40_000n },
      { part: 1, status: "upstream_error" },
      { part: 2, cost_micro: 2n * search },
      { part: 3, cost_micro: 2n * search },
    ])
  })

  test("are no more than sense allows, whatever a backend says", async () => {
    const rows = await called({ format: "chat", cost: dear, script: "input=10&output=4&searches=1000000" })
    expect(rows).toMatchObject([{ charge_micro: 30_000n }, { part: 1, cost_micro: 100n * search }])
    // A count that is none is none.
    expect(await called({ format: "chat", cost: dear, script: "output=4&searches=3&usage=fraction" })).toHaveLength(1)
  })

  test("have no part of their own where they cost nothing, and one of unknown cost where that is not known", async () => {
    expect(await called({ format: "chat", cost: usd, script: "output=4&searches=3" })).toHaveLength(1)
    expect(await called({ format: "chat", script: "output=4&searches=3" })).toMatchObject([
      { cost_micro: null },
      { part: 1, cost_micro: null },
    ])
  })
})

test("a model that a call was rerouted from cost nothing, and the one that answered cost its own", async () => {
  const other = await gateway.model({ format: "chat", cost: usd, script: "input=10&output=4" })
  const rows = await called({ format: "chat", cost: usd, fallback: [other], script: "fault=status&status=429" })
  expect(rows).toMatchObject([
    { part: 0, status: "ok", cost_micro: costOf(10, 4) },
    { part: 1, status: "fallback_429", cost_micro: 0n },
  ])
})

test("a cost and a rate that begin while a call is under way are not its own", async () => {
  const name = "begun-before"
  const script = "input=10&output=4&fault=stall&after=2&stall=600"
  await gateway.model({ format: "chat", model: name, cost: usd, script })
  const response = await ask(gateway, key, "chat", name, { stream: true })
  const reading = new Reading(response)
  await reading.until(/delta/)
  await gateway.model({ format: "chat", model: name, cost: { ...usd, input: "300" }, script })
  await setRate(32_000, new Date().toISOString())
  await reading.rest()
  expect(await costsOf(requestId(response))).toMatchObject([{ status: "ok", cost_micro: costOf(10, 4) }])
  const later = await ask(gateway, key, "chat", name, {})
  await later.text()
  // $300 and $15 at twice the rupiah.
  const changed = [{ cost_micro: 2n * (10n * 4_800_000n + 4n * 240_000n) }]
  expect(await costsOf(requestId(later))).toMatchObject(changed)
})
