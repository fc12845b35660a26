/** The calendar that a key's budget follows: its account's time zone, and what was running when that last changed. */
import type { Clock } from "./kernel/clock.ts"
import { type Calendar, calendarAt, type PeriodStarts, type RunningPeriods, type SpendingPeriod } from "./period.ts"

export interface CalendarTerms {
  readonly timeZone: string
  readonly running?: RunningPeriods | undefined
}

export class KeyCalendar {
  readonly #clock: Clock
  #terms: CalendarTerms = { timeZone: "UTC" }
  #calendar: Calendar | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  follow(terms: CalendarTerms): void {
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
    if (known !== undefined && now >= known.starts.daily && now < Math.min(known.dayEnds, known.monthEnds)) return known
    const next = calendarAt(now, this.#terms.timeZone, this.#terms.running)
    // A wall clock that is set back an hour over midnight must not open a fresh budget.
    if (known !== undefined && isBefore(next.starts, known.starts)) return known
    this.#calendar = next
    return next
  }
}

const isBefore = (a: PeriodStarts, b: PeriodStarts): boolean => a.daily < b.daily || a.monthly < b.monthly

const isSame = (a: CalendarTerms, b: CalendarTerms): boolean =>
  a.timeZone === b.timeZone &&
  a.running?.daily?.end === b.running?.daily?.end &&
  a.running?.monthly?.end === b.running?.monthly?.end
