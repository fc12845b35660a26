/**
 * What a backend charges the house for one call of it, in micro-rupiah. Rates are exact decimals of the currency that the
 * backend bills in, as whole nano-units (10⁻⁹ of a unit), and so is what it rounds to. One product is exact: nano-units for a
 * million tokens × tokens × micro-rupiah for a unit, over 10¹⁵. It is rounded once, upwards: a cost is never told too small.
 */
import { largestMicro, type Micro, micro } from "./micro.ts"
import type { Rates } from "./price.ts"
import type { Tokens } from "./tokens.ts"

/** Of a rate, a fee, and the step of a rounding. */
export const COST_DIGITS = 9
const MILLION = 1_000_000n
const NANO = 10n ** BigInt(COST_DIGITS)
/** What costs more than that was counted without sense. A sum of some can still be said. */
export const largestCost: Micro = micro(largestMicro / 8n)

/**
 * How the backend rounds what it bills, always upwards to a multiple of `step`: not at all, each bucket and fee by itself, or
 * the whole call.
 */
export const roundings = ["none", "per_bucket", "per_call"] as const
export type Rounding = (typeof roundings)[number]

/** Nano-units of the currency. */
export interface Cost {
  /** ISO 4217. */
  readonly currency: string
  /** For 1,000,000 tokens of each bucket. */
  readonly rates: { readonly [Bucket in keyof Rates]: bigint }
  /** Each time that the backend is called. */
  readonly perCall: bigint
  /** Each search that the backend runs. */
  readonly perSearch: bigint
  readonly rounding: Rounding
  /** What amounts are rounded to; 1 without a rounding. */
  readonly step: bigint
}

/** What one call of a backend came to. */
export interface Consumed {
  readonly tokens: Tokens
  readonly searches: number
}

/** `microPerUnit`: the exchange rate, micro-rupiah for one unit of the currency. */
export function costOf({ tokens, searches }: Consumed, cost: Cost, microPerUnit: Micro): Micro {
  const { rates, rounding } = cost
  // Of the millionth part of a nano-unit, in which all of it is whole.
  const parts = [
    BigInt(tokens.input) * rates.input,
    BigInt(tokens.cacheRead) * rates.cacheRead,
    BigInt(tokens.cacheWrite) * rates.cacheWrite,
    BigInt(tokens.output) * rates.output,
    cost.perCall * MILLION,
    BigInt(searches) * cost.perSearch * MILLION,
  ]
  const step = cost.step * MILLION
  const billed = rounding === "per_bucket" ? sum(parts.map((part) => upTo(part, step))) : sum(parts)
  const amount = rounding === "per_call" ? upTo(billed, step) : billed
  const exact = divided(amount * microPerUnit, MILLION * NANO)
  return exact < largestCost ? micro(exact) : largestCost
}

const sum = (parts: readonly bigint[]): bigint => parts.reduce((total, part) => total + part, 0n)
const upTo = (amount: bigint, step: bigint): bigint => divided(amount, step) * step
/** Upwards; neither is negative. */
const divided = (amount: bigint, by: bigint): bigint => (amount + by - 1n) / by
