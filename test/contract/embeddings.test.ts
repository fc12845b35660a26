/** `POST /v1/embeddings`: there once a model has it, in the books as any call, and bounded whatever is sent. */
import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test"
import OpenAI from "openai"
import { RecentUse } from "../../src/bodies/bodies.ts"
import { hasNoInside } from "../gateway/binary.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { eventually } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { RawClient } from "./raw-client.ts"

let gateway: TestGateway
let person: Person
let key: string
let model: string

const PATH = "/v1/embeddings"
const embed = (body: object | string, by = key) => gateway.post(PATH, by, body)
const forwarded = () => gateway.simulator.calls.at(-1)?.body ?? {}
const ids = (count: number) => Array.from({ length: count }, (_, index) => index)

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

test("there is no such path until a model is served there, for nobody and with no method", async () => {
  const chat = await gateway.model({ format: "chat" })
  for (const method of ["GET", "POST", "OPTIONS"])
    await expectFailure(await fetch(gateway.url + PATH, { method }), 404, "route.not_found")
  await expectFailure(await embed({ model: chat, input: "Hello" }), 404, "route.not_found")
  model = await gateway.model({ format: "embeddings", output_micro: 0, script: "input=100" })
  await expectFailure(await embed({ model: chat, input: "Hello" }), 400, "request.invalid")
  await expectFailure(await fetch(gateway.url + PATH), 405, "request.method_not_allowed")
  await expectFailure(await fetch(gateway.url + PATH, { method: "POST", body: "{}" }), 401, "auth.api_key_missing")
  const list = (await (await fetch(`${gateway.url}/models`)).json()) as {
    data: { model: string; endpoints: string[] }[]
  }
  expect(list.data.find((one) => one.model === model)?.endpoints).toEqual(["embeddings"])
})

