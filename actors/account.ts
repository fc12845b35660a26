/**
 * An account's purse: holds, settlements and releases under this process's lease, one at a time (decisions §3). Money in
 * micro-rupiah. When the purse is short, the lease is asked to grow before anyone is refused with 402: money may have come in
 * elsewhere, or a neighbour may have some to spare.
 */
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { HoldRequest, LeaseNews, LeasePorts, Settled, VersionedLease } from "./lease.ts"
import { LeasedPurse } from "./leased-purse.ts"
import type { Micro } from "./money/micro.ts"
import { unreachable } from "./unreachable.ts"

/** The id is the lease's epoch: charges are booked under it, while it is open. */
export interface AccountLease extends VersionedLease {
  readonly id: bigint
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
  | { readonly type: "hold"; readonly terms: HoldRequest; readonly reply: Reply<HoldReply> }
  | { readonly type: "settle"; readonly requestId: string; readonly actual: Micro; readonly reply: Reply<Charged> }
  /** Less is needed than was held. */
  | { readonly type: "trim"; readonly requestId: string; readonly hold: Micro }
  | { readonly type: "release"; readonly requestId: string }
  /** Takes a charge back that could not be booked. */
  | { readonly type: "unsettle"; readonly charged: Charged }
  | { readonly type: "lease"; readonly news: LeaseNews }
  | { readonly type: "view"; readonly reply: Reply<AccountView> }

export class Account implements Behaviour<AccountCommand> {
  readonly #leaseId: bigint
  readonly #purse: LeasedPurse
  readonly #purseId = Symbol("purse")

  /** `more`: there was more to be had than the lease has. */
  constructor(ports: LeasePorts, lease: AccountLease, more: boolean) {
    this.#leaseId = lease.id
    this.#purse = new LeasedPurse(ports, lease, more)
  }

  idle(): boolean {
    return this.#purse.isIdle
  }

  receive(command: AccountCommand): void {
    switch (command.type) {
      case "hold":
        return this.#onHold(command.terms, command.reply)
      case "settle":
        return command.reply({ ...this.#purse.settle(command.requestId, command.actual), purse: this.#purseId })
      case "trim":
        return this.#purse.trim(command.requestId, command.hold)
      case "release":
        return this.#purse.release(command.requestId)
      case "unsettle":
        return this.#onUnsettle(command.charged)
      case "lease":
        return this.#purse.receive(command.news)
      case "view":
        return command.reply({ held: this.#purse.held, available: this.#purse.available })
      default:
        return unreachable(command)
    }
  }

  #onHold(terms: HoldRequest, reply: Reply<HoldReply>): void {
    this.#purse.hold(terms, (outcome) => {
      if (typeof outcome === "string") reply({ kind: outcome })
      else reply({ kind: "held", hold: outcome, leaseId: this.#leaseId })
    })
  }

  /** A purse made after the charge read the lease with it or without it, and with or without its being taken back. */
  #onUnsettle({ purse, charge }: Charged): void {
    if (purse === this.#purseId) this.#purse.unsettle(charge)
    else this.#purse.doubt()
  }
}
