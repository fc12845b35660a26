/**
 * From a backend's counts to the four priced buckets, in tokens. The one place that decides what is believable
 * (decisions §2, §12.20): upstream usage is hostile input, and what is not believable is not charged.
 */
import type { Tokens } from "../../actors/money/tokens.ts"
import { type Json, present } from "../chat/json.ts"
import type { ClientView } from "./format.ts"

/** A count as it arrived: any JSON, or nothing. */
export type Count = Json | undefined

type Bounds = Pick<ClientView, "contextWindow" | "maxOutputTokens">

interface CacheAndOutput {
  /** Absent cache counts are 0: most backends leave them out when there is no cache. */
  readonly cacheRead: Count
  readonly cacheWrite: Count
  readonly output: Count
}

/** Checks counts whose `input` excludes what was read from or written to a cache (the messages format). */
export const disjointTokens = (
  counts: CacheAndOutput & { readonly input: Count },
  bounds: Bounds,
): Tokens | undefined => {
  const limit = bounds.contextWindow === null ? Number.MAX_SAFE_INTEGER : bounds.contextWindow + bounds.maxOutputTokens
  const input = checked(counts.input, limit)
  const cacheRead = checked(orZero(counts.cacheRead), limit)
  const cacheWrite = checked(orZero(counts.cacheWrite), limit)
  const output = checked(counts.output, limit)
  if (input === undefined || cacheRead === undefined || cacheWrite === undefined || output === undefined)
    return undefined
  return { input, cacheRead, cacheWrite, output }
}

/** Checks counts whose `prompt` includes what was read from and written to a cache (chat and responses). */
export const inclusiveTokens = (
  counts: CacheAndOutput & { readonly prompt: Count },
  bounds: Bounds,
): Tokens | undefined => {
  const prompt = checked(counts.prompt, Number.MAX_SAFE_INTEGER)
  const cacheRead = checked(orZero(counts.cacheRead), Number.MAX_SAFE_INTEGER)
  const cacheWrite = checked(orZero(counts.cacheWrite), Number.MAX_SAFE_INTEGER)
  if (prompt === undefined || cacheRead === undefined || cacheWrite === undefined) return undefined
  // Judged after normalising, so a prompt that is less than its own cached part is a negative bucket and refused there.
  return disjointTokens(
    { input: prompt - cacheRead - cacheWrite, cacheRead, cacheWrite, output: counts.output },
    bounds,
  )
}

const checked = (count: Count, limit: number): number | undefined =>
  typeof count === "number" && Number.isSafeInteger(count) && count >= 0 && count <= limit ? count : undefined

const orZero = (count: Count): Count => (present(count) ? count : 0)
