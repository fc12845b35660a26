/**
 * What holds for every request and every answer that two formats can both say, and for a translated stream that is cut
 * at any byte: in memory, through the gateway's own exchange and relay.
 */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type {
  AssistantPart,
  FinishReason,
  ModelEvent,
  ModelReply,
  Prompt,
  Tool,
  Turn,
  UserPart,
} from "../../src/language/prompt.ts"
import type { JsonObject } from "../../src/language/json.ts"
import type { ModelRequest, Translated } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import { systemClock } from "../../actors/kernel/clock.ts"
import { OutputMeter } from "../../src/gateway/call-costs.ts"
import { Relay } from "../../src/gateway/relay.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"
import { NONE_DROPPED } from "../../src/wire/fields.ts"
import { type DirectExchange, exchange } from "../../src/wire/exchange.ts"
import type { AnswerView, ClientFormat, StreamReader } from "../../src/wire/format.ts"
import { messagesFormat } from "../../src/wire/messages/format.ts"
import { responsesFormat } from "../../src/wire/responses/format.ts"
import { bytesOf, fixture, parse, sent } from "../wire/replay.ts"
import { chat } from "./chat.ts"
import { messages } from "./messages.ts"
import { responses } from "./responses.ts"
import type { Speaker } from "./speaker.ts"

const endpoints = ["chat", "messages", "responses"] as const
const formats: Readonly<Record<Translated, ClientFormat>> = {
  chat: chatFormat,
  messages: messagesFormat,
  responses: responsesFormat,
}
const speakers: Readonly<Record<Translated, Speaker>> = { chat, messages, responses }
const pairs = endpoints.flatMap((client) =>
  endpoints.flatMap((backend) => (client === backend ? [] : [[client, backend] as const])),
)
const target = { model: "backend-model", strip: [] }
/** Tokens; above what the clients ask for. */
const limit = 8_000

function must<T>(value: T | Failure): T {
  if (value instanceof Failure) throw new Error(`${value.code}: ${value.message} ${value.detail.message ?? ""}`)
  return value
}

const meets = (request: ModelRequest, backend: Translated): DirectExchange =>
  must(exchange(request, { format: backend, model: "backend-model" }))

/** As it goes over the network. */
const travelled = (body: JsonObject): JsonObject => JSON.parse(JSON.stringify(body)) as JsonObject

const asking = (endpoint: Translated, body: JsonObject): ModelRequest => ({
  endpoint,
  body,
  dropped: NONE_DROPPED,
  ownEndUser: undefined,
  model: "m",
  stream: false,
  inputTokens: 10,
  maxOutputTokens: 4_000,
  choices: 1,
  features: new Set(),
  includeUsage: true,
})

const view = (request: ModelRequest): AnswerView => ({
  model: "catalogue/model",
  includeUsage: true,
  requestId: "req_1",
  nowMs: 1_790_000_000_000,
  inputTokens: 10,
  request,
})

/** Text that says something and neither begins nor ends in white space: what every format keeps as it is. */
const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 }).map((said) => `(${said})`)
const name = fc.stringMatching(/^[a-z][a-z_]{0,19}$/)
const args = fc
  .dictionary(name, fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null)), { maxKeys: 3 })
  .map((given) => JSON.stringify(given))
const image = fc.oneof(
  fc
    .base64String({ minLength: 4, maxLength: 12 })
    .map((base64) => ({ kind: "data", mediaType: "image/png", base64 }) as const),
  fc.webUrl().map((url) => ({ kind: "url", url }) as const),
)

const said: fc.Arbitrary<UserPart[]> = fc
  .record({ texts: fc.array(text, { minLength: 1, maxLength: 2 }), images: fc.array(image, { maxLength: 2 }) })
  .map(({ texts, images }) => [
    ...texts.map((each): UserPart => ({ type: "text", text: each })),
    ...images.map((source): UserPart => ({ type: "image", source })),
  ])
