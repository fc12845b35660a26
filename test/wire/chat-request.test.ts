import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { ModelRequest } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import { decodeRequest, encodeRequest } from "../../src/wire/chat/format.ts"

const user = { role: "user", content: "Hi" }
const ask = (fields: JsonObject): JsonObject => ({ model: "m", messages: [user], ...fields })
const say = (...messages: JsonObject[]): JsonObject => ask({ messages })
const tool = (fields: JsonObject): JsonObject =>
  ask({ tools: [{ type: "function", function: { name: "f", ...fields } }] })
const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } }

const SHAPE = "request.invalid_request"
const FEATURE = "request.unsupported_feature"

const refused: readonly (readonly [fact: string, body: JsonObject, code: string])[] = [
  ["no messages", { model: "m" }, SHAPE],
  ["messages that are null", ask({ messages: null }), SHAPE],
  ["an empty list of messages", ask({ messages: [] }), SHAPE],
  ["messages that are a text", ask({ messages: "Hi" }), SHAPE],
  ["a message that is a text", ask({ messages: ["Hi"] }), SHAPE],
  ["a message without a role", say({ content: "Hi" }), SHAPE],
  ["a role that is no string", say({ role: 1, content: "Hi" }), SHAPE],
  ["a role that does not exist", say({ role: "narrator", content: "Hi" }), SHAPE],
  ["a user message without content", say({ role: "user" }), SHAPE],
  ["a user message whose content is null", say({ role: "user", content: null }), SHAPE],
  ["a user message whose content is empty", say(user, { role: "user", content: "" }), SHAPE],
  ["a user message of no parts", say({ role: "user", content: [] }), SHAPE],
  ["a user message of empty texts", say({ role: "user", content: [{ type: "text", text: "" }] }), SHAPE],
  ["a text that is a number", say({ role: "user", content: [{ type: "text", text: 5 }] }), SHAPE],
  ["content that is a number", say({ role: "user", content: 5 }), SHAPE],
  ["content that is an object", say({ role: "user", content: { text: "Hi" } }), SHAPE],
  ["a part that is a text", say({ role: "user", content: ["Hi"] }), SHAPE],
  ["a part without a type", say({ role: "user", content: [{ text: "Hi" }] }), SHAPE],
  ["a system message without content", say({ role: "system" }, user), SHAPE],
  ["a stream that is a text", ask({ stream: "true" }), SHAPE],
  ["n of zero", ask({ n: 0 }), SHAPE],
  ["n of one and a half", ask({ n: 1.5 }), SHAPE],
  ["n beyond 128", ask({ n: 129 }), SHAPE],
  ["max_tokens of zero", ask({ max_tokens: 0 }), SHAPE],
  ["max_tokens under zero", ask({ max_tokens: -5 }), SHAPE],
  ["max_tokens as a text", ask({ max_tokens: "100" }), SHAPE],
  ["max_completion_tokens with a fraction", ask({ max_completion_tokens: 1.5 }), SHAPE],
  ["max_tokens past what a number can count", ask({ max_tokens: 1e300 }), SHAPE],
  ["stream_options that are a flag", ask({ stream_options: true }), SHAPE],
  ["a response_format that is a text", ask({ response_format: "json" }), SHAPE],
  ["tools that are an object", ask({ tools: {} }), SHAPE],
  ["a tool that is a text", ask({ tools: ["f"] }), SHAPE],
  ["a tool without a type", ask({ tools: [{ function: { name: "f" } }] }), SHAPE],
  ["a function tool without its function", ask({ tools: [{ type: "function" }] }), SHAPE],
  ["a function without a name", ask({ tools: [{ type: "function", function: {} }] }), SHAPE],
  ["parameters that are a text", tool({ parameters: "none" }), SHAPE],
  ["parameters without a root type", tool({ parameters: { properties: {} } }), SHAPE],
  ["parameters whose root type is no string", tool({ parameters: { type: 1 } }), SHAPE],
  ["older functions without a root type", ask({ functions: [{ name: "f", parameters: {} }] }), SHAPE],
  ["a custom tool without a name", ask({ tools: [{ type: "custom", custom: {} }] }), SHAPE],
  ["audio in a message", say({ role: "user", content: [{ type: "input_audio", input_audio: {} }] }), FEATURE],
  ["audio in the answer", ask({ modalities: ["text", "audio"], audio: { voice: "ash" } }), FEATURE],
  ["an earlier answer's audio", say(user, { role: "assistant", audio: { id: "audio_1" } }), FEATURE],
  ["a file id", say({ role: "user", content: [{ type: "file", file: { file_id: "file-1" } }] }), FEATURE],
  ["a file id of a responses part", say({ role: "user", content: [{ type: "input_file", file_id: "f" }] }), FEATURE],
  ["an image's file id", say({ role: "user", content: [{ type: "input_image", file_id: "f" }] }), FEATURE],
  [
    "a file id of an assistant's part",
    say({ role: "user", content: [{ type: "image_file", image_file: { file_id: "f" } }] }),
    FEATURE,
  ],
  ["a hosted tool", ask({ tools: [{ type: "code_interpreter" }] }), FEATURE],
  ["a dearer service tier", ask({ service_tier: "priority" }), FEATURE],
  ["shape before features", ask({ tools: [{ type: "code_interpreter" }], stream: 1 }), SHAPE],
  ["no model", { messages: [user] }, "request.invalid"],
]

