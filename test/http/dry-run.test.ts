/** `X-Dry-Run`: it agrees with the call that is made next, and leaves nothing behind. */
import { Value } from "@sinclair/typebox/value"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import { type DryRun, dryRunSchema } from "../../src/http/dry-run-shape.ts"
import { callsOf, eventually, formats } from "../contract/calling.ts"
import { bugs } from "../contract/expect-failure.ts"
import { pagesOf } from "../pdf/files.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let rich: Person
let poor: Person

beforeAll(async () => {
  gateway = await startTestGateway({ env: { MAX_BODY_BYTES: "1000000", CAPACITY_WAIT_MS: "0" } })
  rich = await gateway.person(1_000_000)
  poor = await gateway.person()
})
afterAll(async () => {
  const found = bugs(gateway)
  await gateway[Symbol.asyncDispose]()
  expect(found).toEqual([])
})

const hello = [{ role: "user", content: "Hello" }]
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
const key = async (person: Person, limits: object = {}) => (await gateway.key(person, { ...limits })).key
const post = (by: string, body: unknown, headers: Record<string, string> = {}, path = paths.chat) =>
  gateway.post(path, by, body, { headers })
const dryAnswer = (by: string, body: unknown, headers: Record<string, string> = {}, path = paths.chat) =>
  post(by, body, { ...headers, "X-Dry-Run": "true" }, path)
async function dry(...of: Parameters<typeof dryAnswer>): Promise<DryRun> {
  const response = await dryAnswer(...of)
  const told = (await response.json()) as DryRun
  expect({ status: response.status, told }).toMatchObject({ status: 200 })
  expect([...Value.Errors(dryRunSchema, told)]).toEqual([])
  expect(response.headers.get("content-type")).toStartWith("application/json")
  expect(response.headers.get("cache-control")).toBe("no-store")
  expect(told.request_id).toBe(response.headers.get("x-request-id") ?? "")
  return told
}
const plain = { model: "plain", messages: hello, max_tokens: 50 }
/** What there is in the books and in the lists of the account. */
async function rowsOf({ accountId }: Person): Promise<object | undefined> {
  const [row] = await gateway.sql`
    select (select count(*)::int from openings where account_id = ${accountId}) as openings,
      (select count(*)::int from usage where account_id = ${accountId}) as records,
      (select count(*)::int from refused_calls where account_id = ${accountId}) as refused`
  return row
}

