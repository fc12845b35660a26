/**
 * Exchange rates: micro-rupiah for one unit of a currency. An operator sets them, or a file or an address says them, in the form
 * that public services have: `{ "base": "USD", "rates": { "IDR": 16250.5, "EUR": 0.92 } }`, units of each currency for one of
 * the base. What cannot be read, or changes by much, changes nothing.
 */
import { parseDecimal } from "../../actors/money/decimal.ts"
import { type Micro, micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { isObject } from "../language/json.ts"
import { shown } from "./problem.ts"

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
