import { describe, expect, test } from "bun:test"
import type { StreamStep } from "../../src/wire/format.ts"
import { type Format, kinds, readers, view } from "./replay.ts"

const sse = (data: unknown, event = "") => ({ event, data: typeof data === "string" ? data : JSON.stringify(data) })
const kindOf = (format: Format, data: unknown, event?: string): StreamStep["kind"] =>
  readers[format](view).read(sse(data, event)).kind
const delta = (delta: unknown) => ({ choices: [{ index: 0, delta }] })
const block = (content_block: unknown) => ({ type: "content_block_start", index: 0, content_block })
const blockDelta = (delta: unknown) => ({ type: "content_block_delta", index: 0, delta })
const item = (item: unknown, type = "response.output_item.added") => ({ type, output_index: 0, item })

const usable: [Format, unknown][] = [
  ["chat", delta({ content: "a" })],
  ["chat", delta({ content: [{ type: "text", text: "a" }] })],
  ["chat", delta({ reasoning_content: "a" })],
  ["chat", delta({ reasoning: "a" })],
  ["chat", delta({ refusal: "a" })],
  ["chat", delta({ audio: { transcript: "a" } })],
  ["chat", delta({ function_call: { name: "f", arguments: "" } })],
  ["chat", delta({ tool_calls: [{ index: 0, function: { name: "f", arguments: "" } }] })],
  ["chat", delta({ tool_calls: [{ index: 0, function: { arguments: "{" } }] })],
  ["chat", { choices: [{ delta: {} }, { delta: { content: "second" } }] }],
  ["chat", delta({ tool_calls: [{ index: 0, custom: { name: "p", input: "" } }] })],
  ["chat", delta({ tool_calls: [{ index: 0, custom: { input: "+a" } }] })],
  ["messages", blockDelta({ type: "text_delta", text: "a" })],
  ["messages", blockDelta({ type: "thinking_delta", thinking: "a" })],
  ["messages", blockDelta({ type: "input_json_delta", partial_json: "{" })],
  ["messages", blockDelta({ type: "not_known_yet_delta", foo: "a" })],
  ["messages", block({ type: "tool_use", id: "t", name: "f", input: {} })],
  ["messages", block({ type: "text", text: "a" })],
  ["messages", block({ type: "web_search_tool_result", content: [{ type: "web_search_result" }] })],
  ["messages", block({ type: "web_search_tool_result", content: { type: "web_search_tool_result_error" } })],
  ["responses", { type: "response.output_text.delta", delta: "a" }],
  ["responses", { type: "response.reasoning_summary_text.delta", delta: "a" }],
  ["responses", { type: "response.refusal.delta", delta: "a" }],
  ["responses", { type: "response.audio.delta", delta: "UklG" }],
  ["responses", { type: "response.output_text.done", text: "a" }],
  ["responses", item({ type: "function_call", name: "f", arguments: "" })],
  ["responses", item({ type: "message", content: [{ type: "output_text", text: "a" }] }, "response.output_item.done")],
]
test.each(usable)("in %s, %j is usable output", (format, data) => {
  expect(kindOf(format, data)).toBe("content")
})

const empty: [Format, unknown][] = [
  ["chat", delta({ role: "assistant", content: "" })],
  ["chat", delta({ content: null, tool_calls: [] })],
  ["chat", delta({ tool_calls: [{ index: 0, function: { arguments: "" } }] })],
  ["chat", delta({ audio: { id: "a" } })],
  ["chat", { choices: [], prompt_filter_results: [] }],
  ["chat", { choices: null }],
  ["chat", { choices: [null, { delta: null }] }],
  ["chat", {}],
  ["messages", { type: "ping" }],
  ["messages", block({ type: "text", text: "" })],
  ["messages", block({ type: "thinking", thinking: "", signature: "" })],
  ["messages", block({ type: "redacted_thinking", data: "EmwK" })],
  ["messages", blockDelta({ type: "text_delta", text: "" })],
  ["messages", blockDelta({ type: "signature_delta", signature: "EqQB" })],
  ["messages", { type: "not_known_yet", x: "y" }],
  ["responses", { type: "response.queued", response: {} }],
  ["responses", item({ type: "message", content: [] })],
  ["responses", item({ type: "reasoning", summary: [], encrypted_content: "gAAA" })],
  ["responses", item({ type: "web_search_call", status: "in_progress" })],
  ["responses", { type: "response.output_text.delta", delta: "", obfuscation: "abc" }],
  ["responses", { type: "response.content_part.added", part: { type: "output_text", text: "" } }],
]
test.each(empty)("in %s, %j is no output", (format, data) => {
  expect(kindOf(format, data)).toBe("preamble")
})

