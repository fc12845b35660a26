/** Random bytes and mutated bodies to every endpoint: an error of the catalogue or a success, never a bug. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import * as fc from "fast-check"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { bugs } from "./expect-failure.ts"
import { mutate, mutations, problemOf } from "./fuzzing.ts"

let gateway: TestGateway
let apiKey: string
let token: string

beforeAll(async () => {
  gateway = await startTestGateway()
  const person = await gateway.person(1_000_000)
  apiKey = (await gateway.key(person)).key
  token = person.token
  for (const format of ["chat", "messages", "responses"] as const) {
    await gateway.model({ format, model: `fuzzed-${format}`, supports_vision: true, features: ["structured_outputs"] })
  }
})
afterAll(() => gateway[Symbol.asyncDispose]())

const user = { role: "user", content: "Hello" }
const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } }
const schema = { type: "object", properties: { a: { type: "string" } } }
/** Valid bodies with much in them, by the path that they are for. */
const valid: Record<string, object> = {
  "/v1/chat/completions": {
    model: "fuzzed-chat",
    messages: [
      { role: "system", content: "Be brief." },
      user,
      { role: "user", content: [{ type: "text", text: "a" }] },
    ],
    max_tokens: 10,
    n: 1,
    tools: [{ type: "function", function: { name: "a", parameters: schema } }],
    response_format: { type: "json_schema", json_schema: { name: "a", schema } },
    stream_options: { include_usage: true },
    stream: true,
  },
  "/v1/messages": {
    model: "fuzzed-messages",
    max_tokens: 10,
    system: [{ type: "text", text: "Be brief." }],
    messages: [{ role: "user", content: [{ type: "text", text: "a" }, image] }],
    tools: [{ name: "a", input_schema: schema }],
    thinking: { type: "enabled", budget_tokens: 1_024 },
    output_config: { format: { type: "json_schema", schema } },
    stream: false,
  },
  "/v1/messages/count_tokens": {
    model: "fuzzed-messages",
    messages: [user],
    tools: [{ name: "a", input_schema: schema }],
  },
  "/v1/responses": {
    model: "fuzzed-responses",
    input: [user, { type: "function_call", call_id: "c", name: "a", arguments: "{}" }],
    instructions: "Be brief.",
    max_output_tokens: 10,
    tools: [{ type: "function", name: "a", parameters: schema }],
    text: { format: { type: "text" } },
    stream: true,
  },
  "/v1/responses/input_tokens": { model: "fuzzed-responses", input: [user], instructions: "Be brief." },
  "/keys": { name: "a", requests_per_minute: 5, spending_limit_micro: 5, spending_period: "daily" },
  "/top-ups": { amount_rp: 10_000 },
  "/webhooks/payments/simulated": { top_up_id: "top_1", status: "paid", amount_rp: 10_000 },
}
const paths = Object.keys(valid)

const judge = async (response: Response) => expect(await problemOf(response)).toBeUndefined()

const send = (path: string, body: string | Uint8Array<ArrayBuffer>) =>
  fetch(gateway.url + path, {
    method: "POST",
    headers: path.startsWith("/v1/") ? { "x-api-key": apiKey } : { Authorization: `Bearer ${token}` },
    body,
  })

const bounded = { numRuns: 1_000, interruptAfterTimeLimit: 3_000, markInterruptAsFailure: false }

test("a mutated body is a success or an error of the catalogue, and never a bug", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...paths), mutations, async (path, changes) => {
      await judge(await send(path, JSON.stringify(mutate(valid[path] ?? {}, changes)) ?? ""))
    }),
    bounded,
  )
  expect(bugs(gateway)).toEqual([])
})

test("so are random bytes, and valid bodies with random bytes in them", async () => {
  const bytes = fc.uint8Array({ maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...paths), fc.nat(400), bytes, fc.boolean(), async (path, at, noise, alone) => {
      const whole = Buffer.from(JSON.stringify(valid[path]))
      const body = alone ? noise : Buffer.concat([whole.subarray(0, at), noise, whole.subarray(at + noise.length)])
      await judge(await send(path, new Uint8Array(body)))
    }),
    bounded,
  )
  expect(bugs(gateway)).toEqual([])
})

test("so are random paths, queries, keys and headers", async () => {
  const part = fc.oneof(
    fc.constantFrom(
      "v1",
      "models",
      "usage",
      "keys",
      "messages",
      "chat",
      "completions",
      "..",
      "%2e",
      "%ff",
      "%00",
      "",
      "*",
    ),
    fc.string({ maxLength: 8 }).map((text) => encodeURIComponent(text.toWellFormed())),
  )
  const method = fc.constantFrom("GET", "POST", "PATCH", "DELETE", "PUT", "OPTIONS")
  const secret = fc.oneof(
    fc.string({ unit: fc.constantFrom("s", "k", "-", "l", "o", "e", "t", " ", "0", "A", "%", '"'), maxLength: 60 }),
    fc.constant(apiKey),
    fc.constant(token),
  )
  await fc.assert(
    fc.asyncProperty(
      method,
      fc.array(part, { maxLength: 4 }),
      secret,
      fc.boolean(),
      async (verb, parts, by, bearer) => {
        const headers = bearer ? { Authorization: `Bearer ${by}` } : { "x-api-key": by }
        await judge(await fetch(`${gateway.url}/${parts.join("/")}?${parts.join("&")}`, { method: verb, headers }))
      },
    ),
    bounded,
  )
  expect(bugs(gateway)).toEqual([])
})
