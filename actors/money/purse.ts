/**
 * A purse: what one process may spend of one account, under one lease. Micro-rupiah.
 * `granted` and `settled` are cumulative over the lease's life, as in the database, so that learning either twice, or
 * late, is harmless. Holds are by request id, and each ends exactly once: settled or released.
 */
import { type Micro, micro, minus, notNegative, plus, smaller, zero } from "./micro.ts"

export interface Settled {
  readonly charge: Micro
  /** What the tokens cost over the charge; the house bears it. */
  readonly absorbed: Micro
}

export class Purse {
  #granted: Micro
  #settled: Micro
  #held: Micro = zero
  readonly #holds = new Map<string, Micro>()

  constructor(granted: Micro, settled: Micro) {
    if (settled < 0n || settled > granted) throw new RangeError(`a lease cannot have settled ${settled} of ${granted}`)
    this.#granted = granted
    this.#settled = settled
  }

  get held(): Micro {
    return this.#held
  }
  get available(): Micro {
    return micro(this.#granted - this.#settled - this.#held)
  }
  get isEmpty(): boolean {
    return this.#holds.size === 0
  }

  /** The lease's cumulative grant, as the database has it now; news that comes out of order changes nothing. */
  grantedIs(granted: Micro): void {
    if (granted > this.#granted) this.#granted = granted
  }

  hold(requestId: string, amount: Micro): void {
    if (amount < 0n || amount > this.available) throw new RangeError(`cannot hold ${amount} of ${this.available}`)
    if (this.#holds.has(requestId)) throw new Error(`${requestId} holds already`)
    this.#holds.set(requestId, amount)
    this.#held = plus(this.#held, amount)
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