describe.each(["chat", "messages", "responses"] as const)("every reader: %s", (format) => {
  test.each(["{", "no json", "[1]", "null", "12"])("data %p is a failure of the backend", (data) => {
    const step = readers[format](view).read(sse(data))
    expect(step).toMatchObject({ kind: "failure", failure: { code: "dependency.upstream_unavailable" } })
  })

  test("an event with empty data is nothing", () => {
    expect(readers[format](view).read(sse("", "ping"))).toEqual({ kind: "preamble", bytes: "" })
  })

  test("a stream without usage has no tokens", () => {
    expect(readers[format](view).tokens()).toBeUndefined()
  })

  test("no shape of event makes it throw", () => {
    const odd: unknown[] = [null, 1, "x", [], {}, [null], { type: 1 }, { error: null }]
    for (const key of ["choices", "usage", "message", "response", "delta", "content_block", "item", "type", "model"]) {
      for (const value of odd) {
        for (const type of [
          "message_start",
          "message_delta",
          "content_block_start",
          "content_block_delta",
          "response.x.done",
        ])
          expect(readers[format](view).read(sse({ type, [key]: value })).kind).toBeString()
      }
    }
  })
})

test("after its terminal event a stream says nothing more", () => {
  const reader = readers.chat(view)
  const steps = [delta({ content: "a" }), "[DONE]", delta({ content: "b" }), { error: { message: "x" } }, "[DONE]"]
  const read = steps.map((data) => reader.read(sse(data)))
  expect(kinds(read)).toBe("CTttt")
  expect(read.slice(2).every((step) => step.kind === "trailer" && step.bytes === "")).toBe(true)
})

describe("chat's usage", () => {
  const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
  const chunk = { id: "c", model: "catalogue/model", choices: [{ index: 0, delta: { content: "a" } }], usage }

  test("is cut out of a chunk that carries more, when the client did not ask", () => {
    const step = readers.chat(view).read(sse(chunk))
    expect(step).toEqual({
      kind: "content",
      bytes: 'data: {"id":"c","model":"catalogue/model","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n',
    })
  })

  test("goes out with the exact text that came, when the client asked", () => {
    const data = JSON.stringify(chunk, null, 1)
    const step = readers.chat({ ...view, includeUsage: true }).read(sse(data.replaceAll("\n", " ")))
    expect(step).toEqual({ kind: "content", bytes: `data: ${data.replaceAll("\n", " ")}\n\n` })
  })

  test("is counted either way, the last one where there are many", () => {
    for (const includeUsage of [true, false]) {
      const reader = readers.chat({ ...view, includeUsage })
      reader.read(sse(chunk))
      reader.read(sse({ choices: [], usage: { ...usage, completion_tokens: 9 } }))
      reader.read(sse({ choices: [], usage: null }))
      reader.read(sse({ choices: [], usage: {} }))
      expect(reader.tokens()).toEqual({ input: 5, cacheRead: 0, cacheWrite: 0, output: 9 })
    }
  })

  test("is counted where a relay ends its stream with zeros or nulls", () => {
    for (const none of [0, null]) {
      const reader = readers.chat(view)
      reader.read(sse({ choices: [], usage: { prompt_tokens: none, completion_tokens: none, total_tokens: none } }))
      reader.read(sse(chunk))
      reader.read(sse({ choices: [], usage: { prompt_tokens: none, completion_tokens: none, total_tokens: none } }))
      expect(reader.tokens()).toEqual({ input: 5, cacheRead: 0, cacheWrite: 0, output: 2 })
    }
  })

  test("is no older one where the last has a single count, whatever that is", () => {
    for (const last of [
      { completion_tokens: 3 },
      { prompt_tokens: -1, completion_tokens: 0 },
      { prompt_tokens: "5" },
    ]) {
      const reader = readers.chat(view)
      reader.read(sse(chunk))
      reader.read(sse({ choices: [], usage: last }))
      expect(reader.tokens()).toBeUndefined()
    }
  })

  test("is counted in the choice that ends, where a backend says it there", () => {
    const reader = readers.chat(view)
    reader.read(sse({ choices: [{ index: 0, delta: { content: "a" }, finish_reason: null }] }))
    reader.read(sse({ choices: [{ index: 0, delta: {}, finish_reason: "stop", usage }] }))
    expect(reader.tokens()).toEqual({ input: 5, cacheRead: 0, cacheWrite: 0, output: 2 })
  })
})

