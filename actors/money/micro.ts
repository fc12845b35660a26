/**
 * Micro-rupiah: the one unit of money. 1 Rp = 1,000,000 micro.
 * A bigint, because tokens × rate passes 2^53 on ordinary requests, and because the compiler then keeps money and
 * tokens apart.
 */
declare const unit: unique symbol
export type Micro = bigint & { readonly [unit]: "micro-rupiah" }

export const MICRO_PER_RUPIAH = 1_000_000n

/** Says that a bare bigint is an amount of micro-rupiah. */
export const micro = (value: bigint): Micro => value as Micro
export const zero: Micro = micro(0n)
/** The largest amount that a JSON integer says exactly: nine milliards of rupiah. */
export const largestMicro: Micro = micro(BigInt(Number.MAX_SAFE_INTEGER))

export const plus = (a: Micro, b: Micro): Micro => micro(a + b)
export const minus = (a: Micro, b: Micro): Micro => micro(a - b)
export const smaller = (a: Micro, b: Micro): Micro => (a < b ? a : b)
export const larger = (a: Micro, b: Micro): Micro => (a > b ? a : b)
/** The amount, or zero for a shortfall. */
export const notNegative = (value: Micro): Micro => (value < 0n ? zero : value)

/** An amount as a JSON integer. One past 2^53 − 1 cannot be said exactly and so is a bug (decisions §2). */
export function microToJson(value: Micro): number {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new RangeError(`${value} micro-rupiah does not fit a JSON integer`)
  return number
}

/** A sum of many amounts, which may be more than a JSON integer can say: then as much as it can. */
export const sumToJson = (value: Micro): number =>
  microToJson(larger(smaller(value, largestMicro), minus(zero, largestMicro)))

/** Exact decimal rupiah, trailing zeros cut, for `X-Cost-Rp`: 1,234,500 micro is "1.2345" (decisions §2). */
export function microToRupiah(value: Micro): string {
  const sign = value < 0n ? "-" : ""
  const absolute = larger(value, minus(zero, value))
  const fraction = (absolute % MICRO_PER_RUPIAH).toString().padStart(6, "0").replace(/0+$/, "")
  const whole = absolute / MICRO_PER_RUPIAH
  return fraction === "" ? `${sign}${whole}` : `${sign}${whole}.${fraction}`
}

const SIGNS = { id: { group: ".", point: "," }, en: { group: ",", point: "." } } as const

/** An exact amount as people read it: "Rp 1.234,5" in Indonesian, "Rp 1,234.5" in English. */
export function rupiahText(value: Micro, language: keyof typeof SIGNS): string {
  const { group, point } = SIGNS[language]
  const [whole = "", fraction] = microToRupiah(larger(value, minus(zero, value))).split(".")
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, group)
  return `${value < 0n ? "-" : ""}Rp ${grouped}${fraction === undefined ? "" : point + fraction}`
}
