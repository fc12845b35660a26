/** Many calls at once on one balance, one at a time to its end, and under a key's budget; through the whole gateway. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { reconcile } from "./reconcile.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterEach(async () => {
  await reconcile(gateway.sql)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const formats = ["chat", "messages", "responses"] as const
type Format = (typeof formats)[number]
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
const hello = [{ role: "user", content: "Hello" }]
const limitNames = { chat: "max_tokens", messages: "max_tokens", responses: "max_output_tokens" }
const bodyOf = (format: Format, model: string, stream: boolean, limit = 8_192) => ({
  model,
  stream,
  [limitNames[format]]: limit,
  ...(format === "responses" ? { input: "Hello" } : { messages: hello }),
})

/** A thousand rupiah for 100 tokens of answer; input is next to nothing. */
const dear = { output_micro: 10_000_000, max_output_tokens: 100, max_concurrency: 1_000 }
const Rp = 1_000_000

interface Answer {
  readonly status: number
  readonly code: string | null
  readonly requestId: string
  readonly costRp: string | null
  readonly headers: Headers
  readonly text: string
}

async function ask(key: string, format: Format, model: string, stream = false, limit?: number): Promise<Answer> {
  const response = await gateway.post(paths[format], key, bodyOf(format, model, stream, limit))
  const text = await response.text()
  const { status, headers } = response
  return {
    status,
    headers,
    text,
    code: headers.get("x-error-code"),
    requestId: headers.get("x-request-id") ?? "",
    costRp: headers.get("x-cost-rp"),
  }
}

/** The charges of an account's calls, in micro-rupiah. */
async function charged(person: Person): Promise<number> {
  const [row] = await gateway.sql<{ sum: bigint }[]>`
    select coalesce(sum(charge_micro), 0)::bigint as sum from usage where account_id = ${person.accountId}`
  return Number(row!.sum)
}

/** Looks at an account as often as it can until `work` is done. */
async function watched<T>(person: Person, work: Promise<T>): Promise<{ result: T; lowest: number; looks: number }> {
  const over = new AbortController()
  let lowest = Infinity
  let looks = 0
  const look = async () => {
    while (!over.signal.aborted) {
      const { balance_micro: balance, held_micro: held } = await gateway.balance(person)
      lowest = Math.min(lowest, balance - held)
      looks++
      await Bun.sleep(1)
    }
  }
  const [result] = await Promise.all([work.finally(() => over.abort()), look()])
  return { result, lowest, looks }
}

test("a hundred calls at once on money for ten: some pass, the rest are told 402, and every rupiah is there", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  const models = await Promise.all(
    formats.map((format) => gateway.model({ format, script: "input=8&output=100&pace=2", ...dear })),
  )
  const calls = Array.from({ length: 100 }, (_, n) => ask(key, formats[n % 3]!, models[n % 3]!, n % 2 === 0))
  const { result: answers, lowest, looks } = await watched(person, Promise.all(calls))

  expect(looks).toBeGreaterThan(5)
  expect(lowest).toBeGreaterThanOrEqual(0)
  const passed = answers.filter((answer) => answer.status === 200)
  const refused = answers.filter((answer) => answer.status !== 200)
  expect(passed.length).toBeGreaterThanOrEqual(9)
  expect(refused.length).toBeGreaterThan(50)
  for (const answer of refused) {
    expect([answer.status, answer.code]).toEqual([402, "billing.insufficient_balance"])
    expect(JSON.parse(answer.text)).toMatchObject({ retryable: false, request_id: answer.requestId })
    expect(answer.headers.get("x-should-retry")).toBe("false")
  }
  let sum = 0
  for (const answer of passed) {
    const record = await gateway.usage(person, answer.requestId)
    expect(record["status"]).toBe("ok")
    expect(record["charge_micro"]).toBeGreaterThan(0)
    if (answer.costRp !== null) expect(Math.round(Number(answer.costRp) * Rp)).toBe(Number(record["charge_micro"]))
    sum += Number(record["charge_micro"])
  }
  expect(await charged(person)).toBe(sum)
  const after = await gateway.balance(person)
  expect(after).toMatchObject({ balance_micro: 10_000 * Rp - sum, held_micro: 0 })
  // What is left is less than a minimal answer: no hold stayed behind that could have been spent.
  expect((await ask(key, "chat", models[0]!)).status).toBe(after.balance_micro < 161 * Rp ? 402 : 200)
})

test("small calls, one after the other, use a balance up to its last micro-rupiah", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  const free = { input_micro: 0, cache_read_micro: 0, cache_write_micro: 0 }
  const model = await gateway.model({ format: "chat", script: "output=16", ...dear, ...free, output_micro: 31_250_000 })
  for (let left = 10_000 - 500; left >= 0; left -= 500) {
    expect(await ask(key, "chat", model)).toMatchObject({ status: 200, costRp: "500" })
    expect((await gateway.balance(person)).balance_micro).toBe(left * Rp)
  }
  expect(await ask(key, "chat", model)).toMatchObject({ status: 402, code: "billing.insufficient_balance" })
  expect(await charged(person)).toBe(10_000 * Rp)
})

