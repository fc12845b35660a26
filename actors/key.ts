/**
 * A key: its windows of requests and tokens per minute, its state, and its budget of the calendar period (decisions §4.3–4,
 * §4.12–13, §5). Money in micro-rupiah. The actor exists for an unknown key too, for as long as someone asks for it.
 */
import { type Budget, type BudgetPorts, KeyBudgets, KeyWindows } from "./key-limits.ts"
import type { Taken } from "./counted-window.ts"
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import { KeyCalendar } from "./period.ts"
import {
  type CallUsage,
  type Counting,
  type CountReply,
  type KeyCommand,
  type KeyForecast,
  type KeyRecord,
  type KeyView,
  type LoadedKey,
  Reads,
  pauseEndsInS,
  refusalOf,
  type Reservation,
  type ReserveReply,
} from "./key-record.ts"
import type { LeaseNews, Share } from "./lease.ts"
import { type Micro, minus, notNegative, zero } from "./money/micro.ts"
import { isWithin } from "./network.ts"
import { unreachable } from "./unreachable.ts"
import type { WindowCounts } from "./window.ts"

export interface KeyPorts extends Omit<BudgetPorts, "self"> {
  readonly self: (command: KeyCommand) => void
  /** Begins to read the key; the outcome comes back as `loaded` or `not-loaded`. */
  readonly load: () => void
  /** One count of the windows for all processes; undefined where each has its share. */
  readonly counts?: WindowCounts | undefined
}

interface Reserved {
  readonly atMs: number
  readonly tokens: number
  /** The budget that holds money for it. */
  readonly budget: Budget | undefined
}

export class Key implements Behaviour<KeyCommand> {
  readonly #clock: Clock
  readonly #reserved = new Map<string, Reserved>()
  /** Reservations whose tokens are being asked for. */
  readonly #asking = new Set<string>()
  #record: KeyRecord | undefined
  readonly #windows: KeyWindows
  readonly #calendar: KeyCalendar
  readonly #reads: Reads
  readonly #budgets: KeyBudgets

