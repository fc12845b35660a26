/**
 * A sliding window over the last 60 seconds in one-second buckets (decisions §5): no double burst at a minute's edge.
 * Times are monotonic milliseconds, so that a wall clock set back cannot open a window.
 */
const SECONDS = 60

export class SlidingWindow {
  readonly limit: number
  readonly #counts = new Float64Array(SECONDS)
  /** The second that each bucket counts; a bucket of an older second is empty. */
  readonly #seconds = new Float64Array(SECONDS).fill(-Infinity)

  constructor(limit: number) {
    this.limit = limit
  }

  /** The same counts under another limit, for a key whose limit was changed. */
  withLimit(limit: number): SlidingWindow {
    const window = new SlidingWindow(limit)
    window.#counts.set(this.#counts)
    window.#seconds.set(this.#seconds)
    return window
  }

  /** Whether `amount` more would fit now. */
  fits(amount: number, nowMs: number): boolean {
    return this.used(nowMs) + amount <= this.limit
  }

  add(amount: number, atMs: number): void {
    const second = Math.floor(atMs / 1_000)
    const index = second % SECONDS
    if (this.#seconds[index] !== second) {
      this.#seconds[index] = second
      this.#counts[index] = 0
    }
    this.#counts[index] = (this.#counts[index] ?? 0) + amount
  }

  /** Corrects what was added at `atMs`, if that second is still in the window. */
  correct(by: number, atMs: number): void {
    const second = Math.floor(atMs / 1_000)
    const index = second % SECONDS
    if (this.#seconds[index] !== second) return
    this.#counts[index] = Math.max(0, (this.#counts[index] ?? 0) + by)
  }

  used(nowMs: number): number {
    let sum = 0
    for (let index = 0; index < SECONDS; index++) if (this.#live(index, nowMs)) sum += this.#counts[index] ?? 0
    return sum
  }

  remaining(nowMs: number): number {
    return Math.max(0, this.limit - this.used(nowMs))
  }

  /** Whole seconds until the window is empty again, rounded up; 0 when it is. */
  resetS(nowMs: number): number {
    let newest = -Infinity
    for (let index = 0; index < SECONDS; index++) {
      if (this.#live(index, nowMs) && (this.#counts[index] ?? 0) > 0)
        newest = Math.max(newest, this.#seconds[index] ?? 0)
    }
    return newest === -Infinity ? 0 : Math.ceil(((newest + SECONDS) * 1_000 - nowMs) / 1_000)
  }

  /** Whole seconds until `amount` more would fit, at least 1; undefined when it never will. */
  waitS(amount: number, nowMs: number): number | undefined {
    if (amount > this.limit) return undefined
    let used = this.used(nowMs)
    const second = Math.floor(nowMs / 1_000)
    for (let oldest = second - SECONDS + 1; oldest <= second; oldest++) {
      if (used + amount <= this.limit) return Math.max(1, Math.ceil(((oldest - 1 + SECONDS) * 1_000 - nowMs) / 1_000))
      const index = ((oldest % SECONDS) + SECONDS) % SECONDS
      if (this.#seconds[index] === oldest) used -= this.#counts[index] ?? 0
    }
    return SECONDS
  }

  #live(index: number, nowMs: number): boolean {
    return (this.#seconds[index] ?? -Infinity) > Math.floor(nowMs / 1_000) - SECONDS
  }
}
