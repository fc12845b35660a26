/** Requests and prompts for the tests of the chat codec, and what an answer's events add up to. */
import { expect } from "bun:test"
import type {
  AssistantPart,
  FinishReason,
  ModelEvent,
  ModelReply,
  Prompt,
  Usage,
} from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import type { Forwarding, ModelRequest } from "../../../src/language/request.ts"
import { Failure } from "../../../src/failure/failure.ts"
import type { AnswerView } from "../../../src/wire/format.ts"
import { chatFormat, decodeRequest } from "../../../src/wire/chat/format.ts"

export const must = <T>(value: T | Failure): T => {
  if (value instanceof Failure) throw new Error(`${value.code}: ${value.message}`)
  return value
}

/** A client's chat request of these fields, as admission understands it. */
const understood = (fields: JsonObject): ModelRequest =>
  must(
    decodeRequest(
      { model: "m", messages: [{ role: "user", content: "Hi" }], ...fields },
      { pass: ["thinking", "top_k"], betas: [] },
    ),
  )

export const decoded = (fields: JsonObject): Prompt => must(chatFormat.client.decodePrompt(understood(fields)))

export const refusal = (fields: JsonObject): string => {
  const found = chatFormat.client.decodePrompt(understood(fields))
  if (!(found instanceof Failure)) throw new Error("was not refused")
  return found.code
}

export const emptyPrompt: Prompt = {
  instructions: [],
  turns: [],
  tools: [],
  toolChoice: undefined,
  parallelTools: undefined,
  stopSequences: [],
  sampling: { temperature: undefined, topP: undefined, topK: undefined },
  output: undefined,
  reasoning: undefined,
}

export const forwarding: Forwarding = { model: "vendor-model", maxOutputTokens: 4_096, stream: false, strip: [] }

/** A request of a client of another format, of which an encoder for chat needs next to nothing. */
export const otherRequest: ModelRequest = { ...understood({}), endpoint: "messages", body: {} }

export const prompt = (fields: Partial<Prompt>): Prompt => ({ ...emptyPrompt, ...fields })

export const encoded = (
  fields: Partial<Prompt>,
  request: Partial<ModelRequest> = {},
  changes: Partial<Forwarding> = {},
): JsonObject => {
  const asked = { ...forwarding, stream: request.stream ?? false, ...changes }
  return must(chatFormat.backend.encodePrompt(prompt(fields), { ...otherRequest, ...request }, asked))(asked)
}

export const answerView = (fields: JsonObject = {}, changes: Partial<AnswerView> = {}): AnswerView => ({
  model: "catalogue/model",
  includeUsage: false,
  requestId: "req_1",
  nowMs: 1_763_600_000_123,
  inputTokens: 10,
  request: understood(fields),
  ...changes,
})

/** What these events add up to; pieces of one kind that follow each other are one part, as chat tells them. */
export function collect(events: readonly ModelEvent[]): ModelReply {
  const parts: AssistantPart[] = []
  const callAt = new Map<number, number>()
  let id: string | undefined
  let finish: FinishReason | undefined
  let stopSequence: string | undefined
  let usage: Usage | undefined
  const say = (type: "text" | "refusal" | "thinking", text: string): void => {
    const last = parts.at(-1)
    const whole = last?.type === type ? last.text + text : text
    const part = type === "thinking" ? { type, text: whole, seal: undefined } : { type, text: whole }
    if (last?.type === type) parts[parts.length - 1] = part
    else parts.push(part)
  }
  for (const event of events) {
    if (event.type === "start") id = event.id
    if (event.type === "text-delta") say("text", event.text)
    if (event.type === "refusal-delta") say("refusal", event.text)
    if (event.type === "thinking-delta") say("thinking", event.text)
    if (event.type === "usage") usage = event.usage
    if (event.type === "tool-call-start") {
      callAt.set(event.index, parts.length)
      parts.push({ type: "tool-call", id: event.id, name: event.name, arguments: "", custom: event.custom })
    }
    if (event.type === "tool-call-delta") {
      const at = callAt.get(event.index) ?? -1
      const call = parts[at]
      if (call?.type !== "tool-call") throw new Error("a delta of a call that has not begun")
      parts[at] = { ...call, arguments: call.arguments + event.arguments }
    }
    if (event.type === "finish") {
      expect(finish).toBeUndefined()
      finish = event.reason
      stopSequence = event.stopSequence
    }
  }
  if (finish === undefined) throw new Error("an answer without its reason")
  return { id, parts, finish, stopSequence, usage }
}
