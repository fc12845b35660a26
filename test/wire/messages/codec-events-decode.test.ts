/** Recorded streams and answers of messages backends as events and answers of the neutral language. */
import { describe, expect, test } from "bun:test"
import type { ModelEvent } from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { messagesFormat } from "../../../src/wire/messages/format.ts"
import { encodeSse } from "../../../src/wire/sse.ts"
import { decodeAll, fixture, oneByteEach, parse as parseBytes } from "../replay.ts"
import { prompt, read, summed, usage, weather } from "./samples.ts"

const recorded = async (name: string): Promise<string> => new TextDecoder().decode(await fixture(`messages/${name}`))
const answer = async (name: string): Promise<JsonObject> => JSON.parse(await recorded(name))
const id = "msg_01XFDUDYJgAACzvnptvVoYEL"
const end: ModelEvent = { type: "end" }
const partEnd: ModelEvent = { type: "part-end" }
const finish = (reason: Extract<ModelEvent, { type: "finish" }>["reason"]): ModelEvent => ({
  type: "finish",
  reason,
  stopSequence: undefined,
})
const text = (said: string): ModelEvent => ({ type: "text-delta", text: said })
const cached = (output: number) => ({
  tokens: { input: 12, cacheRead: 9000, cacheWrite: 300, output },
  reasoning: undefined,
})

const streams: readonly (readonly [name: string, events: readonly ModelEvent[]])[] = [
  [
    "thinking-cache.sse",
    [
      { type: "start", id, usage: cached(0) },
      { type: "thinking-delta", text: "27 times 453:" },
      { type: "thinking-seal", seal: { by: "messages", data: "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk" } },
      partEnd,
      text("12,231"),
      partEnd,
      finish("stop"),
      { type: "usage", usage: cached(210) },
      end,
    ],
  ],
  [
    "parallel-tools.sse",
    [
      { type: "start", id, usage: usage(472, 0) },
      text("Let me look."),
      partEnd,
      { type: "tool-call-start", index: 0, id: "toolu_01T1x", name: "get_weather", custom: false },
      { type: "tool-call-delta", index: 0, arguments: '{"city": "Bandung"}' },
      partEnd,
      { type: "tool-call-start", index: 1, id: "toolu_01T2y", name: "get_time", custom: false },
      { type: "tool-call-delta", index: 1, arguments: '{"tz": "Asia/Jakarta"}' },
      partEnd,
      finish("tool-calls"),
      { type: "usage", usage: usage(472, 89) },
      end,
    ],
  ],
  [
    "refusal.sse",
    [
      { type: "start", id, usage: usage(564, 0) },
      text("I can't"),
      partEnd,
      finish("content-filter"),
      { type: "usage", usage: usage(564, 22) },
      end,
    ],
  ],
  [
    "web-search.sse",
    [
      { type: "start", id, usage: usage(2679, 0) },
      text("Cerah."),
      partEnd,
      finish("stop"),
      { type: "usage", usage: usage(10_682, 510) },
      end,
    ],
  ],
]
test.each(streams)("%s, whole and one byte at a time", async (name, events) => {
  expect(read(await recorded(name))).toEqual([...events])
  const bytes = await fixture(`messages/${name}`)
  expect(
    decodeAll(
      messagesFormat.backend.stream({ model: "", includeUsage: true }, prompt()),
      parseBytes(oneByteEach(bytes)),
    ),
  ).toEqual([...events])
})

const start = (block: JsonObject, index = 0): string =>
  encodeSse("content_block_start", JSON.stringify({ type: "content_block_start", index, content_block: block }))
const delta = (body: JsonObject, index = 0): string =>
  encodeSse("content_block_delta", JSON.stringify({ type: "content_block_delta", index, delta: body }))
const stop = (index = 0): string =>
  encodeSse("content_block_stop", JSON.stringify({ type: "content_block_stop", index }))
const over = (body: JsonObject): string =>
  encodeSse("message_delta", JSON.stringify({ type: "message_delta", ...body }))
const json = (piece: string): string => delta({ type: "input_json_delta", partial_json: piece })
const call = (name: string, input: JsonObject = {}): string => start({ type: "tool_use", id: "t", name, input })
const argumentsOf = (events: readonly ModelEvent[]): string =>
  events.map((event) => (event.type === "tool-call-delta" ? event.arguments : "")).join("")

