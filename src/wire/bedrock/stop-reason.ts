/** Why a Converse answer ended. */
import type { FinishReason } from "../../language/event.ts"
import type { Json } from "../../language/json.ts"

const FINISHES: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop-sequence",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "tool-calls",
  content_filtered: "content-filter",
  guardrail_intervened: "content-filter",
}

export interface Finish {
  readonly reason: FinishReason
  readonly stopSequence: string | undefined
}

/**
 * A reason that came after this was written is an end like any other. Some models call a tool and say that their turn is
 * over. Which sequence stopped an answer is not told, and is known only where there was but one.
 */
export function readFinish(told: Json | undefined, called: boolean, stopSequences: readonly string[]): Finish {
  const reason = (typeof told === "string" ? FINISHES[told] : undefined) ?? "stop"
  if (reason === "stop-sequence")
    return { reason, stopSequence: stopSequences.length === 1 ? stopSequences[0] : undefined }
  return { reason: reason === "stop" && called ? "tool-calls" : reason, stopSequence: undefined }
}
