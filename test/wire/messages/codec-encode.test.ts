/** A prompt for a messages backend: each line of the mapping (spec/wire.md, "C→M"). */
import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import type { AssistantPart, Prompt, Turn, UserPart } from "../../../src/language/prompt.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { messagesFormat } from "../../../src/wire/messages/format.ts"
import { leftOut } from "../../../src/wire/messages/prompt-out.ts"
import { decoded as decodedOfResponses } from "../responses/asking.ts"
import { encoded, forwarding, hello, prompt, request, weather } from "./samples.ts"

const says = (text: string): Turn => ({ role: "user", parts: [{ type: "text", text }] })
const answers = (...parts: AssistantPart[]): Turn => ({ role: "assistant", parts })
const calls = (id: string, json = "{}"): AssistantPart => ({
  type: "tool-call",
  id,
  name: "get_weather",
  arguments: json,
  custom: false,
})
const result = (callId: string, text: string): UserPart => ({
  type: "tool-result",
  callId,
  parts: [{ type: "text", text }],
  isError: false,
})
const block = (text: string): JsonObject => ({ type: "text", text })
const messages = (...turns: Turn[]) => encoded({ turns })["messages"]
const asked = { role: "user", content: [block("Hi")] }
const use = (id: string, input: JsonObject = {}): JsonObject => ({ type: "tool_use", id, name: "get_weather", input })
const told = (id: string, text: string): JsonObject => ({
  type: "tool_result",
  tool_use_id: id,
  content: [block(text)],
})

test("calls that share an id have one of their own each, and their results with them", () => {
  const turns = [
    answers(calls("f:0")),
    { role: "user", parts: [result("f:0", "one")] } as const,
    answers(calls("f:0"), calls("f:0")),
    { role: "user", parts: [result("f:0", "two"), result("f:0", "three"), result("other", "four")] } as const,
  ]
  expect(messages(says("Hi"), ...turns)).toEqual([
    asked,
    { role: "assistant", content: [use("f_0")] },
    { role: "user", content: [told("f_0", "one")] },
    { role: "assistant", content: [use("f_0_2"), use("f_0_3")] },
    { role: "user", content: [told("f_0_2", "two"), told("f_0_3", "three"), told("other", "four")] },
  ] as never)
})

test("the least prompt names the backend's model, the limit and the messages, and nothing else", () => {
  expect(encoded({})).toEqual({
    model: forwarding().model,
    max_tokens: 4000,
    service_tier: "standard_only",
    messages: [asked],
  })
})

describe("turns", () => {
  const rows: readonly (readonly [fact: string, turns: readonly Turn[], messages: readonly JsonObject[]])[] = [
    [
      "neighbours of one role become one",
      [says("Hi"), says("there")],
      [{ role: "user", content: [block("Hi"), block("there")] }],
    ],
    [
      "neighbours that are the assistant's too",
      [hello, answers({ type: "text", text: "a" }), answers(calls("1")), { role: "user", parts: [result("1", "r")] }],
      [asked, { role: "assistant", content: [block("a"), use("1")] }, { role: "user", content: [told("1", "r")] }],
    ],
    ["text that says nothing is left out", [says("Hi"), says("  \n"), says("")], [asked]],
    [
      "a turn that is left with nothing does not keep its neighbours apart",
      [says("a"), answers({ type: "text", text: " " }), says("b")],
      [{ role: "user", content: [block("a"), block("b")] }],
    ],
    [
      "the results of tools come first in the user's turn",
      [
        hello,
        answers(calls("1"), calls("2")),
        { role: "user", parts: [result("1", "one")] },
        says("and now?"),
        { role: "user", parts: [result("2", "two")] },
      ],
      [
        asked,
        { role: "assistant", content: [use("1"), use("2")] },
        { role: "user", content: [told("1", "one"), told("2", "two"), block("and now?")] },
      ],
    ],
    [
      "system text in mid-conversation is a marked note in the user's turn",
      [
        hello,
        answers({ type: "text", text: "a" }),
        { role: "system", parts: [{ type: "text", text: "Be brief." }] },
        says("b"),
      ],
      [
        asked,
        { role: "assistant", content: [block("a")] },
        { role: "user", content: [block("<system>\nBe brief.\n</system>"), block("b")] },
      ],
    ],
    [
      "a system note after a call stands behind the call's result",
      [
        hello,
        answers(calls("1")),
        { role: "system", parts: [{ type: "text", text: "n" }] },
        { role: "user", parts: [result("1", "r")] },
      ],
      [
        asked,
        { role: "assistant", content: [use("1")] },
        { role: "user", content: [told("1", "r"), block("<system>\nn\n</system>")] },
      ],
    ],
    [
      "a conversation that the assistant opened is opened by the user",
      [answers({ type: "text", text: "Hello!" }), says("Hi")],
      [{ role: "user", content: [block(".")] }, { role: "assistant", content: [block("Hello!")] }, asked],
    ],
    ["instructions alone are answered", [], [{ role: "user", content: [block(".")] }]],
    [
      "a last turn of the assistant is gone on with, without white space at its end",
      [hello, answers({ type: "text", text: "The answer is \n" })],
      [asked, { role: "assistant", content: [block("The answer is")] }],
    ],
    [
      "a refusal is text",
      [hello, answers({ type: "refusal", text: "No." }), says("b")],
      [asked, { role: "assistant", content: [block("No.")] }, { role: "user", content: [block("b")] }],
    ],
  ]
  test.each(rows)("%s", (_, turns, expected) => {
    expect(messages(...turns)).toEqual(expected as JsonObject[])
  })

  test("a model that refuses a last turn of the assistant is asked to go on", () => {
    const turns = [hello, answers({ type: "text", text: "The answer is" })]
    expect(encoded({ turns }, { forwarding: forwarding({ model: "anthropic.claude-opus-4-8" }) })["messages"]).toEqual([
      asked,
      { role: "assistant", content: [block("The answer is")] },
      { role: "user", content: [block("Continue.")] },
    ])
  })
})