test.each(formats)(
  "many %s calls at once share a small balance, each with an answer limit that its part pays for",
  async (format) => {
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    const terms = { output_micro: 100_000, max_output_tokens: 1_000_000, max_concurrency: 1_000 }
    const model = await gateway.model({ format, script: "output=200&ttft=1500", ...terms })
    gateway.simulator.reset()
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => ask(key, format, model, n % 2 === 0, 1_000_000)),
    )
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200))
    const limits = gateway.simulator.calls.map((call) => Number(call.body?.[limitNames[format]]))
    expect(limits).toHaveLength(8)
    for (const limit of limits) expect(limit).toBeGreaterThanOrEqual(16)
    const held = limits.reduce((sum, limit) => sum + limit * terms.output_micro, 0)
    expect(held).toBeLessThanOrEqual(10_000 * Rp)
    // Each holds half of what the others left.
    expect(Math.max(...limits)).toBeLessThanOrEqual(50_000)
    expect(new Set(limits).size).toBe(8)
  },
)

test("a top-up in the midst of 402s is spendable by the very next call", async () => {
  const person = await gateway.person()
  const { key } = await gateway.key(person)
  const model = await gateway.model({ format: "chat", script: "output=100", ...dear })
  for (let round = 0; round < 5; round++) {
    const toppedUp = new AbortController()
    const storm = Array.from({ length: 5 }, async () => {
      while (!toppedUp.signal.aborted) expect((await ask(key, "chat", model)).status).toBeOneOf([200, 402])
    })
    await Bun.sleep(30)
    await gateway.topUp(person, 10_000)
    toppedUp.abort()
    const next = await ask(key, "chat", model)
    expect(next.status).toBe(200)
    await Promise.all(storm)
    // Down to what pays for nothing.
    while ((await ask(key, "chat", model)).status === 200);
  }
})

test("an answer that counts more than was estimated costs no more than the balance; the house bears the rest", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  const model = await gateway.model({ format: "chat", script: "input=20000&output=1", ...dear, input_micro: Rp })
  expect(await ask(key, "chat", model)).toMatchObject({ status: 200, costRp: "10000" })
  const [record] = await gateway.sql<{ charge: bigint; absorbed: bigint }[]>`
    select charge_micro as charge, absorbed_micro as absorbed from usage where account_id = ${person.accountId}`
  expect(record).toEqual({ charge: 10_000_000_000n, absorbed: 10_010_000_000n })
  expect(await gateway.balance(person)).toMatchObject({ balance_micro: 0, held_micro: 0 })
})

test.each([
  { spending_period: "daily", longest: 86_400 },
  { spending_period: "monthly", longest: 31 * 86_400 },
  { spending_period: "total", longest: undefined },
])("a $spending_period budget is never overspent, however many call at once", async ({ spending_period, longest }) => {
  const person = await gateway.person(1_000_000)
  const limit = 5_000 * Rp
  const { id, key } = await gateway.key(person, { spending_limit_micro: limit, spending_period })
  const model = await gateway.model({ format: "messages", script: "input=8&output=100&pace=1", ...dear })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => ask(key, "messages", model, n % 2 === 0)))
  const passed = answers.filter((answer) => answer.status === 200)
  expect(passed.length).toBeGreaterThanOrEqual(4)
  for (const answer of answers) {
    expect(answer.headers.get("x-key-limit-micro")).toBe(String(limit))
    expect(Number(answer.headers.get("x-key-usage-micro"))).toBeLessThanOrEqual(limit)
    if (answer.status === 200) continue
    expect([answer.status, answer.code]).toEqual([429, "quota.key_limit_exceeded"])
    expect(answer.headers.get("x-should-retry")).toBe("false")
    const retryAfter = answer.headers.get("retry-after")
    if (longest === undefined) expect(retryAfter).toBeNull()
    else {
      expect(Number(retryAfter)).toBeGreaterThanOrEqual(1)
      expect(Number(retryAfter)).toBeLessThanOrEqual(longest)
    }
  }
  const spent = await charged(person)
  expect(spent).toBeLessThanOrEqual(limit)
  expect(spent).toBeGreaterThan(limit - 321 * Rp)
  const [row] = await gateway.sql<{ spent_micro: bigint }[]>`
    select spent_micro from key_spend where key_id = ${id} and period = ${spending_period}`
  expect(Number(row!.spent_micro)).toBe(spent)
})

test("an answer that counts more than was estimated does not overspend a key's budget either", async () => {
  const person = await gateway.person(100_000)
  const limit = 3_000 * Rp
  const { key } = await gateway.key(person, { spending_limit_micro: limit, spending_period: "total" })
  const model = await gateway.model({
    format: "chat",
    script: "input=20000&output=1&ttft=50",
    ...dear,
    input_micro: Rp,
  })
  const answers = await Promise.all(Array.from({ length: 4 }, () => ask(key, "chat", model)))
  expect(answers.some((answer) => answer.status === 200)).toBeTrue()
  expect(await charged(person)).toBe(limit)
  expect(await ask(key, "chat", model)).toMatchObject({ status: 429, code: "quota.key_limit_exceeded" })
})
