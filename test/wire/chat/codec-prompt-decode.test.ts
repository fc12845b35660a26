import { describe, expect, test } from "bun:test"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import type { Prompt } from "../../../src/language/prompt.ts"
import { decoded, emptyPrompt, refusal } from "./ask.ts"

const hi = { role: "user", content: "Hi" }
const text = (text: string) => ({ type: "text", text }) as const
const say = (...messages: JsonObject[]): JsonObject => ({ messages })
const ephemeral = { type: "ephemeral" }
const weather = { type: "function", function: { name: "weather" } }
const weatherTool = {
  type: "function",
  name: "weather",
  description: undefined,
  parameters: { type: "object", properties: {} },
  strict: undefined,
}
const call = (args: string) => ({ id: "c1", type: "function", function: { name: "weather", arguments: args } })
const called = (args: string) => ({ type: "tool-call", id: "c1", name: "weather", arguments: args, custom: false })

const result = (callId: string, said: string) => ({
  type: "tool-result",
  callId,
  parts: [text(said)],
  isError: false,
})

const understood: readonly (readonly [fact: string, body: JsonObject, says: Partial<Record<keyof Prompt, unknown>>])[] =
  [
    [
      "leading system and developer texts are instructions, later ones are turns",
      say({ role: "system", content: "s" }, { role: "developer", content: [text("d")] }, hi, {
        role: "system",
        content: "later",
      }),
      {
        instructions: [text("s"), text("d")],
        turns: [
          { role: "user", parts: [text("Hi")] },
          { role: "system", parts: [text("later")] },
        ],
      },
    ],
    [
      "texts that say nothing are left out",
      say(
        { role: "system", content: "" },
        { role: "user", content: [text(""), text("a")] },
        { role: "assistant", content: "" },
        { role: "system", content: "" },
      ),
      { instructions: [], turns: [{ role: "user", parts: [text("a")] }] },
    ],
    [
      "each run of results is a turn of its own",
      say(
        hi,
        { role: "assistant", tool_calls: [call("{}")] },
        { role: "tool", tool_call_id: "c1", content: "one" },
        { role: "assistant", tool_calls: [{ ...call("{}"), id: "c2" }] },
        { role: "tool", tool_call_id: "c2", content: "two" },
        { role: "tool", tool_call_id: "c3", content: "three" },
        hi,
        { role: "tool", tool_call_id: "c4", content: "four" },
      ),
      {
        turns: [
          { role: "user", parts: [text("Hi")] },
          { role: "assistant", parts: [called("{}")] },
          { role: "user", parts: [result("c1", "one")] },
          { role: "assistant", parts: [{ ...called("{}"), id: "c2" }] },
          { role: "user", parts: [result("c2", "two"), result("c3", "three")] },
          { role: "user", parts: [text("Hi")] },
          { role: "user", parts: [result("c4", "four")] },
        ],
      },
    ],
    [
      "words beside an older function's call",
      say(hi, { role: "assistant", content: "Let me look.", function_call: { name: "weather", arguments: "{}" } }),
      {
        turns: [
          { role: "user", parts: [text("Hi")] },
          { role: "assistant", parts: [text("Let me look."), { ...called("{}"), id: "call_1" }] },
        ],
      },
    ],
    [
      "a call of a custom tool that was given nothing",
      say(hi, { role: "assistant", tool_calls: [{ id: "c1", type: "custom", custom: { name: "weather" } }] }),
      {
        turns: [
          { role: "user", parts: [text("Hi")] },
          { role: "assistant", parts: [{ ...called(""), custom: true }] },
        ],
      },
    ],
    [
      "cache marks of an image, a file and a tool",
      {
        messages: [
          {
            role: "user",
            content: [
              { type: "image_url", image_url: { url: "https://example.com/a.png" }, cache_control: ephemeral },
              {
                type: "file",
                file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AAAA" },
                cache_control: ephemeral,
              },
            ],
          },
        ],
        tools: [{ ...weather, cache_control: ephemeral }],
      },
      {
        turns: [
          {
            role: "user",
            parts: [
              {
                type: "image",
                source: { kind: "url", url: "https://example.com/a.png" },
                detail: undefined,
                cache: { ttl: undefined },
              },
              {
                type: "document",
                source: { kind: "data", mediaType: "application/pdf", base64: "AAAA" },
                name: "a.pdf",
                cache: { ttl: undefined },
              },
            ],
          },
        ],
        tools: [{ ...weatherTool, cache: { ttl: undefined } }],
      },
    ],
    [
      "a tool that is strict",
      { tools: [{ type: "function", function: { name: "weather", strict: true } }] },
      { tools: [{ ...weatherTool, strict: true }] },
    ],
    [
      "a function choice of auto",
      { functions: [{ name: "weather" }], function_call: "auto" },
      { tools: [weatherTool], toolChoice: { kind: "auto" }, parallelTools: false },
    ],
    [
      "a function choice of none",
      { functions: [{ name: "weather" }], function_call: "none" },
      { tools: [weatherTool], toolChoice: { kind: "none" }, parallelTools: false },
    ],
    [
      "an image of data is data, and another is its address",
      say({
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:image/PNG;base64,AAAA", detail: "low" } },
          { type: "image_url", image_url: { url: "https://example.com/a.png" } },
          { type: "image_url", image_url: "http://example.com/b.png" },
        ],
      }),
      {
        turns: [
          {
            role: "user",
            parts: [
              { type: "image", source: { kind: "data", mediaType: "image/png", base64: "AAAA" }, detail: "low" },
              { type: "image", source: { kind: "url", url: "https://example.com/a.png" } },
              { type: "image", source: { kind: "url", url: "http://example.com/b.png" } },
            ],
          },
        ],
      },
    ],
    [
      "a file of data is a document, and one of text is text",
      say({
        role: "user",
        content: [
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERg==" } },
          { type: "file", file: { file_data: "data:text/plain;charset=utf-8;base64,w6k=" } },
        ],
      }),
      {
        turns: [
          {
            role: "user",
            parts: [
              {
                type: "document",
                source: { kind: "data", mediaType: "application/pdf", base64: "JVBERg==" },
                name: "a.pdf",
              },
              { type: "document", source: { kind: "text", text: "é" }, name: undefined },
            ],
          },
        ],
      },
    ],
    [
      "a file without the head of its data is a PDF",
      say({ role: "user", content: [{ type: "file", file: { filename: "a.pdf", file_data: "JVBERg==" } }] }),
      {
        turns: [
          {
            role: "user",
            parts: [
              {
                type: "document",
                source: { kind: "data", mediaType: "application/pdf", base64: "JVBERg==" },
                name: "a.pdf",
              },
            ],
          },
        ],
      },
    ],
    [
      "cache marks are kept",
      say({ role: "system", content: [{ ...text("s"), cache_control: { type: "ephemeral", ttl: "1h" } }] }, hi),
      { instructions: [{ ...text("s"), cache: { ttl: "5m" } }] },
    ],
    [
      "cache marks of messages are those of their last part, or of the result",
      say(
        { role: "system", content: "s", cache_control: ephemeral },
        { role: "user", content: [text("a"), text("b")], cache_control: ephemeral },
        { role: "assistant", content: "c", tool_calls: [call("{}")], cache_control: ephemeral },
        { role: "tool", tool_call_id: "c1", content: "sunny", cache_control: ephemeral },
      ),
      {
        instructions: [{ ...text("s"), cache: { ttl: undefined } }],
        turns: [
          { role: "user", parts: [text("a"), { ...text("b"), cache: { ttl: undefined } }] },
          { role: "assistant", parts: [{ ...text("c"), cache: { ttl: undefined } }, called("{}")] },
          {
            role: "user",
            parts: [
              {
                type: "tool-result",
                callId: "c1",
                parts: [text("sunny")],
                isError: false,
                cache: { ttl: undefined },
              },
            ],
          },
        ],
      },
    ],
    [
      "a tool call with null content, and a run of results as one turn",
      say(
        hi,
        { role: "assistant", content: null, tool_calls: [call("{}"), { ...call('{"a":1}'), id: "c2" }] },
        { role: "tool", tool_call_id: "c1", content: "sunny" },
        { role: "tool", tool_call_id: "c2", content: [text("a"), text("b")] },
        hi,
      ),
      {
        turns: [
          { role: "user", parts: [text("Hi")] },
          { role: "assistant", parts: [called("{}"), { ...called('{"a":1}'), id: "c2" }] },
          {
            role: "user",
            parts: [
              { type: "tool-result", callId: "c1", parts: [text("sunny")], isError: false },
              { type: "tool-result", callId: "c2", parts: [text("a"), text("b")], isError: false },
            ],
          },
          { role: "user", parts: [text("Hi")] },
        ],
      },
    ],
    [
      "no arguments are an empty object",
      say(hi, {
        role: "assistant",
        tool_calls: [call(""), { id: "c1", type: "function", function: { name: "weather" } }],
      }),
      { turns: [expect.anything(), { role: "assistant", parts: [called("{}"), called("{}")] }] },
    ],
    [
      "thinking comes first and has no seal; a refusal is one",
      say(hi, { role: "assistant", reasoning_content: "hm", content: "a", refusal: "no" }),
      {
        turns: [
          expect.anything(),
          {
            role: "assistant",
            parts: [{ type: "thinking", text: "hm", seal: undefined }, text("a"), { type: "refusal", text: "no" }],
          },
        ],
      },
    ],
    [
      "parts of an assistant keep their order",
      say(hi, { role: "assistant", content: [{ type: "refusal", refusal: "no" }, text("a")] }),
      { turns: [expect.anything(), { role: "assistant", parts: [{ type: "refusal", text: "no" }, text("a")] }] },
    ],
    [
      "the older function calls get ids by their place",
      {
        ...say(
          hi,
          { role: "assistant", content: null, function_call: { name: "weather", arguments: "" } },
          { role: "function", name: "weather", content: "sunny" },
        ),
        functions: [{ name: "weather", description: "d" }],
        function_call: { name: "weather" },
      },
      {
        tools: [{ ...weatherTool, description: "d" }],
        toolChoice: { kind: "tool", name: "weather" },
        parallelTools: false,
        turns: [
          expect.anything(),
          { role: "assistant", parts: [{ ...called("{}"), id: "call_1" }] },
          {
            role: "user",
            parts: [{ type: "tool-result", callId: "call_1", parts: [text("sunny")], isError: false }],
          },
        ],
      },
    ],
    [
      "a custom tool, its grammar flat, and its calls",
      {
        ...say(hi, {
          role: "assistant",
          tool_calls: [{ id: "c", type: "custom", custom: { name: "patch", input: "x" } }],
        }),
        tools: [
          {
            type: "custom",
            custom: { name: "patch", format: { type: "grammar", grammar: { syntax: "lark", definition: "s: A" } } },
          },
          { type: "custom", custom: { name: "free", description: "d", format: { type: "text" } } },
        ],
      },
      {
        tools: [
          {
            type: "custom",
            name: "patch",
            description: undefined,
            grammar: { type: "grammar", syntax: "lark", definition: "s: A" },
          },
          { type: "custom", name: "free", description: "d", grammar: undefined },
        ],
        turns: [
          expect.anything(),
          { role: "assistant", parts: [{ type: "tool-call", id: "c", name: "patch", arguments: "x", custom: true }] },
        ],
      },
    ],
    ["a tool without parameters takes an empty object", { tools: [weather] }, { tools: [weatherTool] }],
    [
      "tool_choice auto",
      { tools: [weather], tool_choice: "auto" },
      { tools: [weatherTool], toolChoice: { kind: "auto" } },
    ],
    [
      "tool_choice none",
      { tools: [weather], tool_choice: "none" },
      { tools: [weatherTool], toolChoice: { kind: "none" } },
    ],
    [
      "tool_choice required",
      { tools: [weather], tool_choice: "required" },
      { tools: [weatherTool], toolChoice: { kind: "required" } },
    ],
    [
      "tool_choice of a tool",
      { tools: [weather], tool_choice: weather },
      { tools: [weatherTool], toolChoice: { kind: "tool", name: "weather" } },
    ],
    [
      "tool_choice of allowed tools leaves the others out",
      {
        tools: [weather, { type: "function", function: { name: "time" } }],
        tool_choice: { type: "allowed_tools", allowed_tools: { mode: "required", tools: [weather] } },
      },
      { tools: [weatherTool], toolChoice: { kind: "required" } },
    ],
    [
      "parallel_tool_calls",
      { tools: [weather], parallel_tool_calls: false },
      { tools: [weatherTool], parallelTools: false },
    ],
    ["stop as a text", { stop: "a" }, { stopSequences: ["a"] }],
    ["stop as a list", { stop: ["a", "", "b"] }, { stopSequences: ["a", "b"] }],
    ["sampling", { temperature: 0.5, top_p: 0.9, top_k: 5 }, { sampling: { temperature: 0.5, topP: 0.9, topK: 5 } }],
    ["plain text as a format is none", { response_format: { type: "text" } }, { output: undefined }],
    ["JSON mode", { response_format: { type: "json_object" } }, { output: { kind: "json" } }],
    [
      "a schema for the answer",
      {
        response_format: {
          type: "json_schema",
          json_schema: { name: "a", description: "d", strict: true, schema: { type: "object" } },
        },
      },
      { output: { kind: "schema", name: "a", description: "d", strict: true, schema: { type: "object" } } },
    ],
    [
      "an effort",
      { reasoning_effort: "xhigh" },
      { reasoning: { enabled: true, effort: "xhigh", budgetTokens: undefined, visible: true } },
    ],
    [
      "no reasoning, asked for as an effort",
      { reasoning_effort: "none" },
      { reasoning: { enabled: false, effort: undefined, budgetTokens: undefined, visible: false } },
    ],
    [
      "no reasoning, asked for as thinking",
      { thinking: { type: "disabled" }, reasoning_effort: "high" },
      { reasoning: { enabled: false, effort: undefined, budgetTokens: undefined, visible: false } },
    ],
    [
      "a thinking budget, kept under the answer limit",
      { thinking: { type: "enabled", budget_tokens: 5_000 }, max_tokens: 3_000 },
      { reasoning: { enabled: true, effort: undefined, budgetTokens: 2_999, visible: true } },
    ],
    [
      "a thinking budget under the answer limit",
      { thinking: { type: "enabled", budget_tokens: 5_000 }, max_tokens: 5_001 },
      { reasoning: { enabled: true, effort: undefined, budgetTokens: 5_000, visible: true } },
    ],
    [
      "a thinking budget without an answer limit",
      { thinking: { type: "enabled", budget_tokens: 5_000 } },
      { reasoning: { enabled: true, effort: undefined, budgetTokens: 5_000, visible: true } },
    ],
    [
      "what has no place in the neutral language is left out",
      { seed: 1, logprobs: true, logit_bias: {}, presence_penalty: 1, metadata: {}, x_new: 1 },
      {},
    ],
    [
      "nulls are absent",
      { stop: null, temperature: null, tools: null, tool_choice: null, response_format: null, reasoning_effort: null },
      {},
    ],
  ]

