/** What holds for every answer and every prompt: that it survives the way out and back. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type {
  AssistantPart,
  Effort,
  FinishReason,
  ModelEvent,
  ModelReply,
  Prompt,
  TextPart,
  ToolResultPart,
  Turn,
  Usage,
  UserPart,
} from "../../../src/language/prompt.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { chatFormat, decodeRequest } from "../../../src/wire/chat/format.ts"
import { bytesOf, decodeAll, parse, sent } from "../replay.ts"
import { answerView, collect, emptyPrompt, forwarding, must, otherRequest } from "./ask.ts"

const words = fc.string({ minLength: 1, unit: "grapheme" })
const count = fc.nat(1_000_000)
const usage: fc.Arbitrary<Usage> = fc
  .record({ input: count, cacheRead: count, cacheWrite: count, output: count, reasoning: fc.option(count) })
  .map(({ reasoning, ...tokens }) => ({
    tokens,
    reasoning: reasoning === null ? undefined : Math.min(reasoning, tokens.output),
  }))
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify({ value }))

/** An answer as chat can tell it: each kind of text at most once, calls after them, a reason that fits. */
const said = fc.record({
  id: fc.option(fc.stringMatching(/^[a-z0-9_-]{1,30}$/), { nil: undefined }),
  thinking: fc.array(words, { maxLength: 4 }),
  text: fc.array(words, { maxLength: 4 }),
  refusal: fc.array(words, { maxLength: 2 }),
  calls: fc.uniqueArray(
    fc.record({ id: fc.uuid(), name: fc.stringMatching(/^[a-zA-Z0-9_-]{1,64}$/), arguments: json, cuts: fc.nat(5) }),
    { maxLength: 4, selector: ({ id }) => id },
  ),
  cutOff: fc.constantFrom<(FinishReason | undefined)[]>(undefined, "length", "content-filter"),
  usage: fc.option(usage, { nil: undefined }),
  usageFirst: fc.boolean(),
  inTurns: fc.boolean(),
})
type Said = typeof said extends fc.Arbitrary<infer T> ? T : never

const toReply = (answer: Said): ModelReply => {
  const texts = (["thinking", "text", "refusal"] as const).flatMap((type): AssistantPart[] => {
    const text = answer[type].join("")
    if (text === "") return []
    return [type === "thinking" ? { type, text, seal: undefined } : { type, text }]
  })
  const calls = answer.calls.map(({ id, name, arguments: text }): AssistantPart => ({
    type: "tool-call",
    id,
    name,
    arguments: text,
    custom: false,
  }))
  return {
    id: answer.id,
    parts: [...texts, ...calls],
    finish: answer.cutOff ?? (calls.length > 0 ? "tool-calls" : "stop"),
    stopSequence: undefined,
    usage: answer.usage,
  }
}

const toEvents = (answer: Said): ModelEvent[] => {
  const events: ModelEvent[] = [{ type: "start", id: answer.id, usage: undefined }]
  for (const text of answer.thinking) events.push({ type: "thinking-delta", text })
  for (const text of answer.text) events.push({ type: "text-delta", text }, { type: "part-end" })
  for (const text of answer.refusal) events.push({ type: "refusal-delta", text })
  const later: ModelEvent[] = []
  for (const [index, { id, name, arguments: text, cuts }] of answer.calls.entries()) {
    events.push({ type: "tool-call-start", index, id, name, custom: false })
    const delta = (part: string): ModelEvent => ({ type: "tool-call-delta", index, arguments: part })
    ;(answer.inTurns ? later : events).push(delta(text.slice(0, cuts)), delta(text.slice(cuts)))
  }
  events.push(...later)
  const last: ModelEvent[] = [{ type: "finish", reason: toReply(answer).finish, stopSequence: undefined }]
  if (answer.usage !== undefined) last.push({ type: "usage", usage: answer.usage })
  return [...events, ...(answer.usageFirst ? last.reverse() : last), { type: "end" }]
}

const named = (reply: ModelReply): ModelReply => ({ ...reply, id: reply.id ?? "chatcmpl-req_1" })

