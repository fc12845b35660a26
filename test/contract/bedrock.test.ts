/**
 * Models that Bedrock hosts, behind the whole gateway over HTTP: the vendor's by InvokeModel, the others by Converse,
 * for clients of each format, with what is asked, answered, charged and told when it fails.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import type { JsonObject } from "../../src/language/json.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, type Init, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { BEARER, type BedrockServer, SECRET, startBedrock } from "../upstream/bedrock-server.ts"
import { chunk, event, exception } from "../upstream/frames.ts"

const CLAUDE = "global.anthropic.claude-sonnet-4-5-20250929-v1:0"
const NOVA = "us.amazon.nova-pro-v1:0"
const RATES = { input: 1_000, output: 5_000, cacheRead: 100, cacheWrite: 1_250 }

let bedrock: BedrockServer
let gateway: TestGateway
let person: Person
let key: string
let claude: string
let nova: string

const hosted = (model: string, more: object = {}) =>
  gateway.model({
    format: "chat",
    model: `hosted-${crypto.randomUUID()}`,
    upstreams: [{ provider: "bedrock", format: "bedrock", model }],
    endpoints: ["chat", "messages", "responses"],
    supports_vision: true,
    features: ["structured_outputs"],
    ...more,
  })

beforeAll(async () => {
  bedrock = startBedrock()
  const provider = (id: string): Provider => ({
    id,
    label: "Bedrock",
    baseUrl: bedrock.url,
    credentials: [soleCredential("X")],
    headers: {},
  })
  const signing = {
    accessKeyId: "AKIDEXAMPLE",
    secretAccessKey: SECRET,
    sessionToken: undefined,
    region: "ap-southeast-3",
  }
  gateway = await startTestGateway({
    backends: [
      backendOf(provider("bedrock"), BEARER),
      backendOf(provider("signed"), "AKIDEXAMPLE", signing),
      backendOf(provider("wrong"), "AKIDEXAMPLE", { ...signing, secretAccessKey: "another" }),
    ],
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
  claude = await hosted(CLAUDE)
  nova = await hosted(NOVA)
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await bedrock[Symbol.asyncDispose]()
})
beforeEach(() => void bedrock.calls.splice(0))

/** Asked with an empty page, so that a test fails at its own expectation. */
const asked = () => bedrock.calls.at(-1) ?? { model: "", operation: "", body: {}, headers: new Headers() }

const hello = [{ role: "user", content: "Hello" }]
const chat = (model: string, fields: object = {}, init: Init = {}) =>
  gateway.post("/v1/chat/completions", key, { model, messages: hello, max_tokens: 500, ...fields }, init)
const messages = (model: string, fields: object = {}, init: Init = {}) =>
  gateway.post("/v1/messages", key, { model, messages: hello, max_tokens: 500, ...fields }, init)
const record = async (response: Response) => gateway.usage(person, response.headers.get("x-request-id") ?? "")

/** What the recorded counts cost at the tests' rates. */
const cost = (input: number, output: number, cacheRead: number, cacheWrite: number) =>
  input * RATES.input + output * RATES.output + cacheRead * RATES.cacheRead + cacheWrite * RATES.cacheWrite

const anthropic = () => new Anthropic({ baseURL: gateway.url, apiKey: key, maxRetries: 0 })
const openai = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key, maxRetries: 0 })

