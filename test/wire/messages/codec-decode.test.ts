/** A client's messages request as a prompt for a backend of another format. */
import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import type { AssistantPart, Prompt, Reasoning, UserPart } from "../../../src/language/prompt.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { decoded, prompt } from "./samples.ts"

const understood = (fields: JsonObject): Prompt => {
  const read = decoded(fields)
  if (read instanceof Failure) throw new Error(`refused: ${read.message}`)
  return read
}
const hi = { role: "user", content: "Hi" }
const user = (...content: JsonObject[]) => understood({ messages: [{ role: "user", content }] }).turns[0]?.parts
const assistant = (...content: JsonObject[]) =>
  understood({ messages: [hi, { role: "assistant", content }, hi] }).turns[1]?.parts
const ephemeral = { cache_control: { type: "ephemeral", ttl: "1h" } }
/** One hour of a cache costs more than there is a rate for. */
const mark = { cache: { ttl: "5m" } }

test("the least request is the least prompt", () => {
  expect(understood({})).toEqual(prompt())
})

describe("system", () => {
  test("may be one text", () => {
    expect(understood({ system: "Be kind." }).instructions).toEqual([{ type: "text", text: "Be kind." }])
  })
  test("keeps its blocks, their marks, and the one that a client is billed by", () => {
    const billing = "x-anthropic-billing-header: cc_version=2.1"
    const system = [
      { type: "text", text: billing },
      { type: "text", text: "" },
      { type: "text", text: "s", ...ephemeral },
    ]
    expect(understood({ system }).instructions).toEqual([
      { type: "text", text: billing },
      { type: "text", text: "s", ...mark },
    ])
  })
  test("in mid-conversation is a turn of its own, unless it only sets an effort", () => {
    const messages = [
      hi,
      {
        role: "system",
        content: [
          { type: "text", text: "Be brief." },
          { type: "tool_removal", tool: { name: "f" } },
        ],
      },
      { role: "assistant", content: "a" },
      { role: "system", content: [], output_config: { effort: "low" } },
    ]
    expect(understood({ messages }).turns.slice(1)).toEqual([
      { role: "system", parts: [{ type: "text", text: "Be brief." }] },
      { role: "assistant", parts: [{ type: "text", text: "a" }] },
    ])
  })
})