describe("a block", () => {
  test("that begins with something in it", () => {
    expect(read(start({ type: "text", text: "Hi" }) + stop())).toEqual([text("Hi"), partEnd])
    const thinking = start({ type: "thinking", thinking: "hm", signature: "s" })
    expect(read(thinking + stop())).toEqual([
      { type: "thinking-delta", text: "hm" },
      { type: "thinking-seal", seal: { by: "messages", data: "s" } },
      partEnd,
    ])
  })
  test("of thinking that is not shown", () => {
    const sealed =
      start({ type: "thinking", thinking: "", signature: "" }) + delta({ type: "signature_delta", signature: "s" })
    expect(read(sealed + stop())).toEqual([{ type: "thinking-seal", seal: { by: "messages", data: "s" } }, partEnd])
    expect(read(start({ type: "redacted_thinking", data: "r" }) + stop())).toEqual([
      { type: "thinking-seal", seal: { by: "messages-redacted", data: "r" } },
      partEnd,
    ])
  })
  test("that the backend forgot to end is ended by the next, and by the end", () => {
    const events = read(
      start({ type: "text", text: "a" }) + start({ type: "text", text: "b" }, 1) + over({ delta: {} }),
    )
    expect(events).toEqual([text("a"), partEnd, text("b"), partEnd])
  })
  test("that nobody knows, and whatever comes for it, is left out", () => {
    expect(read(start({ type: "hologram", text: "x" }) + delta({ type: "text_delta", text: "x" }) + stop())).toEqual([])
  })
})

const argumentsOfCall = (events: readonly ModelEvent[], index: number): string =>
  argumentsOf(events.filter((event) => event.type === "tool-call-delta" && event.index === index))

const begin = (index: number, name: string): string => start({ type: "tool_use", id: "t", name, input: {} }, index)
const more = (index: number, piece: string): string => delta({ type: "input_json_delta", partial_json: piece }, index)

describe("calls whose blocks are open side by side", () => {
  const sideBySide = [begin(1, "f"), begin(2, "g"), more(1, '{"x"'), more(2, '{"y"'), more(1, ":1}"), stop(1)]

  test.each([
    ["after a text that ends late", start({ type: "text", text: "Hm." }) + begin(1, "f") + stop(), sideBySide.slice(1)],
    ["and end by themselves", "", sideBySide],
  ])("keep their own arguments, %s", (_, before, after) => {
    const events = read([before, ...after, more(2, ":2}"), stop(2), over({ delta: {} })].join(""))
    expect(argumentsOfCall(events, 0)).toBe('{"x":1}')
    expect(argumentsOfCall(events, 1)).toBe('{"y":2}')
  })
  test("end with the answer", () => {
    const events = read(begin(0, "f") + begin(1, "g") + more(1, "{}") + over({ delta: {} }))
    expect([0, 1].map((index) => argumentsOfCall(events, index))).toEqual(["{}", "{}"])
  })
  test("do not take what is a search's of the backend", () => {
    const search = start({ type: "server_tool_use", id: "s", name: "web_search", input: {} }, 1)
    const events = read(begin(0, "f") + search + more(1, '{"query":"q"}') + stop(1) + more(0, "{}") + stop())
    expect(argumentsOf(events)).toBe("{}")
  })
})

describe("a call's arguments", () => {
  test("are an empty object where none come", () => {
    expect(argumentsOf(read(call("f") + json("") + stop()))).toBe("{}")
  })
  test("may come with the block's beginning", () => {
    expect(argumentsOf(read(call("f", { a: 1 }) + stop()))).toBe('{"a":1}')
    expect(argumentsOf(read(call("f", { a: 1 }) + json('{"a":') + json("2}") + stop()))).toBe('{"a":2}')
  })
  const texts: readonly (readonly [pieces: readonly string[], text: string])[] = [
    [['{"inp', 'ut":"*** Begin\\n', '"}'], "*** Begin\n"],
    [["{}"], "{}"],
    [['{"input":1}'], '{"input":1}'],
    [['{"input":"cut'], '{"input":"cut'],
  ]
  test.each(texts)("of a tool of free text are that text: %j", (pieces, expected) => {
    const asked = prompt({ tools: [{ type: "custom", name: "patch", description: undefined, grammar: undefined }] })
    const events = read(call("patch") + pieces.map(json).join("") + stop(), asked)
    expect(events[0]).toMatchObject({ type: "tool-call-start", custom: true })
    expect(argumentsOf(events)).toBe(expected)
  })
})

test("a name that was written otherwise is the client's again", () => {
  const asked = prompt({ tools: [{ ...weather, name: "files.read" }] })
  expect(read(call("files_read_601e4eb6") + stop(), asked)[0]).toMatchObject({ name: "files.read" })
  expect(read(call("read_files") + stop(), asked)[0]).toMatchObject({ name: "read_files" })
})

