import { describe, expect, test } from "bun:test"
import type { ModelEvent, ModelReply, Prompt } from "../../../src/language/prompt.ts"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { chatFormat } from "../../../src/wire/chat/format.ts"
import type { SseEvent } from "../../../src/wire/sse.ts"
import { decodeAll, fixture, oneByteEach, parse } from "../replay.ts"
import { collect, emptyPrompt, encoded, must, prompt } from "./ask.ts"

const decode = (events: readonly SseEvent[], asked: Prompt = emptyPrompt): ModelEvent[] => {
  return decodeAll(chatFormat.backend.stream({ model: "", includeUsage: true }, asked), events)
}
const usage = (input: number, cacheRead: number, output: number, reasoning?: number) => ({
  type: "usage" as const,
  usage: { tokens: { input, cacheRead, cacheWrite: 0, output }, reasoning },
})
const started = { type: "start", id: "chatcmpl-C7xQ2vB1sE", usage: undefined } as const
const finish = (reason: "stop" | "length" | "tool-calls" | "content-filter") =>
  ({ type: "finish", reason, stopSequence: undefined }) as const
const end = { type: "end" } as const
const callStart = (index: number, id: string, name: string) =>
  ({ type: "tool-call-start", index, id, name, custom: false }) as const
const callDelta = (index: number, text: string) => ({ type: "tool-call-delta", index, arguments: text }) as const

const recorded: readonly (readonly [name: string, events: ModelEvent[]])[] = [
  [
    "text",
    [
      started,
      { type: "text-delta", text: "Selamat" },
      { type: "text-delta", text: " pagi ☀️" },
      finish("stop"),
      usage(176, 1024, 30, 12),
      end,
    ],
  ],
  [
    "parallel-tools",
    [
      started,
      callStart(0, "call_a1", "get_weather"),
      callDelta(0, '{"city":'),
      callDelta(0, '"Bandung"}'),
      callStart(1, "call_b2", "get_time"),
      callDelta(1, '{"tz":"Asia/Jakarta"}'),
      finish("tool-calls"),
      usage(310, 0, 44),
      end,
    ],
  ],
  [
    "reasoning",
    [
      started,
      { type: "thinking-delta", text: "17 is odd" },
      { type: "text-delta", text: "17 + 4 = 21" },
      finish("stop"),
      usage(4, 16, 60, 51),
      end,
    ],
  ],
  [
    "refusal",
    [started, { type: "refusal-delta", text: "I can't help with that." }, finish("stop"), usage(40, 0, 9), end],
  ],
  ["length-crlf", [started, { type: "text-delta", text: "Satu, dua" }, finish("length"), usage(11, 0, 16), end]],
]

describe("a recorded chat stream in neutral events:", () => {
  test.each(recorded)("%s", async (name, events) => {
    const bytes = await fixture(`chat/${name}.sse`)
    expect(decode(parse([bytes]))).toEqual(events)
    expect(decode(parse(oneByteEach(bytes)))).toEqual(events)
  })
})

const chunk = (delta: JsonObject, rest: JsonObject = {}): SseEvent => ({
  event: "",
  data: JSON.stringify({ id: "x-1", choices: [{ index: 0, delta, finish_reason: null, ...rest }] }),
})
const done: SseEvent = { event: "", data: "[DONE]" }
const pieces = (...all: Json[]): SseEvent[] => [...all.map((piece) => chunk({ tool_calls: [piece] })), done]
const fn = (name: string | undefined, args: Json | undefined): JsonObject => ({ function: { name, arguments: args } })
/** [id, name, arguments] of the calls. */
const callsOf = (events: readonly SseEvent[], asked?: Prompt) =>
  collect(decode(events, asked)).parts.map((part) =>
    part.type === "tool-call" ? [part.id, part.name, part.arguments] : part,
  )

