/**
 * Tokens of the messages format's `usage`. `input_tokens` excludes what was read from and written to a cache. A stream
 * counts twice: the prompt in `message_start`, and all that is known by then, cumulatively, in each `message_delta`.
 */
import type { Tokens } from "../../../actors/money/tokens.ts"
import type { Usage } from "../../language/event.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { disjointTokens } from "../tokens.ts"

export const usageTokens = (usage: Json | undefined): Tokens | undefined => {
  if (!isObject(usage)) return undefined
  const counts = {
    input: usage.input_tokens,
    cacheRead: usage.cache_read_input_tokens,
    cacheWrite: usage.cache_creation_input_tokens,
    output: usage.output_tokens,
  }
  return disjointTokens(counts)
}

/** What a stream's beginning says of the prompt. Its `output_tokens` is a placeholder, so it is not a count. */
export const startUsage = (usage: Json | undefined): JsonObject =>
  isObject(usage) ? { ...usage, output_tokens: undefined } : {}

/** Later counts win, but a prompt counter that is absent or zero later was not counted again, and does not. */
export const laterUsage = (earlier: JsonObject, later: Json | undefined): JsonObject => {
  if (!isObject(later)) return earlier
  const prompt = (key: string): Json | undefined =>
    present(later[key]) && later[key] !== 0 ? later[key] : (earlier[key] ?? later[key])
  return {
    input_tokens: prompt("input_tokens"),
    cache_read_input_tokens: prompt("cache_read_input_tokens"),
    cache_creation_input_tokens: prompt("cache_creation_input_tokens"),
    output_tokens: later.output_tokens ?? earlier.output_tokens,
  }
}

// Usage as a client of this format is told it, and as a backend of this format tells it for clients of the others. In
// tokens. What is charged is read by usage.ts; here counts are only passed on.

export function decodeUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  if (tokens === undefined) return undefined
  const details = isObject(usage) ? usage["output_tokens_details"] : undefined
  const thinking = isObject(details) ? details["thinking_tokens"] : undefined
  return { tokens, reasoning: typeof thinking === "number" ? thinking : undefined }
}

export const encodeUsage = ({ tokens, reasoning }: Usage): JsonObject => ({
  ...promptUsage(tokens),
  output_tokens: tokens.output,
  ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
})

export const promptUsage = ({ input, cacheRead, cacheWrite }: Omit<Usage["tokens"], "output">): JsonObject => ({
  input_tokens: input,
  cache_creation_input_tokens: cacheWrite,
  cache_read_input_tokens: cacheRead,
})
