/**
 * A chat backend's stream: `data:` chunks until `[DONE]`. For a chat client a chunk is written anew only when its model or
 * usage changes, and whatever else it holds travels untouched; for a client of another format its first choice is read: more
 * than one is never asked for there. Then what an answer says of its end, read and written.
 */
import { filled, isObject, type Json, type JsonObject, readText } from "../../language/json.ts"
import type { FinishReason, ModelEvent, Prompt, Usage } from "../../language/prompt.ts"
import type { BackendStream, ClientView } from "../format.ts"
import { ChunkStream, END_MARK, laterUsage, usageIn, usageTokens } from "../shared/chunks.ts"
import type { SseEvent } from "../sse.ts"
import { CallReader } from "../shared/tools.ts"
import { reasoningIn } from "../tokens.ts"
import { unreachable } from "../../../actors/unreachable.ts"

/** What a model writes, and what a vendor pads events with. */
const OPEN = {
  texts: new Set([
    "choices.delta.content",
    "choices.delta.reasoning_content",
    "choices.delta.reasoning",
    "choices.delta.refusal",
    "choices.delta.tool_calls.function.arguments",
    "choices.delta.tool_calls.custom.input",
    "obfuscation",
  ]),
  ofStream: new Set(["id", "created", "system_fingerprint"]),
}

export const backendStream = (view: ClientView, prompt?: Prompt): BackendStream => new ChatStream(view, prompt)

class ChatStream extends ChunkStream {
  readonly openPlaces = OPEN
  readonly #decoder: EventDecoder | undefined

  constructor(view: ClientView, prompt: Prompt | undefined) {
    super(view)
    this.#decoder = prompt && new EventDecoder(prompt)
  }

  hasContent({ choices }: JsonObject): boolean {
    return (
      Array.isArray(choices) &&
      choices.some((choice) => isObject(choice) && isObject(choice.delta) && isContent(choice.delta))
    )
  }

  events(event: SseEvent, chunk: JsonObject | undefined): readonly ModelEvent[] {
    return this.#decoder?.decode(event, chunk) ?? []
  }
}

/** Of a delta, or of a whole message. */
export const isContent = (delta: JsonObject): boolean =>
  filled(delta.content) ||
  filled(delta.reasoning_content) ||
  filled(delta.reasoning) ||
  filled(delta.refusal) ||
  isCall(delta.function_call) ||
  (Array.isArray(delta.tool_calls) && delta.tool_calls.some(isToolCall)) ||
  (isObject(delta.audio) && (filled(delta.audio.data) || filled(delta.audio.transcript)))

const isToolCall = (call: Json): boolean => isObject(call) && (isCall(call.function) || isCall(call.custom))

const isCall = (call: Json | undefined): boolean =>
  isObject(call) && (filled(call.name) || filled(call.arguments) || filled(call.input))

/** The first choice in the neutral language. */
class EventDecoder {
  readonly #stopSequences: readonly string[]
  readonly #calls: CallReader
  #id: string | undefined
  /** What said last how the answer ends. Some backends say it with every piece, or before the last one. */
  #last: JsonObject = {}
  #usage: Json | undefined
  #ended = false

  constructor(prompt: Prompt) {
    this.#stopSequences = prompt.stopSequences
    this.#calls = new CallReader(prompt)
  }

