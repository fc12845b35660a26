/**
 * A run: calls of one key that together spend at most a budget, until the run ends. Its budget is leased like a key's
 * (key-limits.ts), so that it is exact across processes. Money in micro-rupiah, times in milliseconds since the epoch.
 *
 * The actor exists for an unknown run too, for as long as somebody asks for it. Whatever was found of a run stays true: its
 * budget does not change, and its end only comes sooner.
 */
import { Budget, type BudgetPorts } from "./key-limits.ts"
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { HoldOutcome, HoldRequest, LeaseNews } from "./lease.ts"
import { type Micro, minus, notNegative, zero } from "./money/micro.ts"
import { unreachable } from "./unreachable.ts"

/** A run as it is in durable state. */
export interface RunRecord {
  readonly runId: string
  readonly accountId: string
  readonly keyId: string
  /** As its key's calls name it. */
  readonly name: string
  readonly budget: Micro
  readonly endsAt: number
  /** What had been spent of it when this was read. */
  readonly spent: Micro
}

/** The run that a call names. Without a budget the run must exist already. */
export interface RunRequest extends Omit<RunRecord, "budget" | "endsAt" | "spent"> {
  readonly budget: Micro | undefined
}

export type EnterReply =
  | { readonly kind: "entered" }
  /** No such run, and no budget to make it with. */
  | { readonly kind: "unknown" }
  /** It was made with this budget, and another one was sent. */
  | { readonly kind: "other-budget"; readonly budget: Micro }
  | { readonly kind: "ended" }
  /** The account has as many runs as it may. */
  | { readonly kind: "too-many" }
  /** Whether there is such a run could not be found out. */
  | { readonly kind: "unavailable" }

export interface RunView {
  readonly budget: Micro
  /** Settled and held: here, and elsewhere as far as is known. */
  readonly usage: Micro
  readonly remaining: Micro
  readonly held: Micro
  readonly endsAt: number
}

export type RunLookup = RunRecord | "unknown" | "too-many"

export type RunCommand =
  /** A call wants to be one of the run's. */
  | { readonly type: "enter"; readonly request: RunRequest; readonly reply: Reply<EnterReply> }
  | { readonly type: "found"; readonly lookup: RunLookup }
  | { readonly type: "not-found-out" }
  /** It was ended, at this time: of this process's clock or of another's. */
  | { readonly type: "ended"; readonly endsAt: number }
  /** It may have been ended: it is read again. */
  | { readonly type: "changed" }
  | { readonly type: "hold"; readonly terms: HoldRequest; readonly reply: Reply<HoldOutcome> }
  /** The account held less than the run did. */
  | { readonly type: "trim"; readonly requestId: string; readonly hold: Micro }
  /** Answers with what the run pays of what the call costs. */
  | { readonly type: "settle"; readonly requestId: string; readonly actual: Micro; readonly reply: Reply<Micro> }
  | { readonly type: "release"; readonly requestId: string }
  /** Some of a charge, or all of it, that was not booked after all. */
  | { readonly type: "unsettle"; readonly charge: Micro }
  | { readonly type: "lease"; readonly news: LeaseNews }
  /** Undefined of a run that is not known. */
  | { readonly type: "view"; readonly reply: Reply<RunView | undefined> }

export interface RunPorts extends Omit<BudgetPorts, "self"> {
  readonly self: (command: RunCommand) => void
  /** Begins to find the run, or to make it where there is none and a budget is given: comes back as `found` or `not-found-out`. */
  readonly find: (request: RunRequest) => void
}

interface PendingEnter {
  readonly request: RunRequest
  readonly reply: Reply<EnterReply>
}

/** How many calls may wait to hear whether there is such a run. */
const MOST_WAITING = 1_000
/** A run that could not be read again is tried after so long. */
const AGAIN_MS = 1_000

export class Run implements Behaviour<RunCommand> {
  readonly #ports: RunPorts
  readonly #held = new Set<string>()
  readonly #isRestarted: boolean
  #run: { readonly record: RunRecord; readonly budget: Budget } | undefined
  /** In the order in which they came. The run of the first one is being looked up. */
  #pendingEnters: PendingEnter[] = []
  /** How many of them had come when that began. */
  #pendingAtFind = 0
  #draining = false
  /** It was ended before its time. */
  #endedAt = Infinity
  /** What is known of its end may be old. */
  #isStale = false

  /** `isRestarted`: after a crash. */
  constructor(ports: RunPorts, record: RunRecord | undefined, isRestarted = false) {
    this.#ports = ports
    this.#isRestarted = isRestarted
    if (record !== undefined) this.#load(record)
  }

  idle(): boolean {
    return this.#pendingEnters.length === 0 && this.#run?.budget.purse.isIdle !== false
  }

