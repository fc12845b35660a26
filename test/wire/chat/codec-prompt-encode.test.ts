import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import type { AssistantPart, Effort, Prompt, Reasoning, Tool, Turn, UserPart } from "../../../src/language/prompt.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { chatFormat } from "../../../src/wire/chat/format.ts"
import { encoded, forwarding, otherRequest, prompt } from "./ask.ts"

const text = (text: string) => ({ type: "text", text }) as const
const user = (...parts: UserPart[]): Turn => ({ role: "user", parts })
const assistant = (...parts: AssistantPart[]): Turn => ({ role: "assistant", parts })
const system = (...texts: string[]): Turn => ({ role: "system", parts: texts.map(text) })
const png = { type: "image", source: { kind: "data", mediaType: "image/png", base64: "AAAA" } } as const
const pngPart = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }
const call = (id: string, name = "weather"): AssistantPart => ({
  type: "tool-call",
  id,
  name,
  arguments: "{}",
  custom: false,
})
const calls = (...ids: string[]) =>
  ids.map((id) => ({ id, type: "function", function: { name: "weather", arguments: "{}" } }))
const result = (callId: string, parts: readonly UserPart[], isError = false): UserPart => ({
  type: "tool-result",
  callId,
  parts: parts.filter((part) => part.type !== "tool-result"),
  isError,
})
const FOLLOWS = "[The images and files of this result follow in the next user message.]"

const conversations: readonly (readonly [fact: string, says: Partial<Prompt>, messages: JsonObject[]])[] = [
  [
    "instructions and system turns are one system message at the front",
    { instructions: [text("a"), text("b")], turns: [user(text("Hi")), system("later"), user(text("there"))] },
    [
      { role: "system", content: "a\n\nb\n\nlater" },
      { role: "user", content: [text("Hi"), text("there")] },
    ],
  ],
  [
    "a coding agent's billing header and empty texts are left out",
    {
      instructions: [text("x-anthropic-billing-header: cc_version=2.1; cch=1f;"), text("a"), text("")],
      turns: [user(text("x-anthropic-billing-header stays in what a user says"), text(""))],
    },
    [
      { role: "system", content: "a" },
      { role: "user", content: "x-anthropic-billing-header stays in what a user says" },
    ],
  ],
  [
    "cache marks are left out",
    {
      instructions: [{ ...text("a"), cache: { ttl: "1h" } }],
      turns: [user({ ...text("Hi"), cache: { ttl: undefined } }, { ...png, cache: { ttl: undefined } })],
    },
    [
      { role: "system", content: "a" },
      { role: "user", content: [text("Hi"), pngPart] },
    ],
  ],
  [
    "images by data and by address, with their detail",
    {
      turns: [
        user({ ...png, detail: "high" }, { type: "image", source: { kind: "url", url: "https://example.com/a.png" } }),
      ],
    },
    [
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "high" } },
          { type: "image_url", image_url: { url: "https://example.com/a.png" } },
        ],
      },
    ],
  ],
  [
    "a detail that chat does not have is left out",
    { turns: [user({ ...png, detail: "original" })] },
    [{ role: "user", content: [pngPart] }],
  ],
  [
    "a document's title becomes the name of a file",
    {
      turns: [
        user({
          type: "document",
          source: { kind: "data", mediaType: "application/pdf", base64: "AA" },
          name: "Quarterly report",
        }),
      ],
    },
    [
      {
        role: "user",
        content: [
          { type: "file", file: { filename: "Quarterly report.pdf", file_data: "data:application/pdf;base64,AA" } },
        ],
      },
    ],
  ],
  [
    "documents of data are files with a name, those of text are text",
    {
      turns: [
        user(
          { type: "document", source: { kind: "data", mediaType: "application/pdf", base64: "AA==" }, name: undefined },
          { type: "document", source: { kind: "text", text: "words" }, name: "notes.txt" },
          { type: "document", source: { kind: "text", text: "words" }, name: undefined },
        ),
      ],
    },
    [
      {
        role: "user",
        content: [
          { type: "file", file: { filename: "document.pdf", file_data: "data:application/pdf;base64,AA==" } },
          text("notes.txt:\n\nwords"),
          text("words"),
        ],
      },
    ],
  ],
  [
    "a document of text that came as data is text too, also within a result",
    {
      turns: [
        assistant(call("c1")),
        user(
          result("c1", [
            {
              type: "document",
              source: { kind: "data", mediaType: "application/json", base64: "e30=" },
              name: "a.json",
            },
          ]),
        ),
        user({ type: "document", source: { kind: "data", mediaType: "text/csv", base64: "YSxi" }, name: "a.csv" }),
      ],
    },
    [
      { role: "assistant", content: null, tool_calls: calls("c1") },
      { role: "tool", tool_call_id: "c1", content: "a.json:\n\n{}" },
      { role: "user", content: "a.csv:\n\na,b" },
    ],
  ],
  [
    "results become tool messages before what the user says",
    {
      turns: [
        assistant(call("c1"), call("c2")),
        user(text("and?"), result("c1", [text("a"), text("b")])),
        user(result("c2", [])),
      ],
    },
    [
      { role: "assistant", content: null, tool_calls: calls("c1", "c2") },
      { role: "tool", tool_call_id: "c1", content: "a\n\nb" },
      { role: "tool", tool_call_id: "c2", content: "" },
      { role: "user", content: "and?" },
    ],
  ],
  [
    "images in results follow after all results, in their order",
    {
      turns: [
        assistant(call("c1"), call("c2")),
        user(result("c1", [text("a"), png]), result("c2", [text("b")]), text("and?")),
      ],
    },
    [
      { role: "assistant", content: null, tool_calls: calls("c1", "c2") },
      { role: "tool", tool_call_id: "c1", content: `a\n\n${FOLLOWS}` },
      { role: "tool", tool_call_id: "c2", content: "b" },
      { role: "user", content: [pngPart, text("and?")] },
    ],
  ],
  [
    "a document of text stays in its result",
    { turns: [user(result("c1", [{ type: "document", source: { kind: "text", text: "words" }, name: "n" }]))] },
    [{ role: "tool", tool_call_id: "c1", content: "n:\n\nwords" }],
  ],
  [
    "a result that is an error says so",
    { turns: [user(result("c1", [text("no such city")], true))] },
    [{ role: "tool", tool_call_id: "c1", content: "Error: no such city" }],
  ],
  [
    "neighbours of one role are one message, with all of its calls",
    { turns: [assistant(text("a")), assistant(call("c1")), system("s"), assistant(text("b"), call("c2"))] },
    [
      { role: "system", content: "s" },
      { role: "assistant", content: "a\n\nb", tool_calls: calls("c1", "c2") },
    ],
  ],
  [
    "thinking without a seal is told, thinking with one is its own backend's",
    {
      turns: [
        assistant({ type: "thinking", text: "hm", seal: undefined }, text("a")),
        user(text("Hi")),
        assistant({ type: "thinking", text: "hm", seal: { by: "messages", data: "s" } }, text("b")),
      ],
    },
    [
      { role: "assistant", content: "a", reasoning_content: "hm" },
      { role: "user", content: "Hi" },
      { role: "assistant", content: "b" },
    ],
  ],
  [
    "an assistant that says nothing parts no neighbours",
    {
      turns: [
        user(text("a")),
        assistant({ type: "thinking", text: "hm", seal: { by: "responses", data: "s" } }, text("")),
        user(text("b")),
      ],
    },
    [{ role: "user", content: [text("a"), text("b")] }],
  ],
  [
    "a refusal stays one",
    { turns: [assistant({ type: "refusal", text: "no" })] },
    [{ role: "assistant", content: null, refusal: "no" }],
  ],
  [
    "a custom tool's call is a function's",
    {
      tools: [{ type: "custom", name: "patch", description: undefined, grammar: undefined }],
      turns: [assistant({ type: "tool-call", id: "c", name: "patch", arguments: 'a "b"\n', custom: true })],
    },
    [
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "patch", arguments: '{"input":"a \\"b\\"\\n"}' } }],
      },
    ],
  ],
]

