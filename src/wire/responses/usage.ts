/**
 * What a response says of its end: why it ended, and its tokens. `input_tokens` includes what a cache served and stored,
 * `output_tokens` reasoning.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { FinishReason, Usage } from "../../language/event.ts"
import type { Tokens } from "../../../actors/money/tokens.ts"
import { inclusiveTokens } from "../tokens.ts"

export const usageTokens = (usage: Json | undefined): Tokens | undefined => {
  if (!isObject(usage)) return undefined
  const details = isObject(usage.input_tokens_details) ? usage.input_tokens_details : {}
  const counts = {
    prompt: usage.input_tokens,
    cacheRead: details.cached_tokens,
    cacheWrite: details.cache_write_tokens,
    output: usage.output_tokens,
  }
  return inclusiveTokens(counts)
}

/**
 * Whether an output item is a search that the backend bills: one that opened or read a page is none. An item that has begun
 * does not say yet (https://platform.openai.com/docs/guides/tools-web-search).
 */
export const isSearchItem = (item: Json | undefined): boolean => {
  if (!isObject(item) || item["type"] !== "web_search_call") return false
  const { action } = item
  return !isObject(action) || !present(action["type"]) || action["type"] === "search"
}

/** For the client to see; what is charged is judged by the format's own reader. */
export function replyUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  if (tokens === undefined || !isObject(usage)) return undefined
  const details = usage["output_tokens_details"]
  const reasoning = isObject(details) ? details["reasoning_tokens"] : undefined
  return { tokens, reasoning: typeof reasoning === "number" ? reasoning : undefined }
}

/** An answer that was cut off for a reason that is not known was cut off all the same. */
export function finishOf({ status, incomplete_details: details }: JsonObject, hasCalls: boolean): FinishReason {
  const reason = isObject(details) ? details["reason"] : undefined
  if (reason === "content_filter") return "content-filter"
  if (status === "incomplete" || present(reason)) return "length"
  return hasCalls ? "tool-calls" : "stop"
}
