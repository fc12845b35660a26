/** What holds for every answer and every prompt that this format can say. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import type {
  AssistantPart,
  FinishReason,
  ModelEvent,
  ModelReply,
  Prompt,
  TextPart,
  Turn,
  UserPart,
} from "../../../src/language/prompt.ts"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { decodeRequest, messagesFormat } from "../../../src/wire/messages/format.ts"
import { forwarding, prompt, read, request, stream, summed, view } from "./samples.ts"

const word = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 })
const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>
const object = fc.dictionary(fc.oneof(word, fc.constant("__proto__")), json, { maxKeys: 4 }) as fc.Arbitrary<JsonObject>
const count = fc.nat({ max: 1_000_000 })
const id = fc.stringMatching(/^[\w-]{1,20}$/)

const textPart: fc.Arbitrary<AssistantPart> = word.map((text) => ({ type: "text", text }))
const thinkingPart: fc.Arbitrary<AssistantPart> = fc.oneof(
  word.map((text) => ({ type: "thinking" as const, text, seal: undefined })),
  fc.record({
    type: fc.constant("thinking" as const),
    text: fc.oneof(word, fc.constant("")),
    seal: word.map((data) => ({ by: "messages" as const, data })),
  }),
  word.map((data) => ({ type: "thinking" as const, text: "", seal: { by: "messages-redacted" as const, data } })),
)
const callPart: fc.Arbitrary<AssistantPart> = fc.record({
  type: fc.constant("tool-call" as const),
  id,
  name: id,
  arguments: object.map((input) => JSON.stringify(input)),
  custom: fc.constant(false),
})

/** Two calls of one id would be told with another. */
const withOwnIds = (parts: readonly AssistantPart[]): AssistantPart[] =>
  parts.map((part, at) => (part.type === "tool-call" ? { ...part, id: `${part.id}${at}` } : part))

/** A finish that is true of the parts: an answer with calls ends for their sake. */
const answered = fc
  .record({
    parts: fc.array(fc.oneof(textPart, thinkingPart, callPart), { maxLength: 6 }).map(withOwnIds),
    reason: fc.constantFrom<FinishReason>("stop", "stop-sequence", "length", "content-filter", "pause"),
    sequence: word,
    usage: fc
      .record({ input: count, cacheRead: count, cacheWrite: count, output: count, reasoning: fc.option(count) })
      .map(({ reasoning, ...tokens }) => ({
        tokens: { ...tokens, input: tokens.input + 1 },
        reasoning: reasoning === null ? undefined : Math.min(reasoning, tokens.output),
      })),
  })
  .map(({ parts, reason, sequence, usage }): ModelReply => {
    const finish = parts.some(({ type }) => type === "tool-call") ? "tool-calls" : reason
    return { id: "msg_1", parts, finish, stopSequence: finish === "stop-sequence" ? sequence : undefined, usage }
  })

/** Cuts a text into pieces of this many UTF-16 units, surrogates too. */
const pieces = (text: string, size: number): string[] =>
  Array.from({ length: Math.ceil(text.length / size) }, (_, at) => text.slice(at * size, (at + 1) * size))

/** The calls at the end of an answer come as one backend or another sends them: in turn, or their pieces mixed. */
function told(reply: ModelReply, size: number, mixed: boolean, usageFirst: boolean): ModelEvent[] {
  const events: ModelEvent[] = [{ type: "start", id: reply.id, usage: undefined }]
  const late: ModelEvent[][] = []
  const lastOther = reply.parts.findLastIndex(({ type }) => type !== "tool-call")
  let index = 0
  for (const [at, part] of reply.parts.entries()) {
    if (part.type === "text") for (const text of pieces(part.text, size)) events.push({ type: "text-delta", text })
    if (part.type === "thinking") {
      for (const text of pieces(part.text, size)) events.push({ type: "thinking-delta", text })
      if (part.seal) events.push({ type: "thinking-seal", seal: part.seal })
    }
    if (part.type === "tool-call") {
      const call = { index, id: part.id, name: part.name }
      events.push({ type: "tool-call-start", ...call, custom: false })
      const deltas = pieces(part.arguments, size).map((arguments_): ModelEvent => ({
        type: "tool-call-delta",
        index: call.index,
        arguments: arguments_,
      }))
      if (mixed && at > lastOther) late.push(deltas)
      else events.push(...deltas)
      index++
    }
    if (!(mixed && at > lastOther)) events.push({ type: "part-end" })
  }
  for (let round = 0; late.some((deltas) => deltas.length > round); round++)
    for (const deltas of late) events.push(...deltas.slice(round, round + 1))
  const finish: ModelEvent = { type: "finish", reason: reply.finish, stopSequence: reply.stopSequence }
  const usage: ModelEvent[] = reply.usage ? [{ type: "usage", usage: reply.usage }] : []
  return [...events, ...(usageFirst ? [...usage, finish] : [finish, ...usage]), { type: "end" }]
}