describe("a call that would pass", () => {
  const bodies = {
    chat: { messages: hello, max_tokens: 50 },
    messages: { messages: hello, max_tokens: 50 },
    responses: { input: "Hello", max_output_tokens: 50 },
  }
  test("and whose backend searches holds for what may be found", async () => {
    const by = await key(rich)
    const model = await gateway.model({ format: "responses", features: ["web_search"] })
    const body = { model, ...bodies.responses }
    const plainly = await dry(by, body, {}, paths.responses)
    const searching = await dry(by, { ...body, tools: [{ type: "web_search" }] }, {}, paths.responses)
    // Five turns, each of which but the last adds 5,000 tokens that are read again in each turn after it.
    expect(searching.cost?.hold_micro).toBeGreaterThan((plainly.cost?.hold_micro ?? 0) + 50_000 * 1_250)
    expect(searching.cost?.least_micro).toBeLessThan(1_000 * 1_250)
  })

  test("is estimated as before when a backend has searched for another", async () => {
    const by = await key(rich)
    const script = "searches=1&input=9000&output=5"
    const model = await gateway.model({ format: "responses", features: ["web_search"], script })
    const body = { model, input: "Halo dunia, apa kabar? ".repeat(100), tools: [{ type: "web_search" }] }
    const before = await dry(by, body, {}, paths.responses)
    expect((await gateway.post(paths.responses, by, body)).status).toBe(200)
    expect((await dry(by, body, {}, paths.responses)).cost).toEqual(before.cost)
  })

  test.each(formats)("on %s is told what it would hold and could cost, streamed or not", async (format) => {
    const person = await gateway.person(10_000)
    const by = await key(person)
    const model = await gateway.model({ format, script: "input=10&output=50" })
    const body = { model, ...bodies[format] }
    const told = await dry(by, body, {}, paths[format])
    const streamed = await dry(by, { ...body, stream: true }, {}, paths[format])
    expect(streamed.cost).toEqual(told.cost)
    expect(told).toMatchObject({ refused_by: null, model, answered_by: model, may_be_answered_by: [] })
    const { cost } = told
    const input = cost?.input_tokens ?? 0
    expect(input).toBeGreaterThan(0)
    // The input at the dearest of its rates, 1,250 for a token that is written to a cache, and 5,000 for each token of the answer.
    const most = input * 1_250 + 50 * 5_000
    expect(cost).toMatchObject({
      output_token_limit: 50,
      least_micro: input * 1_250 + 16 * 5_000,
      hold_micro: most,
      hold_rp: String(most / 1_000_000),
      most_micro: most,
      most_rp: String(most / 1_000_000),
    })
    expect(callsOf(gateway, model)).toHaveLength(0)

    const answer = await post(by, body, {}, paths[format])
    await answer.text()
    const record = await gateway.usage(person, answer.headers.get("x-request-id") ?? "")
    expect(record["charge_micro"]).toBeGreaterThan(0)
    expect(record["charge_micro"]).toBeLessThanOrEqual(cost?.most_micro ?? 0)
    const [opening] =
      await gateway.sql`select hold_micro from openings where request_id = ${record["request_id"] as string}`
    if (opening !== undefined) expect(Number(opening["hold_micro"])).toBe(most)
  })

  test("of a small balance half is held, and the answer limit is what that pays for, as the backend then gets it", async () => {
    const person = await gateway.person(10_000)
    const by = await key(person)
    const model = await gateway.model({
      format: "chat",
      output_micro: 10_000_000,
      max_output_tokens: 8_000,
      gather: false,
    })
    const body = { model, messages: hello }
    const { cost } = await dry(by, body)
    expect(cost?.hold_micro).toBe(5_000_000_000)
    expect(cost?.output_token_limit).toBe(Math.floor((5_000_000_000 - (cost?.input_tokens ?? 0) * 1_250) / 10_000_000))
    expect(cost?.most_micro).toBeLessThanOrEqual(5_000_000_000)
    await (await post(by, body)).text()
    const sent = callsOf(gateway, model).at(-1)?.body as Record<string, unknown>
    expect(sent["max_completion_tokens"] ?? sent["max_tokens"]).toBe(cost?.output_token_limit)
  })

  test("every limit is told, with what is left of it and when it clears", async () => {
    const person = await gateway.person(10_000)
    const limits = {
      requests_per_minute: 10,
      tokens_per_minute: 1_000,
      spending_limit_micro: 5_000_000_000,
      spending_period: "daily",
    }
    const by = await key(person, limits)
    const model = await gateway.model({ format: "chat", script: "input=100&output=10", max_concurrency: 7 })
    await (await post(by, { ...plain, model })).text()
    const told = await dry(by, { ...plain, model })
    const spent = 150_000
    const seconds = expect.any(Number)
    expect(told.limits).toEqual({
      requests: { limit: 10, remaining: 9, resets_in_s: seconds },
      tokens: { limit: 1_000, remaining: 890, resets_in_s: seconds },
      budget: {
        period: "daily",
        limit_micro: 5_000_000_000,
        remaining_micro: 5_000_000_000 - spent,
        resets_in_s: seconds,
      },
      balance: {
        balance_micro: 10_000_000_000 - spent,
        held_micro: 0,
        available_micro: 10_000_000_000 - spent,
      },
      model: { concurrency: 7, free: 7, waiting: 0, would_wait: false },
      dry_runs: { limit: 60, remaining: 59, resets_in_s: 60 },
    })
  })

  test("nothing is left behind: no count, no hold, no record, no refused call, nothing sent", async () => {
    const person = await gateway.person(10_000)
    const limits = {
      requests_per_minute: 3,
      tokens_per_minute: 1_000,
      spending_limit_micro: 1_000_000_000,
      spending_period: "total",
    }
    const by = await key(person, limits)
    const model = await gateway.model({ format: "chat", max_concurrency: 1 })
    const first = await dry(by, { ...plain, model })
    for (const body of [{ ...plain, model }, "{", { ...plain, model: "nothing" }, { ...plain, model, messages: 1 }])
      await dry(by, body)
    const last = await dry(by, { ...plain, model })
    const { dry_runs: _, ...before } = first.limits
    expect(last.limits).toMatchObject(before)
    expect(before.requests).toMatchObject({ remaining: 3, resets_in_s: 0 })
    expect(before.tokens).toMatchObject({ remaining: 1_000, resets_in_s: 0 })
    expect(last.cost).toEqual(first.cost)
    // Refused calls are written after two seconds at the latest.
    await Bun.sleep(2_500)
    expect(await rowsOf(person)).toEqual({ openings: 0, records: 0, refused: 0 })
    expect(await gateway.balance(person)).toMatchObject({ balance_micro: 10_000_000_000, held_micro: 0 })
    expect(callsOf(gateway, model)).toHaveLength(0)
  })

  test("what would be left out of the body is named", async () => {
    const answer = await dryAnswer(await key(rich), { ...plain, made_up: 1 })
    expect(answer.headers.get("x-dropped-fields")).toBe("made_up")
  })
})