const two = [
  ["a", "f", "{}"],
  ["b", "g", '{"x":1}'],
]
const sloppy: readonly (readonly [fact: string, events: SseEvent[], calls: string[][]])[] = [
  [
    "pieces of two calls in turns",
    pieces(
      { index: 0, id: "a", ...fn("f", "{") },
      { index: 1, id: "b", ...fn("g", '{"x"') },
      { index: 0, ...fn(undefined, "}") },
      { index: 1, ...fn(undefined, ":1}") },
    ),
    two,
  ],
  [
    "two calls in one chunk",
    [
      chunk({
        tool_calls: [
          { index: 0, id: "a", ...fn("f", "{}") },
          { index: 1, id: "b", ...fn("g", '{"x":1}') },
        ],
      }),
      done,
    ],
    two,
  ],
  ["no index", pieces({ id: "a", ...fn("f", "{}") }, { id: "b", ...fn("g", "") }, fn(undefined, '{"x":1}')), two],
  [
    "index 0 for every call",
    pieces(
      { index: 0, id: "a", ...fn("f", "{}") },
      { index: 0, id: "b", ...fn("g", '{"x"') },
      { index: 0, ...fn(undefined, ":1}") },
    ),
    two,
  ],
  [
    "id and name in every piece",
    pieces(
      { index: 0, id: "a", ...fn("f", "{") },
      { index: 0, id: "a", ...fn("f", "}") },
      { index: 1, id: "b", ...fn("g", '{"x":1}') },
    ),
    two,
  ],
  [
    "a fresh id in every piece",
    pieces(
      { index: 0, id: "a", ...fn("f", "{") },
      { index: 0, id: "z", ...fn(undefined, "}") },
      { index: 1, id: "b", ...fn("g", '{"x":1}') },
    ),
    two,
  ],
  [
    "an index that runs on while the call is the same",
    pieces(
      { index: 0, id: "a", ...fn("f", "{") },
      { index: 1, ...fn(undefined, "}") },
      { index: 2, id: "b", ...fn("g", '{"x":1}') },
    ),
    two,
  ],
  [
    "a name after the first arguments",
    pieces({ id: "a", ...fn(undefined, "{") }, { id: "a", ...fn("f", "}") }, { id: "b", ...fn("g", '{"x":1}') }),
    two,
  ],
  [
    "arguments as an object",
    pieces({ index: 0, id: "a", ...fn("f", {}) }, { index: 1, id: "b", ...fn("g", { x: 1 }) }),
    two,
  ],
  [
    "no arguments at all",
    pieces({ index: 0, id: "a", ...fn("f", "") }, { index: 1, id: "b", ...fn("g", '{"x":1}') }),
    two,
  ],
  [
    "no ids",
    pieces({ index: 0, ...fn("f", "{}") }, { index: 1, ...fn("g", '{"x":1}') }),
    [
      ["call_x1_0", "f", "{}"],
      ["call_x1_1", "g", '{"x":1}'],
    ],
  ],
  [
    "index 0, no ids and the same name for every call",
    pieces(
      { index: 0, ...fn("f", '{"x":') },
      { index: 0, ...fn("f", '{"y":"}"}') },
      { index: 0, id: "", ...fn("f", "}") },
      { index: 0, ...fn("f", '{"x":2}') },
      { index: 0, ...fn(undefined, "") },
    ),
    [
      ["call_x1_0", "f", '{"x":{"y":"}"}}'],
      ["call_x1_1", "f", '{"x":2}'],
    ],
  ],
  [
    "one id for every call",
    pieces(
      { index: 0, id: "a", ...fn("f", "") },
      { index: 0, id: "a", ...fn(undefined, '{"x":1}') },
      { index: 1, id: "a", ...fn("f", "") },
      { index: 1, id: "a", ...fn(undefined, '{"x":2}') },
      { index: 2, id: "a", ...fn("g", "{}") },
    ),
    [
      ["a", "f", '{"x":1}'],
      ["call_x1_1", "f", '{"x":2}'],
      ["call_x1_2", "g", "{}"],
    ],
  ],
  [
    "an index that runs on while id and name are the same",
    pieces({ index: 0, id: "a", ...fn("f", "{") }, { index: 1, id: "a", ...fn("f", "}") }),
    [["a", "f", "{}"]],
  ],
  ["a call that never gets a name is none", pieces({ index: 0, id: "a", ...fn(undefined, "{}") }), []],
]

describe("a stream of tool calls is understood with", () => {
  test.each(sloppy)("%s", (_, events, calls) => {
    expect(callsOf(events)).toEqual(calls as never)
  })
})