const thinking = (seal: Extract<AssistantPart, { type: "thinking" }>["seal"]): Turn =>
  answers({ type: "thinking", text: "hm", seal }, { type: "text", text: "a" })

const thought = (by: "messages" | "messages-redacted"): AssistantPart => ({
  type: "thinking",
  text: by === "messages" ? "hm" : "",
  seal: { by, data: "s" },
})

describe("a last turn of the assistant is told without its thinking, which a model that goes on with it refuses:", () => {
  const said = { role: "assistant", content: [block("a")] }
  test.each([
    ["before a text", [thought("messages"), { type: "text", text: "a " }], [asked, said]],
    ["after a text", [{ type: "text", text: "a" }, thought("messages-redacted")], [asked, said]],
    ["alone", [thought("messages-redacted"), thought("messages")], [asked]],
  ] as const)("%s", (_, parts, expected) => {
    expect(messages(hello, answers(...parts))).toEqual(expected as never)
  })

  test("what was thought in earlier turns stays", () => {
    const earlier = answers(thought("messages"), { type: "text", text: "a" })
    const both = encoded({
      turns: [hello, earlier, says("b"), answers(thought("messages"))],
      reasoning: { enabled: true, effort: "low", budgetTokens: undefined, visible: true },
    })
    expect(both["messages"]).toEqual([
      asked,
      { role: "assistant", content: [{ type: "thinking", thinking: "hm", signature: "s" }, block("a")] },
      { role: "user", content: [block("b")] },
    ])
    expect(both["thinking"]).toMatchObject({ type: "enabled" })
  })
})

describe("thinking", () => {
  const rows: readonly (readonly [string, Turn, readonly JsonObject[]])[] = [
    [
      "sealed by this backend goes back in its place",
      thinking({ by: "messages", data: "s" }),
      [{ type: "thinking", thinking: "hm", signature: "s" }],
    ],
    [
      "that is not shown goes back sealed",
      thinking({ by: "messages-redacted", data: "r" }),
      [{ type: "redacted_thinking", data: "r" }],
    ],
    ["sealed by another backend is left out", thinking({ by: "responses", data: "x" }), []],
    ["without a seal is left out", thinking(undefined), []],
  ]
  test.each(rows)("%s", (_, turn, blocks) => {
    expect(messages(hello, turn, says("b"))).toMatchObject([asked, { content: [...blocks, block("a")] }, {}])
  })
})