describe("models that answer in another's place", () => {
  test("a prompt that is too long for the one goes to the next, at its price", async () => {
    const next = await gateway.model({ format: "chat", input_micro: 500, output_micro: 2_000 })
    const asked = await gateway.model({ format: "chat", context_window: 3, fallback: [next] })
    const told = await dry(await key(rich), { ...plain, model: asked })
    expect(told).toMatchObject({ refused_by: null, model: asked, answered_by: next, may_be_answered_by: [] })
    expect(told.cost?.most_micro).toBe((told.cost?.input_tokens ?? 0) * 1_250 + 50 * 2_000)
    const real = await post(await key(rich), { ...plain, model: asked })
    expect(((await real.json()) as { model: string }).model).toBe(next)
  })

  test("the most is that of the model that costs most of those which may answer, as the key and the header allow", async () => {
    const cheap = await gateway.model({ format: "chat", input_micro: 500, output_micro: 2_000, cache_read_micro: 1 })
    const dear = await gateway.model({ format: "chat", output_micro: 50_000 })
    const asked = await gateway.model({ format: "chat", fallback: [cheap, dear, "nothing"] })
    const by = await key(rich)
    const usual = await dry(by, { ...plain, model: asked })
    expect(usual).toMatchObject({ answered_by: asked, may_be_answered_by: [cheap] })
    const any = await dry(by, { ...plain, model: asked }, { "X-Fallback": "any" })
    expect(any.may_be_answered_by).toEqual([cheap, dear])
    const input = (any.cost?.input_tokens ?? 0) * 1_250
    expect([usual.cost?.most_micro, any.cost?.most_micro]).toEqual([input + 50 * 5_000, input + 50 * 50_000])
    expect(any.cost?.hold_micro).toBe(usual.cost?.hold_micro ?? 0)
    const off = await dry(by, { ...plain, model: asked }, { "X-Fallback": "off" })
    expect(off.may_be_answered_by).toEqual([])
  })

  test("one that nobody could pay for is passed over", async () => {
    const dear = await gateway.model({ format: "chat", output_micro: 1_000_000_000 })
    const asked = await gateway.model({ format: "chat", fallback: [dear] })
    const told = await dry(await key(await gateway.person(10_000)), { ...plain, model: asked }, { "X-Fallback": "any" })
    expect(told.may_be_answered_by).toEqual([])
  })

  test("a retired id is answered by its target", async () => {
    const target = await gateway.model({ format: "chat" })
    const old = await gateway.model({ format: "chat" })
    const until = new Date(Date.now() + 60_000)
    await gateway.sql`insert into model_aliases (alias, target, until) values (${old}, ${target}, ${until})`
    await gateway.refreshCatalogue()
    expect(await dry(await key(rich), { ...plain, model: old })).toMatchObject({
      model: old,
      answered_by: target,
      refused_by: null,
    })
  })
})

