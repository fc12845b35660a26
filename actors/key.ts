/**
 * A key: its windows of requests and tokens per minute, its state, and its budget of the calendar period (decisions
 * §4.3–4, §4.12–13, §5). Money in micro-rupiah. The actor exists for an unknown key too, for
 * as long as someone asks for it.
 */
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import { larger, type Micro, minus, notNegative, plus, smaller, zero } from "./money/micro.ts"
import { holdFrom } from "./money/quote.ts"
import { type Calendar, calendarAt, type PeriodStarts, type SpendingPeriod } from "./period.ts"
import { unreachable } from "./unreachable.ts"
import { SlidingWindow } from "./window.ts"

export interface KeyRecord {
  readonly keyId: string
  readonly accountId: string
  readonly revoked: boolean
  readonly accountDeleted: boolean
  readonly timeZone: string
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
  readonly budget: { readonly limit: Micro; readonly period: SpendingPeriod } | undefined
}

/** A key as it is in durable state: what it has spent is of the periods that begin at `starts`. */
export interface LoadedKey {
  readonly record: KeyRecord
  readonly starts: PeriodStarts
  readonly spent: Spent
}

export type Spent = Readonly<Record<SpendingPeriod, Micro>>

interface WindowView {
  readonly limit: number
  readonly remaining: number
  readonly resetS: number
}

/** The limits that a key has, as its rate headers tell them. */
export interface KeyView {
  readonly requests: WindowView | undefined
  readonly tokens: WindowView | undefined
  readonly budget:
    | { readonly limit: Micro; readonly usage: Micro; readonly remaining: Micro; readonly period: SpendingPeriod }
    | undefined
}

export type CountReply =
  | { readonly kind: "unknown" }
  | { readonly kind: "requests-exceeded"; readonly retryAfterS: number; readonly view: KeyView }
  | { readonly kind: "revoked" | "account-deleted"; readonly view: KeyView }
  | { readonly kind: "active"; readonly record: KeyRecord; readonly view: KeyView }

export type ReserveReply =
  /** `hold` is undefined for a key without a budget. */
  | { readonly kind: "reserved"; readonly hold: Micro | undefined; readonly starts: PeriodStarts }
  /** `retryAfterS` is undefined when no wait helps. */
  | { readonly kind: "tokens-exceeded" | "budget-exceeded"; readonly retryAfterS: number | undefined }

export interface Reservation {
  readonly requestId: string
  /** Estimated input and minimal answer. */
  readonly tokens: number
  readonly least: Micro
  readonly worst: Micro
}

/** What a call has come to. */
export interface CallUsage {
  readonly requestId: string
  /** Of all four buckets. */
  readonly tokens: number
  readonly actual: Micro
  /** The periods that the call was admitted in, for a key that was started again since. */
  readonly starts: PeriodStarts
}

export type KeyCommand =
  /** A call has come. One that is free of the request window is looked at, not counted. */
  | { readonly type: "count"; readonly counted: boolean; readonly reply: Reply<CountReply> }
  | { readonly type: "reserve"; readonly reservation: Reservation; readonly reply: Reply<ReserveReply> }
  /** The account held less than the key did; the key needs no more. */
  | { readonly type: "trim"; readonly requestId: string; readonly hold: Micro }
  /** Answers with what the budget pays of what the call costs. */
  | { readonly type: "settle"; readonly usage: CallUsage; readonly reply: Reply<Micro> }
  | { readonly type: "release"; readonly requestId: string }
  /** Some of a charge, or all of it, that was not booked after all. */
  | { readonly type: "unsettle"; readonly charge: Micro; readonly starts: PeriodStarts }
  | { readonly type: "view"; readonly reply: Reply<KeyView> }
  /** Durable state has changed: read it again. */
  | { readonly type: "changed" }
  | { readonly type: "loaded"; readonly loaded: LoadedKey | undefined }
  | { readonly type: "not-loaded" }

export interface KeyPorts {
  readonly clock: Clock
  readonly self: (command: KeyCommand) => void
  /** Begins to read the key; the outcome comes back as `loaded` or `not-loaded`. */
  readonly load: () => void
}

interface Reserved {
  readonly atMs: number
  readonly tokens: number
  readonly starts: PeriodStarts
  readonly hold: Micro
}

/** A change that could not be read is tried again after so long: a revoked key must not live on. */
const LOAD_AGAIN_MS = 500

const periods = ["daily", "monthly", "total"] as const

