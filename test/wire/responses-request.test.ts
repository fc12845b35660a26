import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { ModelRequest } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import { decodeRequest, encodeRequest } from "../../src/wire/responses/format.ts"

const ask = (fields: JsonObject): JsonObject => ({ model: "m", input: "Hi", ...fields })
const give = (...input: JsonObject[]): JsonObject => ask({ input })
const show = (part: JsonObject): JsonObject => give({ role: "user", content: [part] })
const tools = (...list: JsonObject[]): JsonObject => ask({ tools: list })
const schema = { type: "object", properties: {} }

/** One function is offered. */
const choosing = (tool_choice: JsonObject): JsonObject => ask({ tools: [{ type: "function", name: "f" }], tool_choice })

const EMPTY = "request.invalid"
const SHAPE = "request.invalid_request"
const FEATURE = "request.unsupported_feature"

const refused: readonly (readonly [fact: string, body: JsonObject, code: string])[] = [
  ["no input", { model: "m" }, EMPTY],
  ["an input that is null", ask({ input: null }), EMPTY],
  ["an empty text", ask({ input: "" }), EMPTY],
  ["an empty list", ask({ input: [] }), EMPTY],
  ["only items that are not forwarded", give({ type: "compaction_trigger" }, { type: "mcp_call" }), EMPTY],
  ["an input that is a number", ask({ input: 1 }), SHAPE],
  ["an item that is a text", ask({ input: ["Hi"] }), SHAPE],
  ["a role that does not exist", give({ role: "tool", content: "Hi" }), SHAPE],
  ["a user message whose content is empty", give({ role: "user", content: "" }), SHAPE],
  ["a user message of empty texts", show({ type: "input_text", text: "" }), SHAPE],
  ["a text that is a number", show({ type: "input_text", text: 5 }), SHAPE],
  [
    "an answer's text that is a list",
    give({ role: "assistant", content: [{ type: "output_text", text: ["a"] }] }),
    SHAPE,
  ],
  ["an item of neither type nor role", give({}), SHAPE],
  ["a part without a type", show({ text: "Hi" }), SHAPE],
  ["instructions that are a number", ask({ instructions: 1 }), SHAPE],
  ["a stream that is a text", ask({ stream: "yes" }), SHAPE],
  ["max_output_tokens of zero", ask({ max_output_tokens: 0 }), SHAPE],
  ["a text that is a text", ask({ text: "plain" }), SHAPE],
  ["tools that are an object", ask({ tools: {} }), SHAPE],
  ["a tool without a type", tools({ name: "f" }), SHAPE],
  ["a function without a name", tools({ type: "function", parameters: schema }), SHAPE],
  ["parameters without a root type", tools({ type: "function", name: "f", parameters: { properties: {} } }), SHAPE],
  [
    "a namespace's function without a root type",
    tools({ type: "namespace", name: "n", tools: [{ type: "function", name: "f", parameters: {} }] }),
    SHAPE,
  ],
  [
    "a namespace whose name, which its tools have too, is over 512 characters",
    tools({ type: "namespace", name: "n".repeat(513), tools: [{ type: "function", name: "f" }] }),
    SHAPE,
  ],
  ["an earlier response", ask({ previous_response_id: "resp_1" }), FEATURE],
  ["a conversation", ask({ conversation: "conv_1" }), FEATURE],
  ["a conversation in its long form", ask({ conversation: { id: "conv_1" } }), FEATURE],
  ["work in the background", ask({ background: true }), FEATURE],
  ["a stored prompt", ask({ prompt: { id: "pmpt_1" } }), FEATURE],
  ["a reference to an item", give({ type: "item_reference", id: "msg_1" }), FEATURE],
  ["a reference without its type", give({ id: "msg_1" }), FEATURE],
  ["an earlier image by its id", give({ type: "image_generation_call", id: "ig_1" }), FEATURE],
  ["a sound", show({ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }), FEATURE],
  ["an image by file id", show({ type: "input_image", file_id: "file-1" }), FEATURE],
  ["a file by id", show({ type: "input_file", file_id: "file-1" }), FEATURE],
  [
    "a file id in a tool's output",
    give({ type: "function_call_output", call_id: "c", output: [{ type: "input_image", file_id: "f" }] }),
    FEATURE,
  ],
  [
    "a screenshot by file id",
    give({ type: "computer_call_output", call_id: "c", output: { type: "computer_screenshot", file_id: "f" } }),
    FEATURE,
  ],
  ["an earlier call's container", give({ type: "code_interpreter_call", id: "ci", container_id: "cntr_1" }), FEATURE],
  ["search in stored files", tools({ type: "file_search", vector_store_ids: ["vs_1"] }), FEATURE],
  ["code run at the backend", tools({ type: "code_interpreter", container: { type: "auto" } }), FEATURE],
  ["servers that the backend is to call", tools({ type: "mcp", server_label: "s" }), FEATURE],
  ["image generation", tools({ type: "image_generation" }), FEATURE],
  ["a shell in a container", tools({ type: "shell", environment: { type: "container_auto" } }), FEATURE],
  [
    "a hosted tool given in the midst of the input",
    give({ type: "additional_tools", role: "developer", tools: [{ type: "mcp" }] }),
    FEATURE,
  ],
  [
    "a hosted tool in a namespace",
    tools({ type: "namespace", name: "n", tools: [{ type: "mcp", server_label: "s" }] }),
    FEATURE,
  ],
  [
    "tools in the midst of the input that are no tools",
    give({ type: "additional_tools", role: "developer", tools: ["mcp"] }),
    SHAPE,
  ],
  ["a choice of search in stored files", choosing({ type: "file_search" }), FEATURE],
  ["a choice of a server's tool", choosing({ type: "mcp", server_label: "s", name: "f" }), FEATURE],
  ["a choice of image generation without tools", ask({ tool_choice: { type: "image_generation" } }), FEATURE],
  ["a choice of web search that is not offered", choosing({ type: "web_search_preview" }), FEATURE],
  ["a choice of a shell that is not offered", choosing({ type: "shell" }), FEATURE],
  [
    "a hosted tool among those allowed",
    choosing({ type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "f" }, { type: "mcp" }] }),
    FEATURE,
  ],
  ["a dearer service tier", ask({ service_tier: "priority" }), FEATURE],
  ["shape before features", ask({ previous_response_id: "resp_1", stream: 1 }), SHAPE],
  ["an empty input before features", { model: "m", previous_response_id: "resp_1" }, EMPTY],
]

