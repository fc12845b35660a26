/** Numbers of a tool's input, and of schemas, digit by digit: clients in other languages read integers of any length, and ids are such (docs/formats.md). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { keepNumbers, parseToolInput } from "../../src/language/exact-numbers.ts"
import { toolInput } from "../../src/wire/shared/tools.ts"
import { isObject } from "../../src/language/json.ts"
import { backendOf, startTestGateway, type TestGateway } from "../gateway/harness.ts"

const INPUT =
  '{"id":1234567890123456789,"ids":[-98765432109876543210,7],"huge":1e400,"half":0.5,"text":"1234567890123456789"}'
const QUOTED = JSON.stringify(INPUT)

const answers = {
  messages:
    `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t","name":"f","input":${INPUT}}],` +
    '"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":2}}',
  chat:
    '{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":' +
    `{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":${QUOTED}}}]}}],` +
    '"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}',
}
const conversed =
  `{"output":{"message":{"role":"assistant","content":[{"text":"a"},{"toolUse":{"toolUseId":"t","name":"f","input":${INPUT}}}]}},` +
  '"stopReason":"tool_use","usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}'
const event = (type: string, more: string) => `event: ${type}\ndata: {"type":"${type}",${more}}\n\n`
const streamed =
  event("message_start", '"message":{"id":"msg_1","type":"message","role":"assistant","content":[]}') +
  event("content_block_start", '"index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}') +
  event("content_block_delta", `"index":0,"delta":{"type":"input_json_delta","partial_json":${QUOTED}}`) +
  event("content_block_stop", '"index":0') +
  event("message_delta", '"delta":{"stop_reason":"tool_use"},"usage":{"input_tokens":3,"output_tokens":2}') +
  'event: message_stop\ndata: {"type":"message_stop"}\n\n'

/** What the backend was sent last. */
let sent = ""
const backend = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: async (request) => {
    sent = await request.text()
    if (sent.includes('"stream":true'))
      return new Response(streamed, { headers: { "Content-Type": "text/event-stream" } })
    const { pathname } = new URL(request.url)
    const answer = pathname.endsWith("/converse")
      ? conversed
      : pathname.endsWith("/messages")
        ? answers.messages
        : // Some backends write arguments as they were sent some: as an object.
          answers.chat.replace(QUOTED, sent.includes('"arguments":{') ? INPUT : QUOTED)
    return new Response(answer, { headers: { "Content-Type": "application/json" } })
  },
})

let gateway: TestGateway
let key: string

beforeAll(async () => {
  const credentials: Provider["credentials"] = [soleCredential("X")]
  const provider = { id: "exact", label: "", baseUrl: backend.url.origin, credentials, headers: {} }
  gateway = await startTestGateway({ backends: [backendOf(provider, "k")] })
  key = (await gateway.key(await gateway.person(10_000_000))).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await backend.stop(true)
})

const schema = '{"type":"object"}'
const bodies = {
  messages: (text: string, input = INPUT) =>
    `"tools":[{"name":"f","input_schema":${schema}}],"messages":[{"role":"user","content":"${text}"},{"role":"assistant","content":[` +
    `{"type":"tool_use","id":"a","name":"f","input":${input}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}]`,
  chat: (text: string) =>
    `"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}],"messages":[{"role":"user","content":"${text}"},` +
    '{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f",' +
    `"arguments":${QUOTED}}}]},{"role":"tool","tool_call_id":"a","content":"x"}]`,
}
const paths = { messages: "/v1/messages", chat: "/v1/chat/completions", responses: "/v1/responses" }

