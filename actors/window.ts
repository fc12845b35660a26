/**
 * A sliding window over the last 60 seconds in one-second buckets (decisions §5): no double burst at a minute's edge.
 * Times are monotonic milliseconds, so that a wall clock set back cannot open a window.
 *
 * The limit is the customer's; `share` is what this process may admit of it. An amount that is over the share and within
 * the limit is admitted when the window is empty: else no process would ever admit it.
 */
import { type Share, shareOf, whole } from "./share.ts"

const SECONDS = 60

export interface WindowView {
  readonly limit: number
  /** Of this process's share. */
  readonly remaining: number
  readonly resetS: number
}

export class SlidingWindow {
  readonly limit: number
  readonly #share: number
  readonly #counts = new Float64Array(SECONDS)
  /** The second that each bucket counts; a bucket of an older second is empty. */
  readonly #seconds = new Float64Array(SECONDS).fill(-Infinity)

  constructor(limit: number, share: Share = whole) {
    this.limit = limit
    this.#share = shareOf(limit, share)
  }

  /** The same counts under another limit or another share of it. */
  under(limit: number, share: Share = whole): SlidingWindow {
    const window = new SlidingWindow(limit, share)
    window.#counts.set(this.#counts)
    window.#seconds.set(this.#seconds)
    return window
  }

  /** Whether `amount` more would fit now. */
  fits(amount: number, nowMs: number): boolean {
    const used = this.used(nowMs)
    return used + amount <= this.#share || (used === 0 && amount <= this.limit)
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
    return Math.max(0, this.#share - this.used(nowMs))
  }

  view(nowMs: number): WindowView {
    return { limit: this.limit, remaining: this.remaining(nowMs), resetS: this.resetS(nowMs) }
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
    if (amount > this.#share) return Math.max(1, this.resetS(nowMs))
    let used = this.used(nowMs)
    const second = Math.floor(nowMs / 1_000)
    for (let oldest = second - SECONDS + 1; oldest <= second; oldest++) {
      if (used + amount <= this.#share) return Math.max(1, Math.ceil(((oldest - 1 + SECONDS) * 1_000 - nowMs) / 1_000))
      const index = ((oldest % SECONDS) + SECONDS) % SECONDS
      if (this.#seconds[index] === oldest) used -= this.#counts[index] ?? 0
    }
    return SECONDS
  }

  #live(index: number, nowMs: number): boolean {
    return (this.#seconds[index] ?? -Infinity) > Math.floor(nowMs / 1_000) - SECONDS
  }
}

/** A window under a limit that may be new, or gone; what it has counted stays. */
export const limited = (
  old: SlidingWindow | undefined,
  limit: number | undefined,
  share: Share,
): SlidingWindow | undefined =>
  limit === undefined ? undefined : (old?.under(limit, share) ?? new SlidingWindow(limit, share))
