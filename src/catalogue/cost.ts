/** What the catalogue file says of a backend's bill, as exact amounts. */
import { type Cost, COST_DIGITS } from "../../actors/money/cost.ts"
import { parseDecimal } from "../../actors/money/decimal.ts"
import { isCurrency } from "./exchange.ts"
import { shown } from "./problem.ts"
import { COST_AMOUNT, type CostSeed } from "./schema.ts"

/** Units of a currency, in nano-units. */
const LARGEST = 1_000_000_000n * 10n ** BigInt(COST_DIGITS)
const amounts = ["input", "output", "cache_read", "cache_write", "per_call", "per_search", "step"] as const

/** What is wrong in a cost whose shape is right, with its field. */
export interface CostProblem {
  readonly field: string
  readonly found: string
  readonly allowed: string
}

export function costProblems(seed: CostSeed): CostProblem[] {
  const problems: CostProblem[] = []
  const { currency, rounding = "none", step, effective_at: time } = seed
  if (!isCurrency(currency))
    problems.push({ field: "currency", found: shown(currency), allowed: "the ISO 4217 code of a currency" })
  for (const field of amounts) {
    const value = seed[field]
    if (value !== undefined && amountOf(value) === undefined)
      problems.push({ field, found: shown(value), allowed: COST_AMOUNT })
  }
  if (rounding === "none" && step !== undefined)
    problems.push({ field: "step", found: shown(step), allowed: "nothing, where the rounding is none" })
  if (rounding !== "none" && (step === undefined || amountOf(step) === 0n))
    problems.push({
      field: "step",
      found: shown(step),
      allowed: `what is rounded to, above 0, where the rounding is ${rounding}`,
    })
  if (time !== undefined && Number.isNaN(Date.parse(time)))
    problems.push({ field: "effective_at", found: shown(time), allowed: "a time that exists" })
  return problems
}

/** Of a cost without problems. */
export const costOfSeed = (seed: CostSeed): Cost => ({
  currency: seed.currency,
  rates: {
    input: checked(seed.input),
    output: checked(seed.output),
    cacheRead: checked(seed.cache_read),
    cacheWrite: checked(seed.cache_write),
  },
  perCall: checked(seed.per_call ?? 0),
  perSearch: checked(seed.per_search ?? 0),
  rounding: seed.rounding ?? "none",
  step: seed.step === undefined ? 1n : checked(seed.step),
})

function amountOf(value: string | number): bigint | undefined {
  const nano = parseDecimal(value, COST_DIGITS)
  return nano === undefined || nano > LARGEST ? undefined : nano
}

function checked(value: string | number): bigint {
  const nano = amountOf(value)
  if (nano === undefined) throw new Error(`${value} is no amount of a cost`)
  return nano
}
