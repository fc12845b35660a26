/** Tokens of Converse's `usage`. `inputTokens` excludes what was read from and written to a cache (TokenUsage). */
import type { Tokens } from "../../../actors/money/tokens.ts"
import type { Usage } from "../../language/event.ts"
import { isObject, type Json } from "../../language/json.ts"
import { disjointTokens } from "../tokens.ts"

export function usageTokens(usage: Json | undefined): Tokens | undefined {
  if (!isObject(usage)) return undefined
  const counts = {
    input: usage["inputTokens"],
    cacheRead: usage["cacheReadInputTokens"],
    cacheWrite: usage["cacheWriteInputTokens"],
    output: usage["outputTokens"],
  }
  return disjointTokens(counts)
}

/** For the client to see. */
export function readUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage)
  return tokens && { tokens, reasoning: undefined }
}
