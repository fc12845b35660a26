import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { decoded, request } from "./asking.ts"

const text = (text: string) => ({ type: "text", text }) as const
const schema = { type: "object", properties: { path: { type: "string" } } }
const input = (...items: JsonObject[]) => ({ input: items })
const user = (...content: JsonObject[]) => input({ role: "user", content })
const userSays = (...parts: unknown[]) => ({ turns: [{ role: "user", parts }] })
const assistantSays = (...parts: unknown[]) => ({ turns: [{ role: "assistant", parts }] })

const understood: readonly (readonly [fact: string, fields: JsonObject, prompt: object])[] = [
  ["a text is a user's", { input: "Hi" }, userSays(text("Hi"))],
  [
    "instructions come before leading system and developer messages",
    {
      instructions: "A",
      input: [
        { role: "developer", content: "B" },
        { role: "system", content: [{ type: "input_text", text: "C" }] },
        { role: "user", content: "Hi" },
      ],
    },
    { instructions: [text("A"), text("B"), text("C")], turns: [{ role: "user", parts: [text("Hi")] }] },
  ],
  [
    "a developer in the midst of it stays there",
    input({ role: "user", content: "Hi" }, { role: "developer", content: "Be brief" }, { role: "user", content: "Go" }),
    {
      instructions: [],
      turns: [
        { role: "user", parts: [text("Hi")] },
        { role: "system", parts: [text("Be brief")] },
        { role: "user", parts: [text("Go")] },
      ],
    },
  ],
  [
    "empty texts are dropped",
    user({ type: "input_text", text: "" }, { type: "input_text", text: "Hi" }),
    userSays(text("Hi")),
  ],
  [
    "an image by its data",
    user({ type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "low" }),
    userSays({ type: "image", source: { kind: "data", mediaType: "image/png", base64: "AAAA" }, detail: "low" }),
  ],
  [
    "an image by its data, in capitals",
    user({ type: "input_image", image_url: "DATA:image/png;BASE64,AAAA" }),
    userSays({ type: "image", source: { kind: "data", mediaType: "image/png", base64: "AAAA" } }),
  ],
  [
    "an image by an address with all that data has",
    user({ type: "input_image", image_url: "https://e.com/a;base64,AAAA" }),
    userSays({ type: "image", source: { kind: "url", url: "https://e.com/a;base64,AAAA" } }),
  ],
  [
    "an image by its address",
    user({ type: "input_image", image_url: "https://example.com/a.png" }),
    userSays({ type: "image", source: { kind: "url", url: "https://example.com/a.png" }, detail: undefined }),
  ],
  [
    "a file by its data",
    user({ type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBE" }),
    userSays({
      type: "document",
      source: { kind: "data", mediaType: "application/pdf", base64: "JVBE" },
      name: "a.pdf",
    }),
  ],
  [
    "a file's data without a head is a PDF",
    user({ type: "input_file", filename: "a.pdf", file_data: "JVBE" }),
    userSays({
      type: "document",
      source: { kind: "data", mediaType: "application/pdf", base64: "JVBE" },
      name: "a.pdf",
    }),
  ],
  [
    "a file by its address",
    user({ type: "input_file", file_url: "https://example.com/a.pdf" }),
    userSays({ type: "document", source: { kind: "url", url: "https://example.com/a.pdf" }, name: undefined }),
  ],
  [
    "thinking, text, a refusal and calls are one turn, in order",
    input(
      {
        type: "reasoning",
        summary: [
          { type: "summary_text", text: "a" },
          { type: "summary_text", text: "b" },
        ],
        encrypted_content: "gAA",
      },
      {
        type: "message",
        role: "assistant",
        content: [
          { type: "output_text", text: "Yes" },
          { type: "refusal", refusal: "No" },
        ],
      },
      { type: "function_call", call_id: "c1", name: "f", arguments: "" },
      { type: "custom_tool_call", call_id: "c2", name: "patch", input: "" },
    ),
    assistantSays(
      { type: "thinking", text: "a\n\nb", seal: { by: "responses", data: "gAA" } },
      text("Yes"),
      { type: "refusal", text: "No" },
      { type: "tool-call", id: "c1", name: "f", arguments: "{}", custom: false },
      { type: "tool-call", id: "c2", name: "patch", arguments: "", custom: true },
    ),
  ],
  [
    "results of both kinds of calls, as text and as parts, in one turn with what the user says next",
    input(
      { type: "function_call_output", call_id: "c1", output: "ok" },
      {
        type: "custom_tool_call_output",
        call_id: "c2",
        output: [
          { type: "input_text", text: "see" },
          { type: "input_image", image_url: "https://example.com/a.png" },
        ],
      },
      { role: "user", content: "Go on" },
    ),
    userSays(
      { type: "tool-result", callId: "c1", parts: [text("ok")], isError: false },
      {
        type: "tool-result",
        callId: "c2",
        parts: [
          text("see"),
          { type: "image", source: { kind: "url", url: "https://example.com/a.png" }, detail: undefined },
        ],
        isError: false,
      },
      text("Go on"),
    ),
  ],
  [
    "turns follow each other as they were said",
    input(
      { role: "user", content: "a" },
      { role: "assistant", content: [{ type: "output_text", text: "b" }] },
      { role: "user", content: "c" },
      { role: "user", content: "d" },
      { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "e" },
      { role: "assistant", content: [{ type: "output_text", text: "f" }] },
      { role: "developer", content: "g" },
      { role: "assistant", content: [{ type: "output_text", text: "h" }] },
      { role: "developer", content: "" },
      { role: "assistant", content: [{ type: "output_text", text: "i" }] },
    ),
    {
      turns: [
        { role: "user", parts: [text("a")] },
        { role: "assistant", parts: [text("b")] },
        { role: "user", parts: [text("c"), text("d")] },
        { role: "assistant", parts: [{ type: "tool-call", id: "c1", name: "f", arguments: "{}", custom: false }] },
        { role: "user", parts: [{ type: "tool-result", callId: "c1", parts: [text("e")], isError: false }] },
        { role: "assistant", parts: [text("f")] },
        { role: "system", parts: [text("g")] },
        { role: "assistant", parts: [text("h"), text("i")] },
      ],
    },
  ],
  [
    "a messages signature comes out of our envelope",
    input({ type: "reasoning", summary: [], encrypted_content: "loket.messages.c2ln" }),
    assistantSays({ type: "thinking", text: "", seal: { by: "messages", data: "c2ln" } }),
  ],
  [
    "redacted thinking comes out of our envelope",
    input({ type: "reasoning", summary: [], encrypted_content: "loket.messages-redacted.ZGF0YQ==" }),
    assistantSays({ type: "thinking", text: "", seal: { by: "messages-redacted", data: "ZGF0YQ==" } }),
  ],
  [
    "thinking that nobody sealed has none, whatever stands in its place",
    input({
      type: "reasoning",
      summary: [{ type: "summary_text", text: "hm" }],
      encrypted_content: "loket.unsealed.",
    }),
    assistantSays({ type: "thinking", text: "hm", seal: undefined }),
  ],
  [
    "thinking that was told as it was",
    input({ type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "hm" }] }),
    assistantSays({ type: "thinking", text: "hm", seal: undefined }),
  ],
  [
    "searches at the backend are no part of what was said",
    input(
      { role: "user", content: "Hi" },
      { type: "web_search_call", id: "ws", action: { type: "search", query: "q" } },
    ),
    userSays(text("Hi")),
  ],
  [
    "a function is strict only where it says so, and takes nothing where it does not say what",
    {
      tools: [
        { type: "function", name: "a", description: "A", parameters: schema, strict: true },
        { type: "function", name: "b", parameters: null },
      ],
    },
    {
      tools: [
        { type: "function", name: "a", description: "A", parameters: schema, strict: true },
        {
          type: "function",
          name: "b",
          description: undefined,
          parameters: { type: "object", properties: {} },
          strict: false,
        },
      ],
    },
  ],
  [
    "a custom tool keeps its grammar",
    { tools: [{ type: "custom", name: "patch", format: { type: "grammar", syntax: "lark", definition: "start: x" } }] },
    {
      tools: [
        {
          type: "custom",
          name: "patch",
          description: undefined,
          grammar: { type: "grammar", syntax: "lark", definition: "start: x" },
        },
      ],
    },
  ],
  [
    "a namespace's tools, and their earlier calls, carry its name",
    {
      tools: [
        {
          type: "namespace",
          name: "fs",
          description: "",
          tools: [{ type: "function", name: "read", parameters: schema }],
        },
      ],
      input: [{ type: "function_call", call_id: "c", name: "read", namespace: "fs", arguments: "{}" }],
      tool_choice: { type: "function", name: "read", namespace: "fs" },
    },
    {
      tools: [{ type: "function", name: "fs__read", description: undefined, parameters: schema, strict: false }],
      ...assistantSays({ type: "tool-call", id: "c", name: "fs__read", arguments: "{}", custom: false }),
      toolChoice: { kind: "tool", name: "fs__read" },
    },
  ],
  [
    "tools that are added or found later count, once",
    {
      tools: [{ type: "function", name: "a", parameters: schema }],
      input: [
        { role: "user", content: "Hi" },
        { type: "additional_tools", role: "developer", tools: [{ type: "function", name: "b", parameters: schema }] },
        { type: "tool_search_output", tools: [{ type: "function", name: "a", parameters: schema }] },
      ],
    },
    { tools: [{ name: "a" }, { name: "b" }] },
  ],
  [
    "web search, in the words of the messages format",
    {
      tools: [{ type: "web_search", filters: { allowed_domains: ["a.id"] }, search_context_size: "low" }],
      max_tool_calls: 3,
      tool_choice: { type: "web_search" },
    },
    {
      tools: [{ type: "web-search", options: { allowed_domains: ["a.id"], search_context_size: "low", max_uses: 3 } }],
      toolChoice: { kind: "tool", name: "web_search" },
    },
  ],
  [
    "a web search that leaves domains out",
    { tools: [{ type: "web_search", filters: { blocked_domains: ["b.id"] } }] },
    { tools: [{ type: "web-search", options: { blocked_domains: ["b.id"] } }] },
  ],
  [
    "tools without a counterpart are left out",
    {
      tools: [
        { type: "local_shell" },
        { type: "apply_patch" },
        { type: "tool_search" },
        { type: "function", name: "a", parameters: schema },
      ],
    },
    { tools: [{ name: "a" }] },
  ],
  ["any mode of choice", { tool_choice: "required" }, { toolChoice: { kind: "required" } }],
  [
    "only the allowed tools are offered",
    {
      tools: [
        { type: "function", name: "a", parameters: schema },
        { type: "function", name: "b", parameters: schema },
      ],
      tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "b" }] },
    },
    { tools: [{ name: "b" }], toolChoice: { kind: "required" } },
  ],
  ["one tool at a time", { parallel_tool_calls: false }, { parallelTools: false }],
  ["sampling", { temperature: 0.5, top_p: 0.9 }, { sampling: { temperature: 0.5, topP: 0.9, topK: undefined } }],
  ["plain text is no output format", { text: { format: { type: "text" }, verbosity: "low" } }, { output: undefined }],
  ["any JSON", { text: { format: { type: "json_object" } } }, { output: { kind: "json" } }],
  [
    "JSON by a schema",
    { text: { format: { type: "json_schema", name: "n", schema, strict: true } } },
    { output: { kind: "schema", name: "n", description: undefined, schema, strict: true } },
  ],
  [
    "reasoning by its effort, shown",
    { reasoning: { effort: "xhigh", summary: "auto" } },
    { reasoning: { enabled: true, effort: "xhigh", budgetTokens: undefined, visible: true } },
  ],
  [
    "no reasoning",
    { reasoning: { effort: "none", summary: null } },
    { reasoning: { enabled: false, effort: "none", budgetTokens: undefined, visible: false } },
  ],
  ["reasoning that asks for nothing", { reasoning: {} }, { reasoning: undefined }],
]

