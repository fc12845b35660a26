/**
 * The neutral language, answer side: a stream of events, and the whole answer that they add up to. Events are of one
 * answer (several choices exist only where both sides speak chat). Parts come one after another: a delta belongs to the
 * part that began last, except that of a tool call, which says its index.
 */
import type { Tokens } from "../../actors/money/price.ts"
import type { AssistantPart, Seal } from "./prompt.ts"

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