const reasons = [
  ["end_turn", "stop"],
  ["stop_sequence", "stop-sequence"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["tool_use", "tool-calls"],
  ["refusal", "content-filter"],
  ["pause_turn", "pause"],
  ["something_new", "stop"],
] as const
test.each(reasons)("%s is %s", (stop_reason, reason) => {
  expect(read(over({ delta: { stop_reason, stop_sequence: "END" } }))).toEqual([
    { type: "finish", reason, stopSequence: "END" },
  ])
})

test("counts add up over the stream, and reasoning is among them where it is told", () => {
  const began = {
    type: "message_start",
    message: { usage: { input_tokens: 9, cache_read_input_tokens: 4, output_tokens: 1 } },
  }
  const counted = over({ usage: { input_tokens: 0, output_tokens: 7, output_tokens_details: { thinking_tokens: 5 } } })
  expect(read(encodeSse("message_start", JSON.stringify(began)) + counted)).toEqual([
    {
      type: "start",
      id: undefined,
      usage: { tokens: { input: 9, cacheRead: 4, cacheWrite: 0, output: 0 }, reasoning: undefined },
    },
    { type: "usage", usage: { tokens: { input: 9, cacheRead: 4, cacheWrite: 0, output: 7 }, reasoning: 5 } },
  ])
})

describe("a whole answer", () => {
  test("with thinking and a call", async () => {
    const reply = messagesFormat.backend.decodeReply({ body: await answer("thinking-tools.json") }, prompt())
    expect(reply).toEqual({
      id: "msg_01X9",
      parts: [
        { type: "thinking", text: "The weather tool.", seal: { by: "messages", data: "EqQBCgIYAhIM" } },
        { type: "text", text: "Let me look." },
        { type: "tool-call", id: "toolu_01A", name: "get_weather", arguments: '{"city":"Bandung"}', custom: false },
      ],
      finish: "tool-calls",
      stopSequence: undefined,
      usage: cached(210),
    })
  })
  test("that is an empty refusal", async () => {
    const reply = messagesFormat.backend.decodeReply({ body: await answer("refusal.json") }, prompt())
    expect(reply).toEqual({
      id: "msg_01Y0",
      parts: [],
      finish: "content-filter",
      stopSequence: undefined,
      usage: usage(564, 22),
    })
  })
  test("takes names and free texts back, and leaves out what nobody else could make sense of", () => {
    const asked = prompt({
      tools: [
        { type: "custom", name: "patch", description: undefined, grammar: undefined },
        { ...weather, name: "files.read" },
      ],
    })
    const content = [
      { type: "hologram" },
      { type: "server_tool_use", id: "s", name: "web_search", input: {} },
      { type: "tool_use", id: "1", name: "patch", input: { input: "***" } },
      { type: "tool_use", id: "2", name: "files_read_601e4eb6", input: {} },
    ]
    const body = { content, stop_reason: "stop_sequence", stop_sequence: "END" }
    expect(messagesFormat.backend.decodeReply({ body }, asked)).toEqual({
      id: undefined,
      parts: [
        { type: "tool-call", id: "1", name: "patch", arguments: "***", custom: true },
        { type: "tool-call", id: "2", name: "files.read", arguments: "{}", custom: false },
      ],
      finish: "stop-sequence",
      stopSequence: "END",
      usage: undefined,
    })
  })
})

const calling = (ids: readonly (string | undefined)[]) => ({
  id: "msg_01Y0",
  content: ids.map((id) => ({ type: "tool_use", id, name: "f", input: {} })),
  stop_reason: "tool_use",
})

/** Of the calls of a whole answer, and of the same one streamed. */
const idsOf = (ids: readonly (string | undefined)[], asked = prompt()) => {
  const answered = calling(ids)
  const whole = messagesFormat.backend.decodeReply({ body: answered }, asked)
  if (whole instanceof Failure) throw whole
  const begun = encodeSse("message_start", JSON.stringify({ type: "message_start", message: { id: answered.id } }))
  const blocks = answered.content.map((block, index) => start(block, index) + stop(index)).join("")
  const streamed = read(begun + blocks + over({ delta: { stop_reason: "tool_use" } }), asked)
  return [
    whole.parts.flatMap((part) => (part.type === "tool-call" ? part.id : [])),
    streamed.flatMap((event) => (event.type === "tool-call-start" ? event.id : [])),
  ]
}

describe("calls have ids of their own, whole and streamed,", () => {
  test("where their backend gives them none", () => {
    const ids = ["call_msg01Y0_0", "toolu_1", "call_msg01Y0_2"]
    expect(idsOf([undefined, "toolu_1", ""])).toEqual([ids, ids])
  })
  test("where two of them share one", () => {
    const ids = ["t", "call_msg01Y0_1"]
    expect(idsOf(["t", "t"])).toEqual([ids, ids])
  })
  test("where an earlier call of the conversation has it", () => {
    const called = { type: "tool-call", id: "t", name: "f", arguments: "{}", custom: false } as const
    const ids = ["call_msg01Y0_0", "u"]
    expect(idsOf(["t", "u"], prompt({ turns: [{ role: "assistant", parts: [called] }] }))).toEqual([ids, ids])
  })
})

test("a stream adds up to the same answer as the whole", async () => {
  const { parts, finish: reason } = summed(read(await recorded("parallel-tools.sse")))
  expect(parts.map(({ type }) => type)).toEqual(["text", "tool-call", "tool-call"])
  expect(reason).toBe("tool-calls")
})