const accepted: readonly (readonly [fact: string, body: JsonObject, facts: Partial<ModelRequest>])[] = [
  [
    "nulls are absent",
    ask({ stream: null, n: null, max_tokens: null, tools: null, response_format: null }),
    { stream: false, choices: 1, maxOutputTokens: undefined, features: new Set() },
  ],
  [
    "unknown fields are left out, and named",
    ask({ top_k: 5, x_new: { a: 1 }, seed: 7 }),
    { body: ask({ seed: 7 }), dropped: { names: ["top_k", "x_new"], more: false } },
  ],
  [
    "every role of the format",
    say(
      { role: "system", content: "s" },
      { role: "developer", content: "d" },
      user,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c", content: "ok" },
      { role: "function", name: "f", content: null },
    ),
    {},
  ],
  [
    "an image asks for vision",
    say({ role: "user", content: [{ type: "text", text: "" }, image] }),
    { features: new Set(["vision"]) },
  ],
  ["an image alone is content", say({ role: "user", content: [image] }), { features: new Set(["vision"]) }],
  ["a function without parameters", tool({}), { features: new Set(["tools"]) }],
  [
    "a function with a schema",
    tool({ parameters: { type: "object", properties: {} } }),
    { features: new Set(["tools"]) },
  ],
  ["an empty list of tools is no tool use", ask({ tools: [] }), { features: new Set() }],
  ["older functions are tools", ask({ functions: [{ name: "f" }] }), { features: new Set(["tools"]) }],
  [
    "a schema for the answer",
    ask({ response_format: { type: "json_schema", json_schema: { name: "a", schema: { type: "object" } } } }),
    { features: new Set(["structured_outputs"]) },
  ],
  ["JSON mode is no schema", ask({ response_format: { type: "json_object" } }), { features: new Set() }],
  ["web search by its options", ask({ web_search_options: {} }), { features: new Set(["web_search"]) }],
  ["web search as a tool", ask({ tools: [{ type: "web_search_preview" }] }), { features: new Set(["web_search"]) }],
  ["n", ask({ n: 3 }), { choices: 3 }],
  ["the older limit", ask({ max_tokens: 9 }), { maxOutputTokens: 9 }],
  ["the newer limit goes before the older", ask({ max_tokens: 9, max_completion_tokens: 5 }), { maxOutputTokens: 5 }],
  [
    "usage is asked for on streams",
    ask({ stream: true, stream_options: { include_usage: true } }),
    { stream: true, includeUsage: true },
  ],
  [
    "usage is not asked for without a stream",
    ask({ stream_options: { include_usage: true } }),
    { includeUsage: false },
  ],
  [
    "the AI SDK's compatible provider",
    ask({
      stream: true,
      stream_options: { include_usage: true },
      temperature: 0,
      messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
      tool_choice: "auto",
      tools: [
        {
          type: "function",
          function: {
            name: "f",
            description: "d",
            parameters: { $schema: "x", type: "object", properties: {}, additionalProperties: false },
            strict: true,
          },
        },
      ],
    }),
    { stream: true, features: new Set(["tools"]) },
  ],
  [
    "Qwen Code",
    ask({ stream: true, stream_options: { include_usage: true }, max_tokens: 8000, metadata: { sessionId: "s" } }),
    { maxOutputTokens: 8000 },
  ],
]

describe("a chat request is refused for", () => {
  for (const [fact, body, code] of refused)
    test(fact, () => {
      const request = decodeRequest(body)
      expect<string>(request instanceof Failure ? request.code : "taken").toBe(code)
    })
})

describe("a chat request is understood:", () => {
  for (const [fact, body, facts] of accepted)
    test(fact, () => {
      const request = decodeRequest(body)
      if (request instanceof Failure) throw new Error(request.message)
      expect(request).toMatchObject(facts)
      if (facts.features) expect(request.features).toEqual(facts.features)
      if ("maxOutputTokens" in facts) expect(request.maxOutputTokens).toBe(facts.maxOutputTokens)
    })
})

