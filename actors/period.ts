/**
 * Calendar periods of spending limits, in an account's time zone (decisions §5). Instants in milliseconds since the
 * epoch. Temporal knows the zones' days of 23 and 25 hours.
 *
 * A new time zone does not begin a new period. What is running when the zone changes runs on to the first bound of the new zone that
 * is not before its own end (decisions §13.5), so an owner cannot spend a budget once in each zone. Its own end stays that of
 * the zone in which it began: whoever changes the zone and changes it back has what he had.
 */
import type { Clock } from "./kernel/clock.ts"

export type SpendingPeriod = "daily" | "monthly" | "total"

/** The periods that end. */
export type CalendarPeriod = Exclude<SpendingPeriod, "total">

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

/** A period that was running when the time zone changed. */
export interface RunningPeriod {
  readonly start: number
  /** In the zone in which it began. */
  readonly ownEnd: number
  /** The first bound of the present zone that is not before `ownEnd`. */
  readonly end: number
}

export type RunningPeriods = { readonly [Period in CalendarPeriod]?: RunningPeriod | undefined }

/** `running`: of a key that was there when its account's time zone changed. */
export function calendarAt(nowMs: number, timeZone: string, running: RunningPeriods = {}): Calendar {
  const now = zoned(nowMs, timeZone)
  const day = isRunning(running.daily, nowMs) ?? span(now, "daily")
  const month = isRunning(running.monthly, nowMs) ?? span(now, "monthly")
  return { starts: { daily: day.start, monthly: month.start, total: 0 }, dayEnds: day.end, monthEnds: month.end }
}

/** The period that is running now, as the change of the time zone to `to` leaves it. */
export function carriedOver(
  nowMs: number,
  period: CalendarPeriod,
  from: string,
  to: string,
  running: RunningPeriod | undefined,
): RunningPeriod {
  const { start, ownEnd } = isRunning(running, nowMs) ?? span(zoned(nowMs, from), period)
  // The instant before it, so that an end which is a bound of the new zone too stays where it is.
  return { start, ownEnd, end: span(zoned(ownEnd - 1, to), period).end }
}

/** One that begins after now was begun by a wall clock that was ahead, and is kept: what began must not begin again. */
const isRunning = (period: RunningPeriod | undefined, nowMs: number): RunningPeriod | undefined =>
  period !== undefined && nowMs < period.end ? period : undefined

const zoned = (ms: number, timeZone: string) => Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone)

/** The day or month of the calendar that an instant is in. */
function span(at: Temporal.ZonedDateTime, period: CalendarPeriod): RunningPeriod {
  const first = period === "daily" ? at.startOfDay() : at.with({ day: 1 }).startOfDay()
  const end = first.add(period === "daily" ? { days: 1 } : { months: 1 }).startOfDay().epochMilliseconds
  return { start: first.epochMilliseconds, ownEnd: end, end }
}

/** The calendar that a key's budget follows: its account's time zone, and what was running when that last changed. */
interface CalendarSettings {
  readonly timeZone: string
  readonly running?: RunningPeriods | undefined
}

const DAY_MS = 24 * 3_600_000

export class KeyCalendar {
  readonly #clock: Clock
  #terms: CalendarSettings = { timeZone: "UTC" }
  #calendar: Calendar | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  follow(terms: CalendarSettings): void {
    if (!isSame(this.#terms, terms)) this.#calendar = undefined
    this.#terms = terms
  }

  /** When the periods that run now have begun. */
  starts(): PeriodStarts {
    return this.#current().starts
  }

  /** In how many seconds the period is over, at least one; undefined of one that never is. */
  endsInS(period: SpendingPeriod): number | undefined {
    if (period === "total") return undefined
    const { dayEnds, monthEnds } = this.#current()
    const ends = period === "daily" ? dayEnds : monthEnds
    return Math.max(1, Math.ceil((ends - this.#clock.now()) / 1_000))
  }

  #current(): Calendar {
    const now = this.#clock.now()
    const known = this.#calendar
    // A wall clock that is set back an hour over midnight must not open a fresh budget. What one has begun that was ahead by more than
    // a day would be spent for as long.
    const isNow = known !== undefined && known.starts.daily - now < DAY_MS
    if (isNow && now < Math.min(known.dayEnds, known.monthEnds)) return known
    this.#calendar = calendarAt(now, this.#terms.timeZone, this.#terms.running)
    return this.#calendar
  }
}

const isSame = (a: CalendarSettings, b: CalendarSettings): boolean =>
  a.timeZone === b.timeZone &&
  a.running?.daily?.end === b.running?.daily?.end &&
  a.running?.monthly?.end === b.running?.monthly?.end
