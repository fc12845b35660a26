/** A chat-completions `usage` object, read and written. `prompt_tokens` includes what a cache served and stored. */
import type { Tokens } from "../../../actors/money/tokens.ts"
import type { Usage } from "../../language/event.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { type Count, inclusiveTokens } from "../tokens.ts"

export const usageTokens = (usage: Json | undefined): Tokens | undefined => {
  if (!isObject(usage)) return undefined
  const details = isObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {}
  const counts = {
    prompt: usage.prompt_tokens,
    cacheRead: cacheReads(usage, details),
    cacheWrite: details.cache_write_tokens,
    output: outputTokens(usage),
  }
  return inclusiveTokens(counts)
}

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

/** DeepSeek and Moonshot also, or only, count cache reads beside the prompt's tokens. */
const cacheReads = (usage: JsonObject, details: JsonObject): Count =>
  [details.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens].find(present)

/**
 * `completion_tokens` includes reasoning, except at vendors (xAI, Google) that leave it out; their total gives it away.
 */
const outputTokens = (usage: JsonObject): Count => {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  const details = usage.completion_tokens_details
  const reasoning = isObject(details) ? details.reasoning_tokens : undefined
  if (typeof prompt !== "number" || typeof completion !== "number" || typeof reasoning !== "number") return completion
  return reasoning > 0 && total === prompt + completion + reasoning ? completion + reasoning : completion
}