/** What is asked about, and then done. */
interface Situation {
  readonly name: string
  readonly code: string
  readonly of: () => Promise<readonly [by: string, body: unknown, headers?: Record<string, string>]>
  readonly path?: string
}

const spent = async (period: string) => {
  const by = await key(rich, { spending_limit_micro: 120_000, spending_period: period })
  const model = await gateway.model({ format: "chat", script: "input=10&output=34" })
  await (await post(by, { ...plain, model, max_tokens: 34 })).text()
  return by
}

const situations: readonly Situation[] = [
  {
    name: "the request window is full",
    code: "rate_limit.rpm_exceeded",
    async of() {
      const by = await key(rich, { requests_per_minute: 1 })
      await (await post(by, "{}")).text()
      return [by, plain]
    },
  },
  {
    name: "the request window is full, and the body is bad",
    code: "rate_limit.rpm_exceeded",
    async of() {
      const by = await key(rich, { requests_per_minute: 1 })
      await (await post(by, "{}")).text()
      return [by, "{"]
    },
  },
  {
    name: "the request window is full, and the account is frozen",
    code: "rate_limit.rpm_exceeded",
    async of() {
      const person = await gateway.person(10_000)
      const by = await key(person, { requests_per_minute: 1 })
      await (await post(by, "{}")).text()
      await gateway.freeze(person, "a test")
      return [by, plain]
    },
  },
  {
    name: "the account is frozen",
    code: "auth.account_frozen",
    async of() {
      const person = await gateway.person(10_000)
      const by = await key(person)
      await gateway.freeze(person, "a test")
      return [by, plain]
    },
  },
  {
    name: "the account is deleted",
    code: "auth.account_deleted",
    async of() {
      const person = await gateway.person()
      const by = await key(person)
      const body = JSON.stringify({ password: "correct horse battery" })
      await gateway.dashboard(person, "/account", { method: "DELETE", body })
      return [by, plain]
    },
  },
  {
    name: "the body is too large",
    code: "request.too_large",
    of: async () => [await key(rich), "x".repeat(1_000_001)],
  },
  {
    name: "the body is large, and the balance empty",
    code: "billing.insufficient_balance",
    of: async () => [
      await key(poor),
      JSON.stringify({ ...plain, messages: [{ role: "user", content: "x".repeat(300_000) }] }),
    ],
  },
  { name: "the body is no JSON", code: "request.invalid", of: async () => [await key(rich), "[1"] },
  { name: "the body is no object", code: "request.invalid_request", of: async () => [await key(rich), "[1]"] },
  { name: "the model is missing", code: "request.invalid", of: async () => [await key(rich), { messages: hello }] },
  {
    name: "the model is unknown",
    code: "model.unknown",
    of: async () => [await key(rich), { ...plain, model: "nothing" }],
  },
  {
    name: "the model was retired",
    code: "model.unknown",
    async of() {
      const target = await gateway.model({ format: "chat" })
      const until = new Date(Date.now() - 1_000)
      await gateway.sql`insert into model_aliases (alias, target, until) values (${`was-${target}`}, ${target}, ${until})`
      await gateway.refreshCatalogue()
      return [await key(rich), { ...plain, model: `was-${target}` }]
    },
  },
  {
    name: "the endpoint is not served",
    code: "request.invalid",
    of: async () => [await key(rich), { ...plain, model: await gateway.model({ format: "messages" }) }],
  },
  {
    name: "the shape is wrong, on messages",
    code: "request.invalid_request",
    path: paths.messages,
    of: async () => [
      await key(rich),
      { ...plain, model: await gateway.model({ format: "messages" }), max_tokens: "many" },
    ],
  },
  {
    name: "the input is empty, on responses",
    code: "request.invalid",
    path: paths.responses,
    of: async () => [await key(rich), { model: await gateway.model({ format: "responses" }), input: "" }],
  },
  {
    name: "the feature is not served",
    code: "request.unsupported_feature",
    of: async () => [await key(rich), { ...plain, web_search_options: {} }],
  },
  {
    name: "no backend is there",
    code: "dependency.upstream_unconfigured",
    of: async () => [await key(rich), { ...plain, model: await gateway.model({ format: "chat", provider: "nobody" }) }],
  },
  {
    name: "X-Fallback is wrong",
    code: "request.invalid",
    of: async () => [await key(rich), plain, { "X-Fallback": "maybe" }],
  },
  {
    name: "Idempotency-Key is too long",
    code: "request.invalid",
    of: async () => [await key(rich), plain, { "Idempotency-Key": "x".repeat(256) }],
  },
  {
    name: "the prompt is too long",
    code: "upstream.context_length_exceeded",
    of: async () => [await key(rich), { ...plain, model: await gateway.model({ format: "chat", context_window: 3 }) }],
  },
  {
    name: "the prompt is too long, and the next model is dearer",
    code: "upstream.context_length_exceeded",
    async of() {
      const dear = await gateway.model({ format: "chat", output_micro: 50_000 })
      return [
        await key(rich),
        { ...plain, model: await gateway.model({ format: "chat", context_window: 3, fallback: [dear] }) },
      ]
    },
  },
  {
    name: "the token window will never have room",
    code: "rate_limit.tpm_exceeded",
    of: async () => [await key(rich, { tokens_per_minute: 1 }), plain],
  },
  {
    name: "the token window is full",
    code: "rate_limit.tpm_exceeded",
    async of() {
      const by = await key(rich, { tokens_per_minute: 100 })
      const model = await gateway.model({ format: "chat", script: "input=60&output=34" })
      await (await post(by, { ...plain, model })).text()
      return [by, plain]
    },
  },
  {
    name: "the day's budget is spent",
    code: "quota.key_limit_exceeded",
    of: async () => [await spent("daily"), plain],
  },
  {
    name: "the month's budget is spent",
    code: "quota.key_limit_exceeded",
    of: async () => [await spent("monthly"), plain],
  },
  {
    name: "the whole budget is spent",
    code: "quota.key_limit_exceeded",
    of: async () => [await spent("total"), plain],
  },
  { name: "the balance is empty", code: "billing.insufficient_balance", of: async () => [await key(poor), plain] },
  {
    name: "the model has no free slot",
    code: "gateway.capacity",
    async of() {
      const model = await gateway.model({ format: "chat", script: "ttft=1500", max_concurrency: 1 })
      void post(await key(rich), { ...plain, model }).then((answer) => answer.text())
      await eventually(
        "not forwarded",
        () => callsOf(gateway, model).length,
        (calls) => calls > 0,
      )
      return [await key(rich), { ...plain, model }]
    },
  },
]

