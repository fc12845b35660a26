/**
 * Rupiah and whole numbers, from micro-rupiah (1 Rp = 1,000,000 micro) to text and back. Digit by digit, never through a float.
 * Digits are grouped as in the page's language: `Rp 12.345,67` in Indonesian, `Rp 12,345.67` in English.
 */
import type { Language } from "./language.tsx"

/**
 * `plain`: two decimals from Rp 1 up, below that as many as are needed. `exact`: every digit there is.
 * `whole`: no decimals. Digits are cut off and never rounded up, so that no balance looks larger than it is.
 */
export type RupiahForm = "plain" | "exact" | "whole"

const MICRO_DIGITS = 6

export function formatRupiah(micro: number | bigint, language: Language, form: RupiahForm = "plain"): string {
  const amount = BigInt(micro)
  const digits = (amount < 0n ? -amount : amount).toString().padStart(MICRO_DIGITS + 1, "0")
  const whole = digits.slice(0, -MICRO_DIGITS)
  const fraction = digits.slice(-MICRO_DIGITS)
  const [group, point] = language === "id" ? [".", ","] : [",", "."]
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, group)
  const shown = decimals(whole, fraction, form)
  // A real minus sign, and a space that does not break.
  return `${amount < 0n ? "\u2212" : ""}Rp\u00A0${grouped}${shown === "" ? "" : point + shown}`
}

function decimals(whole: string, fraction: string, form: RupiahForm): string {
  if (form === "whole") return ""
  const exact = fraction.replace(/0+$/, "")
  if (form === "exact") return exact
  if (exact === "") return ""
  return whole === "0" ? exact : fraction.slice(0, 2)
}

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
