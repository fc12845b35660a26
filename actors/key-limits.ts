/**
 * What limits a key. First its windows of requests and tokens per minute, each there while the key has its limit (decisions §5).
 * Of both this process has a share, unless one count is kept for all processes. Times are of the monotonic clock, in milliseconds.
 *
 * Then its budget of one calendar period, or a run's budget: this process's share of it, and what is known of the rest. Micro-rupiah.
 * The limit is not here: the database grants no more than the limit leaves, so a changed one needs only new leasing.
 */
import { CountedWindow, type CountNews, type Wait } from "./counted-window.ts"
import type { Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import type { LeaseDriver, LeaseNews, Share } from "./lease.ts"
import { LeasedPurse } from "./leased-purse.ts"
import { type Micro, micro, minus, notNegative, plus, smaller, zero } from "./money/micro.ts"
import type { KeyCalendar, PeriodStarts, SpendingPeriod } from "./period.ts"
import { SlidingWindow, type WindowCounts, type WindowView } from "./window.ts"

export interface KeyLimits {
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
}

export interface WindowViews {
  readonly requests: WindowView | undefined
  readonly tokens: WindowView | undefined
}

/** Undefined where there is room, or no limit. */
export interface WindowWaits {
  readonly requests: Wait | undefined
  readonly tokens: Wait | undefined
}

/** One count for all processes, and how what it says of a window comes back. */
export interface KeyCounts {
  readonly counts: WindowCounts
  readonly self: (window: CountedWindow, news: CountNews) => void
}

type Kind = "requests" | "tokens"

export class KeyWindows {
  readonly #counts: KeyCounts | undefined
  #share: Share
  #keyId = ""
  #limits: KeyLimits = { requestsPerMinute: undefined, tokensPerMinute: undefined }
  #requests: CountedWindow | undefined
  #tokens: CountedWindow | undefined

  constructor(share: Share, counts: KeyCounts | undefined) {
    this.#share = share
    this.#counts = counts
  }

  get requests(): CountedWindow | undefined {
    return this.#requests
  }
  get tokens(): CountedWindow | undefined {
    return this.#tokens
  }

  /** New limits act at once; what was counted under the old ones stays. */
  limit(limits: KeyLimits & { readonly keyId: string }): void {
    this.#limits = limits
    this.#keyId = limits.keyId
    this.#set()
  }

  /** This process's part is another from now on. */
  share(share: Share): void {
    this.#share = share
    this.#set()
  }

  /** The one count is there again, or has begun anew. */
  tell(nowMs: number): void {
    this.#requests?.tell(nowMs)
    this.#tokens?.tell(nowMs)
  }

  /** Nothing is counted that a fresh window would not know. */
  isEmpty(nowMs: number): boolean {
    return [this.#requests, this.#tokens].every((window) => window?.isEmpty(nowMs) !== false)
  }

  /** As it was last known of what is counted elsewhere. */
  view(nowMs: number): WindowViews {
    return { requests: this.#requests?.view(nowMs), tokens: this.#tokens?.view(nowMs) }
  }

  /** Runs `then` when what `view` says is as it is now: at once where that is known. */
  whenFresh(nowMs: number, then: () => void): void {
    const stale = [this.#requests, this.#tokens].filter((window) => window?.isFresh(nowMs) === false)
    let left = stale.length
    if (left === 0) return then()
    for (const window of stale) {
      window?.look(0, nowMs, () => {
        if (--left === 0) then()
      })
    }
  }

  /** For a call of so many tokens. */
  waits(tokens: number, nowMs: number, then: (waits: WindowWaits) => void): void {
    waitFor(this.#requests, 1, nowMs, (requests) =>
      waitFor(this.#tokens, tokens, nowMs, (ofTokens) => then({ requests, tokens: ofTokens })),
    )
  }

  #set(): void {
    this.#requests = this.#limited("requests", this.#requests, this.#limits.requestsPerMinute)
    this.#tokens = this.#limited("tokens", this.#tokens, this.#limits.tokensPerMinute)
  }

  /** A window under a limit that may be new, or gone; what it has counted stays. */
  #limited(kind: Kind, old: CountedWindow | undefined, limit: number | undefined): CountedWindow | undefined {
    if (limit === undefined) return undefined
    if (old !== undefined) {
      old.limit(limit, this.#share)
      return old
    }
    const known = this.#counts
    const counter = known && {
      counts: known.counts,
      window: `${this.#keyId}:${kind}`,
      self: (news: CountNews) => known.self(window, news),
    }
    const window: CountedWindow = new CountedWindow(new SlidingWindow(limit, this.#share), counter, kind === "requests")
    return window
  }
}

function waitFor(
  window: CountedWindow | undefined,
  amount: number,
  nowMs: number,
  then: (wait: Wait | undefined) => void,
): void {
  if (window === undefined) return then(undefined)
  window.look(amount, nowMs, then)
}

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
    this.purse.count(actual)
  }

  /** Charges a call whose hold was lost in a crash: it may cost what is left. Where that is not known there is no reply. */
  settleUnheld(requestId: string, actual: Micro, reply: Reply<Micro>): void {
    this.purse.hold({ requestId, least: micro(1n), target: actual }, (outcome) => {
      if (outcome !== "unavailable") reply(this.purse.settle(requestId, actual).charge)
    })
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
    this.#loaded = loaded
  }

  drain(): void {
    this.#draining = true
  }

  /** The budget in force. One that no longer is keeps only what calls under way hold. */
  current(): Budget | undefined {
    const starts = this.#calendar.starts()
    const period = this.#loaded?.record.budget?.period
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
        keyId: loaded?.record.keyId ?? "",
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