test("events that are encoded and decoded say the same, however they were cut and mixed", () => {
  fc.assert(
    fc.property(
      answered,
      fc.integer({ min: 1, max: 7 }),
      fc.boolean(),
      fc.boolean(),
      (reply, size, mixed, usageFirst) => {
        const events = told(reply, size, mixed, usageFirst)
        expect(summed(events)).toEqual(reply)
        const { text, kinds } = stream(events)
        expect(summed(read(text))).toEqual(reply)
        expect(kinds).toMatch(/^p+(?:C[Ct]*)?[pt]T$/)
      },
    ),
  )
})

test("every stream has its blocks one after the other, each begun and ended once, whatever events come", () => {
  const events: fc.Arbitrary<ModelEvent> = fc.oneof(
    word.map((text) => ({ type: "text-delta" as const, text })),
    word.map((text) => ({ type: "refusal-delta" as const, text })),
    word.map((text) => ({ type: "thinking-delta" as const, text })),
    fc
      .constantFrom("messages", "messages-redacted", "responses")
      .map((by) => ({ type: "thinking-seal" as const, seal: { by, data: "s" } as const })),
    fc.record({ type: fc.constant("tool-call-start" as const), index: fc.nat(3), id, name: id, custom: fc.boolean() }),
    fc.record({
      type: fc.constant("tool-call-delta" as const),
      index: fc.nat(4),
      arguments: fc.oneof(word, fc.constantFrom("{", "}", '"')),
    }),
    fc.constant({ type: "part-end" as const }),
  )
  fc.assert(
    fc.property(fc.array(events, { maxLength: 30 }), (list) => {
      const sent = stream([...list, { type: "end" }]).events
      const blocks = sent.slice(1, -2)
      let open: number | undefined
      let next = 0
      for (const { type, index } of blocks) {
        if (type === "content_block_start") {
          expect(open).toBeUndefined()
          expect(index).toBe(next++)
          open = index
        } else expect(index).toBe(open)
        if (type === "content_block_stop") open = undefined
      }
      expect(open).toBeUndefined()
      expect([sent[0]?.type, sent.at(-2)?.type, sent.at(-1)?.type]).toEqual([
        "message_start",
        "message_delta",
        "message_stop",
      ])
    }),
  )
})

test("a whole answer that is encoded and decoded says the same", () => {
  fc.assert(
    fc.property(answered, (reply) => {
      const body = messagesFormat.client.encodeReply(reply, view())
      expect(messagesFormat.backend.decodeReply({ body }, prompt())).toEqual(reply)
    }),
  )
})