describe.each([
  ["small", "hi", 50],
  ["large, and so on a thread of its own,", "word ".repeat(20_000), 50],
  ["gathered", "hi", 9_000],
] as const)("in a call that is %s", (_size, text, limit) => {
  test.each([
    ["messages", "messages"],
    ["messages", "chat"],
    ["chat", "messages"],
    ["chat", "chat"],
  ] as const)("a %s client and a %s backend get a tool's input as the other wrote it", async (client, format) => {
    const made = { endpoints: [client], provider: "exact", max_output_tokens: 64_000, gather: format === "messages" }
    const model = await gateway.model({ format, ...made })
    const body = `{"model":"${model}","max_tokens":${limit},${bodies[client](text)}}`
    const response = await gateway.post(paths[client], key, body)
    const answer = await response.text()
    expect({ status: response.status, answer }).toMatchObject({ status: 200 })
    expect(sent).toContain(format === "messages" ? `"input":${INPUT}` : `"arguments":${QUOTED}`)
    expect(answer).toContain(client === "messages" ? `"input":${INPUT}` : `"arguments":${QUOTED}`)
  })
})

test.each(["messages", "chat"] as const)("a %s client and Converse get it so too", async (client) => {
  const upstreams = [{ provider: "exact", format: "bedrock" as const, model: "us.amazon.nova-pro-v1:0" }]
  const model = await gateway.model({ format: "chat", endpoints: [client], upstreams })
  const response = await gateway.post(
    paths[client],
    key,
    `{"model":"${model}","max_tokens":50,${bodies[client]("hi")}}`,
  )
  const answer = await response.text()
  expect({ status: response.status, answer }).toMatchObject({ status: 200 })
  expect(sent).toContain(`"input":${INPUT}`)
  expect(answer).toContain(client === "messages" ? `"input":${INPUT}` : `"arguments":${QUOTED}`)
})

const bounds = '{"type":"object","properties":{"id":{"enum":[1234567890123456789],"maximum":9223372036854775807}}}'
const defined = {
  messages: `"tools":[{"name":"f","input_schema":${bounds},"input_examples":[${INPUT}]}],"output_config":{"format":{"type":"json_schema","schema":${bounds}}},`,
  chat: `"tools":[{"type":"function","function":{"name":"f","parameters":${bounds}}}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":${bounds}}},`,
  responses: `"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","parameters":${bounds}}]}],"text":{"format":{"type":"json_schema","name":"x","schema":${bounds}}},`,
}

describe.each([
  ["small", "hi"],
  ["large", "word ".repeat(70_000)],
] as const)("in a %s request", (_size, text) => {
  test.each([
    ["messages", "messages", 3],
    ["messages", "chat", 2],
    ["chat", "chat", 2],
    ["chat", "responses", 2],
    ["responses", "chat", 2],
  ] as const)(
    "schemas and examples of a %s client come to a %s backend as they were written",
    async (client, format, times) => {
      const more = { endpoints: [client], provider: "exact", features: ["structured_outputs" as const] }
      const model = await gateway.model({ format, ...more })
      const said = client === "responses" ? `"input":"${text}"` : `"messages":[{"role":"user","content":"${text}"}]`
      const limit = client === "responses" ? "max_output_tokens" : "max_tokens"
      const body = `{"model":"${model}","${limit}":50,${defined[client]}${said}}`
      const response = await gateway.post(paths[client], key, body)
      await response.text()
      const written = sent.split(bounds).length - 1 + sent.split(`"input_examples":[${INPUT}]`).length - 1
      expect({ written, sent: sent.replace(text, "") }).toMatchObject({ written: times })
    },
  )
})

test.each(["chat", "responses"] as const)(
  "those of tools that a conversation adds come to a %s backend so",
  async (format) => {
    const model = await gateway.model({ format, endpoints: ["responses"], provider: "exact" })
    const offer = (type: string, name: string) =>
      `{"type":"${type}","tools":[{"type":"function","name":"${name}","parameters":${bounds}}]}`
    const input = `[{"role":"user","content":"hi"},${offer("additional_tools", "f")},${offer("tool_search_output", "g")}]`
    await (await gateway.post(paths.responses, key, `{"model":"${model}","input":${input}}`)).text()
    expect({ written: sent.split(bounds).length - 1, sent }).toMatchObject({ written: 2 })
  },
)

