/**
 * What tokens cost. Rates are micro-rupiah for one token, so a charge is a sum of products and exact: no division, and
 * so no rounding (gateway-api.md, "Billing rules"; decisions §2). Hold and charge go through the one function here.
 */
import { larger, type Micro, micro } from "./micro.ts"
import type { Tokens } from "./tokens.ts"

/** Micro-rupiah for one token of each bucket. */
export interface Rates {
  readonly input: Micro
  readonly output: Micro
  readonly cacheRead: Micro
  readonly cacheWrite: Micro
}

export const price = (tokens: Tokens, rates: Rates): Micro =>
  micro(
    BigInt(tokens.input) * rates.input +
      BigInt(tokens.cacheRead) * rates.cacheRead +
      BigInt(tokens.cacheWrite) * rates.cacheWrite +
      BigInt(tokens.output) * rates.output,
  )

/**
 * The rates to hold by. A backend may write input to its cache unasked, and a write can cost more than plain input; to
 * keep hold ≥ charge, input is held at the dearest of its three rates.
 */
export const holdingRates = (rates: Rates): Rates => ({
  ...rates,
  input: larger(rates.input, larger(rates.cacheRead, rates.cacheWrite)),
})

/** Of price versions with an effective time (milliseconds), the one in force at `at`; none before the first. */
export function inForce<V extends { readonly effectiveAt: number }>(versions: readonly V[], at: number): V | undefined {
  let found: V | undefined
  for (const version of versions) {
    if (version.effectiveAt <= at && (found === undefined || version.effectiveAt >= found.effectiveAt)) found = version
  }
  return found
}