const shown: readonly (readonly [fact: string, block: JsonObject, parts: readonly UserPart[]])[] = [
  ["marked text", { type: "text", text: "a", ...ephemeral }, [{ type: "text", text: "a", ...mark }]],
  [
    "a mark without a time",
    { type: "text", text: "a", cache_control: { type: "ephemeral" } },
    [{ type: "text", text: "a", cache: { ttl: undefined } }],
  ],
  [
    "an image as data",
    { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } },
    [{ type: "image", source: { kind: "data", mediaType: "image/png", base64: "iVBO" } }],
  ],
  [
    "an image as an address",
    { type: "image", source: { type: "url", url: "https://e.com/i" }, ...ephemeral },
    [{ type: "image", source: { kind: "url", url: "https://e.com/i" }, ...mark }],
  ],
  [
    "a PDF, its name and what is said of it",
    {
      type: "document",
      source: { type: "base64", media_type: "application/pdf", data: "JVBE" },
      title: "a.pdf",
      context: "of 2020",
    },
    [
      { type: "text", text: "of 2020" },
      { type: "document", source: { kind: "data", mediaType: "application/pdf", base64: "JVBE" }, name: "a.pdf" },
    ],
  ],
  [
    "an image as data with a mark",
    { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" }, ...ephemeral },
    [{ type: "image", source: { kind: "data", mediaType: "image/png", base64: "iVBO" }, ...mark }],
  ],
  [
    "a document as an address, what is said of it, and its mark",
    { type: "document", source: { type: "url", url: "https://e.com/a.pdf" }, context: "of 2020", ...ephemeral },
    [
      { type: "text", text: "of 2020" },
      { type: "document", source: { kind: "url", url: "https://e.com/a.pdf" }, name: undefined, ...mark },
    ],
  ],
  [
    "a text document and what is said of it",
    { type: "document", source: { type: "text", media_type: "text/plain", data: "t" }, context: "of 2020" },
    [
      { type: "text", text: "of 2020" },
      { type: "document", source: { kind: "text", text: "t" }, name: undefined },
    ],
  ],
  [
    "a document of blocks and what is said of it",
    {
      type: "document",
      source: { type: "content", content: [{ type: "text", text: "a" }] },
      context: "of 2020",
    },
    [
      { type: "text", text: "of 2020" },
      { type: "document", source: { kind: "text", text: "a" }, name: undefined },
    ],
  ],
  [
    "a search result with a mark",
    {
      type: "search_result",
      source: "https://e.com",
      title: "T",
      content: [{ type: "text", text: "found" }],
      ...ephemeral,
    },
    [{ type: "document", source: { kind: "text", text: "https://e.com\n\nfound" }, name: "T", ...mark }],
  ],
  [
    "a text document, citations forgone",
    { type: "document", source: { type: "text", media_type: "text/plain", data: "t" }, citations: { enabled: true } },
    [{ type: "document", source: { kind: "text", text: "t" }, name: undefined }],
  ],
  [
    "a document of blocks",
    {
      type: "document",
      source: {
        type: "content",
        content: [
          { type: "text", text: "a" },
          { type: "image", source: { type: "url", url: "https://e.com/i" } },
          { type: "text", text: "b" },
        ],
      },
    },
    [
      { type: "document", source: { kind: "text", text: "a\n\nb" }, name: undefined },
      { type: "image", source: { kind: "url", url: "https://e.com/i" } },
    ],
  ],
  [
    "a search result",
    { type: "search_result", source: "https://e.com", title: "T", content: [{ type: "text", text: "found" }] },
    [{ type: "document", source: { kind: "text", text: "https://e.com\n\nfound" }, name: "T" }],
  ],
  [
    "a result as one text",
    { type: "tool_result", tool_use_id: "toolu_1", content: "42", ...ephemeral },
    [{ type: "tool-result", callId: "toolu_1", parts: [{ type: "text", text: "42" }], isError: false, ...mark }],
  ],
  [
    "a result that is an error, of several blocks",
    {
      type: "tool_result",
      tool_use_id: "toolu_1",
      is_error: true,
      content: [
        { type: "text", text: "a" },
        { type: "image", source: { type: "url", url: "https://e.com/i" } },
        { type: "tool_reference", tool_name: "f" },
      ],
    },
    [
      {
        type: "tool-result",
        callId: "toolu_1",
        parts: [
          { type: "text", text: "a" },
          { type: "image", source: { kind: "url", url: "https://e.com/i" } },
          { type: "text", text: "The tool f is available." },
        ],
        isError: true,
      },
    ],
  ],
  [
    "a result of nothing",
    { type: "tool_result", tool_use_id: "t" },
    [{ type: "tool-result", callId: "t", parts: [], isError: false }],
  ],
]
test.each(shown)("a user shows %s", (_, block, parts) => {
  expect(user(block)).toEqual([...parts])
})

const answered: readonly (readonly [fact: string, block: JsonObject, parts: readonly AssistantPart[]])[] = [
  [
    "thinking with its signature",
    { type: "thinking", thinking: "hm", signature: "s" },
    [{ type: "thinking", text: "hm", seal: { by: "messages", data: "s" } }],
  ],
  [
    "thinking that is not shown",
    { type: "thinking", thinking: "", signature: "s" },
    [{ type: "thinking", text: "", seal: { by: "messages", data: "s" } }],
  ],
  [
    "thinking that nobody sealed",
    { type: "thinking", thinking: "hm", signature: "" },
    [{ type: "thinking", text: "hm", seal: undefined }],
  ],
  [
    "redacted thinking",
    { type: "redacted_thinking", data: "r" },
    [{ type: "thinking", text: "", seal: { by: "messages-redacted", data: "r" } }],
  ],
  [
    "a call",
    { type: "tool_use", id: "toolu_1", name: "f", input: { a: [1] }, ...ephemeral },
    [{ type: "tool-call", id: "toolu_1", name: "f", arguments: '{"a":[1]}', custom: false }],
  ],
  [
    "a call without input",
    { type: "tool_use", id: "toolu_1", name: "f" },
    [{ type: "tool-call", id: "toolu_1", name: "f", arguments: "{}", custom: false }],
  ],
  ["a summary of what was before", { type: "compaction", content: "So far: …" }, [{ type: "text", text: "So far: …" }]],
  ["a search at the backend", { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }, []],
  ["what that search found", { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] }, []],
  [
    "tools that a search among tools found",
    { type: "tool_search_tool_result", tool_use_id: "srvtoolu_1", content: {} },
    [],
  ],
]
test.each(answered)("the assistant said %s", (_, block, parts) => {
  expect(assistant({ type: "text", text: "a" }, block)).toEqual([{ type: "text", text: "a" }, ...parts])
})

