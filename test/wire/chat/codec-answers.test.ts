import { afterAll, describe, expect, test } from "bun:test"
import OpenAI from "openai"
import type { FinishReason, ModelEvent, ModelReply } from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import { chatFormat } from "../../../src/wire/chat/format.ts"
import type { AnswerView } from "../../../src/wire/format.ts"
import { bytesOf, kinds, parse, sent } from "../replay.ts"
import { answerView } from "./ask.ts"

const start: ModelEvent = { type: "start", id: "msg_1", usage: undefined }
const say = (text: string): ModelEvent => ({ type: "text-delta", text })
const think = (text: string): ModelEvent => ({ type: "thinking-delta", text })
const call = (index: number, id: string, name: string, custom = false): ModelEvent => ({
  type: "tool-call-start",
  index,
  id,
  name,
  custom,
})
const args = (index: number, text: string): ModelEvent => ({ type: "tool-call-delta", index, arguments: text })
const finish = (reason: FinishReason): ModelEvent => ({ type: "finish", reason, stopSequence: undefined })
const usage: ModelEvent = {
  type: "usage",
  usage: { tokens: { input: 10, cacheRead: 200, cacheWrite: 30, output: 7 }, reasoning: 3 },
}
const partEnd: ModelEvent = { type: "part-end" }
const end: ModelEvent = { type: "end" }
const usageObject = {
  prompt_tokens: 240,
  completion_tokens: 7,
  total_tokens: 247,
  prompt_tokens_details: { cached_tokens: 200, cache_write_tokens: 30 },
  completion_tokens_details: { reasoning_tokens: 3 },
}

const encode = (events: readonly ModelEvent[], view: AnswerView = answerView()) => {
  const encoder = chatFormat.client.eventEncoder(view)
  return events.flatMap((event) => encoder.encode(event))
}
/** The chunks that the client gets, without the end mark. */
const chunks = (events: readonly ModelEvent[], view?: AnswerView): JsonObject[] => {
  const told = parse([bytesOf(sent(encode(events, view)))]).map(({ data }) => data)
  expect(told.pop()).toBe("[DONE]")
  return told.map((data) => JSON.parse(data))
}
/** Each chunk's delta and finish. */
const told = (events: readonly ModelEvent[], view?: AnswerView) =>
  chunks(events, view).map(({ choices }) => {
    const [choice] = choices as { delta: JsonObject; finish_reason: string | null }[]
    return choice?.finish_reason ?? choice?.delta
  })
const role = { role: "assistant", content: "" }
const functions = { functions: [{ name: "f" }] }

