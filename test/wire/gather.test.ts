/** An answer that was streamed and put together again is the answer that would have come in one piece. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { MessageStream } from "@anthropic-ai/sdk/lib/MessageStream"
import { ChatCompletionStream } from "openai/lib/ChatCompletionStream"
import { Failure } from "../../src/failure/failure.ts"
import { isObject, type Json, type JsonObject } from "../../src/language/json.ts"
import type { Answer, Deltas } from "../../src/simulator/answer.ts"
import { chat as simulatedChat } from "../../src/simulator/chat.ts"
import { messages as simulatedMessages } from "../../src/simulator/messages.ts"
import { responses as simulatedResponses } from "../../src/simulator/responses.ts"
import type { SimulatedFormat } from "../../src/simulator/format.ts"
import { GatheredStream } from "../../src/wire/backend-stream.ts"
import { converseFormat } from "../../src/wire/bedrock/converse.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"
import { completionsFormat } from "../../src/wire/completions.ts"
import type { BackendSide } from "../../src/wire/format.ts"
import { messagesFormat } from "../../src/wire/messages/format.ts"
import { responsesFormat } from "../../src/wire/responses/format.ts"
import { encodeSse, type SseEvent } from "../../src/wire/sse.ts"
import { bytesOf, fixture, oneByteEach, parse } from "./replay.ts"

const view = { model: "catalogue/model", includeUsage: true }

function gatherAll(format: BackendSide, events: readonly SseEvent[], mostLength = 1_000_000) {
  const stream = new GatheredStream(format.stream(view), format.gatherer(), mostLength)
  for (const event of events) {
    const came = stream.read(event)
    if (came === "whole") return stream.reply()
    if (came !== "more" && came !== "working") return came
  }
  return "unfinished" as const
}

/** As it is written. */
function gathered(format: BackendSide, events: readonly SseEvent[]): JsonObject {
  const came = gatherAll(format, events)
  if (!isObject(came) || came instanceof Failure) throw new Error(`not gathered: ${JSON.stringify(came)}`)
  return JSON.parse(JSON.stringify(came)) as JsonObject
}

const chunks = (...all: Json[]): SseEvent[] => [
  ...all.map((chunk) => ({ event: "", data: JSON.stringify(chunk) })),
  { event: "", data: "[DONE]" },
]
const named = (...all: (JsonObject & { type: string })[]): SseEvent[] =>
  all.map((event) => ({ event: event.type, data: JSON.stringify(event) }))

const word = fc.oneof(
  fc.string({ minLength: 1, unit: "grapheme", maxLength: 12 }),
  fc.constantFrom('"', "\\", "\n", "}"),
)
const deltas: fc.Arbitrary<Deltas> = fc
  .array(word, { maxLength: 6 })
  .map((words) => ({ count: words.length, at: (index) => words[index] ?? "" }))
const call = fc
  .record({
    name: fc.stringMatching(/^[a-z]{1,8}$/),
    args: fc.dictionary(fc.string(), fc.jsonValue()),
    size: fc.nat(9),
  })
  .map(({ name, args, size }) => {
    const json = JSON.stringify(args)
    return {
      name,
      args: JSON.parse(json) as JsonObject,
      pieces: json.match(new RegExp(`[^]{1,${size + 1}}`, "g")) ?? [],
    }
  })
const answer: fc.Arbitrary<Answer> = fc
  .record({
    thinking: deltas,
    text: deltas,
    refused: fc.boolean(),
    searches: fc.nat(3),
    stoppedBy: fc.constantFrom(undefined, "END"),
    calls: fc.array(call, { maxLength: 3 }),
    cut: fc.boolean(),
    counts: fc.array(fc.nat(100_000), { minLength: 5, maxLength: 5 }),
    report: fc.constantFrom("honest", "none", "negative", "huge"),
  })
  .map(({ calls, counts: [input = 0, cached = 0, written = 0, output = 0, reasoning = 0], report, ...said }) => ({
    ...said,
    refused: said.refused && calls.length === 0 && said.text.count > 0,
    serial: "s1",
    createdS: 1_700_000_000,
    model: "backend-model",
    calls: calls.map((one, place) => ({ ...one, serial: `s1${place}`, custom: false })),
    usage: { report, input, cached, written, output: output + 1, reasoning },
  }))