describe("a call's arguments", () => {
  const rows: readonly (readonly [string, JsonObject])[] = [
    ["", {}],
    ["  ", {}],
    ['{"city":"Bandung"}', { city: "Bandung" }],
    ['{"city":"Ban', { raw: '{"city":"Ban' }],
    ["[1]", { raw: "[1]" }],
    ['"text"', { raw: '"text"' }],
    ["null", { raw: "null" }],
  ]
  test.each(rows)("%j become %j", (json, input) => {
    const turns = [hello, answers(calls("1", json)), { role: "user", parts: [result("1", "r")] } as const]
    expect(messages(...turns)).toMatchObject([asked, { content: [use("1", input)] }, {}])
  })

  test("of a custom tool are its input", () => {
    const call: AssistantPart = { type: "tool-call", id: "1", name: "patch", arguments: "*** {", custom: true }
    expect(messages(hello, answers(call))).toMatchObject([
      {},
      { content: [{ name: "patch", input: { input: "*** {" } }] },
    ])
  })

  test("keep their id, and the result its own, where the backend takes it; else both are written alike", () => {
    for (const [id, written] of [
      ["call_Ab-1", "call_Ab-1"],
      ["functions.get_weather:0", "functions_get_weather_0"],
    ] as const) {
      expect(messages(hello, answers(calls(id)), { role: "user", parts: [result(id, "r")] })).toMatchObject([
        {},
        { content: [{ id: written }] },
        { content: [{ tool_use_id: written }] },
      ])
    }
  })
})

describe("what a user shows", () => {
  const rows: readonly (readonly [string, UserPart, JsonObject])[] = [
    [
      "an image as data",
      { type: "image", source: { kind: "data", mediaType: "image/png", base64: "iVBO" }, detail: "low" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } },
    ],
    [
      "a JPEG under the name that only other vendors take",
      { type: "image", source: { kind: "data", mediaType: "Image/JPG", base64: "/9j/" }, detail: undefined },
      { type: "image", source: { type: "base64", media_type: "image/jpeg", data: "/9j/" } },
    ],
    [
      "an image as an address",
      { type: "image", source: { kind: "url", url: "https://example.com/a.png" }, cache: { ttl: undefined } },
      {
        type: "image",
        source: { type: "url", url: "https://example.com/a.png" },
        cache_control: { type: "ephemeral" },
      },
    ],
    [
      "a PDF with its name",
      { type: "document", source: { kind: "data", mediaType: "application/pdf", base64: "JVBE" }, name: "a.pdf" },
      { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBE" }, title: "a.pdf" },
    ],
    [
      "a document with a mark",
      {
        type: "document",
        source: { kind: "data", mediaType: "application/pdf", base64: "JVBE" },
        name: undefined,
        cache: { ttl: undefined },
      },
      {
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: "JVBE" },
        cache_control: { type: "ephemeral" },
      },
    ],
    [
      "a document as an address",
      { type: "document", source: { kind: "url", url: "https://example.com/a.pdf" }, name: undefined },
      { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
    ],
    [
      "a text document",
      { type: "document", source: { kind: "text", text: "long" }, name: undefined },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "long" } },
    ],
    [
      "a text file as data is read",
      {
        type: "document",
        source: { kind: "data", mediaType: "text/markdown; charset=utf-8", base64: "wqEgSGk=" },
        name: "a.md",
      },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "¡ Hi" }, title: "a.md" },
    ],
    [
      "a result that is an error, with an image in it",
      {
        type: "tool-result",
        callId: "1",
        parts: [
          { type: "text", text: "broke" },
          { type: "image", source: { kind: "url", url: "https://e.com/i" } },
        ],
        isError: true,
        cache: { ttl: "1h" },
      },
      {
        type: "tool_result",
        tool_use_id: "1",
        content: [block("broke"), { type: "image", source: { type: "url", url: "https://e.com/i" } }],
        is_error: true,
        cache_control: { type: "ephemeral", ttl: "1h" },
      },
    ],
    [
      "a result of nothing",
      { type: "tool-result", callId: "1", parts: [], isError: false },
      { type: "tool_result", tool_use_id: "1" },
    ],
  ]
  test.each(rows)("%s", (_, part, expected) => {
    expect(messages({ role: "user", parts: [part] })).toEqual([{ role: "user", content: [expected] }])
  })

  test("a document that this format has no form for is refused", () => {
    const source = { kind: "data", mediaType: "application/msword", base64: "AA==" } as const
    const turns: Turn[] = [{ role: "user", parts: [{ type: "document", source, name: undefined }] }]
    const refused = messagesFormat.backend.encodePrompt(prompt({ turns }), request(), forwarding())
    expect(refused).toBeInstanceOf(Failure)
    expect(refused).toMatchObject({ code: "request.unsupported_feature" })
  })
})

