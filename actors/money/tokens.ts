/**
 * Token counts in the four disjoint buckets that are priced (decisions §2): `input` is neither read from nor written to
 * a cache, `output` includes reasoning. Safe integers, never negative: whoever builds one has checked the counts.
 */
export interface Tokens {
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly output: number
}

export const noTokens: Tokens = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 }

export const totalTokens = (tokens: Tokens): number =>
  tokens.input + tokens.cacheRead + tokens.cacheWrite + tokens.output