describe("a chat client's stream", () => {
  test("is a role, deltas, the finish and the end mark, and says which is which", () => {
    const steps = encode([start, say("a"), partEnd, say("b"), partEnd, finish("stop"), usage, end])
    expect(kinds(steps)).toBe("pCCtT")
    expect(told([start, say("a"), partEnd, say("b"), partEnd, finish("stop"), end])).toEqual([
      role,
      { content: "a" },
      { content: "b" },
      "stop",
    ])
  })

  test("carries one id, one time and the catalogue's model throughout", () => {
    for (const chunk of chunks([start, think("hm"), say("a"), finish("stop"), usage, end]))
      expect(chunk).toMatchObject({
        id: "msg_1",
        object: "chat.completion.chunk",
        created: 1_763_600_000,
        model: "catalogue/model",
      })
  })

  test("is named after the request where the backend gave no id, or nothing began it", () => {
    for (const first of [[{ ...start, id: undefined }], []])
      expect(chunks([...first, say("a"), end])[0]).toMatchObject({
        id: "chatcmpl-req_1",
        choices: [{ delta: role }],
      })
  })

  test("tells usage last and only where it was asked for, whenever it came", () => {
    const asked = answerView({}, { includeUsage: true })
    for (const events of [
      [start, say("a"), finish("stop"), usage, end],
      [start, usage, say("a"), finish("stop"), end],
    ]) {
      const all = chunks(events, asked)
      expect(all.map((chunk) => chunk.usage)).toEqual([null, null, null, usageObject])
      expect(all.at(-1)?.choices).toEqual([])
      expect(chunks(events).map((chunk) => chunk.usage)).toEqual([undefined, undefined, undefined])
    }
    expect(chunks([start, say("a"), finish("stop"), end], asked)).toHaveLength(3)
  })

  test("tells thinking, and no seal", () => {
    const sealed: ModelEvent = { type: "thinking-seal", seal: { by: "messages", data: "secret" } }
    expect(told([start, think("hm"), sealed, partEnd, say("a"), finish("stop"), end])).toEqual([
      role,
      { reasoning_content: "hm" },
      { content: "a" },
      "stop",
    ])
    expect(kinds(encode([start, sealed]))).toBe("p")
  })

  test("counts tools, not parts, and keeps pieces apart that come in turns", () => {
    const events = [start, say("a"), call(0, "c0", "f"), call(1, "c1", "g"), args(0, "{"), args(1, "{}"), args(0, "}")]
    expect(told([...events, finish("tool-calls"), end])).toEqual([
      role,
      { content: "a" },
      { tool_calls: [{ index: 0, id: "c0", type: "function", function: { name: "f", arguments: "" } }] },
      { tool_calls: [{ index: 1, id: "c1", type: "function", function: { name: "g", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: "{" } }] },
      { tool_calls: [{ index: 1, function: { arguments: "{}" } }] },
      { tool_calls: [{ index: 0, function: { arguments: "}" } }] },
      "tool_calls",
    ])
  })

  test("gives a function without arguments an empty object, and a custom tool nothing", () => {
    expect(told([start, call(0, "c0", "f"), args(0, ""), call(1, "c1", "p", true), finish("tool-calls"), end])).toEqual(
      [
        role,
        { tool_calls: [{ index: 0, id: "c0", type: "function", function: { name: "f", arguments: "" } }] },
        { tool_calls: [{ index: 1, id: "c1", type: "custom", custom: { name: "p", input: "" } }] },
        { tool_calls: [{ index: 0, function: { arguments: "{}" } }] },
        "tool_calls",
      ],
    )
  })

  test("gives a custom tool its text as it comes", () => {
    const events = [start, call(0, "c0", "p", true), args(0, "*** "), args(0, "Begin"), finish("tool-calls"), end]
    expect(told(events).slice(2)).toEqual([
      { tool_calls: [{ index: 0, custom: { input: "*** " } }] },
      { tool_calls: [{ index: 0, custom: { input: "Begin" } }] },
      "tool_calls",
    ])
  })

  test("begins also where nothing but its end came", () => {
    expect(told([end])).toEqual([role, "stop"])
  })

  test("speaks of one function call to a client that knows only those", () => {
    const events = [
      start,
      call(0, "c0", "f"),
      args(0, "{}"),
      call(1, "c1", "f"),
      args(1, '{"other":1}'),
      finish("tool-calls"),
      end,
    ]
    expect(told(events, answerView(functions))).toEqual([
      role,
      { function_call: { name: "f", arguments: "" } },
      { function_call: { arguments: "{}" } },
      "function_call",
    ])
  })

  test("says nothing for what says nothing", () => {
    const events: ModelEvent[] = [say(""), think(""), { type: "refusal-delta", text: "" }, partEnd, args(4, "{}")]
    expect(encode([start, ...events])).toHaveLength(1)
  })

  test("ends with a reason even where none came, and then for good", () => {
    expect(told([start, say("a"), end])).toEqual([role, { content: "a" }, "stop"])
    expect(told([start, call(0, "c", "f"), args(0, "{}"), end]).at(-1)).toBe("tool_calls")
    expect(kinds(encode([start, finish("stop"), finish("length"), end, say("late"), end]))).toBe("ppT")
  })
})

const reasons: readonly (readonly [FinishReason, called: boolean, told: string])[] = [
  ["stop", false, "stop"],
  ["stop-sequence", false, "stop"],
  ["pause", false, "stop"],
  ["length", false, "length"],
  ["length", true, "length"],
  ["tool-calls", true, "tool_calls"],
  ["tool-calls", false, "stop"],
  ["stop", true, "tool_calls"],
  ["content-filter", false, "content_filter"],
  ["content-filter", true, "content_filter"],
]
test.each(reasons)("an answer that ended by %s (tool called: %p) is told as %s", (reason, called, word) => {
  const made = called ? [call(0, "c", "f"), args(0, "{}")] : []
  expect(told([start, ...made, finish(reason), end]).at(-1)).toBe(word)
  const parts = called ? [{ type: "tool-call", id: "c", name: "f", arguments: "{}", custom: false } as const] : []
  const reply = { id: "x", parts, finish: reason, stopSequence: undefined, usage: undefined }
  expect(chatFormat.client.encodeReply(reply, answerView()).choices).toMatchObject([{ finish_reason: word }])
})