test("instructions are system blocks, and keep their cache marks", () => {
  const instructions = [
    { type: "text", text: "Be kind." },
    { type: "text", text: "" },
    { type: "text", text: "Rules", cache: { ttl: "1h" } },
  ] as const
  expect(encoded({ instructions })["system"]).toEqual([
    block("Be kind."),
    { ...block("Rules"), cache_control: { type: "ephemeral", ttl: "1h" } },
  ])
})

describe("tools", () => {
  const schemas: readonly (readonly [string, JsonObject, JsonObject])[] = [
    [
      "an object stays as it is",
      { type: "object", additionalProperties: false },
      { type: "object", additionalProperties: false },
    ],
    ["of nothing is an object", {}, { type: "object", properties: {} }],
    ["without a root type gets one", { properties: { a: {} } }, { properties: { a: {} }, type: "object" }],
    [
      "of another root type gets the one that there is",
      { type: ["object", "null"] },
      { properties: {}, type: "object" },
    ],
  ]
  test.each(schemas)("a schema %s", (_, parameters, expected) => {
    const tool = { ...weather, parameters, strict: true, cache: { ttl: undefined } }
    expect(encoded({ tools: [tool] })["tools"]).toEqual([
      { name: "get_weather", description: "Weather", input_schema: expected, cache_control: { type: "ephemeral" } },
    ])
  })

  test("a tool of free text is a function with one input, a search the server's own", () => {
    const tools: Prompt["tools"] = [
      {
        type: "custom",
        name: "patch",
        description: "",
        grammar: { type: "grammar", syntax: "lark", definition: "start: /x/" },
      },
      { type: "web-search", options: { max_uses: 2, search_context_size: "low" } },
    ]
    expect(encoded({ tools })["tools"]).toEqual([
      {
        name: "patch",
        input_schema: {
          type: "object",
          properties: { input: { type: "string", description: "Text that follows this lark grammar:\nstart: /x/" } },
          required: ["input"],
          additionalProperties: false,
        },
      },
      { type: "web_search_20250305", name: "web_search", max_uses: 2 },
    ])
  })

  test.each([
    ["without a limit", {}, 5],
    ["with a limit over the most", { max_tool_calls: 128 }, 5],
    ["with one under it", { max_tool_calls: 2 }, 2],
  ])("a search that the server runs for a responses client %s is bounded", (_, limit, max_uses) => {
    const { tools } = decodedOfResponses({ tools: [{ type: "web_search" }], ...limit })
    expect(encoded({ tools })["tools"]).toEqual([{ type: "web_search_20250305", name: "web_search", max_uses }])
  })

  test.each<JsonObject>([{ allowed_domains: ["a.example"] }, { blocked_domains: ["b.example"] }])(
    "a responses client's search keeps to its domains: %j",
    (filters) => {
      const { tools } = decodedOfResponses({ tools: [{ type: "web_search", filters }] })
      expect(encoded({ tools })["tools"]).toEqual([
        { type: "web_search_20250305", name: "web_search", max_uses: 5, ...filters },
      ])
    },
  )

  test("a search keeps to the domains and the place that the client named", () => {
    const options = {
      allowed_domains: ["a.example"],
      blocked_domains: null,
      user_location: { type: "approximate", city: "Bandung" },
    }
    const [search] = encoded({ tools: [{ type: "web-search", options }] })["tools"] as JsonObject[]
    expect(search).toEqual({
      type: "web_search_20250305",
      name: "web_search",
      max_uses: 5,
      allowed_domains: ["a.example"],
      user_location: { type: "approximate", city: "Bandung" },
    })
  })

  test("a description of white space is left out, because the backend refuses it", () => {
    const [tool] = encoded({ tools: [{ ...weather, description: " \n" }] })["tools"] as JsonObject[]
    expect(tool).not.toHaveProperty("description")
  })

  test("a name that the backend would refuse is written otherwise, everywhere alike", () => {
    const name = "files.read"
    const call: AssistantPart = { type: "tool-call", id: "1", name, arguments: "{}", custom: false }
    const body = encoded({
      tools: [{ ...weather, name }],
      toolChoice: { kind: "tool", name },
      turns: [hello, answers(call), { role: "user", parts: [result("1", "r")] }],
    })
    const written = "files_read_601e4eb6"
    expect(body).toMatchObject({
      tools: [{ name: written }],
      tool_choice: { name: written },
      messages: [{}, { content: [{ name: written }] }, {}],
    })
  })

  const choices: readonly (readonly [Partial<Prompt>, JsonObject | undefined])[] = [
    [{}, undefined],
    [{ toolChoice: { kind: "auto" } }, { type: "auto" }],
    [{ toolChoice: { kind: "none" } }, { type: "none" }],
    [{ toolChoice: { kind: "required" } }, { type: "any" }],
    [{ toolChoice: { kind: "tool", name: "get_weather" } }, { type: "tool", name: "get_weather" }],
    [{ parallelTools: true }, undefined],
    [{ parallelTools: false }, { type: "auto", disable_parallel_tool_use: true }],
    [
      { parallelTools: false, toolChoice: { kind: "required" } },
      { type: "any", disable_parallel_tool_use: true },
    ],
    [{ parallelTools: false, toolChoice: { kind: "none" } }, { type: "none" }],
    [{ tools: [], toolChoice: { kind: "auto" }, parallelTools: false }, undefined],
  ]
  test.each(choices)("a choice of %j is %j", (changes, expected) => {
    expect(encoded({ tools: [weather], ...changes })["tool_choice"]).toEqual(expected)
  })

  test("that were called but are not offered any more are told, and forbidden, because calls without tools are refused", () => {
    const call = { type: "tool-call", id: "c", name: "f.g", arguments: "{}", custom: false } as const
    const called: Turn = { role: "assistant", parts: [call, { ...call, id: "d" }] }
    const { tools, tool_choice } = encoded({ turns: [hello, called, hello], parallelTools: false })
    expect(tools).toEqual([
      { name: expect.stringMatching(/^f_g_\w{8}$/), input_schema: { type: "object", properties: {} } },
    ])
    expect(tool_choice).toEqual({ type: "none" })
    expect(encoded({ turns: [hello, called, hello], tools: [weather] })["tools"]).toHaveLength(1)
  })

  test("a demand for a tool is a free choice while the model thinks, and on models that know no demand", () => {
    const demand: Partial<Prompt> = { tools: [weather], toolChoice: { kind: "required" } }
    const reasoning = { enabled: true, effort: "high", budgetTokens: undefined, visible: true } as const
    expect(encoded({ ...demand, reasoning })["tool_choice"]).toEqual({ type: "auto" })
    expect(encoded(demand, { forwarding: forwarding({ model: "claude-opus-5-5" }) })["tool_choice"]).toEqual({
      type: "auto",
    })
    expect(encoded({ ...demand, reasoning: { ...reasoning, enabled: false } })["tool_choice"]).toEqual({ type: "any" })
  })
})