const codex = ask({
  input: [
    { type: "message", role: "developer", content: [{ type: "input_text", text: "You are a coding agent." }] },
    { type: "message", role: "user", content: [{ type: "input_text", text: "Fix the build" }] },
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "Z0FBQUFB" },
    { type: "function_call", call_id: "c1", name: "exec", arguments: '{"cmd":"ls"}' },
    { type: "function_call_output", call_id: "c1", output: "README.md" },
    { type: "custom_tool_call", call_id: "c2", name: "apply_patch", input: "*** Begin Patch" },
    { type: "custom_tool_call_output", call_id: "c2", output: "ok" },
    { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "bun" } },
  ],
  stream: true,
  store: false,
  include: ["reasoning.encrypted_content"],
  tools: [
    {
      type: "function",
      name: "exec",
      strict: false,
      parameters: { type: "object", properties: { cmd: { type: "string" } } },
    },
    { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
    {
      type: "namespace",
      name: "fs",
      description: "files",
      tools: [{ type: "function", name: "read", parameters: schema }],
    },
    { type: "web_search", external_web_access: true },
  ],
  tool_choice: "auto",
  parallel_tool_calls: true,
  prompt_cache_key: "session",
  reasoning: { effort: "medium", summary: "auto" },
  text: { verbosity: "low" },
})

