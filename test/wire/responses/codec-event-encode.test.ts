/** What a client of the responses format is sent, as its own SDK takes it. */
import { afterAll, describe, expect, test } from "bun:test"
import OpenAI from "openai"
import type { ModelEvent } from "../../../src/language/prompt.ts"
import { type JsonObject, readText } from "../../../src/language/json.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { streamFailure } from "../../../src/wire/responses/events-out.ts"
import { bytesOf, kinds, parse, sent } from "../replay.ts"
import { encodeAll } from "./answers.ts"
import { answerView } from "./asking.ts"

let body = ""
let contentType = "text/event-stream"
const server = Bun.serve({ port: 0, fetch: () => new Response(body, { headers: { "content-type": contentType } }) })
afterAll(() => server.stop(true))
const client = new OpenAI({ apiKey: "key", baseURL: `${server.url}v1`, maxRetries: 0 })

const start = { type: "start", id: "msg_1", usage: undefined } as const
const end = { type: "end" } as const
const finish = (reason: "stop" | "length" | "tool-calls" | "content-filter"): ModelEvent => ({
  type: "finish",
  reason,
  stopSequence: undefined,
})
const say = (text: string): ModelEvent => ({ type: "text-delta", text })
const call = (index: number, name: string, custom = false): ModelEvent => ({
  type: "tool-call-start",
  index,
  id: `toolu_${index}`,
  name,
  custom,
})
const piece = (index: number, text: string): ModelEvent => ({ type: "tool-call-delta", index, arguments: text })
const usage: ModelEvent = {
  type: "usage",
  usage: { tokens: { input: 5, cacheRead: 3, cacheWrite: 2, output: 7 }, reasoning: 4 },
}

const streamed = async (events: readonly ModelEvent[], fields: JsonObject = {}) => {
  contentType = "text/event-stream"
  body = sent(encodeAll(events, answerView(fields)))
  return client.responses.stream({ model: "m", input: "" }).finalResponse()
}
const events = (bytes: string) => parse([bytesOf(bytes)]).map(({ data }) => JSON.parse(data) as JsonObject)
const types = (bytes: string) => parse([bytesOf(bytes)]).map(({ event }) => event.replace(/^response\./, ""))

