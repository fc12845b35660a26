/** Two gateways on one database, as in a rolling deploy: they share what there is, to the last rupiah and no further. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { systemClock } from "../../../actors/kernel/clock.ts"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { registerProcess } from "../../../src/store/processes.ts"
import { reconcile } from "../reconcile.ts"

const Rp = 1_000_000
/** A thousand rupiah for 100 tokens of answer; input is next to nothing. */
const dear = { output_micro: 10_000_000, max_output_tokens: 100, max_concurrency: 1_000 }

/** Two hundred rupiah, never more and never less. */
const PRICE_RP = 200
const exact = {
  format: "chat",
  script: "input=0&output=16",
  input_micro: 0,
  cache_read_micro: 0,
  cache_write_micro: 0,
  output_micro: (PRICE_RP * Rp) / 16,
  max_output_tokens: 16,
  max_concurrency: 1_000,
} as const

let old: TestGateway
let databaseUrl: string
let young: TestGateway
beforeEach(async () => {
  old = await startTestGateway({ databaseUrl: (url) => (databaseUrl = url) })
  young = await startTestGateway({ databaseUrl: () => databaseUrl })
})
afterEach(async () => {
  await reconcile(old.sql)
  await young[Symbol.asyncDispose]()
  await old[Symbol.asyncDispose]()
})

async function ask(gateway: TestGateway, key: string, model: string): Promise<{ status: number; costMicro: number }> {
  const body = { model, messages: [{ role: "user", content: "Hello" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  return { status: response.status, costMicro: Math.round(Number(response.headers.get("x-cost-rp") ?? 0) * Rp) }
}

test("they spend of one balance at once, and not more than it has", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await old.model({ format: "chat", script: "input=8&output=100&ttft=20", ...dear })
  await young.server.refreshCatalogue()
  let sum = 0
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => ask(n % 2 === 0 ? old : young, key, model)))
    for (const answer of answers) expect(answer.status).toBeOneOf([200, 402])
    sum += answers.reduce((total, answer) => total + answer.costMicro, 0)
    await old.topUp(person, 10_000)
  }
  expect(sum).toBeLessThanOrEqual(30_000 * Rp)
  expect(sum).toBeGreaterThan(20_000 * Rp)
  expect((await young.balance(person)).balance_micro).toBe(40_000 * Rp - sum)
})

test("what the old one leaves when it goes, the young one spends", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await old.model({ format: "chat", script: "input=0&output=50", ...dear })
  await young.server.refreshCatalogue()
  expect(await ask(old, key, model)).toEqual({ status: 200, costMicro: 500 * Rp })
  await old.server.stop()
  expect(await ask(young, key, model)).toEqual({ status: 200, costMicro: 500 * Rp })
  expect((await young.balance(person)).balance_micro).toBe(9_000 * Rp)
})

async function exactModel(wish: Partial<typeof exact> | { readonly script: string } = {}): Promise<string> {
  const model = await old.model({ ...exact, ...wish })
  await young.server.refreshCatalogue()
  return model
}

const statuses = async (count: number, of: (n: number) => Promise<{ status: number }>): Promise<number[]> =>
  (await Promise.all(Array.from({ length: count }, (_, n) => of(n)))).map(({ status }) => status)
const answered = (all: readonly number[]) => all.filter((status) => status === 200).length

/**
 * How many calls of a storm were answered, with those that come after it one by one until both processes refuse: of a storm on a slow
 * machine one waits for what the other gives back no longer than it may.
 */
async function answeredInAll(storm: readonly number[], key: string, model: string): Promise<number> {
  let sum = answered(storm)
  for (;;) {
    const after = answered([(await ask(old, key, model)).status, (await ask(young, key, model)).status])
    if (after === 0) return sum
    sum += after
  }
}

/** What comes by a notice comes within a second. */
async function withinASecond(holds: () => Promise<boolean>): Promise<boolean> {
  const until = systemClock.running() + 1_000
  while (systemClock.running() < until) if (await holds()) return true
  return false
}

