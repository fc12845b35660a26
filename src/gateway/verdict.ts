/** What stands of a call: what was booked, or that nothing is charged. Whichever is said first, and never both. */
export class Verdict {
  readonly #withdrawal = new AbortController()
  #isBooked = false

  /** Aborts when it is said that nothing is charged. */
  get withdrawn(): AbortSignal {
    return this.#withdrawal.signal
  }

  /** What is durable stands; false when it was said before that nothing is charged. */
  book(): boolean {
    if (this.withdrawn.aborted) return false
    this.#isBooked = true
    return true
  }

  /** Nothing is charged, whatever the backend still answers; false when what was booked stands. */
  withdraw(): boolean {
    if (this.#isBooked) return false
    this.#withdrawal.abort()
    return true
  }
}
