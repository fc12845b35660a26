/**
 * What a change of the time zone leaves running, as decisions §13.5 has it: a running day or month ends at the first bound of
 * the new zone that is not before its bound in the old one. Reckoned anew here, date by date, and not by the product's own
 * function. Instants in milliseconds.
 */
import type { CalendarPeriod, RunningPeriod } from "../../actors/period.ts"

const dateIn = (instant: number, zone: string): Temporal.PlainDate =>
  Temporal.Instant.fromEpochMilliseconds(instant).toZonedDateTimeISO(zone).toPlainDate()

const midnight = (date: Temporal.PlainDate, zone: string): number => date.toZonedDateTime(zone).epochMilliseconds

/** The first bound that is not before an instant. */
function boundAfter(instant: number, zone: string, period: CalendarPeriod): number {
  const isBound = (date: Temporal.PlainDate) => period === "daily" || date.day === 1
  let date = dateIn(instant, zone)
  while (!isBound(date) || midnight(date, zone) < instant) date = date.add({ days: 1 })
  return midnight(date, zone)
}

/** `known` is what the change before this one left running. */
export function afterChange(
  now: number,
  period: CalendarPeriod,
  [from, to]: readonly [from: string, to: string],
  known: RunningPeriod | undefined,
): RunningPeriod {
  const runs = known !== undefined && now < known.end
  const today = dateIn(now, from)
  const start = runs ? known.start : midnight(period === "daily" ? today : today.with({ day: 1 }), from)
  const ownEnd = runs ? known.ownEnd : boundAfter(start + 1, from, period)
  return { start, ownEnd, end: boundAfter(ownEnd, to, period) }
}