test("what the one has leased, the other spends when it is short, to the last rupiah", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await exactModel()
  // One after the other, from either side, so that nothing but the neighbour's lease can stand in the way.
  for (let call = 0; call < 50; call++) {
    expect((await ask(call % 3 === 0 ? old : young, key, model)).status).toBe(200)
  }
  expect((await ask(old, key, model)).status).toBe(402)
  expect((await ask(young, key, model)).status).toBe(402)
  expect((await young.balance(person)).balance_micro).toBe(0)
})

test("many calls at once on both: exactly what the money pays for", async () => {
  const person = await old.person(20_000)
  const { key } = await old.key(person)
  const model = await exactModel()
  const storm = await statuses(400, (n) => ask(n % 2 === 0 ? old : young, key, model))
  for (const status of storm) expect(status).toBeOneOf([200, 402])
  expect(await answeredInAll(storm, key, model)).toBe(100)
  expect((await young.balance(person)).balance_micro).toBe(0)
})

test("a key's budget is one budget on both: all of it can be spent, and no more", async () => {
  const person = await old.person(100_000)
  const limits = { spending_limit_micro: 50 * PRICE_RP * Rp, spending_period: "daily" }
  const { id, key } = await old.key(person, limits)
  const model = await exactModel()
  const storm = await statuses(200, (n) => ask(n % 2 === 0 ? old : young, key, model))
  for (const status of storm) expect(status).toBeOneOf([200, 429])
  expect(await answeredInAll(storm, key, model)).toBe(50)

  // A higher limit opens it again, on both.
  const change = { method: "PATCH", body: JSON.stringify({ spending_limit_micro: 60 * PRICE_RP * Rp }) }
  const headers = { "Content-Type": "application/json" }
  expect((await old.dashboard(person, `/keys/${id}`, { ...change, headers })).status).toBe(200)
  expect(await withinASecond(async () => (await ask(young, key, model)).status === 200)).toBe(true)
  const rest = await statuses(40, (n) => ask(n % 2 === 0 ? old : young, key, model))
  expect(await answeredInAll(rest, key, model)).toBe(9)
})

test.each(["daily", "monthly"])("a %s budget is one in all time zones, on both and after a start", async (period) => {
  const person = await old.person(100_000)
  const { key } = await old.key(person, { spending_limit_micro: 4 * PRICE_RP * Rp, spending_period: period })
  const model = await exactModel()
  const zones = ["Pacific/Kiritimati", "Etc/GMT+12", "Asia/Jakarta", "America/New_York", "UTC", "Asia/Kathmandu"]
  let passed = 0
  for (const [n, zone] of zones.entries()) {
    const [one, other] = n % 2 === 0 ? [old, young] : [young, old]
    const change = { method: "PATCH", body: JSON.stringify({ time_zone: zone }) }
    expect((await one.dashboard(person, "/account", change)).status).toBe(200)
    passed += answered([(await ask(one, key, model)).status, (await ask(other, key, model)).status])
  }
  expect(passed).toBe(4)
  await old.server.stop()
  await using next = await startTestGateway({ databaseUrl: () => databaseUrl })
  await next.server.refreshCatalogue()
  for (const gateway of [young, next]) expect((await ask(gateway, key, model)).status).toBe(429)
  const [row] = await old.sql<{ rows: number }[]>`
    select count(*)::int as rows from key_spend where period = ${period} and spent_micro > 0`
  expect(row?.rows).toBe(1)
})

test("a budget that was spent here and there can be lowered, and then nothing more is spent of it", async () => {
  const person = await old.person(100_000)
  const limits = { spending_limit_micro: 50 * PRICE_RP * Rp, spending_period: "total" }
  const { id, key } = await old.key(person, limits)
  const model = await exactModel()
  for (const gateway of [old, young, old, young]) expect((await ask(gateway, key, model)).status).toBe(200)
  const change = { method: "PATCH", body: JSON.stringify({ spending_limit_micro: 4 * PRICE_RP * Rp }) }
  await old.dashboard(person, `/keys/${id}`, { ...change, headers: { "Content-Type": "application/json" } })
  let spent = 4
  const refused = await withinASecond(async () => {
    const both = [(await ask(young, key, model)).status, (await ask(old, key, model)).status]
    spent += answered(both)
    return answered(both) === 0
  })
  expect(refused).toBe(true)
  const [row] = await old.sql<{ spent: bigint }[]>`
    select spent_micro as spent from key_spend where key_id = ${id} and period = 'total'`
  expect(row?.spent).toBe(BigInt(spent * PRICE_RP * Rp))
})

