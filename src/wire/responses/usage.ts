/** Tokens of a response's `usage`. `input_tokens` includes what a cache served and stored, `output_tokens` reasoning. */
import type { Tokens } from "../../../actors/money/tokens.ts"
import { isObject, type Json } from "../../language/json.ts"
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