const limit = (mine: number | undefined, theirs: number) => {
  const terms = { request: request({ maxOutputTokens: mine }), forwarding: forwarding({ maxOutputTokens: theirs }) }
  return encoded({}, terms)["max_tokens"]
}

describe("the other fields", () => {
  test("the limit is the smaller of the client's and the gateway's", () => {
    expect([limit(100, 500), limit(900, 500), limit(undefined, 500)]).toEqual([100, 500, 500])
  })

  test("a stream is asked for as one", () => {
    expect(encoded({}, { request: request({ stream: true }) })["stream"]).toBe(true)
  })

  test("stop sequences of white space are left out, because the backend refuses them", () => {
    expect(encoded({ stopSequences: ["END", "\n\n", " ", ""] })["stop_sequences"]).toEqual(["END"])
    expect(encoded({ stopSequences: ["\n"] })["stop_sequences"]).toBeUndefined()
  })

  const temperatures = [
    [1.7, 1],
    [-1, 0],
    [0, 0],
    [0.3, 0.3],
  ] as const
  test.each(temperatures)("a temperature of %d is %d", (temperature, expected) => {
    const sampling = { temperature, topP: undefined, topK: 40 }
    expect(encoded({ sampling })).toMatchObject({ temperature: expected, top_k: 40 })
  })

  test("top_p is left out beside a temperature where a model takes only one of them", () => {
    const sampling = { temperature: 0.2, topP: 0.9, topK: undefined }
    expect(encoded({ sampling })["top_p"]).toBeUndefined()
    expect(encoded({ sampling: { ...sampling, temperature: undefined } })["top_p"]).toBe(0.9)
    expect(encoded({ sampling }, { forwarding: forwarding({ model: "kimi-k3" }) })).toMatchObject({
      temperature: 0.2,
      top_p: 0.9,
    })
  })

  const samplers = { temperature: 0.2, top_p: 0.9, top_k: 5 }
  test.each<[model: string, body: JsonObject, names: string[]]>([
    ["claude-haiku-4-5", {}, []],
    ["claude-haiku-4-5", samplers, ["top_p"]],
    ["claude-haiku-4-5", { top_p: 0.9 }, []],
    ["claude-haiku-4-5", { temperature: 0.2 }, []],
    ["kimi-k3", samplers, []],
    ["claude-opus-5-5", samplers, ["temperature", "top_p", "top_k"]],
    ["claude-opus-5-5", { top_k: 5, temperature: null }, ["top_k"]],
    ["claude-haiku-4-5", { stop: ["END", "\n"] }, ["stop"]],
    ["claude-haiku-4-5", { stop: "\n" }, ["stop"]],
    ["claude-haiku-4-5", { stop: ["END"] }, []],
  ])("of %s, asked with %j, are told to be left out: %j", (model, body, names) => {
    expect(leftOut(body, model)).toEqual(names)
  })

  test("what the catalogue strips is not written", () => {
    const sampling = { temperature: 0.2, topP: undefined, topK: 3 }
    const body = encoded(
      { sampling },
      { forwarding: forwarding({ strip: ["temperature", "top_p", "top_k", "model", "max_tokens", "service_tier"] }) },
    )
    expect(Object.keys(body).sort()).toEqual(["max_tokens", "messages", "model"])
  })

  test("a schema of the answer is the format's own, JSON without one is asked for in words", () => {
    const schema = { type: "object", additionalProperties: false }
    const output = { kind: "schema", name: "n", description: undefined, schema, strict: true } as const
    expect(encoded({ output })["output_config"]).toEqual({ format: { type: "json_schema", schema } })
    const words = encoded({ output: { kind: "json" }, instructions: [{ type: "text", text: "s" }] })
    expect(words["system"]).toEqual([block("s"), { type: "text", text: expect.stringContaining("JSON object") }])
    expect(words["output_config"]).toBeUndefined()
  })

  test("who asks is told by the gateway's own name of them, and the tier is the standard one", () => {
    const body = encoded({}, { request: request({ endUser: "opaque", body: { metadata: { user_id: "raw" } } }) })
    expect(body).toMatchObject({ metadata: { user_id: "opaque" }, service_tier: "standard_only" })
    expect(encoded({}, { request: request({ body: { service_tier: "flex" } }) })["service_tier"]).toBe("flex")
  })
})