describe("of a responses request is understood:", () => {
  for (const [fact, fields, prompt] of understood) test(fact, () => expect(decoded(fields)).toMatchObject(prompt))
})

const FEATURE = "request.unsupported_feature"
const SHAPE = "request.invalid_request"

const refused: readonly (readonly [fact: string, fields: JsonObject, code: string])[] = [
  [
    "an item of another kind, for it was part of the conversation",
    input({ type: "local_shell_call", call_id: "c" }),
    FEATURE,
  ],
  ["a compacted conversation", input({ type: "compaction", encrypted_content: "gAA" }), FEATURE],
  ["a part of another kind", user({ type: "input_video" }), FEATURE],
  ["a call without an id", input({ type: "function_call", name: "f", arguments: "{}" }), SHAPE],
  ["a call without a name", input({ type: "function_call", call_id: "c", arguments: "{}" }), SHAPE],
  ["arguments that are an object", input({ type: "function_call", call_id: "c", name: "f", arguments: {} }), SHAPE],
  ["a result without an id", input({ type: "function_call_output", output: "ok" }), SHAPE],
  ["an image without an address", user({ type: "input_image" }), SHAPE],
  ["a data URL that is not base64", user({ type: "input_image", image_url: "data:image/png,AAAA" }), SHAPE],
  ["a file without anything in it", user({ type: "input_file", filename: "a.pdf" }), SHAPE],
  ["a choice of a tool that is not served", { tools: [{ type: "shell" }], tool_choice: { type: "shell" } }, FEATURE],
  ["a choice that is a number", { tool_choice: 1 }, SHAPE],
  ["an output format of another kind", { text: { format: { type: "python" } } }, FEATURE],
  ["a schema that is missing", { text: { format: { type: "json_schema", name: "n" } } }, SHAPE],
  ["an effort that does not exist", { reasoning: { effort: "huge" } }, SHAPE],
  ["a temperature that is a text", { temperature: "warm" }, SHAPE],
  ["top_p that is a text", { top_p: "warm" }, SHAPE],
  ["parallel_tool_calls that is a text", { parallel_tool_calls: "no" }, SHAPE],
  ["allowed tools that are an object", { tool_choice: { type: "allowed_tools", mode: "auto", tools: {} } }, SHAPE],
  [
    "two tools that become one",
    {
      tools: [
        { type: "function", name: "a__b", parameters: schema },
        { type: "namespace", name: "a", description: "", tools: [{ type: "function", name: "b", parameters: schema }] },
      ],
    },
    FEATURE,
  ],
]

describe("for another format a responses request is refused for", () => {
  for (const [fact, fields, code] of refused)
    test(fact, () => {
      const prompt = responsesFormat.client.decodePrompt(request(fields))
      expect<string>(prompt instanceof Failure ? prompt.code : "understood").toBe(code)
    })
})

test("every name leaves in what the narrowest format takes, and different names stay different", () => {
  const long = "x".repeat(60)
  const tools = ["one", "two"].map((name) => ({ type: "function", name, parameters: schema }))
  const names = decoded({
    tools: [
      { type: "namespace", name: `mcp__${long}__`, description: "", tools },
      { type: "namespace", name: "a.b", description: "", tools },
    ],
  }).tools.map((tool) => (tool.type === "web-search" ? "" : tool.name))
  for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
  expect(new Set(names).size).toBe(4)
})