export class Key implements Behaviour<KeyCommand> {
  readonly #ports: KeyPorts
  readonly #clock: Clock
  readonly #reserved = new Map<string, Reserved>()
  #record: KeyRecord | undefined
  #requests: SlidingWindow | undefined
  #tokens: SlidingWindow | undefined
  #calendar: Calendar | undefined
  #spent: Record<SpendingPeriod, Micro> = { daily: zero, monthly: zero, total: zero }
  /** What the calls admitted in the current periods hold. */
  #held: Record<SpendingPeriod, Micro> = { daily: zero, monthly: zero, total: zero }

  /** Reads one at a time, so that an older answer never overtakes a newer one. */
  #loading = false
  #loadAgain = false

  constructor(ports: KeyPorts, loaded: LoadedKey | undefined) {
    this.#ports = ports
    this.#clock = ports.clock
    if (loaded !== undefined) this.#load(loaded)
  }

  idle(): boolean {
    const now = this.#clock.monotonic()
    const quiet = (window: SlidingWindow | undefined) => window === undefined || window.used(now) === 0
    return this.#reserved.size === 0 && !this.#loading && quiet(this.#requests) && quiet(this.#tokens)
  }

  receive(command: KeyCommand): void {
    switch (command.type) {
      case "count":
        return command.reply(this.#onCount(command.counted))
      case "reserve":
        return command.reply(this.#onReserve(command.reservation))
      case "trim":
        return this.#onTrim(command.requestId, command.hold)
      case "settle":
        return command.reply(this.#onSettle(command.usage))
      case "release":
        this.#end(command.requestId, 0)
        return
      case "unsettle":
        return this.#count(this.#spent, minus(zero, command.charge), command.starts)
      case "view":
        return command.reply(this.#view())
      case "changed":
        return this.#onChanged()
      case "loaded":
        return this.#onLoaded(command.loaded)
      case "not-loaded":
        this.#clock.after(LOAD_AGAIN_MS, () => this.#ports.self({ type: "changed" }))
        return this.#onLoadEnded()
      default:
        return unreachable(command)
    }
  }

  /** A call refused here is not counted; every other is, a revoked key's too (decisions §12.1). */
  #onCount(counted: boolean): CountReply {
    const record = this.#record
    if (record === undefined) return { kind: "unknown" }
    const now = this.#clock.monotonic()
    if (counted && this.#requests !== undefined && !this.#requests.fits(1, now)) {
      return { kind: "requests-exceeded", retryAfterS: this.#requests.waitS(1, now) ?? 1, view: this.#view() }
    }
    if (counted) this.#requests?.add(1, now)
    if (record.revoked) return { kind: "revoked", view: this.#view() }
    if (record.accountDeleted) return { kind: "account-deleted", view: this.#view() }
    return { kind: "active", record, view: this.#view() }
  }

  #onReserve(wanted: Reservation): ReserveReply {
    if (this.#reserved.has(wanted.requestId)) throw new Error(`${wanted.requestId} reserved twice`)
    const now = this.#clock.monotonic()
    if (this.#tokens !== undefined && !this.#tokens.fits(wanted.tokens, now)) {
      return { kind: "tokens-exceeded", retryAfterS: this.#tokens.waitS(wanted.tokens, now) }
    }
    const { starts } = this.#currentCalendar()
    const budget = this.#record?.budget
    let hold: Micro | undefined
    if (budget !== undefined) {
      const available = notNegative(minus(budget.limit, this.#usage(budget.period)))
      hold = holdFrom(available, wanted.worst, wanted.least)
      if (hold === undefined) return { kind: "budget-exceeded", retryAfterS: this.#rollsOverInS(budget.period) }
    }
    this.#tokens?.add(wanted.tokens, now)
    const reserved = { atMs: now, tokens: wanted.tokens, starts, hold: hold ?? zero }
    this.#reserved.set(wanted.requestId, reserved)
    this.#count(this.#held, reserved.hold, starts)
    return { kind: "reserved", hold, starts }
  }

  #onTrim(requestId: string, hold: Micro): void {
    const reserved = this.#reserved.get(requestId)
    if (reserved === undefined || hold >= reserved.hold) return
    this.#count(this.#held, minus(hold, reserved.hold), reserved.starts)
    this.#reserved.set(requestId, { ...reserved, hold })
  }

  /**
   * Corrects the window to the tokens of all four buckets, and turns the hold into spending (decisions §5): no more than
   * the hold and what is left of the budget (decisions §12.3).
   */
  #onSettle({ requestId, tokens, actual, starts }: CallUsage): Micro {
    const hold = this.#end(requestId, tokens)
    const charge = smaller(actual, this.#payable(hold, starts) ?? actual)
    this.#count(this.#spent, charge, starts)
    return charge
  }

  /** What the budget pays of a call whose hold has just ended. Undefined: all of it. */
  #payable(hold: Micro | undefined, starts: PeriodStarts): Micro | undefined {
    const budget = this.#record?.budget
    if (budget === undefined) return undefined
    // What was left of a period that is over is not known any more; the hold was part of it.
    if (starts[budget.period] !== this.#currentCalendar().starts[budget.period]) return hold
    const available = notNegative(minus(budget.limit, this.#usage(budget.period)))
    return larger(hold ?? zero, available)
  }

  /** Ends a reservation for which `tokens` were used after all; answers what it held. */
  #end(requestId: string, tokens: number): Micro | undefined {
    const reserved = this.#reserved.get(requestId)
    if (reserved === undefined) return undefined
    this.#reserved.delete(requestId)
    this.#tokens?.correct(tokens - reserved.tokens, reserved.atMs)
    this.#count(this.#held, minus(zero, reserved.hold), reserved.starts)
    return reserved.hold
  }

  #onChanged(): void {
    if (this.#loading) {
      // The read under way may be older than the change.
      this.#loadAgain = true
      return
    }
    this.#loading = true
    this.#ports.load()
  }

  #onLoadEnded(): void {
    this.#loading = false
    if (!this.#loadAgain) return
    this.#loadAgain = false
    this.#onChanged()
  }

  /** New limits act at once; what was counted and spent under the old ones stays. */
  #onLoaded(loaded: LoadedKey | undefined): void {
    this.#onLoadEnded()
    if (this.#record === undefined || loaded === undefined || loaded.record.timeZone !== this.#record.timeZone) {
      if (loaded === undefined) this.#record = undefined
      else this.#load(loaded)
      return
    }
    this.#setRecord(loaded.record)
  }

  #load(loaded: LoadedKey): void {
    this.#setRecord(loaded.record)
    this.#calendar = undefined
    const { starts } = this.#currentCalendar()
    const of = (period: SpendingPeriod) => (loaded.starts[period] === starts[period] ? loaded.spent[period] : zero)
    this.#spent = { daily: of("daily"), monthly: of("monthly"), total: of("total") }
    this.#held = { daily: zero, monthly: zero, total: zero }
    for (const reserved of this.#reserved.values()) this.#count(this.#held, reserved.hold, reserved.starts)
  }

  #setRecord(record: KeyRecord): void {
    this.#record = record
    this.#requests = limited(this.#requests, record.requestsPerMinute)
    this.#tokens = limited(this.#tokens, record.tokensPerMinute)
  }

  /** Amounts count in the periods in which their call was admitted. */
  #count(sums: Record<SpendingPeriod, Micro>, amount: Micro, starts: PeriodStarts): void {
    const current = this.#currentCalendar().starts
    for (const period of periods) {
      if (starts[period] === current[period]) sums[period] = notNegative(plus(sums[period], amount))
    }
  }

  #usage(period: SpendingPeriod): Micro {
    this.#currentCalendar()
    return plus(this.#spent[period], this.#held[period])
  }

  #currentCalendar(): Calendar {
    const now = this.#clock.now()
    const known = this.#calendar
    if (known !== undefined && now >= known.starts.daily && now < known.dayEnds) return known
    const next = calendarAt(now, this.#record?.timeZone ?? "UTC")
    if (known !== undefined) {
      // A wall clock that is set back an hour over midnight must not open a fresh budget.
      if (next.starts.daily < known.starts.daily) return known
      for (const period of periods) {
        if (next.starts[period] > known.starts[period]) this.#spent[period] = this.#held[period] = zero
      }
    }
    this.#calendar = next
    return next
  }

  #rollsOverInS(period: SpendingPeriod): number | undefined {
    const calendar = this.#currentCalendar()
    if (period === "total") return undefined
    const ends = period === "daily" ? calendar.dayEnds : calendar.monthEnds
    return Math.max(1, Math.ceil((ends - this.#clock.now()) / 1_000))
  }

  #view(): KeyView {
    const now = this.#clock.monotonic()
    const window = (of: SlidingWindow | undefined): WindowView | undefined =>
      of && { limit: of.limit, remaining: of.remaining(now), resetS: of.resetS(now) }
    const budget = this.#record?.budget
    const usage = budget === undefined ? zero : this.#usage(budget.period)
    return {
      requests: window(this.#requests),
      tokens: window(this.#tokens),
      budget: budget && { ...budget, usage, remaining: notNegative(minus(budget.limit, usage)) },
    }
  }
}

/** A window under a limit that may be new, or gone; what it has counted stays. */
const limited = (old: SlidingWindow | undefined, limit: number | undefined): SlidingWindow | undefined =>
  limit === undefined ? undefined : (old?.withLimit(limit) ?? new SlidingWindow(limit))
