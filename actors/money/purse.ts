/**
 * A purse: what one process may spend of one account, under one lease. Micro-rupiah.
 * `granted`, `returned` and `settled` are cumulative over the lease's life, as in the database, so that learning one twice,
 * or late, is harmless. Holds are by request id, and each ends exactly once: settled or released.
 */
import { type Micro, micro, minus, notNegative, plus, smaller, zero } from "./micro.ts"

/** A lease as the database has it; sums are cumulative over its life. */
export interface Lease {
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
  #granted: Micro
  #returned: Micro
  #settled: Micro
  #held: Micro = zero
  readonly #holds = new Map<string, Micro>()

  constructor({ granted, returned, settled }: Lease) {
    const left = granted - returned - settled
    if (settled < 0n || returned < 0n || left < 0n) {
      throw new RangeError(`a lease cannot have settled ${settled} and returned ${returned} of ${granted}`)
    }
    this.#granted = granted
    this.#returned = returned
    this.#settled = settled
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
  get available(): Micro {
    return micro(this.#granted - this.#returned - this.#settled - this.#held)
  }
  get isEmpty(): boolean {
    return this.#holds.size === 0
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

  /** What is settled under the lease, when it is known; no more than what is not held. */
  settledIs(settled: Micro): void {
    this.#settled = smaller(settled, micro(this.#granted - this.#returned - this.#held))
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
    this.#held = minus(this.#held, minus(held, amount))
  }

  /** Ends a hold without a charge. Without a hold it does nothing, so a release may be sent whenever in doubt. */
  release(requestId: string): void {
    const amount = this.#holds.get(requestId)
    if (amount === undefined) return
    this.#holds.delete(requestId)
    this.#held = minus(this.#held, amount)
  }

  /** Ends a hold with a charge: `min(actual, hold + what is still available)` (decisions §3). */
  settle(requestId: string, actual: Micro): Settled {
    this.release(requestId)
    const charge = smaller(actual, notNegative(this.available))
    this.#settled = plus(this.#settled, charge)
    return { charge, absorbed: minus(actual, charge) }
  }

  /** Takes a charge back that could not be booked. */
  unsettle(charge: Micro): void {
    if (charge > this.#settled) throw new RangeError(`cannot take back ${charge} of ${this.#settled}`)
    this.#settled = minus(this.#settled, charge)
  }
}
