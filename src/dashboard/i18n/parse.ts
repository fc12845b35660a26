/**
 * Numbers as people write them into fields: digits, grouped or not, the way the page's language groups them. What could
 * mean something else in the other language (`1.5` in Indonesian) is no number, and not a guess.
 */
import type { Language } from "./language.tsx"

const MICRO_DIGITS = 6

/** By language: an optional `Rp`, the whole part, and up to six decimals. */
const AMOUNTS = {
  id: /^(?:Rp)?(\d{1,3}(?:\.\d{3})+|\d+)(?:,(\d{1,6}))?$/i,
  en: /^(?:Rp)?(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,6}))?$/i,
} as const satisfies Record<Language, RegExp>

/** An amount of rupiah, in micro-rupiah; undefined when it is none. */
export function parseRupiah(text: string, language: Language): bigint | undefined {
  const [, whole, fraction = ""] = AMOUNTS[language].exec(text.replaceAll(/\s/g, "")) ?? []
  return whole === undefined ? undefined : BigInt(whole.replaceAll(/\D/g, "") + fraction.padEnd(MICRO_DIGITS, "0"))
}

/** A whole number of at most 15 digits; undefined when it is none. */
export function parseWhole(text: string, language: Language): number | undefined {
  const [, whole, fraction] = AMOUNTS[language].exec(text.replaceAll(/\s/g, "")) ?? []
  const digits = whole?.replaceAll(/\D/g, "") ?? ""
  return digits === "" || digits.length > 15 || fraction !== undefined || /[Rr]p/.test(text)
    ? undefined
    : Number(digits)
}
