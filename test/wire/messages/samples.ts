/** What the tests of the messages codec begin from. */
import type { AssistantPart, ModelEvent, ModelReply, Prompt, Tool, Turn, Usage } from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import type { Forwarding, ModelRequest } from "../../../src/language/request.ts"
import { Failure } from "../../../src/failure/failure.ts"
import type { AnswerView } from "../../../src/wire/format.ts"
import { NONE_DROPPED } from "../../../src/wire/fields.ts"
import { decodeRequest, messagesFormat } from "../../../src/wire/messages/format.ts"
import { SseParser, type SseEvent } from "../../../src/wire/sse.ts"
import { decodeAll } from "../replay.ts"

export const hello: Turn = { role: "user", parts: [{ type: "text", text: "Hi" }] }

export const prompt = (changes: Partial<Prompt> = {}): Prompt => ({
  instructions: [],
  turns: [hello],
  tools: [],
  toolChoice: undefined,
  parallelTools: undefined,
  stopSequences: [],
  sampling: { temperature: undefined, topP: undefined, topK: undefined },
  output: undefined,
  reasoning: undefined,
  ...changes,
})

export const weather: Extract<Tool, { type: "function" }> = {
  type: "function",
  name: "get_weather",
  description: "Weather",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  strict: undefined,
}

export const request = (changes: Partial<ModelRequest> = {}): ModelRequest => ({
  endpoint: "chat",
  body: {},
  dropped: NONE_DROPPED,
  ownEndUser: undefined,
  model: "catalogue/model",
  stream: false,
  inputTokens: 77,
  maxOutputTokens: 4000,
  choices: 1,
  features: new Set(),
  includeUsage: false,
  ...changes,
})

export const forwarding = (changes: Partial<Forwarding> = {}): Forwarding => ({
  model: "anthropic.claude-haiku-4-5-20251001-v1:0",
  maxOutputTokens: 4000,
  stream: false,
  strip: [],
  ...changes,
})

/** The body for a backend; a refusal fails the test. */
export function encoded(changes: Partial<Prompt>, terms: { forwarding?: Forwarding; request?: ModelRequest } = {}) {
  const target = terms.forwarding ?? forwarding({ stream: terms.request?.stream ?? false })
  const body = messagesFormat.backend.encodePrompt(prompt(changes), terms.request ?? request(), target)
  if (body instanceof Failure) throw new Error(`refused: ${body.message}`)
  return body(target)
}

/** The prompt of a client's body, which must pass the format's own check first. */
export function decoded(fields: JsonObject): Prompt | Failure {
  const asked = decodeRequest({ model: "m", max_tokens: 100, messages: [{ role: "user", content: "Hi" }], ...fields })
  if (asked instanceof Failure) throw new Error(`refused: ${asked.message}`)
  return messagesFormat.client.decodePrompt(asked)
}

export const view = (changes: Partial<AnswerView> = {}): AnswerView => ({
  model: "catalogue/model",
  includeUsage: false,
  requestId: "req_abc-123",
  nowMs: 1_790_000_000_000,
  inputTokens: 77,
  // One that wants to see thinking.
  request: request({ endpoint: "messages", body: { thinking: { type: "adaptive" } } }),
  ...changes,
})

export const usage = (input: number, output: number, reasoning?: number): Usage => ({
  tokens: { input, cacheRead: 0, cacheWrite: 0, output },
  reasoning,
})

/** An event of this format, with the fields that tests ask for. */
type SentEvent = JsonObject & {
  readonly type: string
  readonly index?: number
  readonly content_block?: JsonObject & { readonly type: string }
  readonly delta?: Record<string, string | null>
}

interface Sent {
  readonly kinds: string
  readonly text: string
  readonly events: readonly SentEvent[]
}

/** The stream that a client reads of these events. */
export function stream(events: readonly ModelEvent[], changes: Partial<AnswerView> = {}): Sent {
  const encoder = messagesFormat.client.eventEncoder(view(changes))
  const steps = events.flatMap((event) => encoder.encode(event))
  const letters = { preamble: "p", content: "C", trailer: "t", terminal: "T", failure: "F" }
  const text = steps.map(({ bytes }) => bytes).join("")
  return {
    kinds: steps.map(({ kind }) => letters[kind]).join(""),
    text,
    events: parse(text).map((e) => JSON.parse(e.data)),
  }
}

function parse(text: string): SseEvent[] {
  const events = new SseParser().push(new TextEncoder().encode(text))
  if (events instanceof Failure) throw new Error("the parser refused what was sent")
  return events
}

export const read = (text: string, asked: Prompt = prompt()): ModelEvent[] =>
  decodeAll(messagesFormat.backend.stream({ model: "", includeUsage: true }, asked), parse(text))

/** What events add up to, by the rules of src/language/prompt.ts. */
export function summed(events: readonly ModelEvent[]): ModelReply {
  const parts: AssistantPart[] = []
  const tools = new Map<number, number>()
  let open = false
  let id: string | undefined
  let finish: ModelReply["finish"] = "stop"
  let stopSequence: string | undefined
  let told: Usage | undefined
  const last = <T extends AssistantPart["type"]>(type: T) => {
    const at = open && parts.at(-1)?.type === type ? parts.length - 1 : parts.length
    return { at, part: parts[at] as Extract<AssistantPart, { type: T }> | undefined }
  }
  for (const event of events) {
    switch (event.type) {
      case "start":
        ;({ id } = event)
        told = event.usage
        continue
      case "text-delta": {
        const { at, part } = last("text")
        parts[at] = { type: "text", text: (part?.text ?? "") + event.text }
        break
      }
      case "refusal-delta": {
        const { at, part } = last("refusal")
        parts[at] = { type: "refusal", text: (part?.text ?? "") + event.text }
        break
      }
      case "thinking-delta": {
        const { at, part } = last("thinking")
        parts[at] = { type: "thinking", text: (part?.text ?? "") + event.text, seal: undefined }
        break
      }
      case "thinking-seal": {
        // Redacted thinking never had a text; any other seal is the end of the thinking before it.
        const { at, part } = event.seal.by === "messages-redacted" ? { at: parts.length } : last("thinking")
        parts[at] = { type: "thinking", text: part?.text ?? "", seal: event.seal }
        open = false
        continue
      }
      case "tool-call-start":
        tools.set(event.index, parts.length)
        parts.push({ type: "tool-call", id: event.id, name: event.name, arguments: "", custom: event.custom })
        break
      case "tool-call-delta": {
        const at = tools.get(event.index)
        const part = at === undefined ? undefined : parts[at]
        if (at === undefined || part?.type !== "tool-call") throw new Error("a delta for a call that never began")
        parts[at] = { ...part, arguments: part.arguments + event.arguments }
        continue
      }
      case "finish":
        finish = event.reason
        stopSequence = event.stopSequence
        continue
      case "usage":
        told = event.usage
        continue
      case "part-end":
      case "end":
        open = false
        continue
    }
    open = true
  }
  return { id, parts, finish, stopSequence, usage: told }
}
