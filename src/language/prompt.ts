/**
 * The neutral language: what is asked of a model, whatever format it came in or goes out in, and what it answers. It is used
 * only where the two formats differ; same format in and out keeps the body as it was. What one format can say and another
 * cannot is either here, and the encoder of the other refuses it, or it is harmless and listed in docs/formats.md.
 *
 * An answer is a stream of events, and the whole that they add up to. Events are of one answer (several choices exist only where
 * both sides speak chat). Parts come one after another: a delta belongs to the part that began last, except that of a tool call,
 * which says its index.
 */
import type { Tokens } from "../../actors/money/price.ts"
import type { JsonObject } from "./json.ts"

export interface Prompt {
  /** Leading system and developer texts, in order. */
  readonly instructions: readonly TextPart[]
  /** Roles need not alternate; an encoder whose format asks for that merges neighbours. */
  readonly turns: readonly Turn[]
  readonly tools: readonly Tool[]
  readonly toolChoice: ToolChoice | undefined
  /** False: at most one tool call an answer. */
  readonly parallelTools: boolean | undefined
  readonly stopSequences: readonly string[]
  readonly sampling: Sampling
  readonly output: OutputFormat | undefined
  /** How much is to be said, where the client asks for it. */
  readonly verbosity?: Verbosity | undefined
  /** What the client calls prompts that begin alike, so that a backend finds them in its cache. */
  readonly cacheKey?: string | undefined
  readonly reasoning: Reasoning | undefined
}

export type Turn =
  | { readonly role: "user"; readonly parts: readonly UserPart[] }
  | { readonly role: "assistant"; readonly parts: readonly AssistantPart[] }
  /** System or developer text in mid-conversation. */
  | { readonly role: "system"; readonly parts: readonly TextPart[] }

export type UserPart = TextPart | ImagePart | DocumentPart | ToolResultPart
export type AssistantPart = TextPart | RefusalPart | ThinkingPart | ToolCallPart

export interface TextPart {
  readonly type: "text"
  readonly text: string
  /** The prompt up to here is worth caching. Formats that cache by themselves drop it. */
  readonly cache?: CacheMark | undefined
}

export interface CacheMark {
  /** As the messages format writes it: "5m" or "1h". */
  readonly ttl: string | undefined
}

export interface ImagePart {
  readonly type: "image"
  readonly source: DataSource | { readonly kind: "url"; readonly url: string }
  /** "low", "high", "auto", where the format has it. */
  readonly detail?: string | undefined
  readonly cache?: CacheMark | undefined
}

export interface DocumentPart {
  readonly type: "document"
  readonly source:
    | DataSource
    | { readonly kind: "url"; readonly url: string }
    | { readonly kind: "text"; readonly text: string }
  readonly name: string | undefined
  readonly cache?: CacheMark | undefined
}

/** Backends that take a name tell a file's kind by its ending, and refuse data without one. Titles of documents have none. */
export function fileName(name: string | undefined, mediaType: string): string {
  if (name !== undefined && /\.[a-z][a-z0-9]{0,9}$/i.test(name)) return name
  const kind = mediaType.slice(mediaType.lastIndexOf("/") + 1)
  return `${name || "document"}.${kind === "plain" ? "txt" : kind}`
}

/** Without parameters, in lower case. */
export const plainType = (mediaType: string): string => mediaType.toLowerCase().split(";", 1)[0]?.trim() ?? ""

export interface DataSource {
  readonly kind: "data"
  /** "image/png", "application/pdf". */
  readonly mediaType: string
  readonly base64: string
}

export interface ToolResultPart {
  readonly type: "tool-result"
  readonly callId: string
  readonly parts: readonly (TextPart | ImagePart | DocumentPart)[]
  readonly isError: boolean
  readonly cache?: CacheMark | undefined
}

export interface RefusalPart {
  readonly type: "refusal"
  readonly text: string
}

export interface ThinkingPart {
  readonly type: "thinking"
  /** Empty where only the sealed form was told. */
  readonly text: string
  /**
   * What the backend needs to get its own thinking back, and which of them sealed it: a messages signature, a responses
   * encrypted item. An encoder for another backend leaves thinking with a foreign seal out.
   */
  readonly seal: Seal | undefined
}

export interface Seal {
  readonly by: "messages" | "messages-redacted" | "responses"
  readonly data: string
}

export interface ToolCallPart {
  readonly type: "tool-call"
  readonly id: string
  readonly name: string
  /** JSON text for a function tool, free text for a custom one. Never empty for a function: no arguments are "{}". */
  readonly arguments: string
  readonly custom: boolean
}

export const callsIn = ({ turns }: Prompt): ToolCallPart[] =>
  turns.flatMap((turn) => (turn.role === "assistant" ? turn.parts.filter((part) => part.type === "tool-call") : []))

/**
 * The ids of an answer's calls: each has one of its own, whatever its backend gave it. Some backends give none, or begin anew in each
 * answer, and clients take two calls of one id for one.
 */
export class CallIds {
  /** Those of the conversation too. */
  readonly #taken: Set<string>