test.each(situations.map((row) => [row.name, row] as const))(
  "it says what the call is refused for: %s",
  async (_, row) => {
    const [by, body, headers = {}] = await row.of()
    const told = await dry(by, body, headers, row.path)
    const again = await dry(by, body, headers, row.path)
    const real = await post(by, body, headers, row.path)
    const error = (await real.json()) as Record<string, unknown>
    const retryAfter = real.headers.get("retry-after")
    const {
      request_id: ours,
      status,
      retry_after_s: wait,
      ...refusal
    } = told.refused_by ?? ({} as NonNullable<DryRun["refused_by"]>)
    const { request_id: _theirs, ...expected } = error
    expect(error["code"]).toBe(row.code)
    expect<object>({ status, ...refusal }).toEqual({ status: real.status, ...expected })
    expect(again.refused_by).toMatchObject(refusal)
    expect(ours).toBe(told.request_id)
    if (retryAfter === null) expect(wait).toBeNull()
    else expect(Math.abs((wait ?? -9) - Number(retryAfter))).toBeLessThanOrEqual(2)
  },
)

test("it reads a file for who could pay for it, and for nobody else", async () => {
  const model = await gateway.model({ format: "messages", context_window: 1_000_000 })
  const data = pagesOf(["a", "b", "c"]).toString("base64")
  const document = { type: "document", source: { type: "base64", media_type: "application/pdf", data } }
  const body = { model, max_tokens: 16, messages: [{ role: "user", content: [document] }] }
  const told = async (person: Person) => (await dry(await key(person), body, {}, paths.messages)).cost
  // By its size it is one page.
  expect((await told(poor))?.input_tokens).toBeWithin(3_000, 3_100)
  const read = await told(rich)
  expect(read?.input_tokens).toBeWithin(9_000, 9_100)
  // A page may come to more than is likely.
  expect(read?.most_input_tokens).toBeGreaterThan(9_100)
})

