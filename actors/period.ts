/**
 * Calendar periods of spending limits, in an account's time zone (decisions §5). Instants in milliseconds since the
 * epoch. Temporal knows the zones' days of 23 and 25 hours.
 */
export type SpendingPeriod = "daily" | "monthly" | "total"

export interface PeriodStarts {
  readonly daily: number
  readonly monthly: number
  readonly total: number
}

export interface Calendar {
  readonly starts: PeriodStarts
  /** When the day and the month end, in the account's time zone. */
  readonly dayEnds: number
  readonly monthEnds: number
}

export function calendarAt(nowMs: number, timeZone: string): Calendar {
  const day = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(timeZone).startOfDay()
  const month = day.with({ day: 1 }).startOfDay()
  return {
    starts: { daily: day.epochMilliseconds, monthly: month.epochMilliseconds, total: 0 },
    dayEnds: day.add({ days: 1 }).startOfDay().epochMilliseconds,
    monthEnds: month.add({ months: 1 }).startOfDay().epochMilliseconds,
  }
}
