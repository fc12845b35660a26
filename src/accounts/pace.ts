/**
 * A pace, by name: so many at once, and then one each `everyMs`, in the order in which they come. Milliseconds. What is kept
 * of a name is one time: when all that was taken would be allowed again (the generic cell rate algorithm).
 */

export interface PaceTerms {
  readonly free: number
  readonly everyMs: number
  /** How many names are remembered. */
  readonly remembered: number
}

export class Pace {
  readonly #terms: PaceTerms
  readonly #fullAt: LatestFew<number>

  constructor(terms: PaceTerms) {
    this.#terms = terms
    this.#fullAt = new LatestFew(terms.remembered)
  }

  /** How long the next one would wait. */
  waitMs(name: string, now: number): number {
    const { free, everyMs } = this.#terms
    return Math.max(0, (this.#fullAt.get(name) ?? now) - now - (free - 1) * everyMs)
  }

  take(name: string, now: number): void {
    this.#fullAt.set(name, Math.max(this.#fullAt.get(name) ?? now, now) + this.#terms.everyMs)
  }

  /** One that was taken counts for nothing. */
  giveBack(name: string): void {
    const fullAt = this.#fullAt.get(name)
    if (fullAt !== undefined) this.#fullAt.set(name, fullAt - this.#terms.everyMs)
  }
}

/** Values by name, of which only so many are kept: the one that was set longest ago goes first. */
export class LatestFew<Value> {
  readonly #kept: number
  readonly #values = new Map<string, Value>()

  constructor(kept: number) {
    this.#kept = kept
  }

  get(name: string): Value | undefined {
    return this.#values.get(name)
  }

  set(name: string, value: Value): void {
    // Put in anew, so that the map's order is the order of last use.
    this.#values.delete(name)
    this.#values.set(name, value)
    if (this.#values.size <= this.#kept) return
    for (const oldest of this.#values.keys()) {
      this.#values.delete(oldest)
      return
    }
  }

  delete(name: string): void {
    this.#values.delete(name)
  }
}
