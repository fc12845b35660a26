/**
 * Amounts and whole numbers as people type them into fields, with the digit groups of the page's language: `12.345,67` in
 * Indonesian, `12,345.67` in English.
 */
import { formatRupiah } from "./format.ts"
import type { Language } from "./language.tsx"

const MICRO_DIGITS = 6

/**
 * A typed amount: an optional `Rp`, the whole part, and up to six decimals. A text that means something else in the other
 * language (`1.5` in Indonesian) does not match: the page does not guess.
 */
const AMOUNTS = {
  id: /^(?:Rp)?(\d{1,3}(?:\.\d{3})+|\d+)(?:,(\d{1,6}))?$/i,
  en: /^(?:Rp)?(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,6}))?$/i,
} as const satisfies Record<Language, RegExp>

/** A typed amount of rupiah, in micro-rupiah; undefined when it is not an amount. */
export function parseRupiah(text: string, language: Language): bigint | undefined {
  const [, whole, fraction = ""] = AMOUNTS[language].exec(text.replaceAll(/\s/g, "")) ?? []
  return whole === undefined ? undefined : BigInt(whole.replaceAll(/\D/g, "") + fraction.padEnd(MICRO_DIGITS, "0"))
}

/** A typed whole number of at most 15 digits; undefined when it is not one. */
export function parseWhole(text: string, language: Language): number | undefined {
  const [, whole, fraction] = AMOUNTS[language].exec(text.replaceAll(/\s/g, "")) ?? []
  const digits = whole?.replaceAll(/\D/g, "") ?? ""
  return digits === "" || digits.length > 15 || fraction !== undefined || /[Rr]p/.test(text)
    ? undefined
    : Number(digits)
}

/** Micro-rupiah as a field has them: every digit, without the currency. */
export const amountText = (micro: number | bigint, language: Language): string =>
  formatRupiah(micro, language, "exact").replace(/^Rp\s/, "")