describe("the SDK reads", () => {
  test("a text with its counts", async () => {
    const response = await streamed([start, say("Hello"), say(" there"), usage, finish("stop"), end])
    expect(response.output_text).toBe("Hello there")
    expect(response).toMatchObject({
      id: "resp_1",
      object: "response",
      created_at: 1_763_600_001,
      model: "catalogue/model",
      status: "completed",
      error: null,
      incomplete_details: null,
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 3, cache_write_tokens: 2 },
        output_tokens: 7,
        output_tokens_details: { reasoning_tokens: 4 },
        total_tokens: 17,
      },
    })
  })

  test("parallel calls, one after the other", async () => {
    const { output } = await streamed([
      start,
      call(0, "a"),
      piece(0, '{"x"'),
      piece(0, ":1}"),
      { type: "part-end" },
      call(1, "b"),
      piece(1, "{}"),
      finish("tool-calls"),
      end,
    ])
    expect(output).toMatchObject([
      { type: "function_call", call_id: "toolu_0", name: "a", arguments: '{"x":1}', status: "completed" },
      { type: "function_call", call_id: "toolu_1", name: "b", arguments: "{}", status: "completed" },
    ])
  })

  test("parallel calls, their pieces mixed", async () => {
    const { output } = await streamed([
      start,
      call(0, "a"),
      call(1, "b"),
      piece(1, "[1"),
      piece(0, "{}"),
      piece(1, "]"),
      end,
    ])
    expect(output).toMatchObject([
      { name: "a", arguments: "{}" },
      { name: "b", arguments: "[1]" },
    ])
  })

  test("a call without arguments as one with an empty object", async () => {
    const { output } = await streamed([start, call(0, "a"), finish("tool-calls"), end])
    expect(output).toMatchObject([{ name: "a", arguments: "{}" }])
  })

  test("a call of a custom tool", async () => {
    const { output } = await streamed([
      start,
      call(0, "patch", true),
      piece(0, "*** "),
      piece(0, "x"),
      finish("tool-calls"),
      end,
    ])
    expect(output).toMatchObject([{ type: "custom_tool_call", call_id: "toolu_0", name: "patch", input: "*** x" }])
  })

  test("a namespace's tool by the client's own name for it", async () => {
    const tools = [
      { type: "namespace", name: "fs", description: "", tools: [{ type: "function", name: "read", parameters: null }] },
    ]
    const { output } = await streamed([start, call(0, "fs__read"), finish("tool-calls"), end], { tools })
    expect(output).toMatchObject([{ type: "function_call", name: "read", namespace: "fs" }])
  })

  test("thinking with its signature, which comes back with the next request", async () => {
    const { output } = await streamed([
      start,
      { type: "thinking-delta", text: "Hm" },
      { type: "thinking-seal", seal: { by: "messages", data: "c2ln" } },
      { type: "thinking-seal", seal: { by: "messages-redacted", data: "cmVk" } },
      say("So"),
      finish("stop"),
      end,
    ])
    expect(output).toMatchObject([
      { type: "reasoning", summary: [{ type: "summary_text", text: "Hm" }] },
      { type: "reasoning", summary: [] },
      { type: "message", content: [{ text: "So" }] },
    ])
    const next = answerView({ input: JSON.parse(JSON.stringify(output)) as JsonObject[] }).request
    expect(responsesFormat.client.decodePrompt(next)).toMatchObject({
      turns: [
        {
          role: "assistant",
          parts: [
            { type: "thinking", text: "Hm", seal: { by: "messages", data: "c2ln" } },
            { type: "thinking", text: "", seal: { by: "messages-redacted", data: "cmVk" } },
            { type: "text", text: "So" },
          ],
        },
      ],
    })
  })

  test("thinking that nobody sealed, with a word in the seal's place that says so", async () => {
    const { output } = await streamed([start, { type: "thinking-delta", text: "Hm" }, finish("stop"), end])
    expect(output).toMatchObject([{ type: "reasoning", encrypted_content: "loket.unsealed." }])
  })

  test("a refusal", async () => {
    const { output } = await streamed([start, { type: "refusal-delta", text: "No" }, finish("stop"), end])
    expect(output).toMatchObject([{ type: "message", content: [{ type: "refusal", refusal: "No" }] }])
  })

  test("an answer that its limit cut off", async () => {
    const response = await streamed([start, say("One, two"), finish("length"), end])
    expect(response).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output: [{ type: "message", status: "incomplete" }],
    })
    expect(response.output_text).toBe("One, two")
  })

  test("of calls that a limit cut off, only what is not whole as incomplete", async () => {
    const pieces = [piece(0, '{"a":'), piece(1, '{"b":1}'), piece(2, '{"c":')]
    const calls = [call(0, "f"), call(1, "g"), call(2, "h"), ...pieces]
    const { output } = await streamed([start, ...calls, finish("length"), end])
    expect(output).toMatchObject([{ status: "incomplete" }, { status: "completed" }, { status: "incomplete" }])
  })

  test("an answer that a filter cut off", async () => {
    expect(await streamed([start, say("One"), finish("content-filter"), end])).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "content_filter" },
    })
  })

  test("an empty answer", async () => {
    expect(await streamed([start, finish("stop"), end])).toMatchObject({ status: "completed", output: [], usage: null })
  })

  test("what it asked for, repeated", async () => {
    const asked = {
      tools: [{ type: "function", name: "f", parameters: { type: "object" }, strict: false }],
      tool_choice: "required",
      parallel_tool_calls: false,
      temperature: 0.5,
      max_output_tokens: 50,
      metadata: { a: "b" },
      reasoning: { effort: "low" },
      text: { verbosity: "low" },
    }
    expect(await streamed([start, say("Hi"), finish("stop"), end], asked)).toMatchObject({
      ...asked,
      text: { format: { type: "text" }, verbosity: "low" },
      instructions: null,
      store: false,
    })
  })

  test("an answer that is not streamed", async () => {
    contentType = "application/json"
    const reply = responsesFormat.client.encodeReply(
      {
        id: undefined,
        parts: [
          { type: "thinking", text: "Hm", seal: { by: "messages", data: "c2ln" } },
          { type: "text", text: "Hi" },
          { type: "text", text: " there" },
          { type: "tool-call", id: "toolu_0", name: "fs__read", arguments: "{}", custom: false },
        ],
        finish: "tool-calls",
        stopSequence: undefined,
        usage: undefined,
      },
      answerView({
        tools: [{ type: "namespace", name: "fs", description: "", tools: [{ type: "function", name: "read" }] }],
      }),
    )
    body = JSON.stringify(reply)
    const response = await client.responses.create({ model: "m", input: "Hi" })
    expect(response.output_text).toBe("Hi there")
    expect(response.output).toMatchObject([
      { type: "reasoning", encrypted_content: "loket.messages.c2ln" },
      { type: "message", role: "assistant", status: "completed" },
      { type: "function_call", name: "read", namespace: "fs", call_id: "toolu_0" },
    ])
  })
})