const ask = (choices: number) => ({
  stream: true,
  limit: undefined,
  choices,
  includeUsage: true,
  lastUserText: "",
  promptTokens: 1,
  tools: [],
  customTools: [],
  stops: [],
  schema: undefined,
  toolResults: 0,
  allToolResults: 0,
})

const streamed = (format: SimulatedFormat, said: Answer, choices: number): SseEvent[] =>
  parse([bytesOf([...format.stream(said, ask(choices)).frames].map(({ bytes }) => bytes).join(""))])

/** What is only said in one piece: an empty list of annotations. */
const withoutAnnotations = (body: JsonObject): JsonObject => ({
  ...body,
  choices: (body["choices"] as JsonObject[]).map((choice) => {
    const { annotations: _, ...message } = choice["message"] as JsonObject
    return { ...choice, message }
  }),
})
const asIs = (body: JsonObject): JsonObject => body

const simulated: readonly (readonly [SimulatedFormat, BackendSide, (body: JsonObject) => JsonObject])[] = [
  [simulatedChat, chatFormat.backend, withoutAnnotations],
  [simulatedMessages, messagesFormat.backend, asIs],
  [simulatedResponses, responsesFormat.backend, asIs],
]
describe.each(simulated.map(([format, ...rest]) => [format.name, format, ...rest] as const))(
  "a %s answer of a backend",
  (name, format, reader, expected) => {
    test("is the same streamed and gathered as in one piece, for every choice", () => {
      fc.assert(
        fc.property(answer, fc.integer({ min: 1, max: name === "chat" ? 3 : 1 }), (said, choices) => {
          const whole = JSON.parse(JSON.stringify(format.reply(said, ask(choices)))) as JsonObject
          const { usage: counted, ...body } = gathered(reader, streamed(format, said, choices))
          const { usage, ...rest } = expected(whole)
          expect(body).toEqual(rest)
          expect(reader.readReply({ ...body, ...(counted !== undefined && { usage: counted }) }, view)).toMatchObject({
            tokens: (reader.readReply(whole, view) as { tokens: undefined }).tokens,
            searches: (reader.readReply(whole, view) as { searches: number }).searches,
          })
          if (said.usage.report === "honest")
            expect(reader.readReply(whole, view)).toMatchObject({ searches: said.searches })
          if (said.usage.report === "honest") expect(counted ?? null).toEqual(usage ?? null)
        }),
        { numRuns: 200 },
      )
    })
  },
)

test.each(["chat/text", "chat/parallel-tools", "chat/reasoning", "chat/refusal", "chat/length-crlf"])(
  "%s is put together as the vendor's own package does it",
  async (name) => {
    const bytes = await fixture(`${name}.sse`)
    const events = parse(oneByteEach(bytes))
    const lines = events.filter(({ data }) => data !== "[DONE]").map(({ data }) => data.replaceAll("\n", " "))
    const stream = ChatCompletionStream.fromReadableStream(new Response(`${lines.join("\n")}\n`).body as never)
    const theirs = JSON.parse(JSON.stringify(await stream.finalChatCompletion())) as JsonObject
    const ours = gathered(chatFormat.backend, events)
    const [choice] = ours["choices"] as JsonObject[]
    const [other] = theirs["choices"] as JsonObject[]
    expect(ours).toMatchObject({ id: theirs["id"] as string, created: theirs["created"] as number })
    expect(choice?.["finish_reason"]).toEqual(other?.["finish_reason"])
    const { content, tool_calls: calls } = (choice?.["message"] ?? {}) as JsonObject
    const message = (other?.["message"] ?? {}) as JsonObject
    expect(content || null).toEqual(message["content"] || null)
    expect((calls as JsonObject[] | undefined)?.map(({ id, function: called }) => ({ id, called }))).toEqual(
      (message["tool_calls"] as JsonObject[] | undefined)?.map(({ id, function: called }) => {
        const { name: tool, arguments: given } = called as JsonObject
        return { id, called: { name: tool, arguments: given } }
      }),
    )
  },
)

