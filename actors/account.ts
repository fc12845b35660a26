/**
 * An account's purse: holds, settlements and releases under this process's lease, one at a time (decisions §3). Money in
 * micro-rupiah. When the purse is short, the lease is asked to grow before anyone is told 402: money may have come in
 * elsewhere.
 */
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import type { Micro } from "./money/micro.ts"
import { Purse, type Settled } from "./money/purse.ts"
import { holdFrom } from "./money/quote.ts"
import { unreachable } from "./unreachable.ts"

/** A lease as the database has it; sums are cumulative over its life. */
export interface Lease {
  readonly id: bigint
  readonly granted: Micro
  readonly settled: Micro
}

export interface HoldTerms {
  readonly requestId: string
  readonly least: Micro
  /** What to hold if it is at most half of what is available: the worst case, or what the key's budget allowed of it. */
  readonly target: Micro
}

export type HoldReply =
  | { readonly kind: "held"; readonly hold: Micro; readonly leaseId: bigint }
  | { readonly kind: "insufficient" }
  /** The purse is short, and whether there is more could not be found out. */
  | { readonly kind: "unavailable" }

export interface Charged extends Settled {
  /** The purse that was charged: an actor that was started again has another one, which never saw this charge. */
  readonly purse: symbol
}

export interface AccountView {
  readonly held: Micro
  readonly available: Micro
}

export type AccountCommand =
  | { readonly type: "hold"; readonly terms: HoldTerms; readonly reply: Reply<HoldReply> }
  | { readonly type: "settle"; readonly requestId: string; readonly actual: Micro; readonly reply: Reply<Charged> }
  | { readonly type: "release"; readonly requestId: string }
  /** Takes a charge back that could not be booked. */
  | { readonly type: "unsettle"; readonly charged: Charged }
  /** Money was credited: the lease may grow. */
  | { readonly type: "credited" }
  | { readonly type: "lease-grown"; readonly lease: Lease }
  /** The growth failed: nothing is known of the lease. */
  | { readonly type: "lease-not-grown" }
  | { readonly type: "view"; readonly reply: Reply<AccountView> }

export interface AccountPorts {
  readonly clock: Clock
  /** Begins to grow the lease by all that is free; the outcome comes back as `lease-grown` or `lease-not-grown`. */
  readonly growLease: () => void
}

/** How long the answer "there is no more" is believed before the database is asked again. */
const ASK_AGAIN_MS = 250
/** How many calls may wait for one growth of the lease. */
const WAITING_LIMIT = 10_000

export class Account implements Behaviour<AccountCommand> {
  readonly #ports: AccountPorts
  readonly #lease: Lease
  readonly #purse: Purse
  readonly #purseId = Symbol("purse")
  #growing = false
  #growAgain = false
  #askedAt = -Infinity
  #waiting: { readonly terms: HoldTerms; readonly reply: Reply<HoldReply> }[] = []

  constructor(ports: AccountPorts, lease: Lease) {
    this.#ports = ports
    this.#lease = lease
    this.#purse = new Purse(lease.granted, lease.settled)
    // What was just read is fresh.
    this.#askedAt = ports.clock.monotonic()
  }

  idle(): boolean {
    return this.#purse.isEmpty && !this.#growing && this.#waiting.length === 0
  }

  receive(command: AccountCommand): void {
    switch (command.type) {
      case "hold":
        return this.#onHold(command.terms, command.reply)
      case "settle":
        return command.reply({ ...this.#purse.settle(command.requestId, command.actual), purse: this.#purseId })
      case "release":
        return this.#onRelease(command.requestId)
      case "unsettle":
        return this.#onUnsettle(command.charged)
      case "credited":
        return this.#grow()
      case "lease-grown":
        return this.#onLeaseGrown(command.lease)
      case "lease-not-grown":
        return this.#onGrowthEnded("unavailable")
      case "view":
        return command.reply({ held: this.#purse.held, available: this.#purse.available })
      default:
        return unreachable(command)
    }
  }

  #onHold(terms: HoldTerms, reply: Reply<HoldReply>): void {
    if (this.#tryHold(terms, reply)) return
    const asked = this.#ports.clock.monotonic() - this.#askedAt
    if (!this.#growing && asked < ASK_AGAIN_MS) return reply({ kind: "insufficient" })
    if (this.#waiting.length >= WAITING_LIMIT) return reply({ kind: "unavailable" })
    this.#waiting.push({ terms, reply })
    if (!this.#growing) this.#grow()
  }

  #tryHold(terms: HoldTerms, reply: Reply<HoldReply>): boolean {
    const hold = holdFrom(this.#purse.available, terms.target, terms.least)
    if (hold === undefined) return false
    this.#purse.hold(terms.requestId, hold)
    reply({ kind: "held", hold, leaseId: this.#lease.id })
    return true
  }

  #onRelease(requestId: string): void {
    this.#purse.release(requestId)
    const index = this.#waiting.findIndex((waiting) => waiting.terms.requestId === requestId)
    if (index >= 0) this.#waiting.splice(index, 1)[0]?.reply({ kind: "insufficient" })
  }

  /** A purse made after the charge was read from the database; the ledger takes the charge back there. */
  #onUnsettle({ purse, charge }: Charged): void {
    if (purse === this.#purseId) this.#purse.unsettle(charge)
  }

  #grow(): void {
    if (this.#growing) {
      // The growth under way may have been computed before the credit.
      this.#growAgain = true
      return
    }
    this.#growing = true
    this.#ports.growLease()
  }

  #onLeaseGrown(lease: Lease): void {
    if (lease.id !== this.#lease.id) throw new Error(`lease ${this.#lease.id} was replaced by ${lease.id} while in use`)
    this.#purse.grantedIs(lease.granted)
    this.#askedAt = this.#ports.clock.monotonic()
    this.#onGrowthEnded("insufficient")
  }

  /** Serves who waited for the growth; those who are still short are told why. */
  #onGrowthEnded(short: "insufficient" | "unavailable"): void {
    this.#growing = false
    const waiting = this.#waiting
    this.#waiting = []
    if (this.#growAgain) {
      this.#growAgain = false
      this.#grow()
    }
    for (const { terms, reply } of waiting) {
      if (this.#tryHold(terms, reply)) continue
      if (this.#growing) this.#waiting.push({ terms, reply })
      else reply({ kind: short })
    }
  }
}