const accepted: readonly (readonly [fact: string, body: JsonObject, facts: Partial<ModelRequest>])[] = [
  ["Codex's stock request", codex, { stream: true, features: new Set(["tools", "web_search"]) }],
  [
    "a namespace's name of 512 characters",
    tools({ type: "namespace", name: "n".repeat(512), tools: [{ type: "function", name: "f" }] }),
    { features: new Set(["tools"]) },
  ],
  ["the SDK's smallest request", ask({}), { stream: false, choices: 1, features: new Set() }],
  ["LangChain's empty text", ask({ text: {} }), { features: new Set() }],
  [
    "nulls name no state",
    ask({
      previous_response_id: null,
      conversation: null,
      prompt: null,
      background: null,
      tools: null,
      max_output_tokens: null,
    }),
    { features: new Set() },
  ],
  ["no work in the background", ask({ background: false }), {}],
  ["the limit", ask({ max_output_tokens: 77 }), { maxOutputTokens: 77 }],
  [
    "an image",
    show({ type: "input_image", image_url: "https://example.com/a.png", detail: "auto" }),
    { features: new Set(["vision"]) },
  ],
  [
    "an image in a tool's output",
    give({
      type: "function_call_output",
      call_id: "c",
      output: [{ type: "input_image", image_url: "data:image/png;base64,AA" }],
    }),
    { features: new Set(["vision"]) },
  ],
  [
    "an older name of web search",
    tools({ type: "web_search_preview_2025_03_11" }),
    { features: new Set(["web_search"]) },
  ],
  [
    "a function without parameters",
    tools({ type: "function", name: "f", parameters: null }),
    { features: new Set(["tools"]) },
  ],
  [
    "tools that the client runs",
    tools(
      { type: "local_shell" },
      { type: "shell", environment: { type: "local" } },
      { type: "apply_patch" },
      { type: "tool_search" },
    ),
    { features: new Set(["tools"]) },
  ],
  [
    "a choice of web search by an older name",
    ask({ tools: [{ type: "web_search" }], tool_choice: { type: "web_search_preview_2025_03_11" } }),
    { features: new Set(["web_search"]) },
  ],
  [
    "a choice of what came in the midst of the input",
    ask({
      input: [
        { role: "user", content: "Hi" },
        { type: "additional_tools", tools: [{ type: "apply_patch" }] },
      ],
      tool_choice: { type: "apply_patch" },
    }),
    { features: new Set(["tools"]) },
  ],
  ["a choice by name", choosing({ type: "function", name: "f" }), { features: new Set(["tools"]) }],
  ["a choice of a name alone, which the backend judges", choosing({ name: "f" }), { features: new Set(["tools"]) }],
  [
    "tools that are allowed",
    choosing({ type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "f" }] }),
    { features: new Set(["tools"]) },
  ],
  [
    "a schema for the answer",
    ask({ text: { format: { type: "json_schema", name: "a", schema } } }),
    { features: new Set(["structured_outputs"]) },
  ],
  ["plain text as a format", ask({ text: { format: { type: "text" } } }), { features: new Set() }],
]

describe("a responses request is refused for", () => {
  for (const [fact, body, code] of refused)
    test(fact, () => {
      const request = decodeRequest(body)
      expect<string>(request instanceof Failure ? request.code : "taken").toBe(code)
    })
})

describe("a responses request is understood:", () => {
  for (const [fact, body, facts] of accepted)
    test(fact, () => {
      const request = decodeRequest(body)
      if (request instanceof Failure) throw new Error(request.message)
      expect(request).toMatchObject(facts)
      if (facts.features) expect(request.features).toEqual(facts.features)
    })
})

const send = (fields: JsonObject): JsonObject => {
  const request = decodeRequest(ask(fields))
  if (request instanceof Failure) throw new Error(request.message)
  return encodeRequest(request, { model: "vendor-m", maxOutputTokens: 200, stream: request.stream, strip: [] })
}

describe("what a responses backend is sent", () => {
  test("is never to be stored, whatever the client wrote", () => {
    for (const store of [true, false, null]) expect(send({ store })["store"]).toBe(false)
    expect(send({})["store"]).toBe(false)
  })
  test("always has a limit, and never one over the client's", () => {
    expect(send({})["max_output_tokens"]).toBe(200)
    expect(send({ max_output_tokens: 5_000 })["max_output_tokens"]).toBe(200)
    expect(send({ max_output_tokens: 50 })["max_output_tokens"]).toBe(50)
  })
  test("keeps Codex's request as it is, but for what the gateway owns", () =>
    expect(send(codex)).toEqual({
      ...codex,
      model: "vendor-m",
      max_output_tokens: 200,
      max_tool_calls: 5,
      service_tier: "default",
    }))
})