const counted = (start: unknown, ...later: unknown[]) => {
  const reader = readers.messages(view)
  reader.read(sse({ type: "message_start", message: { usage: start } }))
  for (const usage of later) reader.read(sse({ type: "message_delta", delta: {}, usage }))
  return reader.tokens()
}

describe("a messages stream's usage", () => {
  const start = { input_tokens: 10, cache_read_input_tokens: 5, cache_creation_input_tokens: 3, output_tokens: 1 }

  test("keeps the prompt's counts when message_delta repeats them as zero or not at all", () => {
    const all = { input: 10, cacheRead: 5, cacheWrite: 3, output: 20 }
    expect(counted(start, { output_tokens: 20 })).toEqual(all)
    const zeros = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: null, output_tokens: 20 }
    expect(counted(start, zeros)).toEqual(all)
  })

  test("takes the later of two counts", () => {
    expect(counted(start, { output_tokens: 5 }, { input_tokens: 40, output_tokens: 20 })).toMatchObject({
      input: 40,
      output: 20,
    })
    expect(counted({ input_tokens: 0, output_tokens: 0 }, { input_tokens: 7, output_tokens: 2 })).toMatchObject({
      input: 7,
    })
  })

  test("has no input beside what the cache holds, where message_delta counts the whole prompt there", () => {
    const whole = { input_tokens: 0, cache_read_input_tokens: 18, output_tokens: 20 }
    const read = { input: 0, cacheRead: 18, cacheWrite: 0, output: 20 }
    expect(counted({ input_tokens: 20, output_tokens: 0 }, whole)).toEqual(read)
    expect(counted({ input_tokens: 20, cache_read_input_tokens: 0 }, { output_tokens: 2 }, whole)).toEqual(read)
    const written = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 18, output_tokens: 20 }
    expect(counted({ input_tokens: 20 }, written)).toEqual({ ...read, cacheRead: 0, cacheWrite: 18 })
    expect(counted(start, { ...start, input_tokens: 0, output_tokens: 20 })).toMatchObject({ input: 10, cacheRead: 5 })
  })

  test("keeps the answer's count when a later message_delta has zeros or nulls", () => {
    for (const none of [0, null])
      expect(counted(start, { output_tokens: 20 }, { input_tokens: none, output_tokens: none })).toMatchObject({
        input: 10,
        output: 20,
      })
    expect(counted(start, { output_tokens: 0 })).toMatchObject({ input: 10, output: 0 })
    expect(counted(start, { output_tokens: 20 }, { output_tokens: -1 })).toBeUndefined()
  })

  test("is missing until message_delta has counted the answer", () => {
    expect(counted(start)).toBeUndefined()
    expect(counted(start, {})).toBeUndefined()
  })

  test("is not believed when the later count is hostile", () => {
    expect(counted(start, { output_tokens: -1 })).toBeUndefined()
    expect(counted(start, { input_tokens: -1, output_tokens: 3 })).toBeUndefined()
  })

  test("may stand in message_delta alone", () => {
    expect(counted(undefined, { input_tokens: 4, output_tokens: 2 })).toMatchObject({ input: 4, output: 2 })
  })
})

/** `usage` of each event that goes on, of a stream whose start and later events have these. */
const told = (start: object, ...later: object[]) => {
  const reader = readers.messages({ ...view, inputTokens: 77 })
  const message = { model: view.model, ...start }
  const events = [{ type: "message_start", message }, ...later.map((usage) => ({ type: "message_delta", ...usage }))]
  return events.map((event) => {
    const step = reader.read(sse(event))
    const sent = JSON.parse(step.kind === "failure" ? "" : step.bytes.replace(/^event: .*\ndata: /, ""))
    return (sent.message ?? sent).usage
  })
}

