/** Events as the stream, and answers as the message, that a client of this format reads. */
import { describe, expect, test } from "bun:test"
import type { FinishReason, ModelEvent, ModelReply } from "../../../src/language/prompt.ts"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { messagesFormat } from "../../../src/wire/messages/format.ts"
import { request, stream, usage, view } from "./samples.ts"

const start: ModelEvent = { type: "start", id: "chatcmpl-1", usage: undefined }
const text = (said: string): ModelEvent => ({ type: "text-delta", text: said })
const thinking = (said: string): ModelEvent => ({ type: "thinking-delta", text: said })
const tool = (index: number, custom = false): ModelEvent => ({
  type: "tool-call-start",
  index,
  id: `call_${index}`,
  name: `f${index}`,
  custom,
})
const json = (index: number, piece: string): ModelEvent => ({ type: "tool-call-delta", index, arguments: piece })
const finish = (reason: FinishReason, stopSequence?: string): ModelEvent => ({ type: "finish", reason, stopSequence })
const counted: ModelEvent = { type: "usage", usage: usage(31, 9) }
const partEnd: ModelEvent = { type: "part-end" }
const end: ModelEvent = { type: "end" }

/** A stream's blocks in short: `+` begins one, `-` ends one, with its index; between them what came. */
const short = (events: readonly ModelEvent[]): string[] =>
  stream(events).events.flatMap((event): string[] => {
    const { type, index, content_block, delta } = event
    if (type === "content_block_start") return [`+${index} ${content_block?.type}`]
    if (type === "content_block_stop") return [`-${index}`]
    if (type !== "content_block_delta") return []
    return [
      `${index} ${delta?.["text"] ?? delta?.["thinking"] ?? delta?.["partial_json"] ?? `~${delta?.["signature"]}`}`,
    ]
  })

test("a text, event by event", () => {
  const sent = stream([start, text("Hal"), text("lo"), partEnd, finish("stop"), counted, end])
  expect(sent.kinds).toBe("ppCCttT")
  expect(sent.events).toEqual([
    {
      type: "message_start",
      message: {
        id: "msg_abc-123",
        type: "message",
        role: "assistant",
        model: "catalogue/model",
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 77, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 },
      },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hal" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "lo" } },
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { input_tokens: 31, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 9 },
    },
    { type: "message_stop" },
  ])
  for (const line of sent.text.trim().split("\n\n")) expect(line).toMatch(/^event: (\w+)\ndata: \{"type":"\1"/)
})

const first = (event: ModelEvent) => stream([event]).events[0]?.["message"] as JsonObject

describe("message_start", () => {
  test("keeps an id of this format", () => {
    expect(first({ type: "start", id: "msg_01", usage: undefined })["id"]).toBe("msg_01")
    expect(first({ type: "start", id: undefined, usage: undefined })["id"]).toBe("msg_abc-123")
  })
  test("has the true prompt counts where they came with the start", () => {
    const told = { tokens: { input: 5, cacheRead: 7, cacheWrite: 2, output: 1 }, reasoning: undefined }
    expect(first({ type: "start", id: undefined, usage: told })["usage"]).toEqual({
      input_tokens: 5,
      cache_creation_input_tokens: 2,
      cache_read_input_tokens: 7,
      output_tokens: 0,
    })
  })
  test("comes before whatever a backend began with, once", () => {
    const types = stream([text("a"), start, end]).events.map(({ type }) => type)
    expect(types.slice(0, 2)).toEqual(["message_start", "content_block_start"])
    expect(types.filter((type) => type === "message_start")).toHaveLength(1)
  })
})