const answers: readonly (readonly [fact: string, events: SseEvent[], says: Partial<ModelReply>])[] = [
  [
    "content and finish in one chunk",
    [chunk({ content: "a" }, { finish_reason: "length" }), done],
    { finish: "length", parts: [{ type: "text", text: "a" }] },
  ],
  ["no reason at all", [chunk({ content: "a" }), done], { finish: "stop" }],
  [
    "stop after a tool call",
    [chunk({ tool_calls: [{ id: "a", ...fn("f", "{}") }] }, { finish_reason: "stop" }), done],
    { finish: "tool-calls" },
  ],
  ["tool_calls without one", [chunk({ content: "a" }, { finish_reason: "tool_calls" }), done], { finish: "stop" }],
  [
    "a limit within a tool call",
    [chunk({ tool_calls: [{ id: "a", ...fn("f", "{") }] }, { finish_reason: "length" }), done],
    { finish: "length" },
  ],
  ["content_filter", [chunk({}, { finish_reason: "content_filter" }), done], { finish: "content-filter", parts: [] }],
  [
    "a limit in Mistral's word",
    [chunk({ content: "a" }, { finish_reason: "model_length" }), done],
    { finish: "length" },
  ],
  [
    "a filter in Zhipu's word",
    [chunk({ content: "a" }, { finish_reason: "sensitive" }), done],
    { finish: "content-filter" },
  ],
  [
    "an empty reason in every chunk",
    [chunk({ content: "a" }, { finish_reason: "" }), chunk({ content: "b" }, { finish_reason: "stop" }), done],
    { parts: [{ type: "text", text: "ab" }] },
  ],
  [
    "a reason with every piece",
    [
      chunk({ content: "a" }, { finish_reason: "stop" }),
      chunk({ content: "b" }, { finish_reason: "length" }),
      chunk({ content: "c" }),
      done,
    ],
    { finish: "length", parts: [{ type: "text", text: "abc" }] },
  ],
  [
    "the sequence that stopped it",
    [chunk({ content: "a" }, { finish_reason: "stop", stop_reason: "END" }), done],
    { finish: "stop-sequence", stopSequence: "END" },
  ],
  [
    "a token that stopped it",
    [chunk({ content: "a" }, { finish_reason: "stop", stop_reason: 151_643 }), done],
    { finish: "stop", stopSequence: undefined },
  ],
  [
    "thinking as `reasoning`",
    [chunk({ reasoning: "hm", content: "" }), done],
    { parts: [{ type: "thinking", text: "hm", seal: undefined }] },
  ],
  [
    "a list of parts",
    [
      chunk({
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
          { type: "text", text: "a" },
        ],
      }),
      done,
    ],
    {
      parts: [
        { type: "thinking", text: "hm", seal: undefined },
        { type: "text", text: "a" },
      ],
    },
  ],
  [
    "another choice beside the first",
    [
      { event: "", data: JSON.stringify({ id: "x-1", choices: [{ index: 1, delta: { content: "b" } }] }) },
      chunk({ content: "a" }),
      done,
    ],
    { parts: [{ type: "text", text: "a" }] },
  ],
  [
    "no id",
    [{ event: "", data: '{"choices":[{"delta":{"content":"a"}}]}' }, done],
    { id: undefined, parts: [{ type: "text", text: "a" }] },
  ],
  [
    "usage in the choice that ends, as Moonshot streams it",
    [
      chunk({ content: "a" }),
      {
        event: "",
        data: '{"id":"x-1","choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":1}}]}',
      },
      done,
    ],
    { usage: { tokens: { input: 4, cacheRead: 1, cacheWrite: 0, output: 2 }, reasoning: undefined } },
  ],
  [
    "usage, and zeros after it",
    [
      chunk({ content: "a" }),
      { event: "", data: '{"id":"x-1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}' },
      { event: "", data: '{"id":"x-1","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}' },
      done,
    ],
    { usage: { tokens: { input: 5, cacheRead: 0, cacheWrite: 0, output: 2 }, reasoning: undefined } },
  ],
  [
    "usage that is none",
    [{ event: "", data: '{"id":"x-1","choices":[],"usage":{"prompt_tokens":-1}}' }, done],
    { usage: undefined },
  ],
  [
    "reasoning beyond the output",
    [
      {
        event: "",
        data: '{"id":"x-1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":9}}}',
      },
      done,
    ],
    { usage: { tokens: { input: 1, cacheRead: 0, cacheWrite: 0, output: 2 }, reasoning: undefined } },
  ],
]

describe("a stream is understood with", () => {
  test.each(answers)("%s", (_, events, says) => {
    expect(collect(decode(events, prompt({ stopSequences: ["END"] })))).toMatchObject(says)
  })

  test("whatever follows its end left out", () => {
    expect(decode([done, chunk({ content: "a" }), done])).toEqual([finish("stop"), end])
  })
})

const LONG = `mcp__${"long".repeat(30)}`
const tools: Prompt["tools"] = [
  { type: "function", name: LONG, description: undefined, parameters: { type: "object" }, strict: undefined },
  { type: "custom", name: "patch", description: undefined, grammar: undefined },
]
const asked = prompt({ tools })

