/** Recorded streams of responses backends, as neutral events. */
import { describe, expect, test } from "bun:test"
import type { ModelEvent } from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { encodeSse } from "../../../src/wire/sse.ts"
import { bytesOf, decodeAll, fixture, parse } from "../replay.ts"
import { added, decodeBytes } from "./answers.ts"
import { emptyPrompt, must } from "./asking.ts"

const id = "resp_67ccd3a9da748190"
const start = { type: "start", id, usage: undefined } as const
const finish = (reason: string) => ({ type: "finish", reason, stopSequence: undefined })
const usage = (input: number, cacheRead: number, output: number, reasoning: number) => ({
  type: "usage",
  usage: { tokens: { input, cacheRead, cacheWrite: 0, output }, reasoning },
})
const partEnd = { type: "part-end" }
const end = { type: "end" }

const recorded: readonly (readonly [name: string, events: readonly object[]])[] = [
  [
    "reasoning-tools",
    [
      start,
      { type: "thinking-delta", text: "Two calls." },
      { type: "thinking-seal", seal: { by: "responses", data: "gAAAAABo" } },
      { type: "tool-call-start", index: 0, id: "call_1", name: "get_weather", custom: false },
      { type: "tool-call-delta", index: 0, arguments: '{"city":"Bandung"}' },
      partEnd,
      { type: "tool-call-start", index: 1, id: "call_2", name: "get_time", custom: false },
      { type: "tool-call-delta", index: 1, arguments: '{"tz":"Asia/Jakarta"}' },
      partEnd,
      usage(208, 1792, 120, 64),
      finish("tool-calls"),
      end,
    ],
  ],
  [
    "incomplete",
    [start, { type: "text-delta", text: "Satu, dua" }, partEnd, usage(12, 0, 16, 0), finish("length"), end],
  ],
  [
    "refusal",
    [
      start,
      { type: "refusal-delta", text: "I can't help with that." },
      partEnd,
      usage(50, 0, 10, 0),
      finish("stop"),
      end,
    ],
  ],
]

test.each(recorded)("%s, event by event", async (name, events) => {
  const told: object[] = decodeBytes(await fixture(`responses/${name}.sse`))
  expect(told).toEqual([...events])
})

test("a text in several deltas", async () => {
  const events = decodeBytes(await fixture("responses/text.sse"))
  const texts = events.flatMap((event) => (event.type === "text-delta" ? [event.text] : []))
  expect(texts.length).toBeGreaterThan(1)
  expect(added(events)).toMatchObject({ id, parts: [{ type: "text", text: texts.join("") }], finish: "stop" })
})

test("a recorded reply is the answer that its stream would be", async () => {
  const body = JSON.parse(new TextDecoder().decode(await fixture("responses/text.json"))) as JsonObject
  expect(must(responsesFormat.backend.decodeReply({ body }, emptyPrompt))).toEqual({
    id: "resp_67ccd2",
    parts: [{ type: "text", text: "Selamat pagi ☀️" }],
    finish: "stop",
    stopSequence: undefined,
    usage: { tokens: { input: 36, cacheRead: 0, cacheWrite: 0, output: 87 }, reasoning: 0 },
  })
})

test("an answer that thought up to its limit says nothing, and why", async () => {
  const body = JSON.parse(new TextDecoder().decode(await fixture("responses/incomplete.json"))) as JsonObject
  expect(must(responsesFormat.backend.decodeReply({ body }, emptyPrompt))).toMatchObject({
    parts: [],
    finish: "length",
    usage: { reasoning: 16 },
  })
})

const play = (...events: JsonObject[]): ModelEvent[] =>
  decodeBytes(bytesOf(events.map((body) => encodeSse("", JSON.stringify(body))).join("")))
const completed = (fields: JsonObject = {}) => ({
  type: "response.completed",
  response: { status: "completed", ...fields },
})
const parts = (...events: JsonObject[]) => added(play(...events, completed())).parts

const message = (...texts: string[]) => ({
  type: "message",
  content: texts.map((text) => ({ type: "output_text", text })),
})