describe("a failure's message", () => {
  test("names the field, what was found and what is allowed", () => {
    const failure = decodeRequest(say(user, { role: "narrator", content: "x" }))
    expect(failure instanceof Failure && failure.message).toBe(
      `'messages[1].role' is "narrator"; it must be one of system, developer, user, assistant, tool, function.`,
    )
  })
  test("never shows long content", () => {
    const failure = decodeRequest(ask({ stream: "secret ".repeat(100) }))
    expect(failure instanceof Failure && failure.message).toBe("'stream' is a long string; it must be true or false.")
  })
})

const PASS = ["thinking", "thinking_budget", "reasoning"]

const send = (fields: JsonObject, maxOutputTokens = 100, strip: readonly string[] = ["temperature"]): JsonObject => {
  const request = decodeRequest(ask(fields), { pass: PASS, betas: [] })
  if (request instanceof Failure) throw new Error(request.message)
  return encodeRequest(request, {
    model: "vendor/m-1",
    maxOutputTokens,
    stream: request.stream,
    strip,
    pass: PASS,
    modelLimit: 16_000,
  })
}

describe("what a chat backend is sent", () => {
  test("has the backend's name of the model and no stripped parameter", () =>
    expect(send({ temperature: 1, top_p: 0.5 })).toEqual({
      model: "vendor/m-1",
      messages: [user],
      top_p: 0.5,
      max_tokens: 100,
      service_tier: "default",
    }))
  // A backend that does not know the newer name passes over it, and answers at any length.
  test.each<[strip: readonly string[], older: number | undefined, newer: number | undefined, JsonObject]>([
    [[], 100, undefined, {}],
    [[], 100, undefined, { max_tokens: 500 }],
    [[], 100, 100, { max_completion_tokens: 500 }],
    [[], 1, 1, { max_completion_tokens: 1 }],
    [[], 50, 50, { max_completion_tokens: 50, max_tokens: 500 }],
    [["max_tokens"], undefined, 100, {}],
    [["max_tokens"], undefined, 50, { max_tokens: 50 }],
    [["max_tokens"], undefined, 50, { max_completion_tokens: 50 }],
    [["max_completion_tokens"], 100, undefined, {}],
    [["max_completion_tokens"], 50, undefined, { max_completion_tokens: 50 }],
    [["max_completion_tokens"], 40, undefined, { max_completion_tokens: 40, max_tokens: 50 }],
    [["max_tokens", "max_completion_tokens"], undefined, 50, { max_completion_tokens: 50 }],
  ])(
    "with %j in strip has the limit %p under the older name and %p under the newer, of %j",
    (strip, older, newer, fields) => {
      const sent = send(fields, 100, strip)
      expect([sent["max_tokens"], sent["max_completion_tokens"]]).toEqual([older, newer])
    },
  )
  test("always asks a stream for its usage, and keeps the other stream options", () =>
    expect(send({ stream: true, stream_options: { include_usage: false, include_obfuscation: false } })).toMatchObject({
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
    }))
  test("has no stream options without a stream", () =>
    expect(send({ stream: false, stream_options: { include_usage: true } })["stream_options"]).toBeUndefined())
  test("is never to be stored", () => {
    expect(send({ store: true })["store"]).toBe(false)
    expect(send({})["store"]).toBeUndefined()
  })
  test("keeps n", () => expect(send({ n: 3 })["n"]).toBe(3))
  test("has budgets of thinking that shrink with the limit, in proportion, also where the client named no limit", () => {
    const budgets: JsonObject = {
      thinking: { type: "enabled", budget_tokens: 8_000 },
      thinking_budget: 8_000,
      reasoning: { max_tokens: 8_000, exclude: true },
    }
    const halved: JsonObject = {
      thinking: { type: "enabled", budget_tokens: 3_000 },
      thinking_budget: 3_000,
      reasoning: { max_tokens: 3_000, exclude: true },
    }
    expect(send({ ...budgets, max_tokens: 16_000 }, 6_000)).toMatchObject(halved)
    expect(send(budgets, 6_000)).toMatchObject(halved)
    const off = { thinking: { type: "disabled" }, thinking_budget: 50, reasoning: { max_tokens: 50 } }
    expect(send({ ...budgets, max_completion_tokens: 16_000 }, 100)).toMatchObject(off)
    expect(send({ thinking_budget: 1 })).toMatchObject({ thinking_budget: 1 })
    expect(send({ thinking_budget: 0 })).toMatchObject({ thinking_budget: 0 })
    // Where nothing is lowered they are the client's.
    expect(send({ ...budgets, max_tokens: 500 }, 500)).toMatchObject(budgets)
    expect(send({ ...budgets, max_tokens: 100_000 }, 16_000)).toMatchObject(budgets)
    expect(send(budgets, 16_000)).toMatchObject(budgets)
  })
})