test("every event of a text, in order", () => {
  expect(types(sent(encodeAll([start, say("a"), say("b"), finish("stop"), end], answerView())))).toEqual([
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    "completed",
  ])
})

test("every event of thinking, in order", () => {
  const thinking: ModelEvent = { type: "thinking-delta", text: "Hm" }
  expect(types(sent(encodeAll([thinking, say("a"), end], answerView()))).slice(2, 8)).toEqual([
    "output_item.added",
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
    "output_item.done",
  ])
})

const toldOf = (event: ModelEvent) => events(sent(encodeAll([event, end], answerView())))

const doneOf = (event: ModelEvent) => toldOf(event).filter(({ type }) => /\.(?:delta|done)$/.test(readText(type)))

test("what is done is told whole once more, and a refusal has no likelihoods", () => {
  expect(doneOf({ type: "thinking-delta", text: "Hm" })).toMatchObject([
    { delta: "Hm", summary_index: 0 },
    { text: "Hm", summary_index: 0 },
    { part: { type: "summary_text", text: "Hm" } },
    { item: { summary: [{ type: "summary_text", text: "Hm" }] } },
  ])
  const [delta, text, part] = doneOf({ type: "refusal-delta", text: "No" })
  expect(delta).toMatchObject({ type: "response.refusal.delta", content_index: 0, delta: "No" })
  expect(text).toMatchObject({ type: "response.refusal.done", content_index: 0, refusal: "No" })
  expect(part).toMatchObject({ part: { type: "refusal", refusal: "No" } })
  for (const event of [delta, text]) expect(event).not.toContainAnyKeys(["logprobs", "text"])
  const [said, whole] = doneOf(say("Hi"))
  for (const event of [said, whole]) expect(event).toMatchObject({ logprobs: [] })
})

test("an item keeps its id, and texts of one message stand side by side in it", () => {
  const told = events(sent(encodeAll([say("a"), { type: "part-end" }, say("b"), end], answerView())))
  expect(new Set(told.flatMap(({ item_id }) => item_id ?? [])).size).toBe(1)
  expect(told.at(-1)).toMatchObject({
    response: {
      output: [{ content: [{ text: "a" }, { text: "b" }], id: told.find((one) => one["item_id"])?.["item_id"] }],
    },
  })
})

test("a backend's id of this format is kept", () =>
  expect(events(sent(encodeAll([{ ...start, id: "resp_x" }, end], answerView())))[0]).toMatchObject({
    response: { id: "resp_x" },
  }))

test("counts may come before the reason or after it", () => {
  for (const order of [
    [usage, finish("stop")],
    [finish("stop"), usage],
  ])
    expect(events(sent(encodeAll([start, say("a"), ...order, end], answerView()))).at(-1)).toMatchObject({
      response: { usage: { total_tokens: 17 } },
    })
})

const sequences: readonly (readonly [fact: string, events: readonly ModelEvent[], kinds: string])[] = [
  ["a text", [start, say("a"), finish("stop"), usage, end], "pCtT"],
  ["a call names its tool at once", [start, call(0, "f"), finish("tool-calls"), end], "pCtT"],
  ["an empty answer", [start, finish("stop"), end], "ppT"],
  ["a seal alone is no output", [start, { type: "thinking-seal", seal: { by: "messages", data: "s" } }, end], "ppT"],
  ["an empty delta is no output", [start, say(""), end], "ppT"],
  ["an end that comes without a reason", [start, say("a"), end], "pCtT"],
]
test.each(sequences)("%s, step by step", (_, events, letters) => {
  expect(kinds(encodeAll(events, answerView()))).toBe(letters)
})

test("a failure told in the stream continues its numbers and its identity", () => {
  const encoder = responsesFormat.client.eventEncoder(answerView())
  const before = sent([start, say("a")].flatMap((event) => encoder.encode(event)))
  const position = encoder.position?.()
  const context = { requestId: "req_1", model: "catalogue/model", started: true, position }
  const told = events(before + streamFailure(new Failure("dependency.upstream_unavailable"), context))
  expect(told.map((one) => one["sequence_number"])).toEqual([...told.keys()])
  expect(told.at(-1)).toMatchObject({
    type: "response.failed",
    response: { id: "resp_1", created_at: 1_763_600_001, status: "failed" },
  })
})
