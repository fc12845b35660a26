/** Large bodies over HTTP, worked on by the worker: each pair of formats, streamed and not, is answered as small ones are. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Translated } from "../../src/language/request.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, formats } from "./calling.ts"
import { bugs, expectFailure } from "./expect-failure.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** The simulator repeats the beginning of what it is told. */
const SMALL = "Hello there, this is a long story. ".repeat(9)
const LARGE = SMALL.repeat(1_000)
/** Beyond what is worked on at once, by its values alone. */
const parts = Array.from({ length: 2_500 }, () => ({ type: "text", text: "a" }))
const rows = formats.flatMap((client) =>
  formats.flatMap((backend) => [false, true].map((stream) => [client, backend, stream] as const)),
)
const said = (format: Translated, content: unknown) =>
  format === "responses" ? { input: [{ role: "user", content }] } : { messages: [{ role: "user", content }] }
const model = (client: Translated, format: Translated, more: object = {}) =>
  gateway.model({
    format: client,
    model: `m${crypto.randomUUID()}`,
    upstreams: [{ provider: "simulated", format, model: "there" }],
    context_window: null,
    ...more,
  })
/** Without what differs from call to call. */
const plain = (text: string) =>
  text
    .replaceAll(/"(?:id|item_id|created|created_at|model|system_fingerprint)":("[^"]*"|\d+)|request_id=\w+/g, "")
    .replaceAll(/\d+/g, "")

test.each(rows)("%s on %s, stream %p", async (client, backend, stream) => {
  const id = await model(client, backend)
  const large = await ask(gateway, key, client, id, { stream, ...said(client, LARGE) })
  expect(large.status).toBe(200)
  const heard = await large.text()
  const body = JSON.stringify(gateway.simulator.calls.at(-1)?.body)
  expect(body).toContain(LARGE)
  const small = await ask(gateway, key, client, id, { stream, ...said(client, SMALL) })
  const expected = await small.text()
  expect(plain(body.replace(LARGE, SMALL))).toBe(plain(JSON.stringify(gateway.simulator.calls.at(-1)?.body)))
  expect(plain(heard)).toBe(plain(expected))
  expect(await gateway.usage(person, large.headers.get("x-request-id") ?? "")).toMatchObject({ status: "ok" })
})

test("a body of many values is worked on there too, whatever its size, and refused in the same order", async () => {
  const id = await model("chat", "messages")
  expect((await ask(gateway, key, "chat", id, said("chat", parts))).status).toBe(200)
  const unknown = { ...said("chat", [...parts, { type: 7 }]), model: "nothing" }
  await expectFailure(await ask(gateway, key, "chat", "nothing", unknown), 400, "model.unknown")
  await expectFailure(
    await ask(gateway, key, "chat", id, said("chat", [...parts, { type: 7 }])),
    400,
    "request.invalid_request",
  )
  await expectFailure(await ask(gateway, key, "messages", id, said("messages", parts)), 400, "request.invalid")
})

test("what a large body asks and its format or its model has not is refused before anything is held", async () => {
  const toResponses = await model("chat", "responses")
  const more = { ...said("chat", LARGE), stop: ["."] }
  await expectFailure(await ask(gateway, key, "chat", toResponses, more), 400, "request.unsupported_feature")
  const toolless = await model("chat", "chat", { supports_tools: false })
  const tools = [{ type: "function", function: { name: "f" } }]
  const asked = await ask(gateway, key, "chat", toolless, { ...said("chat", LARGE), tools })
  await expectFailure(asked, 400, "request.unsupported_feature")
  const unsupported = await model("chat", "chat", { unsupported: ["logit_bias"] })
  const biased = await ask(gateway, key, "chat", unsupported, { ...said("chat", LARGE), logit_bias: { 1: 2 } })
  await expectFailure(biased, 400, "request.unsupported_feature")
  expect(await gateway.balance(person)).toMatchObject({ held_micro: 0 })
})

test("a reroute writes it for the next model, and each retry sends it anew", async () => {
  const next = await model("chat", "messages")
  const first = await model("chat", "chat", {
    fallback: [next],
    upstreams: [{ provider: "simulated", format: "chat", model: "there?fault=status&status=429" }],
  })
  const before = gateway.simulator.calls.length
  const response = await ask(gateway, key, "chat", first, said("chat", LARGE))
  expect(response.status).toBe(200)
  expect(((await response.json()) as { model: string }).model).toBe(next)
  for (const call of gateway.simulator.calls.slice(before)) expect(JSON.stringify(call.body)).toContain(LARGE)
  expect(gateway.simulator.calls.length).toBeGreaterThan(before + 1)
})

test("its tokens are counted as those of small ones are", async () => {
  const id = await model("messages", "messages")
  const count = async (content: string) => {
    const response = await gateway.post("/v1/messages/count_tokens", key, { model: id, ...said("messages", content) })
    return ((await response.json()) as { input_tokens: number }).input_tokens
  }
  const [half, whole] = [await count("word ".repeat(50_000)), await count("word ".repeat(100_000))]
  expect(whole / half).toBeCloseTo(2, 2)
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})

const ones = (length: number) => Array.from({ length }, () => 1)
/** Of the shape that the responses format has: the first event and the last one repeat the request's tools. */
const repeating = (body: { model: string; tools?: unknown; include?: readonly string[] }) => {
  const response = { id: "resp_1", object: "response", created_at: 1, model: body.model, tools: body.tools }
  const likelihood = { token: "a", logprob: -0.1, bytes: [97], top_logprobs: [] }
  const logprobs = body.include?.includes("message.output_text.logprobs") ? ones(40_000).map(() => likelihood) : []
  const content = [{ type: "output_text", text: "Hello", annotations: [], logprobs }]
  const item = { type: "message", id: "m", role: "assistant", status: "completed", content }
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 }
  const events = [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "Hello" },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { ...response, status: "completed", output: [item], usage } },
  ]
  return events.map((event, n) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: n })}\n\n`)
}

test("an answer of many values is charged: one that repeats as large a request as there may be, and one of likelihoods", async () => {
  using backend = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const events = repeating((await request.json()) as { model: string })
      return new Response(events.join(""), { headers: { "Content-Type": "text/event-stream" } })
    },
  })
  const credentials: Provider["credentials"] = [soleCredential("X")]
  const provider = { id: "repeating", label: "", baseUrl: backend.url.origin, credentials, headers: {} }
  await using repeated = await startTestGateway({ backends: [backendOf(provider, "k")] })
  const own = await repeated.person(10_000_000)
  const { key: its } = await repeated.key(own)
  const id = await repeated.model({
    format: "responses",
    provider: "repeating",
    endpoints: ["chat", "responses"],
    context_window: null,
    max_output_tokens: 16_384,
  })
  const deep = JSON.parse(`${"[".repeat(60)}${"]".repeat(60)}`)
  const include = ["message.output_text.logprobs"]
  for (const [parameters, client, stream, more] of [
    [{ enum: ones(199_970) }, "responses", true, {}],
    [{ enum: ones(199_970) }, "chat", true, {}],
    [{ enum: ones(199_970) }, "responses", false, {}],
    [{ default: deep, enum: ones(20_000) }, "responses", false, {}],
    [{}, "responses", true, { include }],
  ] as const) {
    const tool = { name: "f", parameters: { type: "object", ...parameters } }
    const tools = client === "chat" ? [{ type: "function", function: tool }] : [{ type: "function", ...tool }]
    const asked = await ask(repeated, its, client, id, { stream, tools, ...more })
    expect([asked.status, (await asked.text()).includes("Hello")]).toEqual([200, true])
    const record = await repeated.usage(own, asked.headers.get("x-request-id") ?? "")
    expect(record).toMatchObject({ status: "ok", charge_micro: 35_000 })
  }
})