const call = (output_index: number) => ({
  type: "response.output_item.added",
  output_index,
  item: { type: "function_call", call_id: `c${output_index}`, name: "f", arguments: "" },
})
const piece = (output_index: number, delta: string) => ({
  type: "response.function_call_arguments.delta",
  output_index,
  delta,
})
const summaryDelta = (summary_index: number, delta: string) => ({
  type: "response.reasoning_summary_text.delta",
  output_index: 0,
  summary_index,
  delta,
})

describe("compatible backends:", () => {
  test("texts that are only told when they are done", () =>
    expect(parts({ type: "response.output_text.done", output_index: 0, content_index: 0, text: "Hi" })).toEqual([
      { type: "text", text: "Hi" },
    ]))

  test("items that are only told when they are done", () =>
    expect(
      parts(
        { type: "response.output_item.done", output_index: 0, item: { type: "reasoning", summary: [{ text: "hm" }] } },
        { type: "response.output_item.done", output_index: 1, item: message("a", "b") },
        {
          type: "response.output_item.done",
          output_index: 2,
          item: { type: "custom_tool_call", call_id: "c", name: "patch", input: "x" },
        },
      ),
    ).toEqual([
      { type: "thinking", text: "hm", seal: undefined },
      { type: "text", text: "a" },
      { type: "text", text: "b" },
      { type: "tool-call", id: "c", name: "patch", arguments: "x", custom: true },
    ]))

  test("an answer that is only told at its end", () =>
    expect(added(play(completed({ output: [message("Hi")] }))).parts).toEqual([{ type: "text", text: "Hi" }]))

  const custom = {
    type: "response.output_item.added",
    output_index: 0,
    item: { type: "custom_tool_call", call_id: "c0", name: "p", input: "" },
  }
  const pieces: readonly (readonly [begun: readonly JsonObject[], piece: JsonObject, told: object])[] = [
    [[], { type: "response.output_text.delta", delta: "a" }, { type: "text-delta", text: "a" }],
    [[], { type: "response.refusal.delta", delta: "a" }, { type: "refusal-delta", text: "a" }],
    [[], { type: "response.reasoning_summary_text.delta", delta: "a" }, { type: "thinking-delta", text: "a" }],
    [[call(0)], piece(0, "{"), { type: "tool-call-delta", index: 0, arguments: "{" }],
    [
      [custom],
      { type: "response.custom_tool_call_input.delta", delta: "+" },
      { type: "tool-call-delta", index: 0, arguments: "+" },
    ],
    [
      [call(0)],
      { type: "response.function_call_arguments.done", arguments: "{}" },
      { type: "tool-call-delta", index: 0, arguments: "{}" },
    ],
    [
      [custom],
      { type: "response.custom_tool_call_input.done", input: "+a" },
      { type: "tool-call-delta", index: 0, arguments: "+a" },
    ],
  ]
  test.each(pieces)("what comes is told at once, after %j: %j", (begun, said, told) => {
    const where = { output_index: 0, content_index: 0, summary_index: 0 }
    expect(play(...begun, { ...where, ...said })).toContainEqual(told as ModelEvent)
  })

  test("what is done is not said twice", () =>
    expect(
      parts(
        { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: "H" },
        { type: "response.output_text.done", output_index: 0, content_index: 0, text: "Hi" },
        { type: "response.output_item.done", output_index: 0, item: message("Hi") },
      ),
    ).toEqual([{ type: "text", text: "Hi" }]))

  test("calls whose pieces are mixed keep their own", () => {
    expect(parts(call(0), piece(0, "{"), call(1), piece(1, "[1"), piece(0, "}"), piece(1, "]"))).toMatchObject([
      { id: "c0", arguments: "{}" },
      { id: "c1", arguments: "[1]" },
    ])
  })

  test.each([
    ["share one", ["c", "c"], ["c", "call_respx_1"]],
    ["have none", [undefined, "c", ""], ["call_respx_0", "c", "call_respx_2"]],
    ["have one of an earlier call", ["earlier", "c"], ["call_respx_0", "c"]],
  ] as const)("calls that %s have ids of their own, whole and streamed", (_, given, ids) => {
    const part = { type: "tool-call", id: "earlier", name: "f", arguments: "{}", custom: false } as const
    const asked = { ...emptyPrompt, turns: [{ role: "assistant", parts: [part] }] } as const
    const output = given.map((call_id) => ({ type: "function_call", call_id, name: "f", arguments: "{}" }))
    const response = { id: "resp_x", status: "completed", output }
    const items = output.flatMap((item, output_index) => [
      { type: "response.output_item.added", output_index, item: { ...item, arguments: "" } },
      { type: "response.function_call_arguments.delta", output_index, delta: "{}" },
      { type: "response.output_item.done", output_index, item },
    ])
    const events = [{ type: "response.created", response }, ...items, { type: "response.completed", response }]
    const bytes = events.map((event) => encodeSse(event.type, JSON.stringify(event))).join("")
    const streamed = decodeAll(
      responsesFormat.backend.stream({ model: "", includeUsage: true }, asked),
      parse([bytesOf(bytes)]),
    )
    const { parts } = must(responsesFormat.backend.decodeReply({ body: response }, asked))
    const expected = ids.map((id) => ({ ...part, id }))
    expect(parts).toEqual(expected)
    expect(added(streamed).parts).toEqual(expected)
  })
  test("a call without arguments has an empty object", () => {
    const none = { type: "response.function_call_arguments.done", output_index: 0, arguments: "" }
    const item = { type: "response.output_item.done", output_index: 0, item: call(0).item }
    const events = play(call(0), none, item)
    expect(events.slice(-2)).toEqual([{ type: "tool-call-delta", index: 0, arguments: "{}" }, { type: "part-end" }])
  })

  test("a summary in parts is one thinking", () => {
    expect(parts(summaryDelta(0, "a"), summaryDelta(0, "b"), summaryDelta(1, "c"))).toEqual([
      { type: "thinking", text: "ab\n\nc", seal: undefined },
    ])
  })

  test("thinking told as it was and in summary is told once", () =>
    expect(
      parts(
        { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "raw" },
        { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: "short" },
      ),
    ).toEqual([{ type: "thinking", text: "raw", seal: undefined }]))

  test("sealed thinking that is not shown", () =>
    expect(
      parts({
        type: "response.output_item.done",
        output_index: 0,
        item: { type: "reasoning", summary: [], encrypted_content: "gAA" },
      }),
    ).toEqual([{ type: "thinking", text: "", seal: { by: "responses", data: "gAA" } }]))

  test("searches and their citations are not part of the answer", () =>
    expect(
      parts(
        { type: "response.output_item.added", output_index: 0, item: { type: "web_search_call", id: "ws" } },
        { type: "response.web_search_call.completed", output_index: 0, item_id: "ws" },
        { type: "response.output_item.done", output_index: 0, item: { type: "web_search_call", id: "ws" } },
        { type: "response.output_text.delta", output_index: 1, content_index: 0, delta: "Hi" },
        { type: "response.output_text.annotation.added", output_index: 1, annotation: { type: "url_citation" } },
      ),
    ).toEqual([{ type: "text", text: "Hi" }]))
})

