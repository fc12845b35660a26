/** Long answers that do not stream are asked for as streams and gathered, so that only silence ends them (decisions §13.12). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, callsOf, formats, requestId, rowsOf } from "./calling.ts"
import { covers } from "./rows.ts"

const START_MS = 600
const IDLE_MS = 500

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { UPSTREAM_START_TIMEOUT_MS: String(START_MS), UPSTREAM_IDLE_TIMEOUT_MS: String(IDLE_MS) },
  })
  person = await gateway.person(100_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const long = { max_output_tokens: 20_000 }
const limitOf = { chat: "max_tokens", messages: "max_tokens", responses: "max_output_tokens" } as const
/** 12 pieces of text, 100 ms apart: twice the start's timeout, without a silence. */
const slow = "input=10&output=12&pace=100"

const textOf = (body: JsonObject): string => {
  const { choices, content, output } = body as {
    choices?: { message: { content: string } }[]
    content?: { text: string }[]
    output?: { content: { text: string }[] }[]
  }
  return choices?.[0]?.message.content ?? content?.[0]?.text ?? output?.[0]?.content[0]?.text ?? ""
}

describe(covers("13.12"), () => {
  const pairs = formats.flatMap((client) => formats.map((backend) => [client, backend] as const))

  test.concurrent.each(pairs)(
    "a %s answer of a %s backend that takes longer than the start may is whole and charged",
    async (client, backend) => {
      const model = await gateway.model({ format: backend, script: slow, ...long, endpoints: [client] })
      const response = await ask(gateway, key, client, model, { [limitOf[client]]: 9_000 })
      expect(response.status).toBe(200)
      expect(response.headers.get("content-type")).toStartWith("application/json")
      const body = (await response.json()) as JsonObject
      expect(body["model"]).toBe(model)
      expect(textOf(body).length).toBeGreaterThan(40)
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "ok", attempts: 1, flagged: false }])
      const [call] = callsOf(gateway, model)
      expect(call?.body).toMatchObject({ stream: true })
    },
  )

  test("at 8,192 tokens and under it is asked for as it is, and so where the model's switch is off", async () => {
    const model = await gateway.model({ format: "chat", script: "input=10&output=2", ...long })
    const off = await gateway.model({ format: "chat", script: "input=10&output=2", ...long, gather: false })
    for (const [asked, limit, stream] of [
      [model, 8_192, undefined],
      [model, 8_193, true],
      [off, 9_000, undefined],
    ] as const) {
      const response = await ask(gateway, key, "chat", asked, { max_tokens: limit })
      expect(response.status).toBe(200)
      const call = callsOf(gateway, asked).at(-1)
      expect(call?.body?.["stream"]).toBe(stream)
    }
  })

  test.each(["none", "null"])("a messages backend that counts %s is told of alike, gathered or not", async (usage) => {
    const estimate = { input_tokens: expect.any(Number) as number, output_tokens: 0 }
    const told = { chat: undefined, messages: estimate, responses: null }
    for (const gather of [true, false]) {
      const script = `usage=${usage}&text=counted by nobody`
      const model = await gateway.model({ format: "messages", script, ...long, endpoints: [...formats], gather })
      for (const client of formats) {
        const response = await ask(gateway, key, client, model, { [limitOf[client]]: 9_000 })
        const body = (await response.json()) as JsonObject
        expect(callsOf(gateway, model).at(-1)?.body?.["stream"] ?? false).toBe(gather)
        expect(body["usage"]).toEqual(told[client])
        if (client === "messages") expect((body["usage"] as JsonObject)["input_tokens"]).toBeGreaterThan(0)
        expect(await rowsOf(gateway, requestId(response))).toMatchObject([{ status: "usage_missing" }])
      }
    }
  })

  test("silence ends it, as it ends a stream", async () => {
    const model = await gateway.model({
      format: "chat",
      script: "input=10&output=6&fault=stall&after=2&stall=5000",
      ...long,
    })
    const response = await ask(gateway, key, "chat", model, { max_tokens: 9_000 })
    expect(response.status).toBe(502)
    expect(response.headers.get("x-error-code")).toBe("dependency.upstream_unavailable")
  })

  test("what breaks off is tried again, for nothing of it was committed", async () => {
    const model = await gateway.model({
      format: "messages",
      script: "input=10&output=6&fault=cut&after=3&times=1",
      ...long,
    })
    const response = await ask(gateway, key, "messages", model, { max_tokens: 9_000 })
    expect(response.status).toBe(200)
    expect(await rowsOf(gateway, requestId(response))).toMatchObject([
      { part: 0, status: "ok", attempts: 2 },
      // Its backend bills the first try too.
      { part: 1, status: "upstream_error", charge_micro: 0n },
    ])
    expect(callsOf(gateway, model)).toHaveLength(2)
  })
})