const orders: readonly (readonly [fact: string, events: readonly ModelEvent[], blocks: readonly string[]])[] = [
  ["an empty answer has no block", [start, finish("stop"), end], []],
  ["empty pieces make no block", [start, text(""), thinking(""), partEnd, end], []],
  [
    "a part ends another one's kind",
    [thinking("hm"), text("a"), end],
    ["+0 thinking", "0 hm", "0 ~", "-0", "+1 text", "1 a", "-1"],
  ],
  [
    "two parts of one kind are two blocks",
    [text("a"), partEnd, text("b"), end],
    ["+0 text", "0 a", "-0", "+1 text", "1 b", "-1"],
  ],
  [
    "a signature seals the thinking before it, and ends it",
    [
      thinking("hm"),
      { type: "thinking-seal", seal: { by: "messages", data: "s" } },
      partEnd,
      thinking("so"),
      { type: "thinking-seal", seal: { by: "messages", data: "t" } },
      end,
    ],
    ["+0 thinking", "0 hm", "0 ~s", "-0", "+1 thinking", "1 so", "1 ~t", "-1"],
  ],
  [
    "a signature alone is thinking that is not shown",
    [{ type: "thinking-seal", seal: { by: "messages", data: "s" } }, text("a"), end],
    ["+0 thinking", "0 ~s", "-0", "+1 text", "1 a", "-1"],
  ],
  [
    "redacted thinking is a block of its own",
    [thinking("hm"), { type: "thinking-seal", seal: { by: "messages-redacted", data: "r" } }, thinking("so"), end],
    ["+0 thinking", "0 hm", "0 ~", "-0", "+1 redacted_thinking", "-1", "+2 thinking", "2 so", "2 ~", "-2"],
  ],
  [
    "another backend's seal ends the thinking before it",
    [
      thinking("hm"),
      { type: "thinking-seal", seal: { by: "responses", data: "x" } },
      thinking("so"),
      { type: "thinking-seal", seal: { by: "responses", data: "y" } },
      end,
    ],
    ["+0 thinking", "0 hm", "0 ~", "-0", "+1 thinking", "1 so", "1 ~", "-1"],
  ],
  [
    "another backend's seal is not passed off as a signature",
    [thinking("hm"), { type: "thinking-seal", seal: { by: "responses", data: "x" } }, text("a"), end],
    ["+0 thinking", "0 hm", "0 ~", "-0", "+1 text", "1 a", "-1"],
  ],
  [
    "calls that come one after the other stream one after the other",
    [tool(0), json(0, '{"a":'), json(0, '"}"}'), tool(1), json(1, "{"), json(1, "}"), end],
    ["+0 tool_use", '0 {"a":', '0 "}"}', "-0", "+1 tool_use", "1 {", "1 }", "-1"],
  ],
  [
    "calls whose pieces interleave are put in order",
    [tool(0), tool(1), json(0, '{"a"'), json(1, '{"b"'), json(0, ":1}"), json(1, ":2}"), finish("tool-calls"), end],
    ["+0 tool_use", '0 {"a"', "0 :1}", "-0", "+1 tool_use", '1 {"b"', "1 :2}", "-1"],
  ],
  [
    "text in the midst of a call waits for the call's end",
    [tool(0), json(0, '{"a"'), text("b"), json(0, ":1}"), text("c"), end],
    ["+0 tool_use", '0 {"a"', "0 :1}", "-0", "+1 text", "1 b", "1 c", "-1"],
  ],
  [
    "nothing comes for a call that is over",
    [tool(0), json(0, "{}"), partEnd, json(0, " "), tool(1), json(0, "x"), end],
    ["+0 tool_use", "0 {}", "-0", "+1 tool_use", "-1"],
  ],
  ["nothing comes for a call that never began", [json(3, "{}"), end], []],
  [
    "a call of free text is a call with one input",
    [tool(0, true), json(0, 'say "hi"\n'), json(0, "\ud83d"), json(0, "\ude00"), end],
    ["+0 tool_use", '0 {"input":"', '0 say \\"hi\\"\\n', "0 \\ud83d", "0 \\ude00", '0 "}', "-0"],
  ],
]
test.each(orders)("%s", (_, events, blocks) => {
  expect(short(events)).toEqual([...blocks])
})

test("the first call's pieces do not wait for the others", () => {
  const { kinds, events } = stream([start, tool(0), json(0, '{"a"'), tool(1), json(1, "{}"), json(0, ":1}")])
  expect(events.map(({ type, index }) => `${type.replace("content_block_", "")} ${index}`).slice(1)).toEqual([
    "start 0",
    "delta 0",
    "delta 0",
    "stop 0",
    "start 1",
    "delta 1",
  ])
  expect(kinds).toBe("pCCCtCC")
})

const call = [tool(0), json(0, "{}")]
const endings: readonly (readonly [events: readonly ModelEvent[], reason: string, sequence: string | null])[] = [
  [[finish("stop")], "end_turn", null],
  [[], "end_turn", null],
  [[finish("stop-sequence", "END")], "stop_sequence", "END"],
  [[finish("stop-sequence")], "stop_sequence", null],
  [[finish("length")], "max_tokens", null],
  [[finish("content-filter")], "refusal", null],
  [[finish("pause")], "pause_turn", null],
  [[finish("tool-calls")], "end_turn", null],
  [[...call, finish("tool-calls")], "tool_use", null],
  [[...call, finish("stop")], "tool_use", null],
  [[...call, finish("length")], "tool_use", null],
  [[...call], "tool_use", null],
  [[tool(0), finish("tool-calls")], "tool_use", null],
  [[tool(0), json(0, '{"a":"cut'), finish("length")], "max_tokens", null],
  [[...call, tool(1), json(1, '{"a":"cut'), finish("length")], "max_tokens", null],
  [[tool(0), json(0, '{"a":"cut'), finish("stop")], "tool_use", null],
  [[{ type: "refusal-delta", text: "No." }, finish("stop")], "refusal", null],
  [[{ type: "refusal-delta", text: "No." }, finish("length")], "max_tokens", null],
]
test.each(endings)("%j ends with %s", (events, stop_reason, stop_sequence) => {
  const { events: sent } = stream([start, ...events, end])
  expect(sent.find(({ type }) => type === "message_delta")).toMatchObject({ delta: { stop_reason, stop_sequence } })
})

const last = (...events: ModelEvent[]) =>
  stream([start, text("a"), ...events]).events.filter(({ type }) => type === "message_delta")