describe("an answer that chat can tell", () => {
  const view = answerView({}, { includeUsage: true })
  test("says the same after a stream, out and back, and is over once", () => {
    fc.assert(
      fc.property(said, (answer) => {
        const encoder = chatFormat.client.eventEncoder(view)
        const bytes = sent(toEvents(answer).flatMap((event) => encoder.encode(event)))
        const events = decodeAll(
          chatFormat.backend.stream({ model: "", includeUsage: true }, emptyPrompt),
          parse([bytesOf(bytes)]),
        )
        expect(collect(events)).toEqual(named(toReply(answer)))
        expect(events.filter(({ type }) => type === "end")).toHaveLength(1)
      }),
    )
  })

  test("says the same whole, out and back", () => {
    fc.assert(
      fc.property(said, (answer) => {
        const body = chatFormat.client.encodeReply(toReply(answer), view)
        expect(must(chatFormat.backend.decodeReply({ body }, emptyPrompt))).toEqual(named(toReply(answer)))
      }),
    )
  })

  test("is never answered after its end, whatever order its events came in", () => {
    fc.assert(
      fc.property(said, fc.array(fc.nat()), (answer, order) => {
        const events = toEvents(answer)
        const mixed = order.map((at) => events[at % events.length]).filter((event) => event !== undefined)
        const encoder = chatFormat.client.eventEncoder(view)
        const steps = mixed.flatMap((event) => encoder.encode(event))
        const over = steps.findIndex(({ kind }) => kind === "terminal")
        if (over !== -1) expect(over).toBe(steps.length - 1)
        for (const { data } of parse([bytesOf(sent(steps))])) if (data !== "[DONE]") JSON.parse(data)
      }),
    )
  })
})

