/**
 * Usage as a client of this format is told it, and as a backend of this format tells it for clients of the others. In
 * tokens. What is charged is read by usage.ts; here counts are only passed on.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { Usage } from "../../language/event.ts"
import { usageTokens } from "./usage.ts"

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
