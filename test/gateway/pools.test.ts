/** Pools through the running gateway: several backends, of which each can be made to fail while it runs. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import type { Credential, Provider } from "../../src/catalogue/model.ts"
import type { ModelSeed, UpstreamSeed } from "../../src/catalogue/schema.ts"
import { type Simulator, startSimulator } from "../../src/simulator/simulator.ts"
import type { Backend } from "../../src/upstream/providers.ts"
import { ask, callsOf, eventually, failureIn, requestId } from "../contract/calling.ts"
import { onPostgres } from "../store/harness.ts"
import { type Person, startTestGateway, type TestGateway } from "./harness.ts"

type Behaviour = () => Response | Promise<Response> | undefined

/** A simulator behind a door at which it can be made to fail, as a whole or for one of its credentials. */
class Front {
  readonly simulator: Simulator = startSimulator()
  /** The credential of each call that came, also of those that were refused. */
  readonly asked: string[] = []
  underWay = 0
  most = 0
  behaves: Behaviour = () => undefined
  /** Credentials that are not taken. */
  readonly refused = new Map<string, number>()
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: async (request) => {
      const key = (request.headers.get("authorization") ?? request.headers.get("x-api-key") ?? "").replace(
        "Bearer ",
        "",
      )
      this.asked.push(key)
      this.underWay += 1
      this.most = Math.max(this.most, this.underWay)
      try {
        const status = this.refused.get(key)
        if (status !== undefined) return refusal(status)
        const { pathname } = new URL(request.url)
        const { method, headers, signal } = request
        const body = await request.text()
        return (await this.behaves()) ?? (await fetch(this.simulator.url + pathname, { method, headers, body, signal }))
      } finally {
        this.underWay -= 1
      }
    },
  })

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`
  }

  recover(): void {
    this.asked.length = 0
    this.most = 0
    this.refused.clear()
    this.behaves = () => undefined
  }

  async stop(): Promise<void> {
    await this.#server.stop(true)
    await this.simulator.stop()
  }
}

const refusal = (status: number, headers: Readonly<Record<string, string>> = {}): Response =>
  Response.json({ error: { message: "no", type: "error" } }, { status, headers })

const names = ["a", "b", "c"] as const
const fronts = { a: new Front(), b: new Front(), c: new Front() }
const { a, b, c } = fronts
const all = Object.values(fronts)

const credential = (name: string, more: Partial<Credential> = {}): Credential => ({
  name,
  key: { env: "X" },
  weight: 1,
  ...more,
})

/** What one test has found out about a credential is not to be known to the next, so each has providers of its own. */
let turn = 0
const TURNS = 40
const named = (id: string): string => `${id}-${turn}`

/** Providers a, b and c have a credential each; `many` has two at c, and `narrow` one for two calls at a time. */
const backends = Array.from({ length: TURNS }, (_, index): Backend[] => {
  const provider = (id: string, at: keyof typeof fronts): Provider => ({
    id: `${id}-${index}`,
    label: id,
    baseUrl: fronts[at].url,
    credentials: [credential("default")],
    headers: {},
  })
  return [
    ...names.map((id) => ({ provider: provider(id, id), credential: credential("default"), apiKey: id })),
    ...["one", "two"].map((name) => ({ provider: provider("many", "c"), credential: credential(name), apiKey: name })),
    {
      provider: provider("narrow", "c"),
      credential: credential("default", { maxConcurrency: 2 }),
      apiKey: "narrow",
    },
  ]
}).flat()

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({
    backends,
    env: { UPSTREAM_START_TIMEOUT_MS: "600", UPSTREAM_IDLE_TIMEOUT_MS: "600", CAPACITY_WAIT_MS: "3000" },
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterEach(() => {
  all.forEach((front) => front.recover())
  turn += 1
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await Promise.all(all.map((front) => front.stop()))
})

const at = (name: string, more: Partial<UpstreamSeed> = {}): UpstreamSeed => ({
  provider: named(name),
  format: "chat",
  model: "m",
  ...more,
})
/** A pool whose first members come first, so that a test knows whom a call goes to. */
const inOrder = (...upstreams: UpstreamSeed[]) =>
  gateway.model({ format: "chat", upstreams: upstreams.map((one, index) => ({ priority: 50 - index, ...one })) })
const chat = (model: string, more = {}) => ask(gateway, key, "chat", model, more)
const asked = () => all.map((front) => front.asked.length)

interface Row {
  readonly member: string
  readonly status: string
  readonly attempts: number
  readonly charge_micro: bigint
  readonly input_tokens: bigint
  readonly output_tokens: bigint
}
async function rowOf(response: Response): Promise<Row> {
  const rows = await eventually(
    "its record",
    () => gateway.sql<Row[]>`select * from usage where request_id = ${requestId(response)} and part = 0`,
    ({ length }) => length === 1,
  )
  return rows[0] as Row
}

describe("a member that fails before content is not noticed by the customer, and paid once", () => {
  const faults: [name: string, behaves: Behaviour][] = [
    ["an error", () => refusal(500)],
    ["overload", () => refusal(529)],
    ["a 429 that lasts", () => refusal(429, { "retry-after": "30" })],
    ["a refused credential", () => refusal(401)],
    ["nothing paid", () => refusal(402)],
    ["a model that is not there", () => refusal(404)],
    ["a page of somebody else's", () => new Response("<html>", { status: 200 })],
    ["an answer that is none", () => Response.json({ hello: "world" })],
  ]
  test.each(faults)("%s", async (_, behaves) => {
    const model = await inOrder(at("a"), at("b"))
    a.behaves = behaves
    const response = await chat(model)
    expect(response.status).toBe(200)
    expect(asked()).toEqual([1, 1, 0])
    const row = await rowOf(response)
    expect(row).toMatchObject({ status: "ok", member: `${named("b")}/default/m`, attempts: 2 })
    expect(row.charge_micro).toBe(row.input_tokens * 1_000n + row.output_tokens * 5_000n)
  })

  test("a stream that dies before its first word", async () => {
    const model = await inOrder(at("a", { model: "m?fault=reset&after=preamble" }), at("b"))
    const response = await chat(model, { stream: true })
    expect(await response.text()).toEndWith("data: [DONE]\n\n")
    expect(await rowOf(response)).toMatchObject({
      status: "ok",
      member: `${named("b")}/default/m`,
      attempts: 2,
      charge_micro: expect.any(BigInt),
    })
  })

  test("in a format that says it otherwise", async () => {
    const model = await inOrder(at("a", { format: "messages" }), at("b", { format: "responses" }), at("c"))
    a.behaves = () => refusal(503)
    b.behaves = () => refusal(503)
    expect((await chat(model)).status).toBe(200)
    // Stop sequences are nothing that a responses backend can be told, and it is passed over.
    all.forEach((front) => front.asked.splice(0))
    expect((await chat(model, { stop: ["."] })).status).toBe(200)
    expect(asked()).toEqual([1, 0, 1])
  })
})

test("what only some backends do is asked of those alone, and of nobody where none of them is configured", async () => {
  const schema = { type: "object", properties: {}, required: [], additionalProperties: false }
  const more = { response_format: { type: "json_schema", json_schema: { name: "x", strict: true, schema } } }
  const ofChat: Pick<ModelSeed, "features"> = { features: ["structured_outputs"] }
  const both = await gateway.model({
    format: "chat",
    ...ofChat,
    upstreams: [at("a", { format: "messages", priority: 9 }), at("b")],
  })
  expect((await chat(both, more)).status).toBe(200)
  expect(asked()).toEqual([0, 1, 0])
  expect((await chat(both)).status).toBe(200)
  expect(asked()).toEqual([1, 1, 0])
  const unset = await gateway.model({
    format: "chat",
    ...ofChat,
    upstreams: [at("a", { format: "messages" }), { provider: "nobody's", format: "chat", model: "m" }],
  })
  expect((await chat(unset, more)).headers.get("x-error-code")).toBe("dependency.upstream_unconfigured")
  expect((await chat(unset)).status).toBe(200)
})

test("an answer is charged up to the limit that its own member was asked with", async () => {
  // Responses take no limit under 16, which is held; a member that takes the client's counts to its price no more than that.
  const model = await inOrder(at("a", { model: "m?input=10&counted=12" }), at("b", { format: "responses" }))
  const response = await chat(model, { max_tokens: 2 })
  expect(response.status).toBe(200)
  const { charge_micro: charge, output_tokens: output } = await rowOf(response)
  expect([charge, output]).toEqual([10n * 1_000n + 2n * 5_000n, 2n])
})

test("a request that no member's format can say fails as at the first", async () => {
  const model = await inOrder(at("a", { format: "responses" }), at("b", { format: "responses" }))
  const response = await chat(model, { stop: ["."] })
  expect(response.status).toBe(400)
  expect(asked()).toEqual([0, 0, 0])
})

test("a stream that dies in its middle is told as it is, charged nothing, and asked of nobody else", async () => {
  const model = await inOrder(at("a", { model: "m?output=20&fault=reset&after=3" }), at("b"))
  const response = await chat(model, { stream: true })
  expect(failureIn("chat", await response.text())).toBeDefined()
  expect(asked()).toEqual([1, 0, 0])
  expect(await rowOf(response)).toMatchObject({
    status: "upstream_error",
    charge_micro: 0n,
    member: named("a") + "/default/m?output=20&fault=reset&after=3",
  })
})

test("what the customer asks wrongly is asked of one member", async () => {
  const model = await inOrder(at("a"), at("b"))
  a.behaves = () => refusal(400)
  expect((await chat(model)).status).toBe(400)
  expect(asked()).toEqual([1, 0, 0])
})

test("a member that fails three times is left alone, and back after one call that it answers", async () => {
  const model = await inOrder(at("a"), at("b"))
  a.behaves = () => refusal(500)
  for (let n = 0; n < 3; n++) expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([3, 3, 0])
  for (let n = 0; n < 5; n++) expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([3, 8, 0])
  await Bun.sleep(5_100)
  // Still ill: of many calls at once one finds out, and is answered all the same.
  const together = await Promise.all(Array.from({ length: 8 }, () => chat(model)))
  expect(together.map(({ status }) => status)).toEqual(Array(8).fill(200))
  expect(asked()).toEqual([4, 16, 0])
  a.behaves = () => undefined
  await Bun.sleep(10_100)
  expect((await chat(model)).status).toBe(200)
  expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([6, 16, 0])
})

test("a 429 keeps a member free for as long as it says", async () => {
  const model = await inOrder(at("a"), at("b"))
  a.behaves = () => refusal(429, { "retry-after": "3" })
  expect((await chat(model)).status).toBe(200)
  a.behaves = () => undefined
  expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([1, 2, 0])
  await Bun.sleep(3_050)
  expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([2, 2, 0])
})

test.each([401, 402, 403])(
  "a credential that is refused with %d is asked in no model, and the other one is",
  async (status) => {
    const pooled = { provider: named("many"), format: "chat" } as const
    const model = await gateway.model({ format: "chat", upstreams: [{ ...pooled, model: `x${status}` }] })
    const another = await gateway.model({ format: "chat", upstreams: [{ ...pooled, model: `y${status}` }] })
    c.refused.set("one", status)
    const people = await Promise.all(Array.from({ length: 14 }, () => gateway.key(person)))
    const calls = async (of: string) => {
      for (const { key: own } of people) expect((await ask(gateway, own, "chat", of)).status).toBe(200)
    }
    await calls(model)
    const refusals = c.asked.filter((name) => name === "one").length
    expect(refusals).toBeLessThanOrEqual(1)
    await calls(another)
    await calls(model)
    expect(c.asked.filter((name) => name === "one").length).toBeLessThanOrEqual(1)
    expect(c.asked.filter((name) => name === "two").length).toBe(3 * people.length)
  },
)

const says = (message: string) => () => Response.json({ error: { message } }, { status: 400 })

describe("a backend that says by 400 that its purse is empty", () => {
  const words = "Credit balance is too low"

  test("is left to others, and the operator is told", async () => {
    const model = await inOrder(at("a"), at("b"))
    a.behaves = says(`${words}.`)
    const response = await chat(model)
    expect([response.status, asked()]).toEqual([200, [1, 1, 0]])
    a.behaves = () => undefined
    expect([(await chat(model)).status, asked()]).toEqual([200, [1, 2, 0]])
    expect(gateway.complaints.filter((line) => line.includes(requestId(response)))).toHaveLength(1)
  })

  test.each([
    ["quotes its client", `Invalid value: '${words}'.`, { reasoning_effort: words }],
    ["says so in its client's words", `Unknown effort: ${words}`, { reasoning_effort: words }],
    [
      "says so in the words of a large request",
      `Unknown effort: ${words}`,
      { reasoning_effort: words, messages: [{ role: "user", content: "large ".repeat(60_000) }] },
    ],
  ])("or only %s: asked again, and nobody is told", async (_, message, more) => {
    const model = await inOrder(at("a"), at("b"))
    a.behaves = says(message)
    const response = await chat(model, more)
    expect([response.status, await response.json()]).toMatchObject([400, { code: "upstream.invalid_request" }])
    a.behaves = () => undefined
    expect([(await chat(model)).status, asked()]).toEqual([200, [2, 0, 0]])
    expect(gateway.complaints.filter((line) => line.includes(requestId(response)))).toEqual([])
  })
})

test("with no member well the least bad one is asked, and a call is lost only where all fail", async () => {
  const model = await inOrder(at("a"), at("b"))
  a.behaves = () => refusal(429, { "retry-after": "50" })
  b.behaves = () => refusal(429, { "retry-after": "20" })
  const first = await chat(model)
  expect(first.status).toBe(429)
  expect(asked()).toEqual([1, 1, 0])
  b.behaves = () => undefined
  expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([1, 2, 0])
})

test("a chain of models is followed once no member of the first is left", async () => {
  const second = await gateway.model({ format: "chat" })
  const model = await gateway.model({
    format: "chat",
    upstreams: [at("a", { priority: 2 }), at("b", { priority: 1 })],
    fallback: [second],
  })
  a.behaves = () => refusal(429, { "retry-after": "30" })
  b.behaves = () => refusal(500)
  const response = await chat(model)
  expect([response.status, response.headers.get("x-model")]).toEqual([200, second])
  const rows = await gateway.sql<Row[]>`select * from usage where request_id = ${requestId(response)} order by part`
  expect(rows.map(({ status, member, charge_micro }) => [status, member, charge_micro > 0n])).toEqual([
    ["ok", `simulated/default/${second}`, true],
    ["fallback_429", expect.stringMatching(/^[ab]-\d+\/default\/m$/), false],
  ])
})

test("one that hangs costs its call, and after three the others go elsewhere", async () => {
  const model = await inOrder(at("a", { model: "m?fault=silent" }), at("b"))
  const hung = await Promise.all(Array.from({ length: 3 }, () => chat(model)))
  expect(hung.map(({ status }) => status)).toEqual([502, 502, 502])
  expect((await chat(model)).status).toBe(200)
  expect(asked()).toEqual([3, 1, 0])
})

describe("limits", () => {
  test("a member is asked for no more at once than it takes, and another one takes the rest", async () => {
    const model = await inOrder(at("a", { max_concurrency: 3, model: "m?ttft=300" }), at("b", { model: "m?ttft=300" }))
    const answers = await Promise.all(Array.from({ length: 12 }, () => chat(model)))
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200))
    expect([a.most, a.asked.length, b.asked.length]).toEqual([3, 3, 9])
  })

  test("a credential's hold over all models that use it, and calls wait for it", async () => {
    const narrow = { provider: named("narrow"), format: "chat", model: "m?ttft=60" } as const
    const models = await Promise.all([1, 2].map(() => gateway.model({ format: "chat", upstreams: [narrow] })))
    const answers = await Promise.all(models.flatMap((model) => [1, 2, 3].map(() => chat(model))))
    expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200))
    expect(c.most).toBe(2)
  })

  test("requests and tokens of a minute pass a member over, and with nobody left there is no room", async () => {
    const model = await inOrder(at("a", { requests_per_minute: 2 }), at("b", { tokens_per_minute: 150 }))
    const answers: number[] = []
    for (let n = 0; n < 2; n++) answers.push((await chat(model, { max_tokens: 50 })).status)
    expect(answers).toEqual([200, 200])
    expect(asked()).toEqual([2, 0, 0])
    let status = 200
    for (let n = 0; n < 40 && status === 200; n++) status = (await chat(model, { max_tokens: 50 })).status
    expect(status).toBe(429)
    expect(b.asked.length).toBeGreaterThan(0)
    expect(a.asked.length).toBe(2)
  })
})

test("the budget keeps an outage of several models from being multiplied", async () => {
  const model = await inOrder(at("a"), at("b"), at("c"))
  all.forEach((front) => (front.behaves = () => refusal(500)))
  const answers = await Promise.all(Array.from({ length: 60 }, () => chat(model)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([502]))
  // Sixty calls, and the twenty retries that there are in any case.
  expect(asked().reduce((sum, one) => sum + one)).toBeLessThanOrEqual(60 + 20)
})

/** So many conversations, each of one call. */
async function converse(of: TestGateway, apiKey: string, model: string, count: number): Promise<void> {
  let next = 0
  const one = async () => {
    while (next < count) {
      const response = await ask(of, apiKey, "chat", model, { prompt_cache_key: `conversation ${next++}` })
      if (!response.ok) throw new Error(await response.text())
      await response.arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: 32 }, one))
}

test("calls are shared as the weights say, each record names its member, and a conversation stays", async () => {
  const model = await gateway.model({
    format: "chat",
    upstreams: [at("a", { weight: 1 }), at("b", { weight: 2 }), at("c", { weight: 5 })],
  })
  await converse(gateway, key, model, 2_400)
  // Drawn with a secret of the installation: six standard deviations. That it is within 3 %, forty thousand conversations of
  // test/actors/pool.test.ts say, which are always the same.
  for (const [index, weight] of [1, 2, 5].entries())
    expect(Math.abs((asked()[index] ?? 0) / 2_400 - weight / 8)).toBeLessThan(0.06)
  const rows = await eventually(
    "all records",
    () => gateway.sql<{ member: string; calls: number }[]>`
      select member, count(*)::integer as calls from usage where model = ${model} group by member order by member`,
    (found) => found.reduce((total, { calls }) => total + calls, 0) === 2_400,
  )
  expect(rows.map(({ member, calls }) => [member, calls])).toEqual(
    names.map((name, index) => [`${named(name)}/default/m`, asked()[index] ?? 0]),
  )
  all.forEach((front) => front.recover())
  for (let n = 0; n < 20; n++) await ask(gateway, key, "chat", model, { prompt_cache_key: "one" })
  expect(asked().sort((one, other) => one - other)).toEqual([0, 0, 20])
})

// Behind the many calls before it, so that the budget of retries is no bound here.

test("a stream that dies in its middle ends its call, although a member before it was throttled and the chain goes on", async () => {
  const second = await gateway.model({ format: "chat" })
  const dying = at("b", { model: "m?output=20&fault=reset&after=3", priority: 1 })
  const upstreams = [at("a", { priority: 2 }), dying]
  const model = await gateway.model({ format: "chat", upstreams, fallback: [second] })
  a.behaves = () => refusal(429, { "retry-after": "30" })
  const response = await chat(model, { stream: true })
  expect(failureIn("chat", await response.text())).toBeDefined()
  expect(asked()).toEqual([1, 1, 0])
  expect(callsOf(gateway, second)).toEqual([])
  expect(await rowOf(response)).toMatchObject({ status: "upstream_error", charge_micro: 0n, attempts: 2 })
})

const tooLong = () =>
  Response.json({ error: { message: "no", type: "error", code: "context_length_exceeded" } }, { status: 400 })
const throttled = () => refusal(429, { "retry-after": "30" })
const broken = () => refusal(500)

test.each([
  ["throttled, too long, broken", [throttled, tooLong, broken], 429],
  ["too long, throttled, broken", [tooLong, throttled, broken], 429],
  ["broken, too long, throttled", [broken, tooLong, throttled], 429],
  ["broken, too long, broken", [broken, tooLong, broken], 400],
  ["broken, broken, too long", [broken, broken, tooLong], 400],
] as const)("of what all members say, that is told which another model may help: %s", async (_, say, status) => {
  const model = await inOrder(at("a"), at("b"), at("c"))
  for (const [index, front] of all.entries()) front.behaves = say[index] ?? broken
  expect((await chat(model)).status).toBe(status)
  expect(asked()).toEqual([1, 1, 1])
})

test("no member is named to a customer", async () => {
  const model = await inOrder(at("a"))
  const response = await chat(model)
  const id = requestId(response)
  const texts = [await response.text(), JSON.stringify([...response.headers])]
  for (const path of [`/usage/${id}`, "/usage"]) texts.push(await (await gateway.dashboard(person, path)).text())
  for (const text of texts) expect(text).not.toContain(`${named("a")}/`)
})

describe.if(onPostgres)("two processes on one database", () => {
  let url = ""
  let two: TestGateway[] = []

  beforeAll(async () => {
    const first = await startTestGateway({ backends, databaseUrl: (own) => (url = own) })
    two = [first, await startTestGateway({ backends, databaseUrl: () => url })]
  })
  afterAll(async () => {
    for (const one of two.reverse()) await one[Symbol.asyncDispose]()
  })

  test("ask the same member for a conversation, and no more of one together than it takes", async () => {
    const [one, other] = two as [TestGateway, TestGateway]
    const somebody = await one.person(1_000_000)
    const { key: own } = await one.key(somebody)
    const model = await one.model({ format: "chat", upstreams: [at("a"), at("b"), at("c", { weight: 2 })] })
    await other.server.refreshCatalogue()
    await converse(one, own, model, 100)
    await converse(other, own, model, 100)
    const rows = await eventually(
      "all records",
      () => one.sql<{ calls: number }[]>`
        select count(*)::integer as calls from usage where model = ${model}`,
      ([found]) => found?.calls === 200,
    )
    expect(rows).toHaveLength(1)
    const counts = asked()
    expect(counts.map((count) => count % 2)).toEqual([0, 0, 0])
    all.forEach((front) => front.recover())
    await converse(other, own, model, 100)
    expect(asked()).toEqual(counts.map((count) => count / 2))

    const slow = "m?ttft=300"
    const bounded = await one.model({
      format: "chat",
      upstreams: [at("a", { priority: 1, max_concurrency: 5, model: slow }), at("b", { model: slow })],
    })
    await other.server.refreshCatalogue()
    all.forEach((front) => front.recover())
    const answers = await Promise.all(
      two.flatMap((gateway) => Array.from({ length: 12 }, () => ask(gateway, own, "chat", bounded))),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(a.most).toBe(5)
  })
})
