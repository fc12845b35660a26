/**
 * A lease: the part of an account's money, or of a key's budget, that one process may spend without asking the database
 * (decisions §3). Here are its terms, and the messages between a purse and those who carry out its statements. Money in
 * micro-rupiah.
 */
import type { Clock } from "./kernel/clock.ts"
import { larger, micro, type Micro, minus, notNegative, plus, zero } from "./money/micro.ts"
import type { Lease } from "./money/purse.ts"

/** Each growth and each return that is carried out counts the version up by one. */
export interface VersionedLease extends Lease {
  readonly version: number
}

/** A lease that has grown. */
export interface Growth<L extends VersionedLease = VersionedLease> {
  readonly lease: L
  /** There is more, free or with other processes, which were asked for it if this was not enough. */
  readonly more: boolean
  /** Of a budget: what was spent of it, and not under this lease. */
  readonly elsewhere?: Micro
}

/** What has become of the lease, or what others need of it. */
export type LeaseNews =
  | ({ readonly type: "grown" } & Growth)
  | { readonly type: "not-grown" }
  | { readonly type: "returned"; readonly lease: VersionedLease }
  | { readonly type: "not-returned" }
  /** Somebody was credited, or gave back. */
  | { readonly type: "freed" }
  /** A neighbour is short of `amount`. Of two that are short, the one that `yields` lets the other go first. */
  | { readonly type: "recalled"; readonly amount: Micro; readonly yields: boolean }
  /** The terms of the whole are others: what is not held is given back, and asked for anew when it is needed. */
  | { readonly type: "changed" }
  /** From now on only what is held is kept. */
  | { readonly type: "drain" }
  | { readonly type: "look"; readonly at: LookAt }

export type LookAt = "waiting" | "idleness" | "unreturned" | "doubt"

/** Begins a lease's statements, one at a time. Each ends in one piece of news. */
export interface LeaseDriver {
  /**
   * Begins to grow the lease, by `short` if there is as much; ends in `grown` or `not-grown`. Nothing is granted where the
   * version is another one by then: a growth that comes late must not lease what nobody here knows of.
   */
  readonly grow: (short: Micro, version: number) => void
  /**
   * Begins to give back; ends in `returned` or `not-returned`. `returned` is cumulative. `recount`: not before all is
   * durable that was sent to the ledger, so that the lease that comes back has settled what this purse has.
   */
  readonly giveBack: (returned: Micro, recount: boolean) => void
}

export interface LeasePorts extends LeaseDriver {
  readonly clock: Clock
  readonly self: (news: LeaseNews) => void
}

/** The calls that wait for a lease to grow, in the order in which they came. Money in micro-rupiah. */
export interface HoldRequest {
  readonly requestId: string
  readonly least: Micro
  /** What to hold if it is at most half of what is available. */
  readonly target: Micro
}

/** What is held; or why nothing is. `unavailable`: whether there is more could not be found out. */
export type HoldOutcome = Micro | "insufficient" | "unavailable"

export interface WaitingHold {
  readonly terms: HoldRequest
  readonly answer: (outcome: HoldOutcome) => void
  /** On the monotonic clock. */
  readonly since: number
}

/** How many calls may wait for one growth. */
const LIMIT = 10_000

export class WaitingHolds {
  #holds: WaitingHold[] = []

  get isEmpty(): boolean {
    return this.#holds.length === 0
  }
  get isFull(): boolean {
    return this.#holds.length >= LIMIT
  }

  add(hold: WaitingHold): void {
    this.#holds.push(hold)
  }

  /** Ends the wait of a call that was released. */
  release(requestId: string): void {
    const index = this.#holds.findIndex(({ terms }) => terms.requestId === requestId)
    if (index >= 0) this.#holds.splice(index, 1)[0]?.answer("insufficient")
  }

  /** What is needed beyond `available`, so that all can be held, and one of them in full. */
  short(available: Micro): Micro {
    const sum = this.#holds.reduce((total, { terms }) => plus(total, terms.least), zero)
    const full = this.#holds.reduce((most, { terms }) => larger(most, micro(2n * terms.target)), zero)
    return notNegative(minus(larger(sum, full), available))
  }

  /** `decide` tells of each one whether it was held (undefined), goes on waiting, or is answered why it is not held. */
  serve(decide: (waiting: WaitingHold) => "waits" | "insufficient" | "unavailable" | undefined): void {
    const all = this.#holds
    this.#holds = []
    const still: WaitingHold[] = []
    for (const waiting of all) {
      const outcome = decide(waiting)
      if (outcome === "waits") still.push(waiting)
      else if (outcome !== undefined) waiting.answer(outcome)
    }
    this.#holds = [...still, ...this.#holds]
  }
}