  constructor(prompt: Prompt) {
    this.#taken = new Set(callsIn(prompt).map(({ id }) => id))
  }

  /** The backend's id, or "" where another call has it: of calls that share one the first has it. */
  own(id: string): string {
    if (this.#taken.has(id)) return ""
    this.#taken.add(id)
    return id
  }

  /** The same when the same answer is read again, and of another answer another; at most 40 characters. */
  made(answerId: string, index: number): string {
    const made = `call_${answerId.replace(/[^a-zA-Z0-9]/g, "").slice(-28)}_${index}`
    let id = made
    for (let again = 2; this.#taken.has(id); again++) id = `${made}_${again}`
    this.#taken.add(id)
    return id
  }

  /** The id of the answer's call of this index: its backend's, or one that is made. */
  give(id: string, answerId: string, index: number): string {
    return this.own(id) || this.made(answerId, index)
  }

  /** The parts of a whole answer, whose calls have ids of their own. */
  ofParts(parts: readonly AssistantPart[], answerId: string): AssistantPart[] {
    let calls = 0
    return parts.map((part) => {
      if (part.type !== "tool-call") return part
      return { ...part, id: this.give(part.id, answerId, calls++) }
    })
  }
}

export type Tool =
  | {
      readonly type: "function"
      readonly name: string
      readonly description: string | undefined
      /** A JSON schema; a tool that takes nothing has an empty object schema. */
      readonly parameters: JsonObject
      readonly strict: boolean | undefined
      readonly cache?: CacheMark | undefined
    }
  /** Takes free text; the grammar of the format that has it, as it came. */
  | {
      readonly type: "custom"
      readonly name: string
      readonly description: string | undefined
      readonly grammar: JsonObject | undefined
    }
  | { readonly type: "web-search"; readonly options: JsonObject }

export type ToolChoice =
  | { readonly kind: "auto" | "none" | "required" }
  | { readonly kind: "tool"; readonly name: string }

export interface Sampling {
  readonly temperature: number | undefined
  readonly topP: number | undefined
  readonly topK: number | undefined
}

export type OutputFormat =
  | { readonly kind: "json" }
  | {
      readonly kind: "schema"
      readonly name: string | undefined
      readonly description: string | undefined
      readonly schema: JsonObject
      readonly strict: boolean | undefined
    }

export type Verbosity = "low" | "medium" | "high"

/** Rising. */
export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const
export type Effort = (typeof EFFORTS)[number]

/** Of those that a model has, the nearest below the one asked for, or the least; undefined where it has none. */
export function nearestEffort(known: readonly Effort[], asked: Effort): Effort | undefined {
  const rank = EFFORTS.indexOf(asked)
  const rising = EFFORTS.filter((effort) => known.includes(effort))
  return rising.findLast((effort) => EFFORTS.indexOf(effort) <= rank) ?? rising[0]
}

export interface Reasoning {
  /** False: the client asked for none. */
  readonly enabled: boolean
  readonly effort: Effort | undefined
  /** Tokens, already under the answer limit. */
  readonly budgetTokens: number | undefined
  /** The client wants to see (a summary of) it. */
  readonly visible: boolean
}

/** How an instruction begins that one coding agent writes for its vendor alone. Its value changes, which defeats every other backend's cache. */
export const BILLING_HEADER = "x-anthropic-billing-header"

export type ModelEvent =
  /** The backend has begun; its id for the answer, where it told one. */
  | { readonly type: "start"; readonly id: string | undefined; readonly usage: Usage | undefined }
  | { readonly type: "text-delta"; readonly text: string }
  | { readonly type: "refusal-delta"; readonly text: string }
  | { readonly type: "thinking-delta"; readonly text: string }
  /** Seals the thinking before it, or stands alone (thinking that is not shown). */
  | { readonly type: "thinking-seal"; readonly seal: Seal }
  /** `index` counts the answer's tool calls from 0. */
  | {
      readonly type: "tool-call-start"
      readonly index: number
      readonly id: string
      readonly name: string
      readonly custom: boolean
    }
  | { readonly type: "tool-call-delta"; readonly index: number; readonly arguments: string }
  /** Ends the part under way: the next delta of the same kind begins another one. */
  | { readonly type: "part-end" }
  | { readonly type: "finish"; readonly reason: FinishReason; readonly stopSequence: string | undefined }
  /** Counts as far as they are known; a later one replaces an earlier one. */
  | { readonly type: "usage"; readonly usage: Usage }
  /** The backend's terminal event. */
  | { readonly type: "end" }

export type FinishReason = "stop" | "stop-sequence" | "length" | "tool-calls" | "content-filter" | "pause"

/** For the client to see; what is charged is read by the backend format's own reader. */
export interface Usage {
  readonly tokens: Tokens
  /** The part of `tokens.output` that was reasoning, where the backend tells. */
  readonly reasoning: number | undefined
}

export interface ModelReply {
  readonly id: string | undefined
  readonly parts: readonly AssistantPart[]
  readonly finish: FinishReason
  readonly stopSequence: string | undefined
  readonly usage: Usage | undefined
}