const claudeUsage = {
  input_tokens: 20,
  cache_creation_input_tokens: 30,
  cache_read_input_tokens: 400,
  output_tokens: 9,
}
const claudeReply = {
  id: "msg_bdrk_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5-20250929",
  content: [{ type: "text", text: "Hi there" }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: claudeUsage,
}
const claudeFrames = [
  chunk({
    type: "message_start",
    message: { ...claudeReply, content: [], stop_reason: null, usage: { ...claudeUsage, output_tokens: 1 } },
  }),
  chunk({ type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } }),
  chunk({ type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Polite." } }),
  chunk({ type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2ln" } }),
  chunk({ type: "content_block_stop", index: 0 }),
  chunk({ type: "content_block_start", index: 1, content_block: { type: "text", text: "" } }),
  chunk({ type: "content_block_delta", index: 1, delta: { type: "text_delta", text: "Hi ☀️" } }),
  chunk({ type: "content_block_stop", index: 1 }),
  chunk({
    type: "message_delta",
    delta: { stop_reason: "end_turn", stop_sequence: null },
    usage: { output_tokens: 9 },
  }),
  chunk({ type: "message_stop", "amazon-bedrock-invocationMetrics": { inputTokenCount: 20, outputTokenCount: 9 } }),
]

const converseUsage = {
  inputTokens: 20,
  outputTokens: 9,
  totalTokens: 459,
  cacheReadInputTokens: 400,
  cacheWriteInputTokens: 30,
}
const converseReply = (content: JsonObject[], stopReason = "end_turn"): JsonObject => ({
  output: { message: { role: "assistant", content } },
  stopReason,
  usage: converseUsage,
  metrics: { latencyMs: 12 },
})
const said = (index: number, delta: object) => event("contentBlockDelta", { contentBlockIndex: index, delta, p: "abc" })
const stopped = (index: number) => event("contentBlockStop", { contentBlockIndex: index })
const called = (index: number, toolUseId: string, name: string) =>
  event("contentBlockStart", { contentBlockIndex: index, start: { toolUse: { toolUseId, name } } })
const ended = (stopReason: string) => event("messageStop", { stopReason })
const counted = event("metadata", { usage: converseUsage, metrics: { latencyMs: 12 } })
const began = event("messageStart", { role: "assistant" })
const textFrames = [began, said(0, { text: "Hi " }), said(0, { text: "☀️" }), stopped(0), ended("end_turn"), counted]
const toolFrames = [
  began,
  said(0, { text: "Let me see." }),
  stopped(0),
  called(1, "tooluse_a", "weather"),
  called(2, "tooluse_b", "time"),
  said(1, { toolUse: { input: '{"city":' } }),
  said(2, { toolUse: { input: '{"zone":"WIB"}' } }),
  said(1, { toolUse: { input: '"Bandung"}' } }),
  stopped(1),
  stopped(2),
  ended("tool_use"),
  counted,
]

describe("the vendor's models, by InvokeModel", () => {
  test("a messages client's request travels in the envelope, with what Bedrock knows and no more", async () => {
    bedrock.next({ reply: claudeReply })
    const mark = { type: "ephemeral", ttl: "1h", scope: "global" }
    const response = await messages(
      claude,
      {
        system: [{ type: "text", text: "Be kind.", cache_control: mark }],
        messages: [...hello, { role: "system", content: "Be brief." }],
        metadata: { user_id: "someone" },
        service_tier: "auto",
        context_management: { edits: [] },
        thinking: { type: "disabled" },
        top_k: 5,
        tools: [
          { name: "weather", input_schema: { type: "object" }, defer_loading: true, eager_input_streaming: true },
        ],
      },
      {
        headers: {
          "anthropic-beta": "claude-code-20250219,advanced-tool-use-2025-11-20,prompt-caching-scope-2026-01-05",
        },
      },
    )
    expect(response.status).toBe(200)
    expect(response.headers.get("x-dropped-fields")).toBe(
      "context_management, anthropic-beta.claude-code-20250219, anthropic-beta.prompt-caching-scope-2026-01-05, " +
        "tools.eager_input_streaming",
    )
    expect(asked().model).toBe(CLAUDE)
    expect(asked().operation).toBe("invoke")
    expect(asked().headers.get("anthropic-beta")).toBeNull()
    expect(asked().body).toEqual({
      anthropic_version: "bedrock-2023-05-31",
      anthropic_beta: ["tool-search-tool-2025-10-19", "tool-examples-2025-10-29"],
      max_tokens: 500,
      top_k: 5,
      thinking: { type: "disabled" },
      system: [{ type: "text", text: "Be kind.", cache_control: { type: "ephemeral", ttl: "5m" } }],
      messages: [...hello, { role: "user", content: "<system>\nBe brief.\n</system>" }],
      tools: [{ name: "weather", input_schema: { type: "object" }, defer_loading: true }],
    })
    expect(await response.json()).toEqual({ ...claudeReply, model: claude })
  })

  test.each(["chat", "messages"] as const)(
    "a reply costs its tokens on %s, and the balance falls by as much",
    async (format) => {
      bedrock.next({ reply: claudeReply })
      const before = await gateway.balance(person)
      const response = await (format === "chat" ? chat : messages)(claude)
      expect(await response.text()).toContain("Hi there")
      const charge_micro = cost(20, 9, 400, 30)
      expect(await record(response)).toMatchObject({
        input_tokens: 20,
        output_tokens: 9,
        cache_read_tokens: 400,
        cache_write_tokens: 30,
        charge_micro,
        status: "ok",
      })
      const after = await gateway.balance(person)
      expect(before.balance_micro - after.balance_micro).toBe(charge_micro)
    },
  )

  test("a stream reaches the vendor's own SDK as if it came from the vendor", async () => {
    bedrock.next({ frames: claudeFrames })
    const stream = anthropic().messages.stream({
      model: claude,
      max_tokens: 500,
      messages: [{ role: "user", content: "Hello" }],
    })
    const message = await stream.finalMessage()
    expect(asked().operation).toBe("invoke-with-response-stream")
    expect(message).toMatchObject({
      model: claude,
      content: [
        { type: "thinking", thinking: "Polite.", signature: "c2ln" },
        { type: "text", text: "Hi ☀️" },
      ],
      stop_reason: "end_turn",
      usage: claudeUsage,
    })
  })

  test("nothing of Bedrock's own is in a stream", async () => {
    bedrock.next({ frames: claudeFrames })
    const response = await messages(claude, { stream: true })
    expect(response.headers.get("content-type")).toStartWith("text/event-stream")
    const text = await response.text()
    expect(text).not.toContain("amazon")
    expect(text).toEndWith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    expect(await record(response)).toMatchObject({ charge_micro: cost(20, 9, 400, 30), status: "ok" })
  })

  test("a stream reaches a chat client translated", async () => {
    bedrock.next({ frames: claudeFrames })
    const completion = await openai()
      .chat.completions.stream({ model: claude, messages: [{ role: "user", content: "Hello" }] })
      .finalChatCompletion()
    expect(completion.choices[0]?.message.content).toBe("Hi ☀️")
  })

  test("an image by address is refused, for Bedrock fetches none", async () => {
    const image = { type: "image", source: { type: "url", url: "https://example.com/a.png" } }
    const response = await messages(claude, { messages: [{ role: "user", content: [image] }] })
    expect([response.status, response.headers.get("x-error-code")]).toEqual([400, "request.unsupported_feature"])
    expect(bedrock.calls).toHaveLength(0)
  })

  test("the vendor's model behind an ARN is told by what follows it", async () => {
    const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
    const model = await hosted(`${arn}#anthropic.claude-sonnet-4-5`)
    bedrock.next({ reply: claudeReply })
    expect((await messages(model)).status).toBe(200)
    expect([asked().model, asked().operation]).toEqual([arn, "invoke"])
  })
})

describe("other vendors' models, by Converse", () => {
  test("a chat client's request says all that it said", async () => {
    bedrock.next({ reply: converseReply([{ text: "Hi" }]) })
    const response = await chat(nova, {
      messages: [
        { role: "system", content: "Be kind." },
        {
          role: "user",
          content: [
            { type: "text", text: "Look:" },
            { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } },
          ],
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Bandung"}' } },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "Rain" },
      ],
      tools: [
        { type: "function", function: { name: "weather", description: "Tells it.", parameters: { type: "object" } } },
      ],
      tool_choice: "required",
      temperature: 1.5,
      top_p: 0.5,
      stop: ["END"],
    })
    expect(response.status).toBe(200)
    expect([asked().model, asked().operation]).toEqual([NOVA, "converse"])
    expect(asked().body).toEqual({
      system: [{ text: "Be kind." }],
      messages: [
        { role: "user", content: [{ text: "Look:" }, { image: { format: "png", source: { bytes: "aGk=" } } }] },
        {
          role: "assistant",
          content: [{ toolUse: { toolUseId: "call_1", name: "weather", input: { city: "Bandung" } } }],
        },
        { role: "user", content: [{ toolResult: { toolUseId: "call_1", content: [{ text: "Rain" }] } }] },
      ],
      inferenceConfig: { maxTokens: 500, temperature: 1, topP: 0.5, stopSequences: ["END"] },
      toolConfig: {
        tools: [{ toolSpec: { name: "weather", description: "Tells it.", inputSchema: { json: { type: "object" } } } }],
        toolChoice: { any: {} },
      },
    })
  })

  test("a model that Codex does not know serves it: one call at most is left out, and named", async () => {
    bedrock.next({ reply: converseReply([{ text: "Hi" }]) })
    const tools = [{ type: "function", name: "weather", parameters: { type: "object" }, strict: false }]
    const fields = { model: nova, input: "Hello", tools, tool_choice: "auto", parallel_tool_calls: false }
    const response = await gateway.post("/v1/responses", key, { ...fields, max_output_tokens: 500 })
    expect([response.status, response.headers.get("x-dropped-fields")]).toEqual([200, "parallel_tool_calls"])
    const chatTools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }]
    expect((await chat(nova, { tools: chatTools, parallel_tool_calls: false })).status).toBe(400)
  })

  test.each(["chat", "messages"] as const)("a reply costs its tokens on %s, cache and all", async (format) => {
    bedrock.next({ reply: converseReply([{ text: "Hi there" }]) })
    const before = await gateway.balance(person)
    const response = await (format === "chat" ? chat : messages)(nova)
    expect(await response.text()).toContain("Hi there")
    const charge_micro = cost(20, 9, 400, 30)
    expect(response.headers.get("x-cost-rp")).toBe(String(charge_micro / 1e6))
    expect(await record(response)).toMatchObject({
      cache_read_tokens: 400,
      cache_write_tokens: 30,
      charge_micro,
      status: "ok",
    })
    const after = await gateway.balance(person)
    expect(before.balance_micro - after.balance_micro).toBe(charge_micro)
  })

  test.each(["chat", "messages", "responses"] as const)(
    "a stream is charged on %s by the counts after its end",
    async (format) => {
      bedrock.next({ frames: textFrames })
      const response =
        format === "responses"
          ? await gateway.post("/v1/responses", key, { model: nova, input: "Hello", stream: true })
          : await (format === "chat" ? chat : messages)(nova, { stream: true })
      const text = await response.text()
      expect(text).toContain("☀️")
      expect(asked().operation).toBe("converse-stream")
      expect(await record(response)).toMatchObject({ charge_micro: cost(20, 9, 400, 30), status: "ok" })
    },
  )

  test("calls of tools reach both SDKs whole, though their pieces interleave", async () => {
    bedrock.next({ frames: toolFrames }, { frames: toolFrames })
    const completion = await openai()
      .chat.completions.stream({ model: nova, messages: [{ role: "user", content: "Hello" }] })
      .finalChatCompletion()
    const calls = completion.choices[0]?.message.tool_calls
    expect(
      calls?.map((call) => call.type === "function" && [call.id, call.function.name, call.function.arguments]),
    ).toEqual([
      ["tooluse_a", "weather", '{"city":"Bandung"}'],
      ["tooluse_b", "time", '{"zone":"WIB"}'],
    ])
    const message = await anthropic()
      .messages.stream({ model: nova, max_tokens: 500, messages: [{ role: "user", content: "Hello" }] })
      .finalMessage()
    expect(message.stop_reason).toBe("tool_use")
    expect(message.content).toMatchObject([
      { type: "text", text: "Let me see." },
      { type: "tool_use", id: "tooluse_a", name: "weather", input: { city: "Bandung" } },
      { type: "tool_use", id: "tooluse_b", name: "time", input: { zone: "WIB" } },
    ])
    expect(message.usage).toMatchObject({
      input_tokens: 20,
      cache_read_input_tokens: 400,
      cache_creation_input_tokens: 30,
      output_tokens: 9,
    })
  })

  test("thinking is told as thinking", async () => {
    bedrock.next({ reply: converseReply([{ reasoningContent: { reasoningText: { text: "Hm." } } }, { text: "Hi" }]) })
    const { choices } = (await (await chat(nova)).json()) as { choices: { message: object }[] }
    expect(choices[0]?.message).toMatchObject({ reasoning_content: "Hm.", content: "Hi" })
  })

  test("a stream that ends without its counts is an answer whose usage is missing", async () => {
    bedrock.next({ frames: textFrames.slice(0, -1) })
    const response = await chat(nova, { stream: true })
    expect(await response.text()).toEndWith("data: [DONE]\n\n")
    expect(await record(response)).toMatchObject({ status: "usage_missing", charge_micro: 0 })
  })

  test("an answer's schema travels as text", async () => {
    bedrock.next({ reply: converseReply([{ text: "{}" }]) })
    const schema = { type: "object", properties: {} }
    await chat(nova, { response_format: { type: "json_schema", json_schema: { name: "thing", schema } } })
    expect(asked().body["outputConfig"]).toEqual({
      textFormat: { type: "json_schema", structure: { jsonSchema: { schema: JSON.stringify(schema), name: "thing" } } },
    })
  })
})

describe("credentials", () => {
  test.each([CLAUDE, NOVA])(
    "a signed call to %s carries a signature that Bedrock reckons too, and no key",
    async (model) => {
      const signed = await hosted(model, { upstreams: [{ provider: "signed", format: "bedrock", model }] })
      bedrock.next(model === CLAUDE ? { reply: claudeReply } : { reply: converseReply([{ text: "Hi" }]) })
      expect((await chat(signed)).status).toBe(200)
      expect(asked().headers.get("Authorization")).toContain("/ap-southeast-3/bedrock/aws4_request")
      expect(asked().model).toBe(model)
    },
  )

  test("credentials that Bedrock refuses are the operator's to mend, and no fault of the customer's", async () => {
    const wrong = await hosted(NOVA, { upstreams: [{ provider: "wrong", format: "bedrock", model: NOVA }] })
    const response = await chat(wrong)
    expect([response.status, response.headers.get("x-error-code")]).toEqual([502, "dependency.upstream_unavailable"])
    expect(gateway.complaints.some((line) => line.includes("backend needs attention"))).toBe(true)
  })
})

describe("failures", () => {
  test("throttling goes to the next model of the chain", async () => {
    const chained = await hosted(NOVA, { fallback: [claude] })
    bedrock.next({ error: "ThrottlingException", status: 429, message: "Too many requests" }, { reply: claudeReply })
    const response = await chat(chained)
    expect(await response.json()).toMatchObject({ model: claude })
    expect(await record(response)).toMatchObject({ model: claude, status: "ok" })
  })

  test("throttling at the beginning of a stream does, too", async () => {
    const chained = await hosted(CLAUDE, { fallback: [nova] })
    bedrock.next({ frames: [exception("throttlingException", "Too many tokens")] }, { frames: textFrames })
    const response = await messages(chained, { stream: true })
    expect(await response.text()).toContain("☀️")
    expect(await record(response)).toMatchObject({ model: nova, status: "ok" })
  })

  test.each([
    ["ThrottlingException", 429, "Too many requests, please wait", 429, "upstream.rate_limited"],
    ["ServiceQuotaExceededException", 400, "Your quota is used up", 429, "upstream.rate_limited"],
    ["ValidationException", 400, "Input is too long for requested model.", 400, "upstream.context_length_exceeded"],
    ["ValidationException", 400, "temperature: value is out of range", 400, "upstream.invalid_request"],
    ["ValidationException", 400, "This model doesn't support tool use.", 400, "upstream.unsupported_feature"],
    ["ValidationException", 400, "The provided model identifier is invalid.", 502, "dependency.upstream_unavailable"],
    ["ResourceNotFoundException", 404, "Model not found", 502, "dependency.upstream_unavailable"],
  ] as const)("%s %i (%s) is told as %i %s", async (error, status, message, told, code) => {
    bedrock.next({ error, status, message })
    const response = await chat(nova)
    expect([response.status, response.headers.get("x-error-code")]).toEqual([told, code])
    expect(await record(response)).toMatchObject({ status: "upstream_error", charge_micro: 0 })
  })

  test.each([
    ["ModelNotReadyException", 429],
    ["ModelErrorException", 424],
    ["InternalServerException", 500],
  ] as const)("%s is tried again", async (error, status) => {
    bedrock.next({ error, status, message: "Try again" }, { reply: converseReply([{ text: "Hi" }]) })
    expect((await chat(nova)).status).toBe(200)
  })

  test.each(["claude", "nova"] as const)(
    "an exception in the midst of %s's stream is told in the stream, and nothing is charged",
    async (which) => {
      const broken = exception("modelStreamErrorException", "The model stumbled")
      const frames = which === "claude" ? [...claudeFrames.slice(0, 7), broken] : [...textFrames.slice(0, 3), broken]
      bedrock.next({ frames }, { frames })
      const response = await chat(which === "claude" ? claude : nova, { stream: true })
      const text = await response.text()
      expect(text).toContain('"code":"upstream_unavailable"')
      expect(text).not.toContain("stumbled")
      expect(await record(response)).toMatchObject({ status: "upstream_error", charge_micro: 0 })
      const told = await messages(which === "claude" ? claude : nova, { stream: true })
      expect(await told.text()).toContain("event: error\n")
    },
  )

  test("a stream that is cut off, or whose frames are damaged, is a failure in the stream", async () => {
    const damaged = claudeFrames.map((frame, at) =>
      at === 7 ? frame.map((byte, index) => (index === 90 ? byte ^ 1 : byte)) : frame,
    )
    bedrock.next({ frames: textFrames.slice(0, 4), cutOff: true }, { frames: damaged })
    for (const model of [nova, claude]) {
      const response = await chat(model, { stream: true })
      expect(await response.text()).toContain('"code":"upstream_unavailable"')
      expect(await record(response)).toMatchObject({ status: "upstream_error", charge_micro: 0 })
    }
  })
})