/** What the assistant said and called, and what came back. */
const exchanged = fc
  .record({
    said: fc.option(text, { nil: undefined }),
    calls: fc.array(fc.record({ name, args, result: text }), { maxLength: 3 }),
    next: said,
  })
  .map(({ said: spoken, calls, next }) => ({
    spoken: spoken ?? (calls.length === 0 ? "(Yes)" : undefined),
    calls,
    next,
  }))

const turns: fc.Arbitrary<Turn[]> = fc
  .record({ first: said, rest: fc.array(exchanged, { maxLength: 3 }) })
  .map(({ first, rest }) => [
    { role: "user", parts: first },
    ...rest.flatMap(({ spoken, calls, next }, round): Turn[] => {
      const id = (at: number) => `call_${round}_${at}`
      const results = calls.map(({ result }, at): UserPart => ({
        type: "tool-result",
        callId: id(at),
        parts: [{ type: "text", text: result }],
        isError: false,
      }))
      const called = calls.map((call, at): AssistantPart => ({
        type: "tool-call",
        id: id(at),
        name: call.name,
        arguments: call.args,
        custom: false,
      }))
      return [
        {
          role: "assistant",
          parts: [...(spoken === undefined ? [] : [{ type: "text" as const, text: spoken }]), ...called],
        },
        { role: "user", parts: [...results, ...next] },
      ]
    }),
  ])

const tool: fc.Arbitrary<Tool> = fc.record({
  type: fc.constant("function" as const),
  name,
  description: fc.option(text, { nil: undefined }),
  parameters: fc
    .dictionary(name, fc.constantFrom({ type: "string" }, { type: "integer" }), { maxKeys: 3 })
    .map((properties): JsonObject => ({ type: "object", properties })),
  strict: fc.constant(undefined),
})

const fallback: Tool = {
  type: "function",
  name: "fallback",
  description: undefined,
  parameters: { type: "object", properties: {} },
  strict: undefined,
}

/** What all three formats can say. */
const common: fc.Arbitrary<Prompt> = fc
  .record({
    instructions: fc.array(
      text.map((each) => ({ type: "text" as const, text: each })),
      { maxLength: 1 },
    ),
    turns,
    tools: fc.uniqueArray(tool, { maxLength: 3, selector: (each) => ("name" in each ? each.name : "") }),
    choice: fc.constantFrom("auto", "none", "required", "named", undefined),
    oneCall: fc.boolean(),
    sampling: fc.record({
      temperature: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
      topP: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
      topK: fc.constant(undefined),
    }),
  })
  .map(({ choice, oneCall, tools: offered, ...rest }) => {
    // Where there are calls there are tools: a messages backend is told of them in any case.
    const calls = rest.turns.some(({ parts }) => parts.some(({ type }) => type === "tool-call"))
    const tools = offered.length === 0 && calls ? [fallback] : offered
    const [first] = tools
    const named = first !== undefined && "name" in first ? { kind: "tool" as const, name: first.name } : undefined
    const wanted = choice === "named" ? named : choice && { kind: choice }
    const parallelTools = oneCall && tools.length > 0 && wanted?.kind !== "none" ? false : undefined
    const toolChoice =
      tools.length === 0 ? undefined : (wanted ?? (parallelTools === false ? { kind: "auto" } : undefined))
    return { ...rest, tools, toolChoice, parallelTools, stopSequences: [], output: undefined, reasoning: undefined }
  })

/** Neighbours of one role are one turn, negative zero is zero in JSON, and a strict that is false is one that is absent. */
function plain(prompt: Prompt): unknown {
  const turns: { role: string; parts: unknown[] }[] = []
  for (const { role, parts } of prompt.turns) {
    const last = turns.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else turns.push({ role, parts: [...parts] })
  }
  const text = JSON.stringify({ ...prompt, turns }, (key: string, value: unknown) => {
    if (key === "detail" || key === "cache") return undefined
    return key === "strict" && value === false ? undefined : value
  })
  return JSON.parse(text)
}