/** What the vendor's SDK makes of the bytes. */
describe("the openai SDK reads", () => {
  let next: Response
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => next })
  afterAll(() => server.stop(true))
  const client = new OpenAI({ apiKey: "k", baseURL: `http://127.0.0.1:${server.port}/v1`, maxRetries: 0 })
  const ask = { model: "m", messages: [{ role: "user" as const, content: "Hi" }] }

  const streamed = async (events: readonly ModelEvent[]) => {
    next = new Response(sent(encode(events, answerView({}, { includeUsage: true }))), {
      headers: { "content-type": "text/event-stream" },
    })
    return client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } }).finalChatCompletion()
  }
  const whole = async (reply: Partial<ModelReply>) => {
    const body = chatFormat.client.encodeReply(
      { id: "x", parts: [], finish: "stop", stopSequence: undefined, usage: undefined, ...reply },
      answerView(),
    )
    next = Response.json(body)
    return client.chat.completions.create(ask)
  }
  const toolCalls = [
    { id: "c0", type: "function" as const, function: { name: "f", arguments: '{"a":1}' } },
    { id: "c1", type: "function" as const, function: { name: "g", arguments: "{}" } },
  ]

  test("text and usage", async () => {
    const answer = await streamed([start, say("Selamat"), say(" pagi ☀️"), finish("stop"), usage, end])
    expect(answer).toMatchObject({
      id: "msg_1",
      model: "catalogue/model",
      choices: [{ message: { content: "Selamat pagi ☀️" }, finish_reason: "stop" }],
      usage: usageObject,
    })
    const reply = await whole({
      parts: [
        { type: "text", text: "a" },
        { type: "text", text: "b" },
      ],
      usage: usage.usage,
    })
    expect(reply).toMatchObject({
      object: "chat.completion",
      created: 1_763_600_000,
      choices: [{ message: { role: "assistant", content: "ab", refusal: null }, finish_reason: "stop" }],
      usage: usageObject,
    })
  })

  test("parallel tool calls", async () => {
    const events = [
      start,
      call(0, "c0", "f"),
      call(1, "c1", "g"),
      args(0, '{"a"'),
      args(0, ":1}"),
      finish("tool-calls"),
      end,
    ]
    expect((await streamed(events)).choices[0]).toMatchObject({
      message: { tool_calls: toolCalls },
      finish_reason: "tool_calls",
    })
    const parts = toolCalls.map(({ id, function: { name, arguments: text } }) => ({
      type: "tool-call" as const,
      id,
      name,
      arguments: text,
      custom: false,
    }))
    expect((await whole({ parts, finish: "tool-calls" })).choices[0]).toMatchObject({
      message: { content: null, tool_calls: toolCalls },
      finish_reason: "tool_calls",
    })
  })

  test("a custom tool's call", async () => {
    const parts = [{ type: "tool-call", id: "c", name: "patch", arguments: "free", custom: true } as const]
    expect((await whole({ parts, finish: "tool-calls" })).choices[0]?.message.tool_calls).toEqual([
      { id: "c", type: "custom", custom: { name: "patch", input: "free" } },
    ])
  })

  test("thinking", async () => {
    const answer = await whole({
      parts: [
        { type: "thinking", text: "hm", seal: { by: "messages", data: "s" } },
        { type: "text", text: "a" },
      ],
    })
    expect(answer.choices[0]?.message).toEqual({
      role: "assistant",
      content: "a",
      refusal: null,
      reasoning_content: "hm",
    } as never)
  })

  test("a refusal", async () => {
    const told: ModelEvent = { type: "refusal-delta", text: "no" }
    expect((await streamed([start, told, finish("stop"), end])).choices[0]?.message).toMatchObject({ refusal: "no" })
    const reply = await whole({ parts: [{ type: "refusal", text: "no" }] })
    expect(reply.choices[0]?.message).toMatchObject({ content: null, refusal: "no" })
  })

  test("an answer cut off at its limit", async () => {
    const answer = await streamed([start, say("a"), finish("length"), end])
    expect(answer.choices[0]).toMatchObject({ message: { content: "a" }, finish_reason: "length" })
    expect((await whole({ parts: [{ type: "text", text: "a" }], finish: "length" })).choices[0]?.finish_reason).toBe(
      "length",
    )
  })

  test("an empty answer", async () => {
    expect((await streamed([start, finish("stop"), end])).choices[0]).toMatchObject({ finish_reason: "stop" })
    const reply = await whole({})
    expect(reply.choices[0]?.message.content).toBe("")
    expect(reply.usage).toBeUndefined()
  })

  test("the older function call", () => {
    const parts = [{ type: "tool-call", id: "c", name: "f", arguments: "{}", custom: false } as const]
    const reply: ModelReply = { id: "x", parts, finish: "tool-calls", stopSequence: undefined, usage: undefined }
    expect(chatFormat.client.encodeReply(reply, answerView(functions)).choices).toMatchObject([
      { message: { content: null, function_call: { name: "f", arguments: "{}" } }, finish_reason: "function_call" },
    ])
  })
})
