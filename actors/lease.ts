/**
 * A lease: the part of an account's money, or of a key's budget, that one process may spend without asking the database
 * (decisions §3). Here are its terms, and the messages between a purse and those who carry out its statements. Money in
 * micro-rupiah.
 *
 * Under it a purse: what one process may spend of one account. Micro-rupiah.
 * `granted`, `returned` and `settled` are cumulative over the lease's life, as in the database, so that learning one twice,
 * or late, is harmless. Holds are by request id, and each ends exactly once: settled or released.
 */
import type { Clock } from "./kernel/clock.ts"
import { larger, largestMicro, micro, type Micro, minus, notNegative, plus, smaller, zero } from "./money/micro.ts"

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

/** What a call asks a purse to hold. Money in micro-rupiah. */
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

/** The calls that wait for a lease to grow, in the order in which they came. */
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

  /** What is needed beyond `available`, so that all can be held, and one of them in full; of what nobody has, no more than can be said. */
  short(available: Micro): Micro {
    const sum = this.#holds.reduce((total, { terms }) => plus(total, terms.least), zero)
    const full = this.#holds.reduce((most, { terms }) => larger(most, micro(2n * terms.target)), zero)
    return smaller(notNegative(minus(larger(sum, full), available)), largestMicro)
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

/**
 * One process's part of a limit that all processes on a database keep together. What they take adds up to the limit,
 * each a whole number: the rest of the division goes to the first ones. Which of how many: `index` from 0, under `count`.
 */
export interface Share {
  readonly index: number
  readonly count: number
}

/** Of a process that is alone. */
export const whole: Share = { index: 0, count: 1 }

/** Never under 1 of a limit that admits anything: a process that could admit nothing would refuse every call it gets. */
export function shareOf(limit: number, { index, count }: Share): number {
  if (limit < 1) return limit
  return Math.max(1, Math.floor(limit / count) + (index < limit % count ? 1 : 0))
}

/** A lease as the database has it; sums are cumulative over its life. */
interface Lease {
  readonly granted: Micro
  /** Given back unspent. */
  readonly returned: Micro
  readonly settled: Micro
}

export interface Settled {
  readonly charge: Micro
  /** What the tokens cost over the charge; the house bears it. */
  readonly absorbed: Micro
}

export class Purse {
  #isOpen = false
  #granted: Micro = zero
  #returned: Micro = zero
  #settled: Micro = zero
  /** When the growth under way began. */
  #settledBefore: Micro = zero
  #held: Micro = zero
  readonly #holds = new Map<string, Micro>()
  /** Holds from before the terms of the whole changed, and what those of them have left that ended. */
  #outdated: ReadonlySet<string> = new Set()
  #leftover: Micro = zero

  /** Without a lease, the first growth tells what it is. */
  constructor(lease?: Lease) {
    if (lease !== undefined) this.grownTo(lease)
  }

  get isOpen(): boolean {
    return this.#isOpen
  }
  get returned(): Micro {
    return this.#returned
  }
  get settled(): Micro {
    return this.#settled
  }
  get held(): Micro {
    return this.#held
  }
  /** What was counted may be more than what is not held: what holds leave pays for it then. */
  get available(): Micro {
    return notNegative(micro(this.#granted - this.#returned - this.#settled - this.#held))
  }
  /** More is settled than the lease has. The database has what is over as spent, and not under the lease. */
  get isOverdrawn(): boolean {
    return this.#isOpen && this.#settled > this.#granted - this.#returned
  }
  get isEmpty(): boolean {
    return this.#holds.size === 0
  }

  growthBegins(): void {
    this.#settledBefore = this.#settled
  }

  /** The first growth knows of all that was settled when it began; whether of what was since is to be found out where this is true. */
  grownTo({ granted, returned, settled }: Lease): boolean {
    this.grantedIs(granted)
    if (this.#isOpen) return false
    if (settled < 0n || returned < 0n || granted < returned + settled) {
      throw new RangeError(`a lease cannot have settled ${settled} and returned ${returned} of ${granted}`)
    }
    const meanwhile = notNegative(minus(this.#settled, this.#settledBefore))
    this.#isOpen = true
    this.#returned = returned
    this.#settled = plus(settled, meanwhile)
    return meanwhile > 0n
  }

  /** The lease's cumulative grant, as the database has it now; news that comes out of order changes nothing. */
  grantedIs(granted: Micro): void {
    if (granted > this.#granted) this.#granted = granted
  }

  /** Gives up some of what is available. Whether the database knows is not asked: it may be spent by others at once. */
  giveBack(amount: Micro): void {
    if (amount < 0n || amount > this.available) throw new RangeError(`cannot give back ${amount} of ${this.available}`)
    this.#returned = plus(this.#returned, amount)
  }

  /** The terms of the whole are others: what is available, and what the holds of now will leave, is of those before. */
  outdate(): Micro {
    this.#outdated = new Set(this.#holds.keys())
    return this.available
  }

  /** What holds from before the terms changed have left since this was last asked. */
  takeLeftover(): Micro {
    const leftover = this.#leftover
    this.#leftover = zero
    return leftover
  }

  /** What is settled under the lease, when it is known. */
  settledIs(settled: Micro): void {
    this.#settled = settled
  }

  /** What the database took back, when that is less than it was offered. */
  returnedIs(returned: Micro): void {
    if (returned < this.#returned) this.#returned = returned
  }

  hold(requestId: string, amount: Micro): void {
    if (amount < 0n || amount > this.available) throw new RangeError(`cannot hold ${amount} of ${this.available}`)
    if (this.#holds.has(requestId)) throw new Error(`${requestId} holds already`)
    this.#holds.set(requestId, amount)
    this.#held = plus(this.#held, amount)
  }

  /** Lowers a hold; it is never raised. */
  trim(requestId: string, amount: Micro): void {
    const held = this.#holds.get(requestId)
    if (held === undefined || amount >= held) return
    this.#holds.set(requestId, amount)
    this.#lower(requestId, minus(held, amount))
  }

  /** Ends a hold without a charge. Without a hold it does nothing, so a release may be sent whenever in doubt. */
  release(requestId: string): void {
    const amount = this.#holds.get(requestId)
    if (amount === undefined) return
    this.#holds.delete(requestId)
    this.#lower(requestId, amount)
  }

  #lower(requestId: string, by: Micro): void {
    this.#held = minus(this.#held, by)
    if (this.#outdated.has(requestId)) this.#leftover = plus(this.#leftover, by)
  }

  /** Ends a hold with a charge: `min(actual, hold + what is still available)` (decisions §3). */
  settle(requestId: string, actual: Micro): Settled {
    const most = plus(this.#holds.get(requestId) ?? zero, this.available)
    this.release(requestId)
    const charge = smaller(actual, most)
    this.count(charge)
    return { charge, absorbed: minus(actual, charge) }
  }

  /** Charges in full, whatever is available. */
  count(charge: Micro): void {
    this.#settled = plus(this.#settled, charge)
  }

  /** Takes a charge back that could not be booked. */
  unsettle(charge: Micro): void {
    if (charge > this.#settled) throw new RangeError(`cannot take back ${charge} of ${this.#settled}`)
    this.#settled = minus(this.#settled, charge)
  }
}