const marksOf = (value: unknown): number => JSON.stringify(value).split('"cache_control"').length - 1

describe("of more than four cache marks, which the backend refuses,", () => {
  const cache = { ttl: undefined }
  const mark = { type: "ephemeral" }
  const marked = (text: string): Turn => ({ role: "user", parts: [{ type: "text", text, cache }] })
  const results: Turn = {
    role: "user",
    parts: ["a", "b", "c"].map((id) => ({ type: "tool-result", callId: id, parts: [], isError: false, cache })),
  }
  const turns = [
    says("Hi"),
    answers(calls("a"), calls("b"), calls("c")),
    results,
    answers({ type: "text", text: "So" }),
  ]
  const rules = { instructions: [{ type: "text", text: "Rules", cache }] } as const

  test("the last ones stay: they hold what the earlier ones would", () => {
    const body = encoded({ ...rules, turns: [...turns, marked("On")], tools: [{ ...weather, cache }] })
    expect(marksOf(body)).toBe(4)
    expect(marksOf(body["tools"])).toBe(0)
    expect(marksOf(body["system"])).toBe(0)
    expect((body["messages"] as JsonObject[]).at(-1)?.["content"]).toEqual([{ ...block("On"), cache_control: mark }])
  })

  test("and of four each", () => {
    expect(marksOf(encoded({ ...rules, turns }))).toBe(4)
  })

  test("the client is told", () => {
    const content = [1, 2, 3].map(() => ({ ...block("On"), cache_control: mark }))
    const chat = (...more: JsonObject[]) => ({ messages: [{ role: "user", content }, ...more] })
    const other = { role: "tool", tool_call_id: "a", content: "x", cache_control: mark }
    expect(leftOut(chat(other), "claude-sonnet-5")).toEqual([])
    expect(leftOut(chat(other, other), "claude-sonnet-5")).toEqual(["cache_control"])
    expect(leftOut({ ...chat(other), tools: [{ cache_control: mark }] }, "claude-sonnet-5")).toEqual(["cache_control"])
  })
})
