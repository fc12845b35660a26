/** Why an answer ended, in this format's words, and back. */
import type { Json } from "../../language/json.ts"
import type { FinishReason } from "../../language/event.ts"

const FINISHES: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop-sequence",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "tool-calls",
  refusal: "content-filter",
  pause_turn: "pause",
}

const STOPS: Readonly<Record<FinishReason, string>> = {
  stop: "end_turn",
  "stop-sequence": "stop_sequence",
  length: "max_tokens",
  "tool-calls": "end_turn",
  "content-filter": "refusal",
  pause: "pause_turn",
}

/** A reason that came after this was written is an end like any other. */
export const finishReason = (stopReason: Json | undefined): FinishReason =>
  (typeof stopReason === "string" ? FINISHES[stopReason] : undefined) ?? "stop"

export interface Ending {
  readonly finish: FinishReason
  readonly stopSequence: string | undefined
  /** A text of the answer was marked as a refusal. */
  readonly refused: boolean
  readonly tools: "none" | "complete" | "cut-off"
}

/**
 * Clients run an answer's tools when it says so, whatever the backend said of its end. Only a call that was cut off is
 * not run, when the backend owns up to having cut it.
 */
export function encodeEnding(ending: Ending): { stop_reason: string; stop_sequence: string | null } {
  const { finish, stopSequence, refused, tools } = ending
  const owned = finish === "length" || finish === "content-filter"
  if (tools === "complete" || (tools === "cut-off" && !owned)) return { stop_reason: "tool_use", stop_sequence: null }
  if (refused && finish === "stop") return { stop_reason: "refusal", stop_sequence: null }
  return {
    stop_reason: STOPS[finish],
    stop_sequence: finish === "stop-sequence" ? (stopSequence ?? null) : null,
  }
}
