/** Why an answer ended, in chat's words and in the neutral ones. */
import type { FinishReason } from "../../language/event.ts"
import type { JsonObject } from "../../language/json.ts"
import { unreachable } from "../../../actors/unreachable.ts"

export interface Finish {
  readonly reason: FinishReason
  readonly stopSequence: string | undefined
}

/**
 * `called` says whether the answer called a tool, which decides before the backend's word: some say `stop` after tool
 * calls, and a client that is told of calls which are not there hangs. `stop_reason` is vLLM's, and names the sequence.
 */
export function readFinish(choice: JsonObject, called: boolean, stopSequences: readonly string[]): Finish {
  if (choice.finish_reason === "length") return plain("length")
  if (choice.finish_reason === "content_filter") return plain("content-filter")
  if (called) return plain("tool-calls")
  const stopSequence = stopSequences.find((sequence) => sequence === choice.stop_reason)
  return stopSequence === undefined ? plain("stop") : { reason: "stop-sequence", stopSequence }
}

const plain = (reason: FinishReason): Finish => ({ reason, stopSequence: undefined })

export type ChatFinish = "stop" | "length" | "tool_calls" | "content_filter"

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