  decode({ data }: SseEvent, chunk: JsonObject | undefined): ModelEvent[] {
    if (this.#ended) return []
    if (data === END_MARK) {
      this.#ended = true
      return [...this.#finish(), { type: "end" }]
    }
    if (chunk === undefined) return []
    this.#usage = laterUsage(this.#usage, usageIn(chunk))
    return [...this.#start(chunk), ...this.#choice(chunk)]
  }

  #start(chunk: JsonObject): ModelEvent[] {
    if (this.#id !== undefined) return []
    this.#id = typeof chunk.id === "string" ? chunk.id : ""
    return [{ type: "start", id: this.#id === "" ? undefined : this.#id, usage: undefined }]
  }

  #choice(chunk: JsonObject): ModelEvent[] {
    if (!Array.isArray(chunk.choices)) return []
    const choice = chunk.choices.filter(isObject).find(({ index }) => typeof index !== "number" || index === 0)
    if (choice === undefined) return []
    if (filled(choice.finish_reason)) this.#last = choice
    return isObject(choice.delta) ? this.#delta(choice.delta) : []
  }

  #delta(delta: JsonObject): ModelEvent[] {
    const events: ModelEvent[] = []
    const said = readSaid(delta)
    if (said.thinking !== "") events.push({ type: "thinking-delta", text: said.thinking })
    if (said.text !== "") events.push({ type: "text-delta", text: said.text })
    if (said.refusal !== "") events.push({ type: "refusal-delta", text: said.refusal })
    if (!Array.isArray(delta.tool_calls)) return events
    for (const piece of delta.tool_calls) if (isObject(piece)) events.push(...this.#calls.take(piece, this.#id ?? ""))
    return events
  }

  #finish(): ModelEvent[] {
    const last = this.#calls.close()
    const usage = readUsage(this.#usage)
    const finish = readFinish(this.#last, this.#calls.called, this.#stopSequences)
    return [...last, { type: "finish", ...finish }, ...(usage === undefined ? [] : [{ type: "usage" as const, usage }])]
  }
}

interface AssistantContent {
  readonly thinking: string
  readonly text: string
  readonly refusal: string
}

/**
 * What an answer says in text and in thinking: of a whole message and of a stream's delta alike. `reasoning_content` is
 * most vendors' field, `reasoning` that of some routers; Mistral sends a list of parts where the others send a text.
 */
export function readSaid(message: JsonObject): AssistantContent {
  const { content } = message
  const parts = Array.isArray(content) ? content.filter(isObject) : []
  return {
    thinking: readText([message.reasoning_content, message.reasoning].find(filled)) || textOf(parts, "thinking"),
    text: readText(content) || textOf(parts, "text"),
    refusal: readText(message.refusal),
  }
}

/** The text of all parts of a type, each in a field of the type's own name, as a text or as further parts. */
const textOf = (parts: readonly JsonObject[], type: string): string =>
  parts
    .filter((part) => part.type === type)
    .map((part) => {
      const said = part[type]
      return Array.isArray(said) ? textOf(said.filter(isObject), "text") : readText(said)
    })
    .join("")

// What a chat answer says of its end. Its `usage` object, read and written: `prompt_tokens` includes what a cache served and
// stored. And why it ended, in chat's words and in the neutral ones.

/** For the client to see. */
export const readUsage = (usage: Json | undefined): Usage | undefined => {
  const tokens = usageTokens(usage)
  if (tokens === undefined) return undefined
  const details = isObject(usage) ? usage.completion_tokens_details : undefined
  const reasoning = isObject(details) ? details.reasoning_tokens : undefined
  return { tokens, reasoning: reasoningIn(tokens.output, reasoning) }
}

export const chatUsage = ({ tokens, reasoning }: Usage): JsonObject => {
  const { input, cacheRead, cacheWrite, output } = tokens
  const prompt = input + cacheRead + cacheWrite
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite },
    ...(reasoning === undefined ? {} : { completion_tokens_details: { reasoning_tokens: reasoning } }),
  }
}

interface Finish {
  readonly reason: FinishReason
  readonly stopSequence: string | undefined
}

/**
 * `called` says whether the answer called a tool, which decides before the backend's word: some say `stop` after tool
 * calls, and a client that is told of calls which are not there hangs. `stop_reason` is vLLM's, and names the sequence.
 */
export function readFinish(choice: JsonObject, called: boolean, stopSequences: readonly string[]): Finish {
  if (CUT.has(choice.finish_reason)) return plain("length")
  if (FILTERED.has(choice.finish_reason)) return plain("content-filter")
  if (called) return plain("tool-calls")
  const stopSequence = stopSequences.find((sequence) => sequence === choice.stop_reason)
  return stopSequence === undefined ? plain("stop") : { reason: "stop-sequence", stopSequence }
}

/** Besides the format's own word that of Mistral, and of Zhipu. */
const CUT: ReadonlySet<unknown> = new Set(["length", "model_length", "model_context_window_exceeded"])
/** Besides the format's own word that of Zhipu. */
const FILTERED: ReadonlySet<unknown> = new Set(["content_filter", "sensitive"])

const plain = (reason: FinishReason): Finish => ({ reason, stopSequence: undefined })

type ChatFinish = "stop" | "length" | "tool_calls" | "content_filter"

export function chatFinish(reason: FinishReason, called: boolean): ChatFinish {
  switch (reason) {
    case "length":
      return "length"
    case "content-filter":
      return "content_filter"
    case "stop":
    case "stop-sequence":
    case "pause":
    case "tool-calls":
      return called ? "tool_calls" : "stop"
    default:
      return unreachable(reason)
  }
}