const cache = fc.option(fc.record({ ttl: fc.constantFrom("5m", "1h", undefined) }), { nil: undefined })
const textPart: fc.Arbitrary<TextPart> = fc.record({ type: fc.constant("text" as const), text: fc.string(), cache })
const dataSource = fc.record({
  kind: fc.constant("data" as const),
  mediaType: fc.constantFrom("image/png", "application/pdf"),
  base64: fc.base64String({ minLength: 4 }),
})
const imagePart = fc.record({
  type: fc.constant("image" as const),
  source: fc.oneof(dataSource, fc.record({ kind: fc.constant("url" as const), url: fc.webUrl() })),
  detail: fc.constantFrom("low", undefined),
  cache,
})
const documentPart = fc.record({
  type: fc.constant("document" as const),
  source: fc.oneof(dataSource, fc.record({ kind: fc.constant("text" as const), text: fc.string() })),
  name: fc.constantFrom("a.pdf", undefined),
  cache,
})
const toolName = fc.oneof(fc.constantFrom("f", "g", "custom"), fc.string({ minLength: 1, maxLength: 100 }))
const resultPart: fc.Arbitrary<ToolResultPart> = fc.record({
  type: fc.constant("tool-result" as const),
  callId: words,
  parts: fc.array(fc.oneof(textPart, imagePart, documentPart), { maxLength: 3 }),
  isError: fc.boolean(),
  cache,
})
const seal = fc.option(fc.record({ by: fc.constantFrom("messages" as const, "responses" as const), data: words }), {
  nil: undefined,
})
const userTurn: fc.Arbitrary<Turn> = fc.record({
  role: fc.constant("user" as const),
  parts: fc.array(fc.oneof<fc.Arbitrary<UserPart>[]>(textPart, imagePart, documentPart, resultPart), { maxLength: 4 }),
})
const assistantTurn: fc.Arbitrary<Turn> = fc.record({
  role: fc.constant("assistant" as const),
  parts: fc.array(
    fc.oneof<fc.Arbitrary<AssistantPart>[]>(
      textPart,
      fc.record({ type: fc.constant("refusal" as const), text: words }),
      fc.record({ type: fc.constant("thinking" as const), text: fc.string(), seal }),
      fc.record({
        type: fc.constant("tool-call" as const),
        id: words,
        name: toolName,
        arguments: json,
        custom: fc.boolean(),
      }),
    ),
    { maxLength: 4 },
  ),
})
const systemTurn: fc.Arbitrary<Turn> = fc.record({
  role: fc.constant("system" as const),
  parts: fc.array(textPart, { maxLength: 2 }),
})
const anyPrompt: fc.Arbitrary<Prompt> = fc.record({
  instructions: fc.array(textPart, { maxLength: 3 }),
  turns: fc
    .array(fc.oneof(userTurn, assistantTurn, systemTurn), { maxLength: 6 })
    .map((turns): Turn[] => [...turns, { role: "user", parts: [{ type: "text", text: "Go on." }] }]),
  tools: fc.uniqueArray(
    fc.oneof(
      fc.record({
        type: fc.constant("function" as const),
        name: toolName,
        description: fc.option(fc.string(), { nil: undefined }),
        parameters: fc.constant({ type: "object", properties: {} }),
        strict: fc.constantFrom(true, false, undefined),
        cache,
      }),
      fc.record({
        type: fc.constant("custom" as const),
        name: toolName,
        description: fc.option(fc.string(), { nil: undefined }),
        grammar: fc.constantFrom({ type: "grammar", syntax: "lark", definition: "s: A" }, undefined),
      }),
    ),
    { maxLength: 4, selector: ({ name }) => name },
  ),
  toolChoice: fc.constantFrom<Prompt["toolChoice"][]>(
    undefined,
    { kind: "auto" },
    { kind: "none" },
    { kind: "required" },
  ),
  parallelTools: fc.constantFrom(true, false, undefined),
  stopSequences: fc.array(words, { maxLength: 3 }),
  sampling: fc.record({
    temperature: fc.constantFrom(0, 0.7, undefined),
    topP: fc.constantFrom(0.9, undefined),
    topK: fc.constantFrom(5, undefined),
  }),
  output: fc.constantFrom<Prompt["output"][]>(
    undefined,
    { kind: "json" },
    { kind: "schema", name: undefined, description: "d", schema: { type: "object" }, strict: true },
    { kind: "schema", name: "my answer", description: undefined, schema: { type: "object" }, strict: undefined },
  ),
  reasoning: fc.option(
    fc.record({
      enabled: fc.boolean(),
      effort: fc.constantFrom<(Effort | undefined)[]>(undefined, "minimal", "low", "medium", "high", "xhigh", "max"),
      budgetTokens: fc.option(fc.integer({ min: 1_024, max: 4_000 }), { nil: undefined }),
      visible: fc.boolean(),
    }),
    { nil: undefined },
  ),
})

/** Out to a chat backend, and in again as that backend would understand it. */
const round = (asked: Prompt): { body: string; understood: Prompt } => {
  const body = must(chatFormat.backend.encodePrompt(asked, otherRequest, forwarding))(forwarding)
  const request = decodeRequest(structuredClone(body))
  if (request instanceof Failure) throw new Error(`${request.message} in ${JSON.stringify(body)}`)
  return { body: JSON.stringify(body), understood: must(chatFormat.client.decodePrompt(request)) }
}

const ids = ({ turns }: Prompt) =>
  turns
    .flatMap(({ parts }): string[] =>
      parts.flatMap((part) =>
        part.type === "tool-call" ? [part.id] : part.type === "tool-result" ? [part.callId] : [],
      ),
    )
    .sort()

describe("a prompt that chat can say", () => {
  test("is a request that the format accepts, and says the same from the second round on", () => {
    fc.assert(
      fc.property(anyPrompt, (asked) => {
        const first = round(asked)
        const second = round(first.understood)
        expect(second.body).toBe(first.body)
        expect(second.understood).toEqual(first.understood)
      }),
      { numRuns: 300 },
    )
  })

  test("keeps every call and every result by its id", () => {
    fc.assert(fc.property(anyPrompt, (asked) => expect(ids(round(asked).understood)).toEqual(ids(asked))))
  })

  test("is not changed by being written", () => {
    fc.assert(
      fc.property(anyPrompt, (asked) => {
        const before = JSON.stringify(asked)
        round(asked)
        expect(JSON.stringify(asked)).toBe(before)
      }),
    )
  })
})
