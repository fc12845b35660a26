import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { ModelRequest } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import { countInputTokens, decodeRequest, encodeRequest } from "../../src/wire/messages/format.ts"

const user = { role: "user", content: "Hi" }
const ask = (fields: JsonObject): JsonObject => ({ model: "m", max_tokens: 100, messages: [user], ...fields })
const say = (...messages: JsonObject[]): JsonObject => ask({ messages })
const show = (block: JsonObject): JsonObject => say({ role: "user", content: [block] })
const tools = (...list: JsonObject[]): JsonObject => ask({ tools: list })
const schema = { type: "object", properties: {} }
const png = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } }

const SHAPE = "request.invalid_request"
const FEATURE = "request.unsupported_feature"

const refused: readonly (readonly [fact: string, body: JsonObject, code: string])[] = [
  ["no max_tokens", { model: "m", messages: [user] }, SHAPE],
  ["max_tokens that are null", ask({ max_tokens: null }), SHAPE],
  ["max_tokens of zero", ask({ max_tokens: 0 }), SHAPE],
  ["max_tokens as a text", ask({ max_tokens: "100" }), SHAPE],
  ["no messages", { model: "m", max_tokens: 1 }, SHAPE],
  ["an empty list of messages", say(), SHAPE],
  ["messages that are an object", ask({ messages: user }), SHAPE],
  ["a message that is a text", ask({ messages: ["Hi"] }), SHAPE],
  ["a role of another format", say({ role: "tool", content: "Hi" }), SHAPE],
  ["a user message without content", say({ role: "user" }), SHAPE],
  ["a user message whose content is empty", say({ role: "user", content: "" }), SHAPE],
  ["a user message of no blocks", say({ role: "user", content: [] }), SHAPE],
  ["a user message of empty texts", show({ type: "text", text: "" }), SHAPE],
  ["a text that is a number", show({ type: "text", text: 5 }), SHAPE],
  [
    "a text that is a list, beside another",
    say({
      role: "user",
      content: [
        { type: "text", text: "Hi" },
        { type: "text", text: ["a"] },
      ],
    }),
    SHAPE,
  ],
  [
    "an answer's text that is an object",
    say(user, { role: "assistant", content: [{ type: "text", text: {} }] }),
    SHAPE,
  ],
  ["an assistant message without content", say(user, { role: "assistant" }), SHAPE],
  ["a block without a type", show({ text: "Hi" }), SHAPE],
  ["a system that is an object", ask({ system: { text: "s" } }), SHAPE],
  ["a system block that is no text", ask({ system: [png] }), SHAPE],
  ["a stream that is a number", ask({ stream: 1 }), SHAPE],
  ["thinking that is a flag", ask({ thinking: true }), SHAPE],
  ["tools that are an object", ask({ tools: {} }), SHAPE],
  ["a tool that is a text", ask({ tools: ["f"] }), SHAPE],
  ["a tool without a schema", tools({ name: "f" }), SHAPE],
  ["a tool whose schema has no root type", tools({ name: "f", input_schema: { properties: {} } }), SHAPE],
  ["a tool whose schema is a text", tools({ name: "f", input_schema: "object" }), SHAPE],
  ["a custom tool without a schema", tools({ type: "custom", name: "f" }), SHAPE],
  ["a tool without a name", tools({ input_schema: schema }), SHAPE],
  ["a tool whose type is a number", tools({ type: 5, name: "f", input_schema: schema }), SHAPE],
  ["a tool whose type is empty", tools({ type: "", name: "f", input_schema: schema }), SHAPE],
  ["a system block whose text is none", ask({ system: [{ type: "text" }] }), SHAPE],
  ["a system block of another type with a text", ask({ system: [{ type: "thinking", text: "s" }] }), SHAPE],
  ["a chat tool", tools({ type: null, function: { name: "f" } }), SHAPE],
  ["code run at the backend", tools({ type: "code_execution_20260521", name: "code_execution" }), FEATURE],
  ["pages fetched by the backend", tools({ type: "web_fetch_20250910", name: "web_fetch" }), FEATURE],
  ["a server tool that nobody knows", tools({ type: "oracle_20270101", name: "oracle" }), FEATURE],
  ["servers that the backend is to call", ask({ mcp_servers: [{ type: "url", url: "https://example.com" }] }), FEATURE],
  ["a container", ask({ container: "container_1" }), FEATURE],
  ["a thread of its own", ask({ thread: { type: "create" } }), FEATURE],
  ["a thread", ask({ thread: { id: "thread_1" } }), FEATURE],
  ["other models to fall back to", ask({ fallbacks: [{ model: "dear" }] }), FEATURE],
  ["the dearer speed", ask({ speed: "fast" }), FEATURE],
  ["an image by file id", show({ type: "image", source: { type: "file", file_id: "file_1" } }), FEATURE],
  ["a document by file id", show({ type: "document", source: { type: "file", file_id: "file_1" } }), FEATURE],
  ["a file for the container", show({ type: "container_upload", file_id: "file_1" }), FEATURE],
  [
    "a file id in a tool's result",
    show({
      type: "tool_result",
      tool_use_id: "t",
      content: [{ type: "image", source: { type: "file", file_id: "f" } }],
    }),
    FEATURE,
  ],
  ["a tool's result of no call", show({ type: "tool_result", content: "42" }), SHAPE],
  ["a tool's result that is a number", show({ type: "tool_result", tool_use_id: "t", content: 42 }), SHAPE],
  [
    "a tool's result that is one block",
    show({ type: "tool_result", tool_use_id: "t", content: { type: "text", text: "42" } }),
    SHAPE,
  ],
  ["a tool's result that lists texts", show({ type: "tool_result", tool_use_id: "t", content: ["42"] }), SHAPE],
  ["a call without an id", show({ type: "tool_use", name: "f", input: {} }), SHAPE],
  ["a call of no tool", show({ type: "tool_use", id: "t", input: {} }), SHAPE],
  ["shape before features", { ...tools({ type: "code_execution_20260521" }), max_tokens: 0 }, SHAPE],
]

