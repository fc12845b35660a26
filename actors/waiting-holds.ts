/** The calls that wait for a lease to grow, in the order in which they came. Money in micro-rupiah. */
import { larger, type Micro, micro, minus, notNegative, plus, zero } from "./money/micro.ts"

export interface HoldTerms {
  readonly requestId: string
  readonly least: Micro
  /** What to hold if it is at most half of what is available. */
  readonly target: Micro
}

/** What is held; or why nothing is. `unavailable`: whether there is more could not be found out. */
export type HoldOutcome = Micro | "insufficient" | "unavailable"

export interface WaitingHold {
  readonly terms: HoldTerms
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
