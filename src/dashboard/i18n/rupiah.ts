/**
 * Rupiah for people's eyes, from micro-rupiah (1 Rp = 1,000,000 micro), digit by digit and never through a float:
 * `Rp 12.345,67` in Indonesian, `Rp 12,345.67` in English.
 */
import type { Language } from "./language.tsx"

/**
 * `plain`: two decimals from Rp 1 up, below that as many as are needed. `exact`: every digit there is.
 * `whole`: no decimals. What is cut off is dropped and not rounded, so that nobody is shown more than there is.
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
  // The sign is a minus, and the space does not break.
  return `${amount < 0n ? "\u2212" : ""}Rp\u00A0${grouped}${shown === "" ? "" : point + shown}`
}

function decimals(whole: string, fraction: string, form: RupiahForm): string {
  if (form === "whole") return ""
  const exact = fraction.replace(/0+$/, "")
  if (form === "exact") return exact
  if (exact === "") return ""
  return whole === "0" ? exact : fraction.slice(0, 2)
}
