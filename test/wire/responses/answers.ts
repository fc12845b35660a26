/** Answers in the neutral language: what a sequence of events adds up to, and answers to try out. */
import * as fc from "fast-check"
import type { AssistantPart, FinishReason, ModelEvent, ModelReply, Usage } from "../../../src/language/prompt.ts"
import type { AnswerView } from "../../../src/wire/format.ts"
import type { StreamStep } from "../../../src/wire/format.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { bytesOf, decodeAll, parse, sent } from "../replay.ts"
import { emptyPrompt } from "./asking.ts"

/** The reply that these events tell piece by piece. Throws where they are no legal sequence. */
export function added(events: readonly ModelEvent[]): ModelReply {
  let reply: ModelReply = { id: undefined, parts: [], finish: "stop", stopSequence: undefined, usage: undefined }
  const parts: AssistantPart[] = []
  const calls = new Map<number, number>()
  let open = false
  const more = (type: "text" | "refusal" | "thinking", text: string) => {
    const last = parts.at(-1)
    if (open && last?.type === type) parts[parts.length - 1] = { ...last, text: last.text + text }
    else parts.push(type === "thinking" ? { type, text, seal: undefined } : { type, text })
    open = true
  }
  for (const event of events) {
    switch (event.type) {
      case "start":
        reply = { ...reply, id: event.id }
        break
      case "text-delta":
        more("text", event.text)
        break
      case "refusal-delta":
        more("refusal", event.text)
        break
      case "thinking-delta":
        more("thinking", event.text)
        break
      case "thinking-seal": {
        const last = parts.at(-1)
        if (open && last?.type === "thinking") parts[parts.length - 1] = { ...last, seal: event.seal }
        else parts.push({ type: "thinking", text: "", seal: event.seal })
        open = false
        break
      }
      case "tool-call-start":
        if (event.index !== calls.size) throw new Error("calls are not counted from 0")
        calls.set(event.index, parts.length)
        parts.push({ type: "tool-call", id: event.id, name: event.name, arguments: "", custom: event.custom })
        open = true
        break
      case "tool-call-delta": {
        const at = calls.get(event.index) ?? -1
        const call = parts[at]
        if (call?.type !== "tool-call") throw new Error("a piece of no call")
        parts[at] = { ...call, arguments: call.arguments + event.arguments }
        break
      }
      case "part-end":
        open = false
        break
      case "usage":
        reply = { ...reply, usage: event.usage }
        break
      case "finish":
        reply = { ...reply, finish: event.reason, stopSequence: event.stopSequence }
        break
      case "end":
        return { ...reply, parts }
    }
  }
  throw new Error("no end")
}

export const encodeAll = (events: readonly ModelEvent[], view: AnswerView): StreamStep[] => {
  const encoder = responsesFormat.client.eventEncoder(view)
  return events.flatMap((event) => encoder.encode(event))
}

/** The events that a backend's bytes mean. */
export const decodeBytes = (bytes: Uint8Array): ModelEvent[] =>
  decodeAll(responsesFormat.backend.stream({ model: "", includeUsage: true }, emptyPrompt), parse([bytes]))

export const decodeSteps = (steps: readonly StreamStep[]): ModelEvent[] => decodeBytes(bytesOf(sent(steps)))

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 })
const id = fc.stringMatching(/^[a-z]{1,8}$/)
const part: fc.Arbitrary<AssistantPart> = fc.oneof(
  fc.record({ type: fc.constant("text" as const), text }),
  fc.record({ type: fc.constant("refusal" as const), text }),
  fc.record({
    type: fc.constant("thinking" as const),
    text,
    seal: fc.option(fc.record({ by: fc.constant("responses" as const), data: id }), { nil: undefined }),
  }),
  fc.record({
    type: fc.constant("thinking" as const),
    text: fc.constant(""),
    seal: fc.record({ by: fc.constant("responses" as const), data: id }),
  }),
  fc.record({
    type: fc.constant("tool-call" as const),
    id,
    name: id,
    arguments: fc.oneof(fc.constant("{}"), fc.json({ maxDepth: 1 })),
    custom: fc.constant(false),
  }),
  fc.record({ type: fc.constant("tool-call" as const), id, name: id, arguments: text, custom: fc.constant(true) }),
)
const count = fc.nat({ max: 10_000 })
const usage: fc.Arbitrary<Usage> = fc
  .record({ input: count, cacheRead: count, cacheWrite: count, output: count, reasoning: count })
  .map(({ reasoning, ...tokens }) => ({ tokens, reasoning: Math.min(reasoning, tokens.output) }))

/** Two calls of one id would be told with another. */
const withOwnIds = (parts: readonly AssistantPart[]): AssistantPart[] =>
  parts.map((one, at) => (one.type === "tool-call" ? { ...one, id: `${one.id}${at}` } : one))

/** What this format can say: no stop sequence, no pause, and calls are what an answer with calls ends for. */
export const reply: fc.Arbitrary<ModelReply> = fc
  .record({
    parts: fc.array(part, { maxLength: 6 }).map(withOwnIds),
    finish: fc.constantFrom<(FinishReason | "end")[]>("end", "length", "content-filter"),
    usage: fc.option(usage, { nil: undefined }),
  })
  .map(({ parts, finish, usage }) => {
    const ending = parts.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop"
    return { id: "resp_1", parts, finish: finish === "end" ? ending : finish, stopSequence: undefined, usage }
  })

/** One way of telling a reply: every text in pieces, a part's end told or left to what follows. */
export const telling = (told: ModelReply): fc.Arbitrary<ModelEvent[]> =>
  fc
    .record({
      sizes: fc.infiniteStream(fc.integer({ min: 1, max: 5 })),
      ends: fc.infiniteStream(fc.boolean()),
      usageFirst: fc.boolean(),
    })
    .map(({ sizes, ends, usageFirst }) => {
      const events: ModelEvent[] = [{ type: "start", id: told.id, usage: undefined }]
      const pieces = (text: string): string[] => {
        const size = sizes.next().value ?? 1
        return text === "" ? [] : [text.slice(0, size), ...pieces(text.slice(size))]
      }
      let calls = 0
      for (const [at, part] of told.parts.entries()) {
        if (part.type === "tool-call") {
          const index = calls++
          events.push({ type: "tool-call-start", index, id: part.id, name: part.name, custom: part.custom })
          for (const piece of pieces(part.arguments)) events.push({ type: "tool-call-delta", index, arguments: piece })
        } else {
          for (const piece of pieces(part.text)) events.push({ type: `${part.type}-delta`, text: piece })
          if (part.type === "thinking" && part.seal) {
            events.push({ type: "thinking-seal", seal: part.seal })
            continue
          }
        }
        if (told.parts[at + 1]?.type === part.type || (ends.next().value ?? true)) events.push({ type: "part-end" })
      }
      const finish: ModelEvent = { type: "finish", reason: told.finish, stopSequence: undefined }
      const usage: ModelEvent[] = told.usage ? [{ type: "usage", usage: told.usage }] : []
      return [...events, ...(usageFirst ? [...usage, finish] : [finish, ...usage]), { type: "end" }]
    })