const claudeCode = ask({
  max_tokens: 128000,
  stream: true,
  system: [
    { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.329" },
    { type: "text", text: "You are a coding agent.", cache_control: { type: "ephemeral" } },
    { type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } },
  ],
  messages: [
    { role: "user", content: [{ type: "text", text: "Fix the build" }] },
    { role: "system", content: "The date has changed." },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "", signature: "c2ln" },
        { type: "tool_use", id: "t1", name: "Bash", input: { command: "ls" } },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "", is_error: false }] },
  ],
  tools: [
    {
      name: "Bash",
      description: "Runs a command",
      input_schema: { $schema: "x", type: "object", properties: { command: { type: "string" } } },
    },
    { name: "Rare", input_schema: schema, defer_loading: true },
    { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" },
  ],
  thinking: { type: "adaptive", display: "summarized" },
  output_config: { effort: "high" },
  context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
  metadata: { user_id: "u" },
})

const accepted: readonly (readonly [fact: string, body: JsonObject, facts: Partial<ModelRequest>])[] = [
  ["Claude Code's stock request", claudeCode, { stream: true, maxOutputTokens: 128000, features: new Set(["tools"]) }],
  ["the SDK's smallest request", ask({}), { stream: false, maxOutputTokens: 100, choices: 1, features: new Set() }],
  [
    "nulls are absent",
    ask({ system: null, tools: null, container: null, stream: null, thinking: null, mcp_servers: null }),
    { stream: false, features: new Set() },
  ],
  ["no servers are no state", ask({ mcp_servers: [] }), {}],
  ["no thread is no state", ask({ thread: false }), { dropped: { names: ["thread"], more: false } }],
  ["an image", show(png), { features: new Set(["vision"]) }],
  [
    "an image in a tool's result",
    show({ type: "tool_result", tool_use_id: "t", content: [png] }),
    { features: new Set(["vision"]) },
  ],
  [
    "an image in a document made of blocks",
    show({ type: "document", source: { type: "content", content: [png] } }),
    { features: new Set(["vision"]) },
  ],
  [
    "web search",
    tools({ type: "web_search_20250305", name: "web_search", max_uses: 3 }),
    { features: new Set(["web_search"]) },
  ],
  [
    "web search of a later date",
    tools({ type: "web_search_20260318", name: "web_search" }),
    { features: new Set(["web_search"]) },
  ],
  [
    "the vendor's tools that a client runs",
    tools(
      { type: "bash_20250124", name: "bash" },
      { type: "text_editor_20250728", name: "e" },
      { type: "memory_20250818", name: "memory" },
      { type: "computer_20251124", name: "computer" },
      { type: "computer_toolset_20260801" },
      { type: "browser_toolset_20260801" },
    ),
    { features: new Set(["tools"]) },
  ],
  ["a custom tool", tools({ type: "custom", name: "f", input_schema: schema }), { features: new Set(["tools"]) }],
  [
    "a schema for the answer",
    ask({ output_config: { format: { type: "json_schema", schema } } }),
    { features: new Set(["structured_outputs"]) },
  ],
  [
    "a schema under its older name",
    ask({ output_format: { type: "json_schema", schema } }),
    { features: new Set(["structured_outputs"]) },
  ],
  ["an effort is no schema", ask({ output_config: { effort: "low" } }), { features: new Set() }],
]