test.each(["text", "parallel-tools", "thinking-cache", "web-search", "refusal"])(
  "messages/%s is put together as the vendor's own package does it",
  async (name) => {
    const events = parse([await fixture(`messages/${name}.sse`)])
    const lines = events.filter(({ event }) => event !== "ping").map(({ data }) => data)
    const stream = MessageStream.fromReadableStream(new Response(`${lines.join("\n")}\n`).body as never)
    const theirs = JSON.parse(JSON.stringify(await stream.finalMessage())) as JsonObject
    const { usage: counted, ...ours } = gathered(messagesFormat.backend, events)
    const { usage, parsed_output: _, ...rest } = theirs
    expect({ ...rest, ...ours }).toEqual(rest)
    expect(usage).toMatchObject(Object.fromEntries(Object.entries(counted as JsonObject)))
  },
)

test.each(["text", "incomplete", "refusal", "reasoning-tools"])(
  "responses/%s is what its last event says",
  async (name) => {
    const events = parse([await fixture(`responses/${name}.sse`)])
    const last = JSON.parse(events.at(-1)?.data ?? "") as { response: JsonObject }
    expect(gathered(responsesFormat.backend, events)).toEqual(last.response)
  },
)

const delta = (fields: JsonObject, more: JsonObject = {}) => ({
  id: "c",
  choices: [{ index: 0, delta: fields, ...more }],
})
const choiceOf = (...all: Json[]) => (gathered(chatFormat.backend, chunks(...all))["choices"] as JsonObject[])[0] ?? {}
const messageOf = (...all: Json[]) => choiceOf(...all)["message"] as JsonObject

const token = (name: string) => ({ token: name, logprob: -1, bytes: null, top_logprobs: [] })
const detail = (text: string) => ({ type: "reasoning.text", index: 0, text, format: "v1", signature: null })
const thinking = (text: string) => ({ type: "thinking", thinking: [{ type: "text", text }] })
const piece = (fields: JsonObject) => delta({ tool_calls: [fields] })

const saidAt = (index: number | undefined, text: string) => ({ choices: [{ index, delta: { content: text }, text }] })

test("answers that come mixed stand in their order, and one without a number is the first", () => {
  const events = chunks(saidAt(2, "c"), saidAt(1, "b"), saidAt(undefined, "a"), saidAt(2, "c"))
  const texts = (format: BackendSide) =>
    (gathered(format, events)["choices"] as JsonObject[]).map(({ index, message, text }) => [
      index,
      isObject(message) ? message["content"] : text,
    ])
  const expected = [
    [0, "a"],
    [1, "b"],
    [2, "cc"],
  ]
  expect(texts(chatFormat.backend)).toEqual(expected)
  expect(texts(completionsFormat.backend)).toEqual(expected)
})

const completionPiece = (text: string, more: JsonObject) => ({
  id: "c",
  model: "m",
  choices: [{ index: 0, text, ...more }],
})

const likelihoods = (token: string) => ({ tokens: [token], token_logprobs: [-1], top_logprobs: null, text_offset: [0] })