describe("the client's own tools come back", () => {
  const body = encoded({ tools })
  const written = (body.tools as { function: { name: string } }[])[0]?.function.name ?? ""

  test("under a long name, in a stream and in a whole answer", () => {
    expect(written).not.toBe(LONG)
    expect(callsOf(pieces({ index: 0, id: "a", ...fn(written, "{}") }), asked)).toEqual([["a", LONG, "{}"]] as never)
    const reply = must(
      chatFormat.backend.decodeReply(whole({ tool_calls: [{ id: "a", ...fn(written, "{}") }] }), asked),
    )
    expect(reply.parts).toMatchObject([{ name: LONG }])
  })

  test.each([
    ['{"input":"*** Begin\\n\\"x\\""}', '*** Begin\n"x"'],
    ["*** Begin", "*** Begin"],
    ['{"patch":"x"}', '{"patch":"x"}'],
    ['{"input":', '{"input":'],
    ["", ""],
  ])("as free text: %j", (sent, input) => {
    const parts = [{ type: "tool-call", id: "a", name: "patch", arguments: input, custom: true }]
    const halves = [sent.slice(0, 5), sent.slice(5)]
    const events = pieces(
      { index: 0, id: "a", ...fn("patch", "") },
      ...halves.map((half) => ({ index: 0, ...fn(undefined, half) })),
    )
    expect(collect(decode(events, asked)).parts).toEqual(parts as never)
    const reply = must(
      chatFormat.backend.decodeReply(whole({ tool_calls: [{ id: "a", ...fn("patch", sent) }] }), asked),
    )
    expect(reply.parts).toEqual(parts as never)
  })
})

function whole(message: JsonObject, rest: JsonObject = {}) {
  return { body: { id: "x-1", choices: [{ index: 0, message, ...rest }] } }
}

describe("a whole answer in the neutral language:", () => {
  test("text, cache and reasoning counted", async () => {
    const body = await Bun.file(`${import.meta.dir}/../fixtures/chat/text.json`).json()
    expect(must(chatFormat.backend.decodeReply({ body }, emptyPrompt))).toEqual({
      id: "chatcmpl-B9MBs8",
      parts: [{ type: "text", text: "Selamat pagi ☀️" }],
      finish: "stop",
      stopSequence: undefined,
      usage: { tokens: { input: 176, cacheRead: 1024, cacheWrite: 0, output: 30 }, reasoning: 0 },
    })
  })

  test("parallel tool calls", async () => {
    const body = await Bun.file(`${import.meta.dir}/../fixtures/chat/tools.json`).json()
    expect(must(chatFormat.backend.decodeReply({ body }, emptyPrompt))).toMatchObject({
      parts: [
        { type: "tool-call", id: "call_1", name: "get_weather", arguments: '{"city":"Bandung"}' },
        { type: "tool-call", id: "call_2", name: "get_time", arguments: "{}" },
      ],
      finish: "tool-calls",
    })
  })

  test("calls without ids or arguments, whatever index they claim", () => {
    const message = {
      tool_calls: [
        { index: 0, ...fn("f", "") },
        { index: 0, ...fn("f", "") },
      ],
    }
    expect(must(chatFormat.backend.decodeReply(whole(message), emptyPrompt)).parts).toMatchObject([
      { id: "call_x1_0", arguments: "{}" },
      { id: "call_x1_1", arguments: "{}" },
    ])
  })

  test("calls that share an id", () => {
    const shared = ['{"x":1}', '{"x":2}'].map((text) => ({ id: "functions.f:0", ...fn("f", text) }))
    expect(must(chatFormat.backend.decodeReply(whole({ tool_calls: shared }), emptyPrompt)).parts).toMatchObject([
      { id: "functions.f:0", arguments: '{"x":1}' },
      { id: "call_x1_1", arguments: '{"x":2}' },
    ])
  })

  test("a call whose id an earlier call of the conversation has gets another, whole and streamed", () => {
    const call = { type: "tool-call", name: "f", arguments: "{}", custom: false } as const
    const asked = prompt({
      turns: ["functions.f:0", "call_x1_0"].map((id) => ({ role: "assistant", parts: [{ ...call, id }] })),
    })
    const again = { index: 0, id: "functions.f:0", ...fn("f", '{"x":1}') }
    const whole = { id: "x-1", choices: [{ index: 0, message: { tool_calls: [again] }, finish_reason: "tool_calls" }] }
    const other = { ...call, id: "call_x1_0_2", arguments: '{"x":1}' }
    expect(must(chatFormat.backend.decodeReply({ body: whole }, asked)).parts).toEqual([other])
    expect(collect(decode(pieces(again), asked)).parts).toEqual([other])
  })

  test("thinking, text and refusal in this order", () => {
    const message = { refusal: "no", content: "a", reasoning_content: "hm" }
    expect(must(chatFormat.backend.decodeReply(whole(message, { finish_reason: "stop" }), emptyPrompt)).parts).toEqual([
      { type: "thinking", text: "hm", seal: undefined },
      { type: "text", text: "a" },
      { type: "refusal", text: "no" },
    ])
  })

  test("an answer without a message is a failure", () => {
    expect(chatFormat.backend.decodeReply({ body: { choices: [{}] } }, emptyPrompt)).toMatchObject({
      code: "dependency.upstream_unavailable",
    })
  })
})