describe.each(pairs)("a %s client on a %s backend", (client, backend) => {
  test("what both can ask for is asked for", () => {
    fc.assert(
      fc.property(common, (prompt) => {
        const written = must(formats[client].backend.encodePrompt(prompt, asking(backend, {}), target))({
          maxOutputTokens: limit,
          stream: false,
        })
        const request = must(formats[client].client.decodeRequest(travelled(written)))
        const heard = meets(request, backend).encodeRequest(limit)
        const asked = must(formats[backend].client.decodeRequest(travelled(heard)))
        expect(plain(must(formats[backend].client.decodePrompt(asked)))).toEqual(plain(prompt))
        expect(asked.maxOutputTokens).toBe(4_000)
      }),
    )
  })

  test("the conversation is translated once, however often it is sent", () => {
    const hello = client === "responses" ? { input: "Hello" } : { messages: [{ role: "user", content: "Hello" }] }
    const met = meets(asking(client, { model: "m", ...hello }), backend)
    const field = backend === "responses" ? "input" : "messages"
    expect(met.encodeRequest(limit)[field]).toBe(met.encodeRequest(limit - 1)[field])
  })

  test("what both can answer is answered, streamed in any pieces and in one", () => {
    fc.assert(
      fc.property(answered, fc.integer({ min: 1, max: 9 }), (reply, size) => {
        const request = must(formats[client].client.decodeRequest(hello[client]))
        const met = meets(request, backend)
        const other = view(asking(backend, hello[backend]))

        const encoder = formats[backend].client.eventEncoder(other)
        const told = sent(eventsOf(reply, size).flatMap((event) => encoder.encode(event)))
        const reader = met.streamReader(view(request))
        const steps = parse([bytesOf(told)]).map((event) => reader.read(event))
        expect(speakers[client].answer(speakers[client].added(sent(steps)))).toMatchObject(meant(reply))
        expect(reader.tokens()).toEqual(reply.usage?.tokens)

        const whole = must(met.readReply(travelled(formats[backend].client.encodeReply(reply, other)), view(request)))
        expect(speakers[client].answer(travelled(whole.body))).toMatchObject(meant(reply))
        expect(whole.tokens).toEqual(reply.usage?.tokens)
      }),
    )
  })
})

/** A client of each format that wants to see thinking. */
const hello: Readonly<Record<Translated, JsonObject>> = {
  chat: { model: "m", messages: [{ role: "user", content: "Hi" }] },
  messages: {
    model: "m",
    max_tokens: 4_000,
    thinking: { type: "adaptive" },
    messages: [{ role: "user", content: "Hi" }],
  },
  responses: { model: "m", input: "Hi" },
}

const count = fc.nat({ max: 100_000 })
const answered = fc
  .record({
    thinking: fc.option(text, { nil: undefined }),
    text: fc.option(text, { nil: undefined }),
    calls: fc.uniqueArray(fc.record({ id: name, name, args }), { maxLength: 3, selector: ({ id }) => id }),
    reason: fc.constantFrom<FinishReason>("stop", "length", "content-filter"),
    // A prompt of no tokens at all is one that nobody counted.
    tokens: fc.record({ input: count.map((tokens) => tokens + 1), cacheRead: count, cacheWrite: count, output: count }),
  })
  .map(({ thinking, text: spoken, calls, reason, tokens }): ModelReply => {
    const parts: AssistantPart[] = [
      ...(thinking === undefined ? [] : [{ type: "thinking" as const, text: thinking, seal: undefined }]),
      ...(spoken === undefined ? [] : [{ type: "text" as const, text: spoken }]),
      ...calls.map((call) => ({
        type: "tool-call" as const,
        id: call.id,
        name: call.name,
        arguments: call.args,
        custom: false,
      })),
    ]
    const finish = calls.length > 0 ? "tool-calls" : reason
    return { id: undefined, parts, finish, stopSequence: undefined, usage: { tokens, reasoning: undefined } }
  })