  /** `isRestarted`: after a crash. */
  constructor(ports: KeyPorts, loaded: LoadedKey | undefined, share: Share, isRestarted = false) {
    const { counts } = ports
    this.#windows = new KeyWindows(
      share,
      counts && {
        counts,
        self: (window, news) => ports.self({ type: "window", windows: this.#windows, window, news }),
      },
    )
    this.#clock = ports.clock
    this.#calendar = new KeyCalendar(ports.clock)
    this.#budgets = new KeyBudgets(
      { ...ports, self: (budget, news) => ports.self({ type: "budget", budget, news }) },
      this.#calendar,
      isRestarted,
    )
    this.#reads = new Reads({
      clock: ports.clock,
      read: ports.load,
      again: () => ports.self({ type: "changed" }),
    })
    if (loaded !== undefined) this.#load(loaded)
  }

  idle(): boolean {
    const isUsed = this.#reserved.size > 0 || this.#asking.size > 0
    return !isUsed && this.#reads.isIdle && this.#budgets.isIdle && this.#windows.isEmpty(this.#clock.monotonic())
  }

  receive(command: KeyCommand): void {
    switch (command.type) {
      case "count":
        return this.#onCount(command.call, command.reply)
      case "uncount":
        return this.#windows.requests?.correct(-1, command.countedAtMs, this.#clock.monotonic())
      case "reserve":
        return this.#onReserve(command.reservation, command.reply)
      case "trim":
        return this.#reserved.get(command.requestId)?.budget?.purse.trim(command.requestId, command.hold)
      case "settle":
        return this.#onSettle(command.usage, command.reply)
      case "release":
        this.#asking.delete(command.requestId)
        return this.#end(command.requestId, 0)?.budget?.purse.release(command.requestId)
      case "unsettle":
        return this.#budgets.of(command.starts)?.unsettle(command.charge)
      case "view":
        return this.#windows.whenFresh(this.#clock.monotonic(), () => command.reply(this.#view()))
      case "forecast":
        return this.#onForecast(command.tokens, command.reply)
      case "budget":
        return command.budget.receive(command.news)
      case "lease":
        return this.#onLease(command.news)
      case "share":
        return this.#windows.share(command.share)
      case "window":
        // Of the actor before this one, which crashed, nobody waits for it any more.
        return command.windows === this.#windows
          ? command.window.receive(command.news, this.#clock.monotonic())
          : undefined
      case "tell":
        return this.#windows.tell(this.#clock.monotonic())
      case "changed":
        return this.#reads.changed(command.reply)
      case "loaded":
        return this.#onLoaded(command.loaded)
      case "not-loaded":
        return this.#reads.failed()
      default:
        return unreachable(command)
    }
  }

  /** A call refused here is not counted; every other is, a revoked key's too (decisions §12.1). */
  #onCount({ counted, secret, origin }: Counting, reply: Reply<CountReply>): void {
    const record = this.#record
    if (record === undefined) return reply({ kind: "unknown" })
    if (record.movedTo !== undefined) return reply({ kind: "moved", to: record.movedTo })
    // Whoever still has a secret that leaked must not use up the window of the one that took its place.
    const endsAt = secret === undefined ? undefined : record.secretEnds?.[secret]
    if (endsAt !== undefined && this.#clock.now() >= endsAt) return reply({ kind: "ended", record })
    // Nor may whoever has the key elsewhere than it is meant for.
    const networks = record.binding?.networks
    if (networks !== undefined && origin !== undefined && !isWithin(networks, origin.address))
      return reply({ kind: "elsewhere", record })
    const { requests } = this.#windows
    if (!counted || requests === undefined) return reply(this.#counted(undefined))
    requests.take(1, this.#clock.monotonic(), (taken) => reply(this.#counted(taken)))
  }

  /** By the key as it is now: it may have been another one when the window was asked. */
  #counted(taken: Taken | undefined): CountReply {
    const record = this.#record
    if (record === undefined) return { kind: "unknown" }
    if (taken?.fits === false) {
      return { kind: "requests-exceeded", retryAfterS: taken.retryAfterS ?? 1, view: this.#view(), record }
    }
    const now = this.#clock.now()
    const refusal = refusalOf(record, now)
    if (refusal !== undefined)
      return { kind: refusal, pauseEndsInS: pauseEndsInS(record, now), view: this.#view(), record }
    return { kind: "active", record, countedAtMs: taken?.atMs }
  }

  #onReserve(reservation: Reservation, reply: Reply<ReserveReply>): void {
    const { requestId, tokens } = reservation
    if (this.#reserved.has(requestId) || this.#asking.has(requestId)) throw new Error(`${requestId} reserved twice`)
    // A body may come long after its head was let in, and who ended the key was told meanwhile that it has ended (decisions §13.8).
    const refusal = this.#record === undefined ? undefined : refusalOf(this.#record, this.#clock.now())
    if (refusal !== undefined && refusal !== "paused") return reply({ kind: "refused", refusal })
    const now = this.#clock.monotonic()
    const { tokens: window } = this.#windows
    if (window === undefined) return this.#reserve(reservation, { fits: true, atMs: now }, reply)
    this.#asking.add(requestId)
    window.take(tokens, now, (taken) => {
      if (this.#asking.delete(requestId)) return this.#reserve(reservation, taken, reply)
      // It was released meanwhile.
      if (taken.fits) window.correct(-tokens, taken.atMs, this.#clock.monotonic())
      reply({ kind: "unavailable" })
    })
  }

  /** What comes after the tokens: the budget. */
  #reserve({ requestId, tokens, least, worst }: Reservation, taken: Taken, reply: Reply<ReserveReply>): void {
    if (!taken.fits) return reply({ kind: "tokens-exceeded", retryAfterS: taken.retryAfterS })
    const starts = this.#calendar.starts()
    const budget = this.#budgets.current()
    this.#reserved.set(requestId, { atMs: taken.atMs, tokens, budget })
    if (budget === undefined) return reply({ kind: "reserved", hold: undefined, starts })
    budget.purse.hold({ requestId, least, target: worst }, (outcome) => {
      if (typeof outcome === "bigint") return reply({ kind: "reserved", hold: outcome, starts })
      this.#end(requestId, 0)
      if (outcome === "unavailable") reply({ kind: "unavailable" })
      else reply({ kind: "budget-exceeded", retryAfterS: this.#calendar.endsInS(budget.period) })
    })
  }

  /**
   * Corrects the window to the tokens of all four buckets, and turns the hold into spending (decisions §5): no more than
   * the hold and what is left of the budget (decisions §12.3).
   */
  #onSettle({ requestId, tokens, actual, starts }: CallUsage, reply: Reply<Micro>): void {
    const reserved = this.#end(requestId, tokens)
    const budget = this.#budgets.of(starts)
    if (reserved?.budget !== undefined) {
      const { charge } = reserved.budget.purse.settle(requestId, actual)
      // The owner has made it one of another period since, of which the call holds nothing.
      if (budget !== reserved.budget) budget?.count(charge)
      return reply(this.#record?.budget === undefined ? actual : charge)
    }
    if (reserved !== undefined || budget === undefined || actual === zero) {
      budget?.count(actual)
      return reply(actual)
    }
    budget.settleUnheld(requestId, actual, reply)
  }

  /** Ends a reservation for which `tokens` were used after all. */
  #end(requestId: string, tokens: number): Reserved | undefined {
    const reserved = this.#reserved.get(requestId)
    if (reserved === undefined) return undefined
    this.#reserved.delete(requestId)
    this.#windows.tokens?.correct(tokens - reserved.tokens, reserved.atMs, this.#clock.monotonic())
    return reserved
  }

  #onLease(news: LeaseNews): void {
    if (news.type === "drain") this.#budgets.drain()
    this.#budgets.current()?.purse.receive(news)
  }

  /** New limits act at once; what was counted and spent under the old ones stays. */
  #onLoaded(loaded: LoadedKey | undefined): void {
    if (loaded === undefined) {
      this.#record = undefined
      this.#budgets.load(undefined)
    } else this.#load(loaded)
    this.#reads.ended()
  }

  #load(loaded: LoadedKey): void {
    const before = this.#record
    this.#record = loaded.record
    this.#budgets.load(loaded)
    this.#windows.limit(loaded.record)
    this.#calendar.follow(loaded.record)
    const budget = this.#budgets.current()
    if (before?.budget?.limit !== loaded.record.budget?.limit) budget?.purse.reconsider()
  }

  #onForecast(tokens: number, reply: Reply<KeyForecast>): void {
    this.#windows.waits(tokens, this.#clock.monotonic(), (waits) => {
      const budget = this.#record?.budget
      reply({ view: this.#view(), budgetEndsInS: budget && this.#calendar.endsInS(budget.period), ...waits })
    })
  }

  #view(): KeyView {
    const budget = this.#record?.budget
    const usage = this.#budgets.current()?.usage ?? zero
    return {
      ...this.#windows.view(this.#clock.monotonic()),
      budget: budget && { ...budget, usage, remaining: notNegative(minus(budget.limit, usage)) },
    }
  }
}
