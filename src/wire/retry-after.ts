/**
 * A backend's `Retry-After` (RFC 9110, section 10.2.3), in whole seconds: a number or one of the three HTTP date forms.
 * It is forwarded to clients that obey it for an hour, so what is not plausible is dropped (decisions §12.11).
 */
const plausibleS = 86_400
const maximumS = 3_600

export const parseRetryAfter = (value: string | null | undefined, nowMs: number): number | undefined => {
  const text = value?.trim() ?? ""
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : secondsUntil(text, nowMs)
  return seconds >= 0 && seconds <= plausibleS ? Math.min(Math.max(0, seconds), maximumS) : undefined
}

/** NaN, which is neither above nor below a bound, for what is no date. */
const secondsUntil = (text: string, nowMs: number): number => Math.ceil((httpDateMs(text, nowMs) - nowMs) / 1000)

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
const clock = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`
const forms = [
  new RegExp(String.raw`^[A-Z][a-z]{2}, (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) ${clock} GMT$`),
  new RegExp(String.raw`^[A-Z][a-z]{5,8}, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) ${clock} GMT$`),
  new RegExp(String.raw`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) ${clock} (?<year>\d{4})$`),
]

const httpDateMs = (text: string, nowMs: number): number => {
  for (const form of forms) {
    const parts = form.exec(text)?.groups
    if (parts === undefined) continue
    const month = months.indexOf(parts.month ?? "")
    if (month === -1) return Number.NaN
    const year = fullYear(Number(parts.year), nowMs)
    return Date.UTC(year, month, Number(parts.day), Number(parts.hour), Number(parts.minute), Number(parts.second))
  }
  return Number.NaN
}

/** Two digits are the year of that ending which is at most 50 years ahead (RFC 9110, section 5.6.7). */
const fullYear = (year: number, nowMs: number): number => {
  if (year > 99) return year
  const thisYear = new Date(nowMs).getUTCFullYear()
  const guess = thisYear - (thisYear % 100) + year
  return guess > thisYear + 50 ? guess - 100 : guess
}
