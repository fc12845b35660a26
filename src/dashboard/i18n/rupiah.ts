/** Amounts as people read them, in the page and on the pages that the server renders. */
import type { Language } from "./language.tsx"

/**
 * `plain`: two decimals from Rp 1 up, below that as many as are needed. `column`: always two decimals, so that amounts stand comma
 * under comma; what is less than half of the last one is "< Rp 0,01". `exact`: every digit there is. `whole`: no decimals. Where
 * digits are left out the last one is rounded to the nearest, so that what was spent and what is left add up.
 */
export type RupiahForm = "plain" | "column" | "exact" | "whole"

const MICRO_DIGITS = 6
const DECIMALS = 2

/**
 * Rupiah from micro-rupiah (1 Rp = 1,000,000 micro), digit by digit and never through a float: `Rp 12.345,67` in Indonesian,
 * `Rp 12,345.67` in English.
 */
export function formatRupiah(micro: number | bigint, language: Language, form: RupiahForm = "plain"): string {
  const amount = BigInt(micro)
  const size = amount < 0n ? -amount : amount
  const places = placesOf(size, form)
  const rounded = roundedTo(size, places)
  const isTiny = form === "column" && rounded === 0n && size > 0n
  const digits = (isTiny ? 10n ** BigInt(MICRO_DIGITS - DECIMALS) : rounded).toString().padStart(MICRO_DIGITS + 1, "0")
  const [group, point] = language === "id" ? [".", ","] : [",", "."]
  const grouped = digits.slice(0, -MICRO_DIGITS).replace(/\B(?=(?:\d{3})+$)/g, group)
  const shown = digits.slice(-MICRO_DIGITS).slice(0, places)
  // A real minus sign, and spaces that do not break.
  const sign = amount < 0n && (rounded > 0n || isTiny) ? "\u2212" : ""
  return `${isTiny ? "<\u00A0" : ""}${sign}Rp\u00A0${grouped}${shown === "" ? "" : point + shown}`
}

/** How many decimals an amount is shown with. */
function placesOf(size: bigint, form: RupiahForm): number {
  if (form === "whole") return 0
  if (form === "column") return DECIMALS
  const needed = size.toString().padStart(MICRO_DIGITS, "0").slice(-MICRO_DIGITS).replace(/0+$/, "").length
  const isSmall = size < 10n ** BigInt(MICRO_DIGITS)
  return form === "exact" || isSmall || needed === 0 ? needed : DECIMALS
}

/** To the nearest; halves go up. Still in micro-rupiah. */
function roundedTo(size: bigint, places: number): bigint {
  const unit = 10n ** BigInt(MICRO_DIGITS - places)
  return ((size + unit / 2n) / unit) * unit
}