const tools = (...list: JsonObject[]) => understood({ tools: list }).tools

describe("tools", () => {
  const schema = { type: "object", properties: { a: { type: "string" } } }
  test("of the client's own are functions; what only steers the vendor's backend falls away", () => {
    const own = { name: "f", description: "d", input_schema: schema }
    const steered = {
      defer_loading: true,
      eager_input_streaming: true,
      input_examples: [{}],
      allowed_callers: ["direct"],
    }
    const fn = { type: "function", name: "f", description: "d", parameters: schema, strict: undefined } as const
    expect(tools(own, { ...own, type: "custom", name: "g", strict: true, ...steered, ...ephemeral })).toEqual([
      fn,
      { ...fn, name: "g", strict: true, ...mark },
    ])
  })

  test("that the vendor's models know by heart are spelled out", () => {
    const [bash, editor, older, memory] = tools(
      { type: "bash_20250124", name: "bash" },
      { type: "text_editor_20250728", name: "str_replace_based_edit_tool", max_characters: 9000 },
      { type: "text_editor_20250124", name: "str_replace_editor" },
      { type: "memory_20250818", name: "memory" },
    )
    const fields = (tool: typeof bash) =>
      tool?.type === "function" ? Object.keys(tool.parameters["properties"] as JsonObject).sort() : undefined
    const commands = (tool: typeof bash) =>
      tool?.type === "function" ? (tool.parameters["properties"] as { command: JsonObject }).command["enum"] : undefined
    expect(bash).toMatchObject({ type: "function", name: "bash" })
    expect(fields(bash)).toEqual(["command", "restart"])
    expect(editor).toMatchObject({ name: "str_replace_based_edit_tool", parameters: { required: ["command", "path"] } })
    expect(fields(editor)).toEqual([
      "command",
      "file_text",
      "insert_line",
      "insert_text",
      "new_str",
      "old_str",
      "path",
      "view_range",
    ])
    expect(commands(editor)).toEqual(["view", "create", "str_replace", "insert"])
    expect(fields(older)).not.toContain("insert_text")
    expect(commands(older)).toEqual(["view", "create", "str_replace", "insert", "undo_edit"])
    expect(commands(memory)).toEqual(["view", "create", "str_replace", "insert", "delete", "rename"])
    expect(fields(memory)).toEqual(expect.arrayContaining(["old_path", "new_path"]))
  })

  test("that search the web are the neutral search, those that search among tools fall away", () => {
    const found = tools(
      { type: "web_search_20250305", name: "web_search", max_uses: 3, allowed_domains: null, ...ephemeral },
      { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" },
    )
    expect(found).toEqual([{ type: "web-search", options: { max_uses: 3 } }])
  })

  const choices: readonly (readonly [JsonObject, Pick<Prompt, "toolChoice" | "parallelTools">])[] = [
    [{ type: "auto" }, { toolChoice: { kind: "auto" }, parallelTools: undefined }],
    [
      { type: "any", disable_parallel_tool_use: true },
      { toolChoice: { kind: "required" }, parallelTools: false },
    ],
    [{ type: "none" }, { toolChoice: { kind: "none" }, parallelTools: undefined }],
    [
      { type: "tool", name: "f", disable_parallel_tool_use: false },
      { toolChoice: { kind: "tool", name: "f" }, parallelTools: undefined },
    ],
  ]
  test.each(choices)("a choice of %j", (choice, expected) => {
    const { toolChoice, parallelTools } = understood({ tool_choice: choice })
    expect({ toolChoice, parallelTools }).toEqual(expected)
  })
})

const thinking: readonly (readonly [JsonObject, Partial<Reasoning> | undefined])[] = [
  [{}, undefined],
  [{ thinking: null, output_config: { effort: null } }, undefined],
  [{ thinking: { type: "disabled" } }, { enabled: false }],
  [{ thinking: { type: "between_tools" } }, { enabled: false }],
  [{ thinking: { type: "enabled", budget_tokens: 2000 } }, { budgetTokens: 2000 }],
  [{ thinking: { type: "adaptive" }, output_config: { effort: "xhigh" } }, { effort: "xhigh" }],
  [{ thinking: { type: "adaptive", display: "omitted" } }, { visible: false }],
  [{ output_config: { effort: "low" } }, { effort: "low" }],
]
test.each(thinking)("%j asks for reasoning %j", (fields, expected) => {
  const reasoning = { enabled: true, effort: undefined, budgetTokens: undefined, visible: true, ...expected }
  expect(understood(fields).reasoning).toEqual(expected && reasoning)
})

describe("the other fields", () => {
  test("sampling, stops and the end user are read", () => {
    expect(
      understood({
        temperature: 0.2,
        top_p: 0.9,
        top_k: 5,
        stop_sequences: ["END"],
        metadata: { user_id: "u" },
      }),
    ).toMatchObject({ sampling: { temperature: 0.2, topP: 0.9, topK: 5 }, stopSequences: ["END"] })
  })
  test("the answer's schema is read under both of its names", () => {
    const format = { type: "json_schema", schema: { type: "object" } }
    const output = {
      kind: "schema",
      name: undefined,
      description: undefined,
      schema: { type: "object" },
      strict: undefined,
    }
    expect(understood({ output_config: { format } }).output).toEqual(output as Prompt["output"])
    expect(understood({ output_format: format }).output).toEqual(output as Prompt["output"])
  })
  test("what only the vendor's own backend understands falls away", () => {
    const body = {
      context_management: { edits: [] },
      service_tier: "auto",
      cache_control: { type: "ephemeral" },
      diagnostics: {},
      speed: "standard",
      unknown: 1,
    }
    expect(understood(body)).toEqual(prompt())
  })
})

const SHAPE = "request.invalid_request"
const FEATURE = "request.unsupported_feature"
const block = (content: JsonObject): JsonObject => ({ messages: [{ role: "user", content: [content] }] })
const refused: readonly (readonly [fact: string, body: JsonObject, code: string])[] = [
  ["tools that see a screen", { tools: [{ type: "computer_20251124", name: "computer" }] }, FEATURE],
  ["tools that see pages", { tools: [{ type: "browser_toolset_20260801", name: "browser" }] }, FEATURE],
  ["a block that nobody knows", block({ type: "hologram" }), FEATURE],
  ["an image that nobody knows how to read", block({ type: "image", source: { type: "hologram" } }), FEATURE],
  ["a document that nobody knows how to read", block({ type: "document", source: {} }), FEATURE],
  ["a call in the user's turn", block({ type: "tool_use", id: "1", name: "f", input: {} }), FEATURE],
  [
    "a result of such a block",
    block({ type: "tool_result", tool_use_id: "1", content: [{ type: "browser_state" }] }),
    FEATURE,
  ],
  [
    "an image in the assistant's turn",
    { messages: [hi, { role: "assistant", content: [{ type: "image" }] }] },
    FEATURE,
  ],
  [
    "an image in a system message",
    {
      messages: [hi, { role: "system", content: [{ type: "image", source: { type: "url", url: "https://e.com/i" } }] }],
    },
    FEATURE,
  ],
  [
    "a document in a system message",
    { messages: [hi, { role: "system", content: [{ type: "document", source: { type: "text", data: "d" } }] }] },
    FEATURE,
  ],
  ["a choice that is a text", { tool_choice: "auto" }, SHAPE],
  ["a choice of no tool", { tool_choice: { type: "tool" } }, SHAPE],
  ["stops that are a text", { stop_sequences: "END" }, SHAPE],
  ["a temperature that is a text", { temperature: "hot" }, SHAPE],
  ["an effort that there is not", { output_config: { effort: "extreme" } }, SHAPE],
]
test.each(refused)("%s is refused", (_, body, code) => {
  const failure = decoded(body)
  expect(failure).toBeInstanceOf(Failure)
  expect(failure).toMatchObject({ code })
})