test("a key that is revoked at the one is refused by the other within a second", async () => {
  const person = await old.person(10_000)
  const { id, key } = await old.key(person)
  const model = await exactModel()
  expect((await ask(young, key, model)).status).toBe(200)
  expect((await old.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })).status).toBe(200)
  expect(await withinASecond(async () => (await ask(young, key, model)).status === 401)).toBe(true)
})

test("a top-up at the one is spent at the other", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await exactModel()
  expect(answered(await statuses(60, () => ask(young, key, model)))).toBe(50)
  expect((await ask(young, key, model)).status).toBe(402)
  await old.topUp(person, 10_000)
  expect(await withinASecond(async () => (await ask(young, key, model)).status === 200)).toBe(true)
})

test("one that drains gives at once what its calls under way do not hold", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await exactModel()
  const slow = await exactModel({ script: "input=0&output=16&ttft=15000" })
  expect((await ask(old, key, model)).status).toBe(200)
  const underWay = ask(old, key, slow)
  while ((await old.sql`select from openings`).length === 0) await Bun.sleep(5)
  const stopped = old.server.stop()
  // Sooner than the call ends that the old one waits for.
  expect(answered(await statuses(48, () => ask(young, key, model)))).toBe(48)
  expect(await old.sql`select from openings`).toHaveLength(1)
  expect((await underWay).status).toBe(200)
  await stopped
  expect((await young.balance(person)).balance_micro).toBe(0)
})

test("one that was closed while it still ran charges the customer nothing more", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person, { spending_limit_micro: 5_000 * Rp, spending_period: "total" })
  const model = await exactModel()
  const slow = await exactModel({ script: "input=0&output=16&ttft=5000" })
  expect((await ask(old, key, model)).status).toBe(200)
  const underWay = ask(old, key, slow)
  while ((await old.sql`select from openings`).length === 0) await Bun.sleep(5)
  const [opening] = await old.sql<{ process_id: string }[]>`select process_id from openings`
  // By one that looks at no lock: what must never happen, and must do no harm.
  const db = openDatabase({ url: databaseUrl, connections: 1 })
  const hasty = await registerProcess({ db, lockOn: undefined, onFenced: () => {} })
  await hasty.closeProcess(opening!.process_id)
  await hasty.close()
  await db.close()

  await underWay
  await ask(old, key, model)
  // Who asks it for the first time is told to come again, and then finds another process.
  const stranger = await young.person(10_000)
  const refused = await ask(old, (await young.key(stranger)).key, model)
  expect(refused.status).toBe(503)
  expect((await young.balance(person)).balance_micro).toBe((10_000 - PRICE_RP) * Rp)
  // The budget of 25 calls is whole again but for the first one, and so is the balance.
  expect(answered(await statuses(40, () => ask(young, key, model)))).toBe(24)
})

test("an account that one freezes is refused by the other within a second, and let in again", async () => {
  const person = await old.person(10_000)
  const { key } = await old.key(person)
  const model = await exactModel()
  expect((await ask(young, key, model)).status).toBe(200)
  await old.server.accounts.freeze(person.accountId, "a test")
  expect(await withinASecond(async () => (await ask(young, key, model)).status === 403)).toBeTrue()
  await old.server.accounts.unfreeze(person.accountId)
  expect(await withinASecond(async () => (await ask(young, key, model)).status === 200)).toBeTrue()
})

const remaining = async (gateway: TestGateway, key: string) => {
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { Authorization: `Bearer ${key}` } })
  await response.text()
  expect(response.headers.get("x-ratelimit-limit")).toBe("1000")
  return Number(response.headers.get("x-ratelimit-remaining"))
}

test("a notice of another process that is lost is made up for: the share is looked up all the same", async () => {
  const { key } = await old.key(await old.person(10_000), { requests_per_minute: 1_000 })
  while ((await remaining(old, key)) >= 500) await Bun.sleep(20)
  await old.sql`alter table processes disable trigger processes_changed`
  await young.server.stop()
  while ((await remaining(old, key)) < 500) await Bun.sleep(50)
})