  receive(command: RunCommand): void {
    switch (command.type) {
      case "enter":
        return this.#onEnter(command)
      case "found":
        return this.#onFound(command.lookup)
      case "not-found-out":
        for (const { reply } of this.#pendingEnters.splice(0)) reply({ kind: "unavailable" })
        if (this.#isStale) this.#ports.clock.after(AGAIN_MS, () => this.#ports.self({ type: "changed" }))
        return
      case "ended":
        this.#endedAt = Math.min(this.#endedAt, command.endsAt)
        return
      case "changed":
        this.#isStale = true
        return this.#readAgain()
      case "hold":
        return this.#onHold(command.terms, command.reply)
      case "trim":
        return this.#run?.budget.purse.trim(command.requestId, command.hold)
      case "settle":
        return this.#onSettle(command.requestId, command.actual, command.reply)
      case "release":
        this.#held.delete(command.requestId)
        return this.#run?.budget.purse.release(command.requestId)
      case "unsettle":
        return this.#run?.budget.unsettle(command.charge)
      case "lease":
        if (command.news.type === "drain") this.#draining = true
        return this.#run?.budget.receive(command.news)
      case "view":
        return command.reply(this.#view())
      default:
        return unreachable(command)
    }
  }

  #load(record: RunRecord): void {
    const { driverOf, clock } = this.#ports
    const budget = new Budget(
      { clock, driverOf, self: (_, news) => this.#ports.self({ type: "lease", news }) },
      { keyId: record.runId, period: "total", start: 0, spent: record.spent, mayBeLeased: this.#isRestarted },
    )
    budget.purse.drain(this.#draining)
    this.#run = { record, budget }
  }

  /** Where it is being looked for, once it was found. */
  #readAgain(): void {
    if (this.#run !== undefined && this.#isStale) this.#ports.find({ ...this.#run.record, budget: undefined })
  }

  #onEnter(pending: PendingEnter): void {
    const { request, reply } = pending
    if (this.#run !== undefined) return reply(this.#check(this.#run.record, request))
    if (this.#pendingEnters.length >= MOST_WAITING) return reply({ kind: "unavailable" })
    this.#pendingEnters.push(pending)
    if (this.#pendingEnters.length === 1) this.#find()
  }

  #find(): void {
    const [first] = this.#pendingEnters
    this.#pendingAtFind = this.#pendingEnters.length
    if (first !== undefined) this.#ports.find(first.request)
  }

  /**
   * A run that does not exist for one call may be made for the next one, which names a budget. Who had asked when it was looked for is
   * answered together, or many that come at once would wait for a look each.
   */
  #onFound(lookup: RunLookup): void {
    if (typeof lookup === "object") {
      if (this.#run === undefined) this.#load(lookup)
      else this.#isStale = false
      this.#endedAt = Math.min(this.#endedAt, lookup.endsAt)
      this.#readAgain()
      for (const { request, reply } of this.#pendingEnters.splice(0)) reply(this.#check(lookup, request))
      return
    }
    const pending = lookup === "unknown" ? this.#pendingAtFind : 0
    let answered = 1
    while (answered < pending && this.#pendingEnters[answered]?.request.budget === undefined) answered++
    for (const { reply } of this.#pendingEnters.splice(0, answered)) reply({ kind: lookup })
    this.#find()
  }

  #check(record: RunRecord, request: RunRequest): EnterReply {
    if (request.budget !== undefined && request.budget !== record.budget) {
      return { kind: "other-budget", budget: record.budget }
    }
    return { kind: this.#ports.clock.now() >= this.#endOf(record) ? "ended" : "entered" }
  }

  #endOf({ endsAt }: RunRecord): number {
    return Math.min(endsAt, this.#endedAt)
  }

  /** A call that has entered may be held for when the run has ended meanwhile: it began in time. */
  #onHold(terms: HoldRequest, reply: Reply<HoldOutcome>): void {
    const { requestId } = terms
    if (this.#run === undefined) return reply("unavailable")
    this.#held.add(requestId)
    this.#run.budget.purse.hold(terms, (outcome) => {
      if (typeof outcome === "string") this.#held.delete(requestId)
      reply(outcome)
    })
  }

  /** No more than the hold and what is left of the budget. */
  #onSettle(requestId: string, actual: Micro, reply: Reply<Micro>): void {
    const budget = this.#run?.budget
    // It was there when the call was admitted, and is not removed for weeks after its end.
    if (budget === undefined) return reply(zero)
    if (this.#held.delete(requestId) || actual === zero) return reply(budget.purse.settle(requestId, actual).charge)
    budget.settleUnheld(requestId, actual, reply)
  }

  #view(): RunView | undefined {
    if (this.#run === undefined) return undefined
    const { record, budget } = this.#run
    const { usage } = budget
    const { budget: limit } = record
    const remaining = notNegative(minus(limit, usage))
    return { budget: limit, usage, remaining, held: budget.purse.held, endsAt: this.#endOf(record) }
  }
}