describe("a messages request is refused for", () => {
  for (const [fact, body, code] of refused)
    test(fact, () => {
      const request = decodeRequest(body)
      expect<string>(request instanceof Failure ? request.code : "taken").toBe(code)
    })
})

describe("a messages request is understood:", () => {
  for (const [fact, body, facts] of accepted)
    test(fact, () => {
      const request = decodeRequest(body)
      if (request instanceof Failure) throw new Error(request.message)
      expect(request).toMatchObject(facts)
      if (facts.features) expect(request.features).toEqual(facts.features)
    })
})

describe("counting tokens", () => {
  test("needs no max_tokens and counts as the request itself is counted", () => {
    const { max_tokens: _, ...body } = claudeCode
    const request = decodeRequest(claudeCode)
    expect(countInputTokens(body)).toBe(request instanceof Failure ? -1 : request.inputTokens)
  })
  test("refuses what the request would be refused for", () => {
    const failure = countInputTokens({ model: "m", messages: [] })
    expect(failure instanceof Failure && failure.code).toBe(SHAPE)
  })
})

const send = (fields: JsonObject, maxOutputTokens: number): JsonObject => {
  const request = decodeRequest(ask(fields), { pass: [], betas: ["context-management-2025-06-27"] })
  if (request instanceof Failure) throw new Error(request.message)
  return encodeRequest(request, {
    model: "vendor-m",
    maxOutputTokens,
    stream: request.stream,
    strip: ["temperature", "top_p", "top_k"],
  })
}

const thinking = (budget: number): JsonObject => ({
  max_tokens: 12_000,
  thinking: { type: "enabled", budget_tokens: budget, display: "omitted" },
})

describe("what a messages backend is sent", () => {
  test("differs from what the client sent in what the gateway owns alone, where nothing is lowered", () => {
    const request = decodeRequest(claudeCode, { pass: [], betas: ["context-management-2025-06-27"] })
    if (request instanceof Failure) throw new Error(request.message)
    expect(request.dropped).toEqual({ names: [], more: false })
    const asked = { ...request, endUser: "opaque" }
    const sent = encodeRequest(asked, { model: "vendor-m", maxOutputTokens: 128000, stream: request.stream, strip: [] })
    const system = claudeCode["system"] as JsonObject[]
    expect(sent).toEqual({
      ...claudeCode,
      model: "vendor-m",
      system: [
        ...system.slice(0, 2),
        { type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "5m" } },
      ],
      metadata: { user_id: "opaque" },
      service_tier: "standard_only",
    })
  })
  test("has no stripped parameter", () =>
    expect(send({ temperature: 1, top_p: 1, top_k: 1 }, 100)).toEqual(
      ask({ model: "vendor-m", service_tier: "standard_only" }),
    ))
  test("has a thinking budget that shrinks with the limit", () =>
    expect(send(thinking(8_000), 6_000)).toMatchObject({
      max_tokens: 6_000,
      thinking: { type: "enabled", budget_tokens: 4_000, display: "omitted" },
    }))
  test("has no budget under what the backend takes, nor one that fills the limit", () => {
    expect(send(thinking(2_000), 1_500)).toMatchObject({ thinking: { budget_tokens: 1_024 } })
    expect(send(thinking(11_999), 1_025)).toMatchObject({ thinking: { budget_tokens: 1_024 } })
  })
  test("has thinking off where no budget fits, and no edit that would need it", () => {
    const edits = [{ type: "clear_thinking_20251015" }, { type: "clear_tool_uses_20250919" }]
    const sent = send({ ...thinking(8_000), context_management: { edits } }, 1_024)
    expect(sent["thinking"]).toEqual({ type: "disabled" })
    expect(sent["context_management"]).toEqual({ edits: [{ type: "clear_tool_uses_20250919" }] })
  })
  test("keeps a budget over the limit as the client wrote it, where the limit is not lowered", () =>
    expect(send(thinking(20_000), 12_000)).toMatchObject({ thinking: { budget_tokens: 20_000 } }))
})