describe("a conversation for a chat backend:", () => {
  test.each(conversations)("%s", (_, says, messages) => {
    expect(encoded(says).messages).toEqual(messages)
  })
})

const tool = {
  type: "function",
  name: "weather",
  description: "d",
  parameters: { type: "object", properties: {} },
  strict: undefined,
} as const
const written = {
  type: "function",
  function: { name: "weather", description: "d", parameters: { type: "object", properties: {} } },
}
const search: Tool = { type: "web-search", options: {} }
const effort = (effort: Effort): Reasoning => ({ enabled: true, effort, budgetTokens: undefined, visible: true })
const budget = (budgetTokens: number): Reasoning => ({ enabled: true, effort: undefined, budgetTokens, visible: true })

/** Beside `model`, `messages` and `max_tokens`. */
const parameters: readonly (readonly [fact: string, says: Partial<Prompt>, body: JsonObject])[] = [
  ["nothing is said of what was not asked", {}, {}],
  ["a tool", { tools: [{ ...tool, cache: { ttl: "5m" } }] }, { tools: [written] }],
  [
    "a strict tool",
    { tools: [{ ...tool, strict: true }] },
    { tools: [{ ...written, function: { ...written.function, strict: true } }] },
  ],
  ["a tool that is not strict", { tools: [{ ...tool, strict: false }] }, { tools: [written] }],
  [
    "a custom tool is a function of one text, its grammar that text's description",
    {
      tools: [
        {
          type: "custom",
          name: "patch",
          description: "d",
          grammar: { type: "grammar", syntax: "lark", definition: "s: A" },
        },
      ],
    },
    {
      tools: [
        {
          type: "function",
          function: {
            name: "patch",
            description: "d",
            parameters: {
              type: "object",
              properties: { input: { type: "string", description: "Text that follows this lark grammar:\ns: A" } },
              required: ["input"],
              additionalProperties: false,
            },
          },
        },
      ],
    },
  ],
  [
    "any tool may be called",
    { tools: [tool], toolChoice: { kind: "auto" } },
    { tools: [written], tool_choice: "auto" },
  ],
  ["no tool may be called", { tools: [tool], toolChoice: { kind: "none" } }, { tools: [written], tool_choice: "none" }],
  [
    "a tool must be called",
    { tools: [tool], toolChoice: { kind: "required" } },
    { tools: [written], tool_choice: "required" },
  ],
  [
    "this tool must be called",
    { tools: [tool], toolChoice: { kind: "tool", name: "weather" } },
    { tools: [written], tool_choice: { type: "function", function: { name: "weather" } } },
  ],
  ["one call at a time", { tools: [tool], parallelTools: false }, { tools: [written], parallel_tool_calls: false }],
  ["a choice without tools is none", { toolChoice: { kind: "auto" }, parallelTools: true }, {}],
  ["stop sequences", { stopSequences: ["a", "b"] }, { stop: ["a", "b"] }],
  ["sampling, but for top_k", { sampling: { temperature: 0, topP: 0.5, topK: 3 } }, { temperature: 0, top_p: 0.5 }],
  ["JSON mode", { output: { kind: "json" } }, { response_format: { type: "json_object" } }],
  [
    "a schema for the answer, with a name that chat takes",
    { output: { kind: "schema", name: undefined, description: "d", schema: { type: "object" }, strict: true } },
    {
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", description: "d", schema: { type: "object" }, strict: true },
      },
    },
  ],
  ["an effort as it is", { reasoning: effort("max") }, { reasoning_effort: "max" }],
  ["a small budget", { reasoning: budget(4_000) }, { reasoning_effort: "low" }],
  ["a middling budget", { reasoning: budget(10_000) }, { reasoning_effort: "medium" }],
  ["a large budget", { reasoning: budget(31_999) }, { reasoning_effort: "high" }],
  [
    "an effort goes before a budget",
    { reasoning: { ...effort("minimal"), budgetTokens: 31_999 } },
    { reasoning_effort: "minimal" },
  ],
  ["reasoning as the backend likes", { reasoning: { ...budget(1), budgetTokens: undefined } }, {}],
  [
    "no reasoning",
    { reasoning: { enabled: false, effort: undefined, budgetTokens: undefined, visible: false } },
    { reasoning_effort: "none" },
  ],
]