describe("a call", () => {
  test("is charged for its input alone, and has a record of its own", async () => {
    const before = await gateway.balance(person)
    const response = await embed({ model, input: "Hello", user: "u1", dimensions: 4, x_new: 1 })
    expect(response.status).toBe(200)
    expect(response.headers.get("x-cost-rp")).toBe("0.1")
    expect(response.headers.get("x-dropped-fields")).toBe("x_new")
    expect(await response.json()).toEqual({
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: [1, 0, 0, 0] }],
      model,
      usage: { prompt_tokens: 100, total_tokens: 100 },
    })
    const sent = forwarded()
    expect(sent).toMatchObject({
      input: "Hello",
      dimensions: 4,
      user: expect.stringMatching(/^[0-9a-f]{32}-[0-9a-f]{31}$/),
    })
    expect(Object.keys(sent).toSorted()).toEqual(["dimensions", "input", "model", "user"])
    const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
    expect(record).toMatchObject({
      model,
      endpoint: "embeddings",
      status: "ok",
      input_tokens: 100,
      output_tokens: 0,
      charge_micro: 100_000,
    })
    const after = await gateway.balance(person)
    expect([before.balance_micro - after.balance_micro, after.held_micro]).toEqual([100_000, 0])
  })

  test("through OpenAI's package comes in base64, as it asks for by itself, or in numbers", async () => {
    const openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1` })
    const own = await openai.embeddings.create({ model, input: ["one", "two"], dimensions: 3 })
    expect(forwarded()["encoding_format"]).toBe("base64")
    expect(own.data.map(({ embedding }) => embedding)).toEqual([
      [1, 0, 0],
      [0, 1, 0],
    ])
    const numbers = await openai.embeddings.create({ model, input: [1, 2, 3], encoding_format: "float" })
    expect(forwarded()["input"]).toEqual([1, 2, 3])
    expect(numbers.data[0]?.embedding).toHaveLength(8)
    expect(numbers.model).toBe(model)
  })

  test("may have many texts, each with the model's window for itself", async () => {
    const small = await gateway.model({ format: "embeddings", context_window: 100, input_micro: 1 })
    const text = "one two three four five six seven eight nine ten"
    const many = { model: small, input: Array.from({ length: 50 }, () => text), encoding_format: "base64" }
    const response = await embed(many)
    expect(response.status).toBe(200)
    const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
    // All of what the backend counted, which is more than one window.
    expect(record).toMatchObject({ status: "ok", input_tokens: 50 * 12, charge_micro: 600 })
    await expectFailure(
      await embed({ model: small, input: `${text} `.repeat(20) }),
      400,
      "upstream.context_length_exceeded",
    )
  })

  test("whose counts cannot be read is free, and one that counts output is not charged for it", async () => {
    for (const [script, status, charge] of [
      ["usage=none", "usage_missing", 0],
      ["usage=negative", "usage_missing", 0],
      ["input=0", "usage_missing", 0],
      ["input=7&counted=90", "ok", 7_000],
    ] as const) {
      const odd = await gateway.model({ format: "embeddings", script })
      const response = await embed({ model: odd, input: "Hello" })
      const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
      expect(record).toMatchObject({ status, charge_micro: charge })
    }
  })

  test("that fails is tried again and then told, free", async () => {
    const shaky = await gateway.model({ format: "embeddings", script: "fault=status&status=503&times=1" })
    expect((await embed({ model: shaky, input: "Hello" })).status).toBe(200)
    for (const script of ["fault=cut", "fault=garbage", "fault=status&status=500"]) {
      const broken = await gateway.model({ format: "embeddings", script })
      const response = await embed({ model: broken, input: "Hello" })
      await expectFailure(response, 502, "dependency.upstream_unavailable")
    }
    expect((await gateway.balance(person)).held_micro).toBe(0)
  })

  test("is not for an empty account, a revoked key or a key that is bound to others", async () => {
    const poor = await gateway.person()
    const { key: empty, id } = await gateway.key(poor)
    await expectFailure(await embed({ model, input: "Hello" }, empty), 402, "billing.insufficient_balance")
    await gateway.dashboard(poor, `/keys/${id}/revoke`, { method: "POST" })
    await expectFailure(await embed({ model, input: "Hello" }, empty), 401, "auth.api_key_revoked")
    const bound = await gateway.key(person, { endpoints: ["chat", "messages", "responses", "completions"] })
    await expectFailure(await embed({ model, input: "Hello" }, bound.key), 403, "auth.key_not_allowed")
    const fits = await gateway.key(person, { endpoints: ["embeddings"] })
    expect((await embed({ model, input: "Hello" }, fits.key)).status).toBe(200)
  })
})

describe("an input", () => {
  test.each([
    ["nothing", undefined],
    ["null", null],
    ["an empty text", ""],
    ["an empty list", []],
    ["an empty text in a list", ["a", ""]],
    ["an object", {}],
    ["texts and token ids", ["a", 1]],
    ["token ids and texts", [1, "a"]],
    ["a fraction", [1.5]],
    ["a negative id", [[-1]]],
    ["an id that is too large", [2 ** 31]],
    ["lists in lists in lists", [[[1]]]],
    ["2,049 texts", ids(2_049).map(String)],
  ])("of %s is refused", async (_, input) => {
    await expectFailure(await embed({ model, input, encoding_format: "base64" }), 400, "request.invalid_request")
  })

  test("of 100 texts is answered in numbers, of 2,048 in base64 alone", async () => {
    const wide = { model, dimensions: 3_072 }
    const numbers = await embed({ ...wide, input: ids(100).map(String) })
    expect(((await numbers.json()) as { data: unknown[] }).data).toHaveLength(100)
    await expectFailure(await embed({ ...wide, input: ids(101).map(String) }), 400, "request.invalid_request")
    const base64 = await embed({ ...wide, input: ids(2_048).map(String), encoding_format: "base64" })
    expect(((await base64.json()) as { data: unknown[] }).data).toHaveLength(2_048)
  })

  test.skipIf(hasNoInside)(
    "whose vectors take much of the thread waits with the next, and nobody else does",
    async () => {
      const heavy = { model, dimensions: 4_096, input: ids(100).map(String), encoding_format: "float" }
      const busy = await gateway.person(100_000)
      const [own, other] = [(await gateway.key(busy)).key, (await gateway.key(await gateway.person(100_000))).key]
      using added = spyOn(RecentUse.prototype, "add")
      expect((await embed(heavy, own)).status).toBe(200)
      const call = added.mock.calls.findIndex(([accountId, ms]) => accountId === busy.accountId && ms > 0)
      const use = added.mock.contexts[call]
      if (!(use instanceof RecentUse)) throw new Error("nothing was counted")
      // It is under 700 again after 1.9 s.
      use.add(busy.accountId, 800 - use.by(busy.accountId))
      const ended: string[] = []
      const begunAt = performance.now()
      await Promise.all(
        [own, other].map(async (by) => {
          expect((await embed(heavy, by)).status).toBe(200)
          ended.push(by)
        }),
      )
      expect(ended).toEqual([other, own])
      expect(performance.now() - begunAt).toBeGreaterThan(1_900)
      use.add(busy.accountId, 800)
      expect((await embed({ model, input: "Hello" }, own)).status).toBe(200)
      expect(use.by(busy.accountId)).toBeGreaterThan(700)
    },
  )

  test("of 500,000 token ids is read, of a million it is not; other values stay 200,000", async () => {
    const lists = (count: number) => Array.from({ length: count / 1_000 }, () => ids(1_000))
    const cheap = await gateway.model({ format: "embeddings", context_window: 8_192, input_micro: 1 })
    const asked = { model: cheap, encoding_format: "base64" }
    const response = await embed({ ...asked, input: lists(500_000) })
    expect(response.status).toBe(200)
    const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
    expect(record).toMatchObject({ input_tokens: 500_000, charge_micro: 500_000 })
    await expectFailure(await embed({ ...asked, input: lists(1_000_000) }), 400, "request.invalid")
    await expectFailure(await embed({ ...asked, input: Array(200_001).fill("a") }), 400, "request.invalid")
    await expectFailure(
      await embed({ ...asked, x: Object.fromEntries(ids(200_001).map((id) => [id, id])) }),
      400,
      "request.invalid",
    )
    // Where there are no token ids, no number is one.
    const chat = { model: "plain", messages: [{ role: "user", content: "Hello" }], metadata: ids(200_001) }
    await expectFailure(await gateway.post("/v1/chat/completions", key, chat), 400, "request.invalid")
  })

  test("that nests deep is refused in no time", async () => {
    const deep = `{"model":"${model}","input":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}}`
    await expectFailure(await embed(deep), 400, "request.invalid")
  })
})

/** Where one account has room for one large answer. */
const small = () => startTestGateway({ env: { MAX_BODY_BYTES: "1048576", BODY_MEMORY_BYTES: "50331648" } })

describe("large answers", () => {
  const LARGE = { dimensions: 1_024, input: ids(2_048).map(String), encoding_format: "base64" }

  test("of an account take their room before anything is forwarded, and leave the others theirs", async () => {
    await using narrow = await small()
    const [one, other] = [await narrow.person(1_000_000), await narrow.person(1_000_000)]
    const [mine, theirs] = [(await narrow.key(one)).key, (await narrow.key(other)).key]
    const slow = await narrow.model({ format: "embeddings", script: "ttft=1500" })
    const large = (by: string) => narrow.post(PATH, by, { ...LARGE, model: slow })
    const first = large(mine)
    while (narrow.simulator.calls.length === 0) await Bun.sleep(5)
    const refused = await large(mine)
    expect(refused.headers.get("retry-after")).toBe("1")
    await expectFailure(refused, 429, "gateway.capacity")
    expect(narrow.simulator.calls).toHaveLength(1)
    const [little, theirOwn] = await Promise.all([narrow.post(PATH, mine, { model: slow, input: "a" }), large(theirs)])
    expect([little.status, theirOwn.status, (await first).status]).toEqual([200, 200, 200])
    await (await first).arrayBuffer()
    await theirOwn.arrayBuffer()
    const again = await large(mine)
    expect([again.status, again.headers.has("x-cost-rp")]).toEqual([200, true])
    expect(((await again.json()) as { data: unknown[] }).data).toHaveLength(2_048)
    expect((await narrow.balance(one)).held_micro).toBe(0)
  })

  test("take their room until they are read, or their reader is gone", async () => {
    await using narrow = await small()
    const quick = await narrow.model({ format: "embeddings" })
    for (const leaves of [false, true]) {
      const { key: paid } = await narrow.key(await narrow.person(1_000_000))
      const large = () => narrow.post(PATH, paid, { ...LARGE, model: quick })
      const stopped = new RawClient(narrow.url, paid, { ...LARGE, model: quick, messages: undefined }, PATH)
      stopped.pauseAfterFirst()
      await stopped.until(/^HTTP\/1\.1 200/)
      await expectFailure(await large(), 429, "gateway.capacity")
      await Bun.sleep(300)
      await expectFailure(await large(), 429, "gateway.capacity")
      if (leaves) stopped.leave()
      else {
        stopped.resume()
        await stopped.over
        const body = stopped.text.replace(/\r\n[0-9a-f]+\r\n/g, "")
        expect(body.match(/"index":/g)?.length).toBe(2_048)
      }
      const answer = await eventually("there is room again", large, ({ status }) => status === 200)
      await answer.arrayBuffer()
    }
  })
})

test("encoding_format is float or base64, and dimensions a count", async () => {
  for (const more of [{ encoding_format: "int8" }, { encoding_format: 1 }, { dimensions: 0 }, { dimensions: "8" }])
    await expectFailure(await embed({ model, input: "Hello", ...more }), 400, "request.invalid_request")
})

test("a dry run says what it would hold", async () => {
  const response = await gateway.post(PATH, key, { model, input: ids(1_000) }, { headers: { "X-Dry-Run": "true" } })
  expect(response.status).toBe(200)
  const report = (await response.json()) as Record<string, unknown>
  expect(JSON.stringify(report)).toContain('"input_tokens"')
})