test("a call of more tokens than a share passes on either, and then neither passes another one for a minute", async () => {
  const { key } = await old.key(await old.person(100_000), { tokens_per_minute: 400 })
  const { key: probe } = await old.key(await old.person(10_000), { requests_per_minute: 1_000 })
  for (const gateway of [old, young]) while ((await remaining(gateway, probe)) >= 500) await Bun.sleep(20)
  const model = await exactModel({ script: "input=300&output=16" })
  const body = { model, messages: [{ role: "user", content: "Hello ".repeat(300) }] }
  for (const gateway of [old, young]) {
    const first = await gateway.post("/v1/chat/completions", key, body)
    expect([first.status, first.headers.get("x-ratelimit-limit-tokens")]).toEqual([200, "400"])
    const second = await gateway.post("/v1/chat/completions", key, body)
    expect([second.status, second.headers.get("x-error-code")]).toEqual([429, "rate_limit.tpm_exceeded"])
    expect(Number(second.headers.get("retry-after"))).toBeGreaterThan(50)
  }
})

test("a credit in one process is told as the balance to who listens in the other", async () => {
  const person = await old.person()
  const response = await young.dashboard(person, "/events")
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let told = ""
  const until = async (text: string) => {
    while (!told.includes(text)) told += (await reader.read()).value ?? ""
  }
  await until('"balance_micro":0')
  await old.topUp(person, 25_000)
  await until(`"balance_micro":${25_000 * Rp}`)
  await reader.cancel()
})

test("calls that end in one process are told to who listens in the other, a free and a failed one too, and not one by one", async () => {
  const person = await old.person(100_000)
  const { key } = await old.key(person)
  const priced = await exactModel()
  const free = await exactModel({ output_micro: 0 })
  const failing = await exactModel({ script: "fault=status&status=500" })
  const elsewhere = await young.dashboard(person, "/events")
  const here = await old.dashboard(person, "/events")
  const reader = elsewhere.body!.pipeThrough(new TextDecoderStream()).getReader()
  let told = ""
  const until = async (text: string) => {
    while (!told.includes(text)) told += (await reader.read()).value ?? ""
  }
  await until("event: balance")
  for (const [model, status] of [
    [free, 200],
    [failing, 502],
  ] as const) {
    told = ""
    const before = performance.now()
    expect((await ask(old, key, model)).status).toBe(status)
    await until("event: calls")
    expect(performance.now() - before).toBeLessThan(5_000)
  }
  told = ""
  await Promise.all(Array.from({ length: 20 }, () => ask(old, key, priced)))
  await until("event: calls")
  await until(`"balance_micro":${(100_000 - 20 * PRICE_RP) * Rp}`)
  expect(told.split("event: calls").length - 1).toBeLessThan(4)
  expect(told).not.toContain("event: call\n")
  await reader.cancel()

  // Who listens where the calls end has each of them, and is not told of them once more.
  const own = here.body!.pipeThrough(new TextDecoderStream()).getReader()
  let heard = ""
  while (heard.split("event: call\n").length - 1 < 22) heard += (await own.read()).value ?? ""
  expect(heard).not.toContain("event: calls")
  await own.cancel()
})

test("a key that is rotated in one process has its new secret in both, and its old one in neither", async () => {
  const person = await old.person(100_000)
  const model = await old.model(exact)
  await young.server.refreshCatalogue()
  const { id, key } = await old.key(person, { spending_limit_micro: 50_000 * Rp, spending_period: "total" })
  for (const gateway of [old, young]) expect((await ask(gateway, key, model)).status).toBe(200)
  const body = JSON.stringify({ overlap_s: 0 })
  const rotated = await old.dashboard(person, `/keys/${id}/rotate`, { method: "POST", body })
  const { key: fresh } = (await rotated.json()) as { key: string }
  for (const gateway of [old, young]) {
    expect((await ask(gateway, fresh, model)).status).toBe(200)
    while ((await ask(gateway, key, model)).status !== 401) await Bun.sleep(20)
    expect((await ask(gateway, fresh, model)).status).toBe(200)
  }
})