const anyText = fc.oneof(word, fc.constantFrom("", " ", "\n\n"))
const cache = fc.option(fc.record({ ttl: fc.constantFrom(undefined, "5m", "1h") }), { nil: undefined })
const text: fc.Arbitrary<TextPart> = fc.record({ type: fc.constant("text" as const), text: anyText, cache })
const source = fc.oneof(
  fc.record({
    kind: fc.constant("data" as const),
    mediaType: fc.constant("application/pdf"),
    base64: fc.base64String(),
  }),
  fc.webUrl().map((url) => ({ kind: "url" as const, url })),
)
const image = fc.record({ type: fc.constant("image" as const), source, cache })
const document = fc.record({
  type: fc.constant("document" as const),
  source: fc.oneof(
    source,
    anyText.map((said) => ({ kind: "text" as const, text: said })),
  ),
  name: fc.option(word, { nil: undefined }),
  cache,
})
const toolResult = fc.record({
  type: fc.constant("tool-result" as const),
  callId: word,
  parts: fc.array(fc.oneof(text, image, document), { maxLength: 3 }),
  isError: fc.boolean(),
  cache,
})
const call = fc.record({
  type: fc.constant("tool-call" as const),
  id: word,
  name: word,
  arguments: fc.oneof(
    anyText,
    object.map((o) => JSON.stringify(o)),
  ),
  custom: fc.boolean(),
})
const turn: fc.Arbitrary<Turn> = fc.oneof(
  fc.record({
    role: fc.constant("user" as const),
    parts: fc.array<UserPart>(fc.oneof(text, image, document, toolResult), { maxLength: 4 }),
  }),
  fc.record({
    role: fc.constant("assistant" as const),
    parts: fc.array<AssistantPart>(
      fc.oneof(
        text,
        thinkingPart,
        call,
        anyText.map((said) => ({ type: "refusal" as const, text: said })),
      ),
      { maxLength: 4 },
    ),
  }),
  fc.record({ role: fc.constant("system" as const), parts: fc.array(text, { maxLength: 2 }) }),
)
const name = fc.oneof(id, word)
const tool = fc.oneof(
  fc.record({
    type: fc.constant("function" as const),
    name,
    description: fc.option(anyText, { nil: undefined }),
    parameters: object,
    strict: fc.constantFrom(undefined, true, false),
    cache,
  }),
  fc.record({
    type: fc.constant("custom" as const),
    name,
    description: fc.option(anyText, { nil: undefined }),
    grammar: fc.constant(undefined),
  }),
  fc.constant({ type: "web-search" as const, options: { max_uses: 2, filters: {} } }),
)
const effort = fc.constantFrom(undefined, "none", "minimal", "low", "medium", "high", "xhigh", "max")
const anyPrompt = fc.record({
  instructions: fc.array(text, { maxLength: 3 }),
  turns: fc.array(turn, { maxLength: 6 }),
  tools: fc.array(tool, { maxLength: 3 }),
  toolChoice: fc.oneof(
    fc.constant(undefined),
    fc.constantFrom("auto", "none", "required").map((kind) => ({ kind })),
    name.map((chosen) => ({ kind: "tool" as const, name: chosen })),
  ),
  parallelTools: fc.constantFrom(undefined, true, false),
  stopSequences: fc.array(anyText, { maxLength: 3 }),
  sampling: fc.record({
    temperature: fc.option(fc.double({ min: -1, max: 3, noNaN: true }), { nil: undefined }),
    topP: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
    topK: fc.option(fc.nat(100), { nil: undefined }),
  }),
  output: fc.oneof(
    fc.constantFrom(undefined, { kind: "json" as const }),
    object.map((schema) => ({ kind: "schema" as const, name: "n", description: undefined, schema, strict: true })),
  ),
  reasoning: fc.option(
    fc.record({
      enabled: fc.boolean(),
      effort,
      budgetTokens: fc.option(fc.nat(5000), { nil: undefined }),
      visible: fc.boolean(),
    }),
    { nil: undefined },
  ),
}) as fc.Arbitrary<Prompt>

const models = [
  "claude-haiku-4-5",
  "claude-opus-4-5",
  "claude-opus-4-6",
  "claude-opus-4-8",
  "claude-sonnet-5",
  "claude-sonnet-5-5",
  "claude-opus-5-5",
  "kimi-k3",
]

test("every prompt makes a body that this format takes, and a second round changes nothing", () => {
  fc.assert(
    fc.property(anyPrompt, fc.constantFrom(...models), fc.constantFrom(500, 1500, 40_000), (first, model, limit) => {
      const round = (asked: Prompt, mostTokens: number | undefined) => {
        const target = forwarding({ model, maxOutputTokens: 30_000 })
        const encoded = messagesFormat.backend.encodePrompt(asked, request({ maxOutputTokens: mostTokens }), target)
        if (encoded instanceof Failure) throw new Error(encoded.message)
        const body = encoded(target)
        const taken = decodeRequest(JSON.parse(JSON.stringify(body)))
        if (taken instanceof Failure) throw new Error(`not taken: ${taken.message}`)
        const next = messagesFormat.client.decodePrompt(taken)
        if (next instanceof Failure) throw new Error(`not understood: ${next.message}`)
        return { body, next, limit: taken.maxOutputTokens }
      }
      const once = round(first, limit)
      const twice = round(once.next, once.limit)
      expect(twice.next).toEqual(once.next)
      expect(round(twice.next, twice.limit).body).toEqual(twice.body)
    }),
    { numRuns: 500 },
  )
})