const pieces = (whole: string, size: number): string[] =>
  Array.from({ length: Math.ceil(whole.length / size) }, (_, at) => whole.slice(at * size, (at + 1) * size))

function eventsOf(reply: ModelReply, size: number): ModelEvent[] {
  const events: ModelEvent[] = [{ type: "start", id: undefined, usage: undefined }]
  let index = 0
  for (const part of reply.parts) {
    if (part.type === "tool-call") {
      events.push({ type: "tool-call-start", index, id: part.id, name: part.name, custom: false })
      for (const piece of pieces(part.arguments, size))
        events.push({ type: "tool-call-delta", index, arguments: piece })
      index++
    } else for (const piece of pieces(part.text, size)) events.push({ type: `${part.type}-delta`, text: piece })
    events.push({ type: "part-end" })
  }
  const usage: ModelEvent[] = reply.usage ? [{ type: "usage", usage: reply.usage }] : []
  return [...events, { type: "finish", reason: reply.finish, stopSequence: undefined }, ...usage, { type: "end" }]
}

/** What the client must read; how it is ended is the matrix's to say. */
function meant({ parts, usage }: ModelReply): object {
  const joined = (type: "text" | "thinking") => parts.map((part) => (part.type === type ? part.text : "")).join("")
  const calls = parts.flatMap((part) =>
    part.type === "tool-call" ? [{ id: part.id, name: part.name, given: part.arguments }] : [],
  )
  return { thinking: joined("thinking"), text: joined("text"), refusal: "", calls, usage: usage?.tokens }
}

describe("a translated stream that is cut at any byte is a whole answer or a failure that is told", () => {
  const recorded: Readonly<Record<Translated, readonly string[]>> = {
    chat: ["parallel-tools", "reasoning"],
    messages: ["parallel-tools", "thinking-cache"],
    responses: ["reasoning-tools", "text"],
  }
  const rows = pairs.flatMap(([client, backend]) => recorded[backend].map((file) => [client, backend, file] as const))

  test.each(rows)("%s from %s/%s", async (client, backend, file) => {
    const bytes = await fixture(`${backend}/${file}.sse`)
    const request = { ...must(formats[client].client.decodeRequest(hello[client])), stream: true, includeUsage: true }
    const met = meets(request, backend)
    const complete = await relayed(met.streamReader(view(request)), bytes)
    const whole = speakers[client].added(complete.told)
    let wholes = 0
    for (let cut = 0; cut <= bytes.length; cut++) {
      const { told, failure, started, reader } = await relayed(met.streamReader(view(request)), bytes.subarray(0, cut))
      if (failure === undefined) {
        expect(speakers[client].added(told)).toEqual(whole)
        wholes++
        continue
      }
      const position = reader.position()
      const report = formats[client].client.streamFailure(failure, {
        requestId: "req_1",
        model: "m",
        position,
        started,
      })
      const shown = speakers[client].failure(told + report)
      if (shown === undefined) throw new Error(`a plain end after ${cut} bytes: ${told}${report}`)
    }
    // Only what the terminal event's own end of line leaves out is no loss.
    expect(wholes).toBeGreaterThan(0)
    expect(wholes).toBeLessThan(5)
  })
})

/** What a client was sent of a backend's stream, as the gateway sends it. */
async function relayed(reader: StreamReader, bytes: Uint8Array) {
  let told = ""
  const bounds = { eventLength: 1_000_000, streamBytes: 10_000_000, replyBytes: 0, values: 200_000 }
  const client = { write: (text: string) => (told += text), onBackendActivity: () => {}, onCommit: () => {} }
  const relay = new Relay(reader, bounds, client, { onContent: () => {}, output: new OutputMeter() })
  const end = await relay.run(bodyOf(bytes), systemClock)
  const failure = "terminal" in end ? undefined : end.failure
  if ("terminal" in end) told += end.terminal
  return { told, failure, started: relay.committed, reader }
}

const bodyOf = (bytes: Uint8Array): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(bytes)
      controller.close()
    },
  })
