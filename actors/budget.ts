/**
 * A key's budget of one calendar period, or a run's budget: this process's share of it, and what is known of the rest. Micro-rupiah. The limit
 * is not here: the database grants no more than the limit leaves, so a changed one needs only new leasing.
 */
import type { Clock } from "./kernel/clock.ts"
import type { LeaseDriver, LeaseNews } from "./lease.ts"
import { LeasedPurse } from "./leased-purse.ts"
import { type Micro, minus, notNegative, plus, smaller, zero } from "./money/micro.ts"
import type { KeyCalendar, PeriodStarts, SpendingPeriod } from "./period.ts"

export interface BudgetOptions {
  /** Of a key; or of a run, with the period `total`. */
  readonly keyId: string
  readonly period: SpendingPeriod
  /** Milliseconds since the epoch. */
  readonly start: number
  /** What has been spent of it, as far as is known. */
  readonly spent: Micro
  /** Whoever knew of its lease has crashed: something of it may be leased to this process. */
  readonly mayBeLeased: boolean
}

export interface BudgetPorts {
  readonly clock: Clock
  /** The outcome of what was begun for a budget comes back to it through its actor. */
  readonly self: (budget: Budget, news: LeaseNews) => void
  readonly driverOf: (budget: Budget) => LeaseDriver
}

export class Budget {
  readonly keyId: string
  readonly period: SpendingPeriod
  readonly start: number
  readonly purse: LeasedPurse
  /** Whether a lease was ever read; the first reading must not miss what the ledger has yet to write. */
  opened = false
  /** Spent, and not under this process's lease. */
  #elsewhere: Micro

  constructor(ports: BudgetPorts, { keyId, period, start, spent, mayBeLeased }: BudgetOptions) {
    this.keyId = keyId
    this.period = period
    this.start = start
    this.#elsewhere = spent
    this.purse = new LeasedPurse(
      {
        clock: ports.clock,
        self: (news) => ports.self(this, news),
        ...ports.driverOf(this),
      },
      undefined,
      true,
      mayBeLeased,
    )
  }

  /** Settled and held. */
  get usage(): Micro {
    return plus(this.#elsewhere, plus(this.purse.settled, this.purse.held))
  }

  receive(news: LeaseNews): void {
    if (news.type === "grown") {
      this.opened = true
      this.#elsewhere = news.elsewhere ?? this.#elsewhere
    }
    this.purse.receive(news)
  }

  /** Counts a call that holds nothing here. It is charged in full: when it was admitted no budget said otherwise. */
  count(actual: Micro): void {
    const { absorbed } = this.purse.settle("", actual)
    this.#elsewhere = plus(this.#elsewhere, absorbed)
  }

  unsettle(charge: Micro): void {
    const own = smaller(charge, this.purse.settled)
    this.purse.unsettle(own)
    this.#elsewhere = notNegative(minus(this.#elsewhere, minus(charge, own)))
  }
}

/** What the budgets of a key follow: its record, and what has been spent in the periods that were current when it was read. */
export interface KeySpending {
  readonly record: {
    readonly keyId: string
    readonly budget: { readonly period: SpendingPeriod } | undefined
  }
  readonly starts: PeriodStarts
  readonly spent: Readonly<Record<SpendingPeriod, Micro>>
}

/** A key's budgets. */
export class KeyBudgets {
  readonly #ports: BudgetPorts
  readonly #calendar: Pick<KeyCalendar, "starts">
  readonly #isRestarted: boolean
  #record: KeySpending["record"] | undefined
  #loaded: KeySpending | undefined
  /** By period and start: the current one, and those that calls under way were admitted in. */
  readonly #budgets = new Map<string, Budget>()
  #budget: Budget | undefined
  #draining = false

  /** `isRestarted`: the key's actor was, after a crash. */
  constructor(ports: BudgetPorts, calendar: Pick<KeyCalendar, "starts">, isRestarted: boolean) {
    this.#ports = ports
    this.#calendar = calendar
    this.#isRestarted = isRestarted
  }

  get isIdle(): boolean {
    return [...this.#budgets.values()].every(({ purse }) => purse.isIdle)
  }

  /** The key as it was read; undefined where there is none any more. */
  load(loaded: KeySpending | undefined): void {
    if (loaded !== undefined) this.#loaded = loaded
    this.#record = loaded?.record
  }

  drain(): void {
    this.#draining = true
  }

  /** The budget in force. One that no longer is keeps only what calls under way hold. */
  current(): Budget | undefined {
    const starts = this.#calendar.starts()
    const period = this.#record?.budget?.period
    const known = this.#budget
    if (known?.period === period && (known === undefined || known.start === starts[known.period])) return known
    known?.purse.drain(true)
    for (const [name, { purse }] of this.#budgets) if (purse.isIdle) this.#budgets.delete(name)
    this.#budget = period && this.#open(period, starts[period])
    return this.#budget
  }

  #open(period: SpendingPeriod, start: number): Budget {
    const name = `${period} ${start}`
    const loaded = this.#loaded
    const budget =
      this.#budgets.get(name) ??
      new Budget(this.#ports, {
        keyId: this.#record?.keyId ?? "",
        period,
        start,
        spent: loaded?.starts[period] === start ? loaded.spent[period] : zero,
        mayBeLeased: this.#isRestarted,
      })
    budget.purse.drain(this.#draining)
    this.#budgets.set(name, budget)
    return budget
  }

  /** The budget that a call counts in that was admitted in these periods: the current one, or one of a period before. */
  of(starts: PeriodStarts): Budget | undefined {
    const current = this.current()
    if (current === undefined || starts[current.period] === current.start) return current
    const past = this.#open(current.period, starts[current.period])
    past.purse.drain(true)
    return past
  }
}