const finishes: readonly (readonly [fact: string, fields: JsonObject, finish: string])[] = [
  ["a limit", { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }, "length"],
  ["a filter", { status: "incomplete", incomplete_details: { reason: "content_filter" } }, "content-filter"],
  ["a reason that is not known", { status: "incomplete", incomplete_details: { reason: "other" } }, "length"],
  ["no reason", { status: "incomplete", incomplete_details: null }, "length"],
  ["nothing more to say", { status: "completed", incomplete_details: null }, "stop"],
  ["nothing more to say, untold", {}, "stop"],
]
test.each(finishes)("an answer that ended for %s", (_, fields, finish) => {
  const type = fields["status"] === "incomplete" ? "response.incomplete" : "response.completed"
  expect(added(play({ type, response: fields }))).toMatchObject({ finish })
})

test("counts that cannot be believed are not told", () =>
  expect(added(play(completed({ usage: { input_tokens: 1, input_tokens_details: { cached_tokens: 5 } } }))).usage).toBe(
    undefined,
  ))

test("an event that is no JSON says nothing; the format's own reader reports it", () =>
  expect(
    decodeAll(
      responsesFormat.backend.stream({ model: "", includeUsage: true }, emptyPrompt),
      parse([bytesOf('data: {"type\n\n')]),
    ),
  ).toEqual([]))
