/** Tokens of Converse's `usage`. `inputTokens` excludes what was read from and written to a cache (TokenUsage). */
import type { Tokens } from "../../../actors/money/tokens.ts"
import type { Usage } from "../../chat/event.ts"
import { isObject, type Json } from "../../chat/json.ts"
import type { ClientView } from "../format.ts"
import { disjointTokens } from "../tokens.ts"

type Bounds = Pick<ClientView, "contextWindow" | "maxOutputTokens">

export function usageTokens(usage: Json | undefined, bounds: Bounds): Tokens | undefined {
  if (!isObject(usage)) return undefined
  const counts = {
    input: usage["inputTokens"],
    cacheRead: usage["cacheReadInputTokens"],
    cacheWrite: usage["cacheWriteInputTokens"],
    output: usage["outputTokens"],
  }
  return disjointTokens(counts, bounds)
}

/** For the client to see, so nothing bounds the counts but that they are counts. */
export function readUsage(usage: Json | undefined): Usage | undefined {
  const tokens = usageTokens(usage, { contextWindow: null, maxOutputTokens: 0 })
  return tokens && { tokens, reasoning: undefined }
}
