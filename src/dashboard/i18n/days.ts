/** Calendar days as the API has them, such as 2026-11-21: text, so that no time zone is read into them. */
const DAY_MS = 86_400_000

/** From one day to another, both included. */
export interface Days {
  readonly from: string
  readonly to: string
}

/** The day that it is in a time zone. */
export const dayIn = (timeZone: string, now: number): string =>
  // The locale whose days are written as ISO 8601 has them.
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short" }).format(now)

const later = (day: string, count: number): string =>
  new Date(Date.parse(day) + count * DAY_MS).toISOString().slice(0, 10)

/** The span of so many days that ends today. */
export const lastDays = (today: string, count: number): Days => ({ from: later(today, 1 - count), to: today })

/** So many days, one after the other. */
export const daysOf = (from: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => later(from, index))

export const USUAL_DAYS = 7
const DAY = /^\d{4}-\d{2}-\d{2}$/
const isDay = (text: string): boolean => DAY.test(text) && !Number.isNaN(Date.parse(text))

export const dayCount = ({ from, to }: Days): number => Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1

/** The days that an address names, by their ends or as the last so many; what makes no sense counts as not said. */
export function daysIn(query: URLSearchParams, today: string): Days {
  const [from, to] = [query.get("from") ?? "", query.get("to") ?? ""]
  if (isDay(from) && isDay(to) && from <= to) return { from, to }
  const count = Number(query.get("days") ?? USUAL_DAYS)
  return lastDays(today, Number.isInteger(count) && count >= 1 && count <= 366 ? count : USUAL_DAYS)
}
