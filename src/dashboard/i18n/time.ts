/**
 * Calendar days and clock times in the account's time zone. A day is text, such as 2026-11-21: a `Date` would attach a time
 * zone to it.
 */

const DAY_MS = 86_400_000

/** A range of days, both ends included. */
export interface Days {
  readonly from: string
  readonly to: string
}

/** The current day in a time zone. */
export const dayIn = (timeZone: string, now: number): string =>
  // Swedish dates have the format of ISO 8601.
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short" }).format(now)

/** The day so many days later. */
export const later = (day: string, count: number): string =>
  new Date(Date.parse(day) + count * DAY_MS).toISOString().slice(0, 10)

/** The last `count` days up to today. */
export const lastDays = (today: string, count: number): Days => ({ from: later(today, 1 - count), to: today })

/** As many days as these, up to the day before them. */
export const daysBefore = (days: Days): Days => ({ from: later(days.from, -dayCount(days)), to: later(days.from, -1) })

/** `count` days from `from` on. */
export const daysOf = (from: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => later(from, index))

export const USUAL_DAYS = 7
const DAY = /^\d{4}-\d{2}-\d{2}$/
const isDay = (text: string): boolean => DAY.test(text) && !Number.isNaN(Date.parse(text))

export const dayCount = ({ from, to }: Days): number => Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1

/** The days in an address: from one to another, or the last so many. Invalid values are ignored. */
export function daysIn(query: URLSearchParams, today: string): Days {
  const [from, to] = [query.get("from") ?? "", query.get("to") ?? ""]
  if (isDay(from) && isDay(to) && from <= to) return { from, to }
  const count = Number(query.get("days") ?? USUAL_DAYS)
  return lastDays(today, Number.isInteger(count) && count >= 1 && count <= 366 ? count : USUAL_DAYS)
}

/** The time that a clock shows in a time zone, as ISO 8601 has it without a zone: 2026-11-21T10:15:30. */
export const wallTimeIn = (timeZone: string, ms: number): string =>
  // Swedish dates have the format of ISO 8601.
  new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(ms).replace(" ", "T")

/**
 * The moment when a clock in the time zone shows this, in milliseconds since 1970; undefined when the text is not a time.
 * A time that a clock change skips gives the moment as far after the change. A time that comes twice gives one of the two.
 */
export function instantOf(wall: string, timeZone: string): number | undefined {
  const asUtc = Date.parse(`${wall}Z`)
  if (Number.isNaN(asUtc)) return undefined
  const aheadAt = (ms: number) => Date.parse(`${wallTimeIn(timeZone, ms)}Z`) - Math.floor(ms / 1_000) * 1_000
  // The offset depends on the moment, which is not known yet. A second look-up corrects the first near a clock change.
  return asUtc - aheadAt(asUtc - aheadAt(asUtc))
}