test("likelihoods of a completion's tokens are one list each, and its end and counts are the last that came", () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2 }
  const events = chunks(
    completionPiece("a", { logprobs: likelihoods("a"), finish_reason: null }),
    completionPiece("b", { logprobs: likelihoods("b"), finish_reason: "stop" }),
    { id: "c", obfuscation: "xyz", choices: [], usage },
  )
  expect(gathered(completionsFormat.backend, events)).toEqual({
    id: "c",
    model: "m",
    usage,
    choices: [
      {
        index: 0,
        text: "ab",
        finish_reason: "stop",
        logprobs: { tokens: ["a", "b"], token_logprobs: [-1, -1], top_logprobs: null, text_offset: [0, 0] },
      },
    ],
  })
})

test.each([{}, { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, { prompt_tokens: null }])(
  "a last usage of %p counts nothing and takes none away",
  (none) => {
    const usage = { prompt_tokens: 3, completion_tokens: 2 }
    const counts = (...last: JsonObject[]) => [
      gathered(completionsFormat.backend, chunks({ ...completionPiece("a", {}), usage }, ...last))["usage"],
      gathered(chatFormat.backend, chunks(delta({ content: "a" }), { choices: [], usage }, ...last))["usage"],
    ]
    expect(counts({ choices: [], usage: none })).toEqual(counts())
    expect(counts({ choices: [], usage: { ...usage, completion_tokens: 9 } })).toEqual([
      { ...usage, completion_tokens: 9 },
      { ...usage, completion_tokens: 9 },
    ])
  },
)

describe("of a chat stream is kept", () => {
  test("likelihoods of tokens, one after the other", () => {
    const one = delta({ content: "a" }, { logprobs: { content: [token("a")], refusal: null } })
    const two = delta({ content: "b" }, { logprobs: { content: [token("b")], refusal: null } })
    expect(choiceOf(one, two)["logprobs"]).toEqual({ content: [token("a"), token("b")], refusal: null })
  })

  test("thinking in every field that it comes in, and what a router adds to it", () => {
    expect(
      messageOf(
        delta({ role: "assistant", reasoning: "a", reasoning_details: [detail("a")] }),
        delta({ reasoning: "b", reasoning_details: [detail("b")] }),
        delta({ reasoning_content: "x" }),
        delta({ reasoning_content: "y", content: "z" }),
      ),
    ).toEqual({
      role: "assistant",
      content: "z",
      refusal: null,
      reasoning: "ab",
      reasoning_content: "xy",
      reasoning_details: [{ type: "reasoning.text", index: 0, text: "ab", format: "v1", signature: null }],
    })
  })

  test("content in parts, and texts between them", () => {
    expect(
      messageOf(
        delta({ content: [thinking("a")] }),
        delta({ content: [thinking("b")] }),
        delta({ content: "c" }),
        delta({ content: "d" }),
      ),
    ).toMatchObject({ content: [thinking("ab"), { type: "text", text: "cd" }] })
  })

  test("a list of so many parts that none of them may be looked for among all", () => {
    const many = Array.from({ length: 30_000 }, (_, index) => index)
    const parts = many.map((index) => ({ type: index % 2 === 0 ? "text" : "reference" }))
    const details = many.map((index) => ({ index, text: "a" }))
    const startedAt = performance.now()
    const said = [{ content: parts, details: [] }, { details }, { content: parts, details }]
    const events = chunks(...said.map((delta) => ({ choices: [{ index: 0, delta }] })))
    const whole = gatherAll(chatFormat.backend, events, 10_000_000)
    expect(performance.now() - startedAt).toBeLessThan(4_000)
    const grown = many.map((index) => ({ index, text: "aa" }))
    const message = { role: "assistant", content: [...parts, ...parts], refusal: null, details: grown }
    expect(JSON.stringify(whole)).toContain(JSON.stringify({ message }).slice(1, -1))
  })

  test("calls whose pieces are sloppy, and what a vendor adds to them", () => {
    const message = messageOf(
      piece({ index: 0, id: "a", type: "function", function: { name: "f", arguments: "" }, extra_content: { s: "1" } }),
      piece({ index: 0, function: { arguments: '{"x":' } }),
      piece({ index: 0, id: "b", function: { name: "f", arguments: "{}" } }),
      piece({ id: "a", function: { name: "f", arguments: "1}" } }),
      piece({ index: 2, id: "c", type: "custom", custom: { name: "g", input: "free" } }),
    )
    expect(message).toEqual({
      role: "assistant",
      content: null,
      refusal: null,
      tool_calls: [
        { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' }, extra_content: { s: "1" } },
        { id: "b", type: "function", function: { name: "f", arguments: "{}" } },
        { id: "c", type: "custom", custom: { name: "g", input: "free" } },
      ],
    })
  })

  test("calls of one tool at one index that have no ids", () => {
    const called = ['{"x":1}', '{"x":2}'].map((text) => ({ function: { name: "f", arguments: text } }))
    expect(messageOf(...called.map((call) => piece({ index: 0, ...call })))).toMatchObject({ tool_calls: called })
  })

  test("calls that share an id", () => {
    const called = ['{"x":1}', '{"x":2}'].map((text) => ({ id: "a", function: { name: "f", arguments: text } }))
    expect(messageOf(...called.map((call, index) => piece({ index, ...call })))).toMatchObject({ tool_calls: called })
  })

  test("the older call of a function", () => {
    const message = messageOf(
      delta({ function_call: { name: "f", arguments: "{" } }),
      delta({ function_call: { arguments: "}" } }),
    )
    expect(message).toMatchObject({ content: null, function_call: { name: "f", arguments: "{}" } })
  })

  test("what nobody here knows, wherever it stands, and a name that means something to JavaScript", () => {
    const body = gathered(chatFormat.backend, [
      {
        event: "",
        data: '{"id":"c","citations":["a"],"__proto__":{"x":1},"choices":[{"delta":{"content":"a","mood":"g"}}]}',
      },
      {
        event: "",
        data: '{"citations":["a"],"choices":[{"delta":{"mood":"lad"},"finish_reason":"stop","stop_reason":7,"content_filter_results":{"hate":1}}]}',
      },
      { event: "", data: "[DONE]" },
    ])
    expect(JSON.stringify(body)).toContain('"__proto__":{"x":1}')
    expect(body).toMatchObject({
      citations: ["a"],
      choices: [
        {
          message: { content: "a", mood: "glad" },
          finish_reason: "stop",
          stop_reason: 7,
          content_filter_results: { hate: 1 },
        },
      ],
    })
  })
})

const start = {
  type: "message_start",
  message: { id: "msg_1", content: [], usage: { input_tokens: 5, output_tokens: 1 } },
}
const begin = (index: number, content_block: JsonObject) => ({ type: "content_block_start", index, content_block })
const grow = (index: number, delta: JsonObject) => ({ type: "content_block_delta", index, delta })
const end = (fields: JsonObject = {}) => ({
  type: "message_delta",
  delta: { stop_reason: "end_turn" },
  usage: { output_tokens: 7 },
  ...fields,
})
const stop = { type: "message_stop" }

const content = (...events: (JsonObject & { type: string })[]) =>
  gathered(messagesFormat.backend, named(start, ...events, end(), stop))["content"]

describe("of a messages stream is kept", () => {
  test("every kind of block, citations and signatures", () => {
    expect(
      content(
        begin(0, { type: "thinking", thinking: "", signature: "" }),
        grow(0, { type: "thinking_delta", thinking: "a" }),
        grow(0, { type: "thinking_delta", thinking: "b" }),
        grow(0, { type: "signature_delta", signature: "sig" }),
        begin(1, { type: "redacted_thinking", data: "xx" }),
        begin(2, { type: "text", text: "", citations: [] }),
        grow(2, { type: "citations_delta", citation: { cited_text: "q" } }),
        grow(2, { type: "text_delta", text: "c" }),
        grow(2, { type: "citations_delta", citation: { cited_text: "r" } }),
        begin(3, { type: "server_tool_use", id: "s", name: "web_search", input: {} }),
        grow(3, { type: "input_json_delta", partial_json: '{"q' }),
        grow(3, { type: "input_json_delta", partial_json: '":1}' }),
        begin(4, { type: "web_search_tool_result", tool_use_id: "s", content: [{ url: "u" }] }),
        begin(5, { type: "compaction", content: "" }),
        grow(5, { type: "compaction_delta", content: "so" }),
        grow(5, { type: "compaction_delta", content: " far" }),
      ),
    ).toEqual([
      { type: "thinking", thinking: "ab", signature: "sig" },
      { type: "redacted_thinking", data: "xx" },
      { type: "text", text: "c", citations: [{ cited_text: "q" }, { cited_text: "r" }] },
      { type: "server_tool_use", id: "s", name: "web_search", input: { q: 1 } },
      { type: "web_search_tool_result", tool_use_id: "s", content: [{ url: "u" }] },
      { type: "compaction", content: "so far" },
    ])
  })

  test("input that the limit cut off as none, and a delta of no block as nothing", () => {
    expect(
      content(
        begin(0, { type: "tool_use", id: "t", name: "f", input: {} }),
        grow(0, { type: "input_json_delta", partial_json: '{"q":' }),
        grow(9, { type: "text_delta", text: "x" }),
      ),
    ).toEqual([{ type: "tool_use", id: "t", name: "f", input: {} }])
  })

  test("what the end says of the whole, and counts that only the beginning had", () => {
    const body = gathered(
      messagesFormat.backend,
      named(
        {
          ...start,
          message: {
            ...start.message,
            usage: { input_tokens: 5, cache_read_input_tokens: 3, service_tier: "standard", output_tokens: 1 },
          },
        },
        end({
          context_management: { applied_edits: [] },
          usage: { input_tokens: 0, output_tokens: 7, server_tool_use: { web_search_requests: 2 } },
        }),
        stop,
      ),
    )
    expect(body).toMatchObject({ stop_reason: "end_turn", context_management: { applied_edits: [] } })
    expect(body["usage"]).toEqual({
      input_tokens: 5,
      cache_read_input_tokens: 3,
      service_tier: "standard",
      output_tokens: 7,
      server_tool_use: { web_search_requests: 2 },
    })
  })

  test("what many ends say, none of which copies all before it", () => {
    const many = Array.from({ length: 10_000 }, (_, place) =>
      end({ [`said_${place}`]: 1, usage: { [`used_${place}`]: 1 } }),
    )
    const startedAt = performance.now()
    const body = gatherAll(messagesFormat.backend, named(start, ...many, stop), 10_000_000)
    expect(performance.now() - startedAt).toBeLessThan(5_000)
    expect(body).toMatchObject({ said_0: 1, said_9999: 1, usage: { used_0: 1, used_9999: 1 } })
  })

  test("the counts of an end before one of zeros", () => {
    const zeros = { input_tokens: 0, output_tokens: 0 }
    const body = gathered(
      messagesFormat.backend,
      named(start, end({ usage: { output_tokens: 7 } }), end({ usage: zeros }), stop),
    )
    expect(body["usage"]).toMatchObject({ input_tokens: 5, output_tokens: 7 })
  })

  test("no count of the answer where its end told none", () => {
    const body = gathered(messagesFormat.backend, named(start, end({ usage: {} }), stop))
    expect(messagesFormat.backend.readReply(body, view)).toMatchObject({ tokens: undefined })
  })
})

const item = (id: string) => ({ type: "message", id, content: [] })
const done = (output_index: number) => ({
  type: "response.output_item.done",
  output_index,
  item: item(String(output_index)),
})

test("a responses stream whose end leaves the output out is made of its items", () => {
  const completed = { type: "response.completed", response: { id: "r", status: "completed", output: [] } }
  expect(gathered(responsesFormat.backend, named(done(1), done(0), completed))).toEqual({
    id: "r",
    status: "completed",
    output: [item("0"), item("1")],
  })
})

const sse = (event: string, data: JsonObject) => ({ event, data: JSON.stringify(data) })

test("a ConverseStream is put together as Converse answers", () => {
  const delta = (contentBlockIndex: number, said: JsonObject) =>
    sse("contentBlockDelta", { contentBlockIndex, delta: said })
  const usage = { inputTokens: 20, outputTokens: 9 }
  expect(
    gathered(converseFormat.backend, [
      sse("messageStart", { role: "assistant" }),
      delta(0, { reasoningContent: { text: "Hm" } }),
      delta(0, { reasoningContent: { text: "m." } }),
      delta(0, { reasoningContent: { signature: "c2ln" } }),
      delta(1, { reasoningContent: { redactedContent: "cmVk" } }),
      delta(2, { text: "H" }),
      delta(2, { text: "i" }),
      sse("contentBlockStart", { contentBlockIndex: 3, start: { toolUse: { toolUseId: "t", name: "f" } } }),
      delta(3, { toolUse: { input: '{"a":' } }),
      delta(3, { toolUse: { input: "1}" } }),
      sse("messageStop", { stopReason: "tool_use" }),
      sse("metadata", { usage, metrics: { latencyMs: 4 } }),
    ]),
  ).toEqual({
    output: {
      message: {
        role: "assistant",
        content: [
          { reasoningContent: { reasoningText: { text: "Hmm.", signature: "c2ln" } } },
          { reasoningContent: { redactedContent: "cmVk" } },
          { text: "Hi" },
          { toolUse: { toolUseId: "t", name: "f", input: { a: 1 } } },
        ],
      },
    },
    stopReason: "tool_use",
    usage,
    metrics: { latencyMs: 4 },
  })
})

test("the numbers of a call that is put together have every digit", () => {
  const input = '{"id":1234567890123456789}'
  const toolUse = { toolUseId: "t", name: "f" }
  const reply = gatherAll(converseFormat.backend, [
    sse("contentBlockStart", { contentBlockIndex: 0, start: { toolUse } }),
    sse("contentBlockDelta", { contentBlockIndex: 0, delta: { toolUse: { input } } }),
    sse("messageStop", { stopReason: "tool_use" }),
    sse("metadata", { usage: {} }),
  ])
  expect(JSON.stringify(reply)).toContain(`"input":${input}`)
})

test.each([
  ["chat", chatFormat.backend, "chat/error"],
  ["messages", messagesFormat.backend, "messages/error"],
  ["responses", responsesFormat.backend, "responses/failed"],
] as const)("a failure within a %s stream is one", async (_, format, name) => {
  expect(gatherAll(format, parse([await fixture(`${name}.sse`)]))).toBeInstanceOf(Failure)
})

test.each([
  ["chat", chatFormat.backend, "chat/text"],
  ["messages", messagesFormat.backend, "messages/text"],
  ["responses", responsesFormat.backend, "responses/text"],
] as const)("a %s stream that breaks off is never an answer", async (_, format, name) => {
  const events = parse([await fixture(`${name}.sse`)])
  for (let count = 0; count < events.length; count++)
    expect(gatherAll(format, events.slice(0, count))).toBe("unfinished")
})

test("what is held is bounded by its length and not by that of the stream", () => {
  const long = {
    event: "",
    data: JSON.stringify({ id: "c".repeat(200), choices: [{ index: 0, delta: { content: "a" } }] }),
  }
  const stream = (pieces: number) => [...Array.from({ length: pieces }, () => long), { event: "", data: "[DONE]" }]
  expect(gatherAll(chatFormat.backend, stream(1_000), 1_600)).toBeObject()
  expect(gatherAll(chatFormat.backend, stream(1_700), 1_600)).toBe("overlong")
  expect(parse([bytesOf(encodeSse("", long.data))])).toEqual([long])
})