test("where the balance is short, what is needed is told all the same", async () => {
  const { cost } = await dry(await key(poor), plain)
  const input = (cost?.input_tokens ?? 0) * 1_250
  expect(cost).toMatchObject({
    least_micro: input + 16 * 5_000,
    hold_micro: null,
    hold_rp: null,
    most_micro: input + 50 * 5_000,
  })
})

describe("the edges of what is enough", () => {
  test("a budget of exactly the least is enough, for the dry run as for the call; one micro less is not", async () => {
    const least = (await dry(await key(rich), plain)).cost?.least_micro ?? 0
    for (const [limit, code] of [
      [least, null],
      [least - 1, "quota.key_limit_exceeded"],
    ] as const) {
      const by = await key(rich, { spending_limit_micro: limit, spending_period: "total" })
      const told = await dry(by, plain)
      expect(told.refused_by?.code ?? null).toBe(code)
      const real = await post(by, plain)
      expect(real.headers.get("x-error-code")).toBe(code)
      await real.text()
    }
  })
})

describe("who may ask, and how often", () => {
  test.each([
    ["no key", async () => "", "auth.api_key_missing"],
    ["an unknown key", async () => createApiKey(), "auth.api_key_invalid"],
    [
      "a revoked key",
      async () => {
        const made = await gateway.key(rich)
        await gateway.dashboard(rich, `/keys/${made.id}/revoke`, { method: "POST" })
        return made.key
      },
      "auth.api_key_revoked",
    ],
  ])("%s is the usual 401", async (_, make, code) => {
    const answer = await dryAnswer(await make(), plain)
    expect([answer.status, answer.headers.get("x-error-code")]).toEqual([401, code])
  })

  test("sixty of a minute are answered, and the next is told when to come again; calls are another matter", async () => {
    const by = await key(rich, { requests_per_minute: 1 })
    const other = await key(rich)
    for (let count = 60; count > 0; count -= 10) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => dryAnswer(by, "{}")))
      expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200))
    }
    const refused = await dryAnswer(by, plain)
    expect([refused.status, refused.headers.get("x-error-code")]).toEqual([429, "rate_limit.rpm_exceeded"])
    const wait = Number(refused.headers.get("retry-after"))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(60)
    expect((await post(by, plain)).status).toBe(200)
    expect((await dryAnswer(other, plain)).status).toBe(200)
  })

  test("a key whose owner has turned off asking for the balance is told nothing", async () => {
    const answer = await dryAnswer(await key(rich, { shows_balance: false }), plain)
    expect([answer.status, answer.headers.get("x-error-code")]).toEqual([403, "auth.key_not_allowed"])
    expect(await answer.text()).not.toContain("micro")
  })

  test("`false` and an empty header are as if none was sent; anything else is refused by name, and nothing is forwarded", async () => {
    const model = await gateway.model({ format: "chat" })
    const by = await key(rich)
    for (const value of ["false", ""]) {
      const answer = await post(by, { ...plain, model }, { "X-Dry-Run": value })
      expect(((await answer.json()) as { object: string }).object).toBe("chat.completion")
    }
    const before = callsOf(gateway, model).length
    expect(before).toBe(2)
    for (const value of ["True", "1", "yes", "true, true"]) {
      const answer = await post(by, { ...plain, model }, { "X-Dry-Run": value })
      expect([answer.status, answer.headers.get("x-error-code")]).toEqual([400, "request.invalid"])
      expect(await answer.text()).toContain("X-Dry-Run")
    }
    expect(callsOf(gateway, model)).toHaveLength(before)
  })

  test("counting tokens knows no dry run", async () => {
    const model = await gateway.model({ format: "messages" })
    const answer = await dryAnswer(await key(rich), { model, messages: hello }, {}, "/v1/messages/count_tokens")
    expect(await answer.json()).toEqual({ input_tokens: expect.any(Number) })
  })
})