describe("the parameters for a chat backend:", () => {
  test.each(parameters)("%s", (_, says, body) => {
    expect(encoded(says)).toEqual({
      model: "vendor-model",
      messages: [],
      max_tokens: 4_096,
      service_tier: "default",
      ...body,
    })
  })

  test("the answer limit is the gateway's, and never more than the client's", () => {
    expect(encoded({}, { maxOutputTokens: 100_000 }).max_tokens).toBe(4_096)
    expect(encoded({}, { maxOutputTokens: 100 }).max_tokens).toBe(100)
  })

  test("a stream is always asked for its usage", () => {
    expect(encoded({}, { stream: true })).toMatchObject({ stream: true, stream_options: { include_usage: true } })
  })

  test("what the model does not take is stripped, but never what the gateway owns: the limit goes under its other name", () => {
    const says = { sampling: { temperature: 1, topP: 1, topK: 1 } }
    const strip = ["temperature", "top_p", "top_k", "model", "messages", "max_tokens", "stream", "stream_options"]
    expect(encoded(says, { stream: true, endUser: "opaque" }, { strip: [...strip, "service_tier"] })).toEqual({
      model: "vendor-model",
      messages: [],
      max_completion_tokens: 4_096,
      safety_identifier: "opaque",
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  test("a web search that responses clients always offer is left out", () => {
    expect(encoded({ tools: [search, tool] }, { endpoint: "responses" }).tools).toEqual([written])
  })
})

const refused: readonly (readonly [fact: string, says: Partial<Prompt>, endpoint: "messages" | "responses"])[] = [
  ["a web search", { tools: [search] }, "messages"],
  [
    "a web search that must be used",
    { tools: [search], toolChoice: { kind: "tool", name: "web_search" } },
    "responses",
  ],
  [
    "a document by its address",
    { turns: [user({ type: "document", source: { kind: "url", url: "https://example.com/a.pdf" }, name: undefined })] },
    "messages",
  ],
  [
    "a document by its address in a result",
    {
      turns: [
        user(
          result("c", [
            { type: "document", source: { kind: "url", url: "https://example.com/a.pdf" }, name: undefined },
          ]),
        ),
      ],
    },
    "messages",
  ],
]

describe("what a chat backend cannot be asked is refused:", () => {
  test.each(refused)("%s", (_, says, endpoint) => {
    const found = chatFormat.backend.encodePrompt(prompt(says), { ...otherRequest, endpoint }, forwarding)
    expect(found).toBeInstanceOf(Failure)
    expect(found).toMatchObject({ code: "request.unsupported_feature" })
  })
})
