/**
 * What backends cost, in the currencies that they bill in, and exchange rates: micro-rupiah for one unit of a currency. An operator
 * sets rates, or a file or an address says them, in the form that public services have:
 * `{ "base": "USD", "rates": { "IDR": 16250.5, "EUR": 0.92 } }`, units of each currency for one of the base. What cannot be read,
 * or changes by much, changes nothing.
 */
import { COST_DIGITS, type Cost } from "../../actors/money/price.ts"
import { micro, type Micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { isObject } from "../language/json.ts"
import { COST_AMOUNT, type CostSeed, shown } from "./schema.ts"

/** Decimals of rupiah for a unit. */
const EXCHANGE_DIGITS = 6
/** No currency has been worth that. */
const LARGEST_RUPIAH = 1_000_000_000n
/** In percent, up or down. More wants a person: it is more often another currency, or a lost digit, than the market. */
export const LARGEST_EXCHANGE_STEP = 20n
/** Of the figures of a source. */
const SOURCE_DIGITS = 18

const known = new Set(Intl.supportedValuesOf("currency"))
/** What is billed in rupiah needs no rate. */
export const HOUSE_CURRENCY = "IDR"
export const isCurrency = (code: string): boolean => known.has(code)

export const EXCHANGE_RATE_TEXT = "rupiah for one unit, above 0 and at most 1000000000, with at most six decimals"

/** Rupiah as a decimal; undefined for what is no rate. */
export function parseExchangeRate(rupiah: string | number): Micro | undefined {
  const unit = parseDecimal(rupiah, EXCHANGE_DIGITS)
  return unit !== undefined && isRate(unit) ? micro(unit) : undefined
}

const isRate = (unit: bigint): boolean => unit > 0n && unit <= LARGEST_RUPIAH * MICRO_PER_RUPIAH

export function isLargeStep(from: Micro, to: Micro): boolean {
  const [less, more] = from < to ? [from, to] : [to, from]
  return (more - less) * 100n > from * LARGEST_EXCHANGE_STEP
}

/** What a source says of these currencies, or what is wrong with it. Upwards where a part of a micro-rupiah is left. */
export function readExchangeRates(json: unknown, currencies: readonly string[]): ReadonlyMap<string, Micro> | string {
  if (!isObject(json)) return `found ${shown(json)}; allowed: an object with base and rates`
  const { base, rates } = json
  if (typeof base !== "string" || !isCurrency(base)) return `base: found ${shown(base)}; allowed: a currency's code`
  if (!isObject(rates)) return `rates: found ${shown(rates)}; allowed: an object of numbers by currency`
  const forOne = (currency: string): bigint | undefined => {
    const value = currency === base ? 1 : rates[currency]
    return typeof value === "number" || typeof value === "string" ? parseDecimal(value, SOURCE_DIGITS) : undefined
  }
  const rupiah = forOne(HOUSE_CURRENCY)
  if (rupiah === undefined) return `rates.IDR: found ${shown(rates[HOUSE_CURRENCY])}; allowed: a number above 0`
  const found = new Map<string, Micro>()
  for (const currency of currencies) {
    const units = forOne(currency)
    const unit = units === undefined || units === 0n ? 0n : (rupiah * MICRO_PER_RUPIAH + units - 1n) / units
    if (!isRate(unit)) return `rates.${currency}: found ${shown(rates[currency])}; allowed: ${EXCHANGE_RATE_TEXT}`
    found.set(currency, micro(unit))
  }
  return found
}

/** Units of a currency, in nano-units. */
const LARGEST = 1_000_000_000n * 10n ** BigInt(COST_DIGITS)
const amounts = ["input", "output", "cache_read", "cache_write", "per_call", "per_search", "step"] as const

/** What is wrong in a cost whose shape is right, with its field. */
interface CostProblem {
  readonly field: string
  readonly found: string
  readonly allowed: string
}

/** What the catalogue file says of a backend's bill, as exact amounts. */
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

// Exact decimals as whole numbers of their smallest part: no float carries money. "2.5" with nine digits is 2,500,000,000n.
// A JSON number is read by the shortest text that means it, which is what was written up to its fifteenth digit.

/** Undefined for what is no decimal from 0 on, or has more digits behind the point than `digits`. */
export function parseDecimal(value: string | number, digits: number): bigint | undefined {
  const found = /^(\d{1,30})(?:\.(\d{1,30}))?(?:e([+-]?\d{1,2}))?$/.exec(String(value))
  if (found === null) return undefined
  const [, whole = "", fraction = "", exponent = "0"] = found
  // The point moves to the right by so many places.
  const places = digits - fraction.length + Number(exponent)
  const number = BigInt(whole + fraction)
  if (places >= 0) return number * 10n ** BigInt(places)
  const cut = 10n ** BigInt(-places)
  return number % cut === 0n ? number / cut : undefined
}
