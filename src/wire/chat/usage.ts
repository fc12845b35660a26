/**
 * What a chat answer says of its end. Its `usage` object, read and written: `prompt_tokens` includes what a cache served and
 * stored. And why it ended, in chat's words and in the neutral ones.
 */
import type { FinishReason, Usage } from "../../language/event.ts"
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import { usageTokens } from "../shared/chunks.ts"
import { unreachable } from "../../../actors/unreachable.ts"

/** For the client to see. */
export const readUsage = (usage: Json | undefined): Usage | undefined => {
  const tokens = usageTokens(usage)
  if (tokens === undefined) return undefined
  const details = isObject(usage) ? usage.completion_tokens_details : undefined
  const reasoning = isObject(details) ? details.reasoning_tokens : undefined
  const believable = typeof reasoning === "number" && Number.isSafeInteger(reasoning) && reasoning >= 0
  return { tokens, reasoning: believable && reasoning <= tokens.output ? reasoning : undefined }
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