describe("a messages client is told counts that its SDK can read", () => {
  const start = { usage: { input_tokens: 10, cache_read_input_tokens: 7, output_tokens: 1, service_tier: "standard" } }

  test.each([{}, { usage: null }, { usage: 3 }])("our estimate where the start has %p", (none) => {
    expect(told(none, { usage: { output_tokens: 4 } })).toEqual([
      { input_tokens: 77, output_tokens: 0 },
      { output_tokens: 4 },
    ])
  })

  test("our estimate where the start counts a prompt of no tokens, until the end counts it", () => {
    const zeros = { input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0, service_tier: "standard" }
    const end = { input_tokens: 123, output_tokens: 45 }
    expect(told({ usage: zeros }, { usage: end })).toEqual([{ ...zeros, input_tokens: 77 }, end])
    const cached = { ...zeros, cache_read_input_tokens: 9 }
    expect(told({ usage: cached }, { usage: end })).toEqual([cached, end])
  })

  test.each([{}, { usage: null }, { usage: {} }, { usage: { output_tokens: null } }])(
    "what is known of the answer where the end has %p",
    (none) => {
      expect(told(start, none)).toEqual([start.usage, { output_tokens: 0 }])
      expect(told(start, { usage: { output_tokens: 5 } }, none)).toEqual([
        start.usage,
        { output_tokens: 5 },
        { output_tokens: 5 },
      ])
    },
  )

  test("no zeros in place of a prompt's counts", () => {
    const zeros = { input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0, output_tokens: 5 }
    expect(told(start, { usage: { ...zeros, server_tool_use: {} } })).toEqual([
      start.usage,
      { cache_creation_input_tokens: 0, output_tokens: 5, server_tool_use: {} },
    ])
  })

  test("no zero in place of an answer's count", () => {
    const end = { usage: { input_tokens: 0, output_tokens: 0 } }
    expect(told(start, { usage: { output_tokens: 5 } }, end)).toEqual([
      start.usage,
      { output_tokens: 5 },
      { output_tokens: 5 },
    ])
    expect(told(start, { usage: { output_tokens: 0 } })).toEqual([start.usage, { output_tokens: 0 }])
  })

  test("zeros and other counts of the end that replace none", () => {
    const end = { usage: { input_tokens: 0, output_tokens: 5 } }
    expect(told({}, end)).toEqual([{ input_tokens: 77, output_tokens: 0 }, end.usage])
    const cached = { usage: { input_tokens: 0, cache_read_input_tokens: 17, output_tokens: 5 } }
    expect(told({ usage: { input_tokens: 20, output_tokens: 1 } }, cached)).toMatchObject([{}, cached.usage])
    const more = { usage: { input_tokens: 12, cache_read_input_tokens: 7, output_tokens: 5 } }
    expect(told(start, more)).toEqual([start.usage, more.usage])
  })

  test("the exact text of an event whose counts can be read", () => {
    const reader = readers.messages(view)
    const end = '{"type": "message_delta",  "usage": {"output_tokens":  3}}'
    expect(reader.read({ event: "message_delta", data: end })).toMatchObject({
      bytes: `event: message_delta\ndata: ${end}\n\n`,
    })
  })
})

test("an event whose name the backend left out gets the name that SDKs go by", () => {
  const messages = readers.messages(view).read(sse({ type: "message_stop" }))
  expect(messages).toEqual({ kind: "terminal", bytes: 'event: message_stop\ndata: {"type":"message_stop"}\n\n' })
  const responses = readers.responses(view).read(sse({ type: "response.x" }))
  expect(responses).toMatchObject({ bytes: expect.stringContaining("event: response.x\n") })
})