describe("a chat request is understood:", () => {
  test.each(understood)("%s", (_, body, says) => {
    const plain = { ...emptyPrompt, turns: [{ role: "user", parts: [text("Hi")] }] }
    expect(decoded(body)).toEqual({ ...plain, ...says } as Prompt)
  })
})

const SHAPE = "request.invalid_request"
const FEATURE = "request.unsupported_feature"
const user = (...content: Json[]): JsonObject => say({ role: "user", content })

const refused: readonly (readonly [fact: string, body: JsonObject, code: string])[] = [
  ["several answers", { n: 2 }, FEATURE],
  ["web search as a tool", { tools: [{ type: "web_search_preview" }] }, FEATURE],
  ["a part that is not known", user({ type: "hologram" }), FEATURE],
  [
    "an image as instruction",
    say({ role: "system", content: [{ type: "image_url", image_url: { url: "https://e.com" } }] }, hi),
    FEATURE,
  ],
  ["an image at no address", user({ type: "image_url", image_url: {} }), SHAPE],
  ["an image of a file", user({ type: "image_url", image_url: { url: "file:///etc/passwd" } }), SHAPE],
  [
    "an image whose data is not base64",
    user({ type: "image_url", image_url: { url: "data:image/svg+xml,<svg/>" } }),
    SHAPE,
  ],
  ["an image of no data", user({ type: "image_url", image_url: { url: "data:image/png;base64," } }), SHAPE],
  ["a file by its address", user({ type: "file", file: { file_data: "https://example.com/a.pdf" } }), SHAPE],
  ["a file without data", user({ type: "file", file: { filename: "a.pdf" } }), SHAPE],
  ["a text that is left out, beside another", user({ type: "text", text: "Hi" }, { type: "text" }), SHAPE],
  ["a result of no call", say(hi, { role: "tool", content: "x" }), SHAPE],
  ["a function's result that nobody asked for", say(hi, { role: "function", name: "f", content: "x" }), SHAPE],
  ["a call without an id", say(hi, { role: "assistant", tool_calls: [{ ...call("{}"), id: null }] }), SHAPE],
  ["a call without a function", say(hi, { role: "assistant", tool_calls: [{ id: "c", type: "function" }] }), SHAPE],
  ["a call without a name", say(hi, { role: "assistant", tool_calls: [{ id: "c", function: {} }] }), SHAPE],
  [
    "arguments that are an object",
    say(hi, { role: "assistant", tool_calls: [{ id: "c", function: { name: "f", arguments: {} } }] }),
    SHAPE,
  ],
  ["a tool choice that does not exist", { tools: [weather], tool_choice: "sometimes" }, SHAPE],
  ["a tool choice that names none", { tools: [weather], tool_choice: { type: "function" } }, SHAPE],
  ["a function choice that does not exist", { functions: [{ name: "f" }], function_call: "sometimes" }, SHAPE],
  ["parallel_tool_calls that is a text", { parallel_tool_calls: "no" }, SHAPE],
  ["stop that is a number", { stop: 5 }, SHAPE],
  ["a temperature that is a text", { temperature: "hot" }, SHAPE],
  ["top_p that is a text", { top_p: "hot" }, SHAPE],
  ["top_k that is a text", { top_k: "hot" }, SHAPE],
  ["a format that does not exist", { response_format: { type: "yaml" } }, SHAPE],
  ["a schema that is none", { response_format: { type: "json_schema", json_schema: { name: "a" } } }, SHAPE],
  ["an effort that does not exist", { reasoning_effort: "heroic" }, SHAPE],
  ["thinking of no known type", { thinking: { type: "maybe" } }, SHAPE],
  ["a thinking budget of zero", { thinking: { type: "enabled", budget_tokens: 0 } }, SHAPE],
]

describe("a chat request that another format cannot be asked is refused:", () => {
  test.each(refused)("%s", (_, body, code) => {
    expect(refusal(body)).toBe(code)
  })
})