describe("message_delta", () => {
  test("waits for the usage, in whichever order it comes, and is one", () => {
    for (const events of [
      [counted, finish("stop")],
      [finish("stop"), counted],
    ]) {
      expect(last(...events)).toEqual([])
      expect(last(...events, end)).toHaveLength(1)
      expect(last(...events, end)[0]).toMatchObject({ usage: { input_tokens: 31, output_tokens: 9 } })
    }
  })
  test("tells the last counts, with reasoning where it is known", () => {
    const later: ModelEvent = { type: "usage", usage: usage(40, 12, 5) }
    expect(last(counted, later, end)[0]).toMatchObject({
      usage: { input_tokens: 40, output_tokens: 12, output_tokens_details: { thinking_tokens: 5 } },
    })
  })
  test("leaves the prompt's counts out where nobody told them, so that the estimate stands", () => {
    expect(last(end)[0]?.["usage"]).toEqual({ output_tokens: 0 })
  })
})

const asks = (thinkingField: Json | undefined) => view({ request: request({ body: { thinking: thinkingField } }) })
const shows: readonly (readonly [Json | undefined, boolean])[] = [
  [undefined, false],
  [null, false],
  [{ type: "enabled", budget_tokens: 2000 }, true],
  [{ type: "adaptive" }, true],
  [{ type: "adaptive", display: "omitted" }, false],
  [{ type: "disabled" }, false],
]
test.each(shows)("a client that says %j of thinking reads it: %p", (field, shown) => {
  const { events } = stream([start, thinking("hm"), text("a"), end], asks(field))
  const blocks = events.filter(({ type }) => type === "content_block_start").map((event) => event.content_block?.type)
  expect(blocks).toEqual(shown ? ["thinking", "text"] : ["text"])
  const reply: ModelReply = {
    id: undefined,
    parts: [
      { type: "thinking", text: "hm", seal: undefined },
      { type: "text", text: "a" },
    ],
    finish: "stop",
    stopSequence: undefined,
    usage: undefined,
  }
  expect(messagesFormat.client.encodeReply(reply, asks(field))["content"]).toEqual([
    ...(shown ? [{ type: "thinking", thinking: "hm", signature: "" }] : []),
    { type: "text", text: "a" },
  ])
})

describe("a whole answer", () => {
  test("is a message", () => {
    const reply: ModelReply = {
      id: "chatcmpl-1",
      parts: [
        { type: "thinking", text: "hm", seal: { by: "messages", data: "s" } },
        { type: "thinking", text: "", seal: { by: "messages-redacted", data: "r" } },
        { type: "thinking", text: "", seal: { by: "responses", data: "x" } },
        { type: "text", text: "a" },
        { type: "text", text: "" },
        { type: "tool-call", id: "call_1", name: "f", arguments: '{"a":1}', custom: false },
        { type: "tool-call", id: "call_2", name: "g", arguments: "***", custom: true },
      ],
      finish: "stop",
      stopSequence: undefined,
      usage: usage(31, 9, 4),
    }
    expect(messagesFormat.client.encodeReply(reply, view())).toEqual({
      id: "msg_abc-123",
      type: "message",
      role: "assistant",
      model: "catalogue/model",
      content: [
        { type: "thinking", thinking: "hm", signature: "s" },
        { type: "redacted_thinking", data: "r" },
        { type: "text", text: "a" },
        { type: "tool_use", id: "call_1", name: "f", input: { a: 1 } },
        { type: "tool_use", id: "call_2", name: "g", input: { input: "***" } },
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage: {
        input_tokens: 31,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 9,
        output_tokens_details: { thinking_tokens: 4 },
      },
    })
  })
  test("tells our estimate where the backend told no counts, and a refusal as one", () => {
    const reply: ModelReply = {
      id: undefined,
      parts: [{ type: "refusal", text: "No." }],
      finish: "stop",
      stopSequence: undefined,
      usage: undefined,
    }
    expect(messagesFormat.client.encodeReply(reply, view())).toMatchObject({
      content: [{ type: "text", text: "No." }],
      stop_reason: "refusal",
      usage: { input_tokens: 77, output_tokens: 0 },
    })
  })
  test("with a call that was cut off by the limit says so", () => {
    const parts: ModelReply["parts"] = [{ type: "tool-call", id: "1", name: "f", arguments: '{"a":"cu', custom: false }]
    const reply: ModelReply = { id: undefined, parts, finish: "length", stopSequence: undefined, usage: undefined }
    expect(messagesFormat.client.encodeReply(reply, view())).toMatchObject({
      content: [{ type: "tool_use", input: { raw: '{"a":"cu' } }],
      stop_reason: "max_tokens",
    })
    const whole = { type: "tool-call", id: "0", name: "f", arguments: "{}", custom: false } as const
    expect(messagesFormat.client.encodeReply({ ...reply, parts: [whole, ...parts] }, view())).toMatchObject({
      stop_reason: "max_tokens",
    })
    expect(messagesFormat.client.encodeReply({ ...reply, parts: [whole] }, view())).toMatchObject({
      stop_reason: "tool_use",
    })
  })
})
