/**
 * From a backend's counts to the four priced buckets, in tokens. The one place that decides which counts can be read
 * (decisions §12.20, §13.2): upstream usage is hostile input, and an answer whose counts cannot be read is not charged.
 * How much of a readable count is charged is decided where the forwarded limit is known (actors/money/price.ts).
 */
import { type Tokens, totalTokens } from "../../actors/money/price.ts"
import { type Json, present } from "../language/json.ts"

/** A count as it arrived: any JSON, or nothing. */
export type Count = Json | undefined

interface CacheAndOutput {
  /** Absent cache counts are 0: most backends leave them out when there is no cache. */
  readonly cacheRead: Count
  readonly cacheWrite: Count
  readonly output: Count
}

/** Checks counts whose `input` excludes what was read from or written to a cache (the messages format). */
export const tokensFromDisjoint = (counts: CacheAndOutput & { readonly input: Count }): Tokens | undefined => {
  const input = checked(counts.input)
  const cacheRead = checked(orZero(counts.cacheRead))
  const cacheWrite = checked(orZero(counts.cacheWrite))
  const output = checked(counts.output)
  if (input === undefined || cacheRead === undefined || cacheWrite === undefined || output === undefined)
    return undefined
  return { input, cacheRead, cacheWrite, output }
}

/** Checks counts whose `prompt` includes what was read from and written to a cache (chat and responses). */
export const tokensFromInclusive = (counts: CacheAndOutput & { readonly prompt: Count }): Tokens | undefined => {
  const prompt = checked(counts.prompt)
  const cacheRead = checked(orZero(counts.cacheRead))
  const cacheWrite = checked(orZero(counts.cacheWrite))
  if (prompt === undefined || cacheRead === undefined || cacheWrite === undefined) return undefined
  // Judged after normalising, so a prompt that is less than its own cached part is a negative bucket and refused there.
  return tokensFromDisjoint({ input: prompt - cacheRead - cacheWrite, cacheRead, cacheWrite, output: counts.output })
}

/** An answer that has content was not made of nothing: zeros are no count of it. */
export const plausibleTokens = (tokens: Tokens | undefined, hasContent: boolean): Tokens | undefined =>
  tokens !== undefined && hasContent && totalTokens(tokens) === 0 ? undefined : tokens

const checked = (count: Count): number | undefined =>
  typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : undefined

/** More than any backend runs for one call: a count over it is not believed further. */
const MOST_SEARCHES = 100

/** Searches that a backend says it ran, which its operator pays for and no customer; undefined where it does not say. */
export const reportedSearches = (claim: Count): number | undefined => {
  const count = checked(claim)
  return count === undefined ? undefined : boundedSearches(count)
}
export const boundedSearches = (count: number): number => Math.min(count, MOST_SEARCHES)

const orZero = (count: Count): Count => (present(count) ? count : 0)
