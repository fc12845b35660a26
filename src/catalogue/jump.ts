/** Rates that change by more than a factor, which is more often a slip of the hand than a price. Micro-rupiah a token. */
import type { Rates } from "../../actors/money/price.ts"

/** Up or down by more than this wants to be confirmed. */
export const LARGEST_STEP = 2

export interface Jump {
  readonly rate: keyof Rates
  readonly from: bigint
  readonly to: bigint
  /** How many times more, or less, with two decimals; infinite from or to nothing. */
  readonly factor: number
}

export const jumps = (from: Rates, to: Rates): Jump[] =>
  (["input", "output", "cacheRead", "cacheWrite"] as const)
    .filter((rate) => isJump(from[rate], to[rate]))
    .map((rate) => ({ rate, from: from[rate], to: to[rate], factor: factor(from[rate], to[rate]) }))

const isJump = (from: bigint, to: bigint): boolean => {
  const [less, more] = from < to ? [from, to] : [to, from]
  return more > less * BigInt(LARGEST_STEP)
}

function factor(from: bigint, to: bigint): number {
  const [less, more] = from < to ? [from, to] : [to, from]
  return less === 0n ? Infinity : Number((more * 100n) / less) / 100
}
