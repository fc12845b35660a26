/**
 * What each bucket of a call came to, in micro-rupiah: the lines of its receipt. They add up to the charge and what the house
 * bore of it, so whoever has a receipt can recompute the charge: tokens × rate of each bucket, less what was absorbed.
 */
import { type Micro, micro, zero } from "../../../actors/money/micro.ts"
import type { Rates } from "../../../actors/money/price.ts"
import type { UsageRow } from "../../store/usage.ts"

/** Nothing for a call that cost nobody anything. */
export function amountsOf({ status, absorbedMicro, tokens, rates }: UsageRow): Rates {
  const priced = status === "ok" || absorbedMicro > zero
  const amount = (count: number, rate: Micro) => (priced ? micro(BigInt(count) * rate) : zero)
  return {
    input: amount(tokens.input, rates.input),
    output: amount(tokens.output, rates.output),
    cacheRead: amount(tokens.cacheRead, rates.cacheRead),
    cacheWrite: amount(tokens.cacheWrite, rates.cacheWrite),
  }
}