test("arguments that a chat backend writes as an object come to its client so, and back", async () => {
  const model = await gateway.model({ format: "chat", provider: "exact" })
  const older = `{"role":"assistant","content":"","function_call":{"name":"f","arguments":${INPUT}}},`
  const said = bodies.chat("hi").replace(QUOTED, INPUT).replace('{"role":"assistant"', `${older}{"role":"assistant"`)
  const response = await gateway.post(paths.chat, key, `{"model":"${model}","max_tokens":50,${said}}`)
  const answer = await response.text()
  expect({ status: response.status, answer }).toMatchObject({ status: 200 })
  expect(sent.split(`"arguments":${INPUT}`)).toHaveLength(3)
  expect(answer).toContain(`"arguments":${INPUT}`)
})

test("an input that is a number by itself takes no other one's place", async () => {
  const model = await gateway.model({ format: "messages", provider: "exact" })
  const twice = bodies
    .messages("hi")
    .replace('"content":[{', '"content":[{"type":"tool_use","id":"b","name":"f","input":98765432109876543210},{')
  const response = await gateway.post(paths.messages, key, `{"model":"${model}","max_tokens":50,${twice}}`)
  expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
  expect(sent).toContain(`"id":"a","name":"f","input":${INPUT}`)
})

test.each([100, 5_000, 30_000])("an input that nests %d deep is read, whatever its numbers", (depth) => {
  for (const number of ["1234567890123456789", "7"]) {
    const input = `{"id":${"[".repeat(depth)}${number}${"]".repeat(depth)}}`
    expect(isObject(parseToolInput(input))).toBe(true)
    const text = `{"content":[{"type":"tool_use","input":${input}}]}`
    const answer = JSON.parse(text)
    keepNumbers(answer, text)
    // How deep the text of a number can be kept is the stack's to say.
    if (number === "7" || depth === 100) expect(JSON.stringify(answer)).toBe(text)
  }
})

const nested = (depth: number, inner = "") => `{"id":${"[".repeat(depth)}${inner}${"]".repeat(depth)}}`

test("an input that nests deeper than can be written is none, and brackets in a text are no levels", () => {
  expect(parseToolInput(nested(31_999))).toHaveProperty("id")
  expect(() => parseToolInput(nested(32_000))).toThrow(SyntaxError)
  const said = { id: `\\"${"[".repeat(100_000)}` }
  expect(parseToolInput(JSON.stringify(said))).toEqual(said)
})

test("a number is kept digit by digit in an input of up to 256 levels, for deeper ones would take long to write", () => {
  const [kept, changed] = [nested(255, "1234567890123456789"), nested(256, "1234567890123456789")]
  expect(JSON.stringify(parseToolInput(kept))).toBe(kept)
  expect(JSON.stringify(parseToolInput(changed))).toBe(JSON.stringify(JSON.parse(changed)))
})

test("an input that nests so deep that it would take long to write is told as its text", () => {
  const told = (depth: number) => toolInput({ arguments: nested(depth), custom: false })
  expect(told(9_999)).toHaveProperty("id")
  expect(told(10_000)).toEqual({ raw: nested(10_000) })
})

test.each([
  ["chat", 100_000],
  ["responses", 100_000],
  ["chat", 30_000],
] as const)("a call of it in a %s conversation reaches other backends as its text", async (client, depth) => {
  const model = await gateway.model({
    format: "messages",
    provider: "exact",
    endpoints: [client],
    context_window: null,
  })
  const args = nested(depth)
  const [called, output] = [{ name: "f", arguments: args }, "done"]
  const body = {
    chat: {
      max_tokens: 50,
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", tool_calls: [{ id: "c", type: "function", function: called }] },
        { role: "tool", tool_call_id: "c", content: output },
      ],
    },
    responses: {
      input: [
        { role: "user", content: "hi" },
        { type: "function_call", call_id: "c", ...called },
        { type: "function_call_output", call_id: "c", output },
      ],
    },
  }[client]
  const response = await gateway.post(paths[client], key, { model, ...body })
  expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
  expect(sent).toContain(JSON.stringify({ raw: args }))
})
