/**
 * A key's budget of one calendar period, or a run's budget: this process's share of it, and what is known of the rest. Micro-rupiah. The limit
 * is not here: the database grants no more than the limit leaves, so a changed one needs only new leasing.
 */
import type { Clock } from "./kernel/clock.ts"
import type { LeaseDriver, LeaseNews } from "./lease.ts"
import { LeasedPurse } from "./leased-purse.ts"
import { type Micro, minus, notNegative, plus, smaller } from "./money/micro.ts"
import type { SpendingPeriod } from "./period.ts"

export interface BudgetTerms {
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

  constructor(ports: BudgetPorts, { keyId, period, start, spent, mayBeLeased }: BudgetTerms) {
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