test("a responses stream knows its identity and the number of its next event", () => {
  const reader = readers.responses(view)
  expect(reader.position()).toEqual({ sequence: 0, id: undefined, createdAt: undefined })
  reader.read(sse({ type: "response.created", sequence_number: 0, response: { id: "resp_1", created_at: 9 } }))
  reader.read(sse({ type: "response.output_text.delta", sequence_number: 6, delta: "a" }))
  expect(reader.position()).toEqual({ sequence: 7, id: "resp_1", createdAt: 9 })
  reader.read(sse({ type: "response.output_text.delta", delta: "a" }))
  expect(reader.position()?.sequence).toBe(8)
})

test("a tool's own error is not the stream's", () => {
  expect(kindOf("responses", { type: "response.mcp_call.failed", error: { message: "x" } })).toBe("preamble")
})

const failures: [Format, unknown, string][] = [
  ["chat", { error: { code: 429 } }, ""],
  ["chat", { object: "error", message: "slow", code: 429 }, ""],
  ["chat", { message: "slow", code: 429 }, "error"],
  ["messages", { type: "error", error: { type: "rate_limit_error" } }, "error"],
  ["messages", { error: { type: "rate_limit_error" } }, "message_delta"],
  ["messages", { type: "error", message: "slow", code: 429 }, ""],
  ["responses", { type: "error", code: "rate_limit_exceeded" }, ""],
  ["responses", { error: { code: "rate_limit_exceeded" } }, ""],
  ["responses", { type: "response.failed", response: { error: { code: "rate_limit_exceeded" } } }, ""],
]
test.each(failures)("in %s, %j of event %p is a failure that the backend tells", (format, data, event) => {
  const step = readers[format](view).read(sse(data, event))
  expect(step).toMatchObject({ kind: "failure", failure: { code: "upstream.rate_limited" } })
})

const readChat = (includeUsage: boolean, ...all: unknown[]) => {
  const reader = readers.chat({ ...view, includeUsage })
  return all.map((data) => reader.read(sse(data)))
}

describe("a chat stream", () => {
  const usage = { prompt_tokens: 5, completion_tokens: 2 }
  test("says nothing of a chunk that only counts, where the client did not ask", () => {
    for (const counted of [{ choices: [], usage }, { usage }])
      expect(readChat(false, counted)).toEqual([{ kind: "preamble", bytes: "" }])
    expect(readChat(true, { choices: [], usage })).toMatchObject([{ bytes: expect.stringContaining('"usage"') }])
  })
  test("that ends without ever having had a choice is a failure", () => {
    expect(kinds(readChat(false, "[DONE]"))).toBe("F")
    expect(kinds(readChat(false, { choices: [], usage }, "[DONE]"))).toBe("pF")
    expect(kinds(readChat(false, delta({}), "[DONE]"))).toBe("pT")
  })
})

test("a message_delta whose counts are changed keeps all else that it says", () => {
  const reader = readers.messages(view)
  reader.read(sse({ type: "message_start", message: { model: "m", usage: { input_tokens: 5, output_tokens: 1 } } }))
  const end = {
    type: "message_delta",
    delta: { stop_reason: "end_turn" },
    usage: { input_tokens: 0, output_tokens: 9 },
  }
  const step = reader.read(sse(end))
  const data = step.kind === "failure" ? "" : step.bytes.replace(/^event: message_delta\ndata: /, "")
  expect(JSON.parse(data)).toEqual({ ...end, usage: { output_tokens: 9 } })
})

test("a response that was cancelled is a failure of the backend", () => {
  expect(readers.responses(view).read(sse({ type: "response.cancelled", response: {} }))).toMatchObject({
    kind: "failure",
    failure: { code: "dependency.upstream_unavailable" },
  })
})

const searchDone = (type: string) => ({ type: "web_search_call", status: "completed", action: { type } })

const searchBegun = (index: number) => ({
  ...item({ type: "web_search_call", status: "in_progress" }),
  output_index: index,
})

test("the searches of a responses stream are those of its last event, and of a stream without it those that began, up to a hundred", () => {
  const begun = readers.responses(view)
  for (let index = 0; index < 150; index++) begun.read(sse(searchBegun(index)))
  expect(begun.searches()).toBe(100)
  const ended = readers.responses(view)
  const output = [searchDone("search"), searchDone("open_page"), searchDone("search"), { type: "message", content: [] }]
  ended.read(sse({ type: "response.completed", response: { output } }))
  expect(ended.searches()).toBe(2)
})
