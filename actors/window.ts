/**
 * A sliding window over the last 60 seconds in one-second buckets (decisions §5): no double burst at a minute's edge. A bucket
 * counts until the last of its calls is 60 seconds past, so of the oldest second some is still in the window while the newest
 * begins: that takes 61 buckets, and makes the minute strict (decisions §13.13).
 * Times are monotonic milliseconds, so that a wall clock set back cannot open a window.
 *
 * The limit is the customer's; `share` is what this process may admit of it. An amount that is over the share and within
 * the limit is admitted when the window is empty: else no process would ever admit it.
 */
import { type Share, shareOf, whole } from "./lease.ts"

const WINDOW_MS = 60_000
const BUCKETS = 61

export interface WindowView {
  readonly limit: number
  /** Of this process's share. */
  readonly remaining: number
  readonly resetS: number
}

export class SlidingWindow {
  readonly limit: number
  readonly #share: number
  readonly #counts = new Float64Array(BUCKETS)
  /** The second that each bucket counts. */
  readonly #seconds = new Float64Array(BUCKETS).fill(-Infinity)
  /** When the last call came that each bucket counts; one whose last is too long ago is empty. */
  readonly #lasts = new Float64Array(BUCKETS).fill(-Infinity)
  /** What was last summed, and from when and until when it is right: a window is asked far more often than a bucket leaves it. */
  #sum = 0
  #summedAt = Infinity
  #leavesAt = -Infinity

  constructor(limit: number, share: Share = whole) {
    this.limit = limit
    this.#share = shareOf(limit, share)
  }

  /** The same counts under another limit or another share of it. */
  under(limit: number, share: Share = whole): SlidingWindow {
    const window = new SlidingWindow(limit, share)
    window.#counts.set(this.#counts)
    window.#seconds.set(this.#seconds)
    window.#lasts.set(this.#lasts)
    return window
  }

  /** Whether `amount` more would fit now. */
  fits(amount: number, nowMs: number): boolean {
    const used = this.used(nowMs)
    return used + amount <= this.#share || (used === 0 && amount <= this.limit)
  }

  add(amount: number, atMs: number): void {
    const second = Math.floor(atMs / 1_000)
    const index = second % BUCKETS
    if (atMs < this.#summedAt) this.#leavesAt = -Infinity
    if (this.#seconds[index] !== second) {
      this.#seconds[index] = second
      this.#counts[index] = 0
      this.#leavesAt = -Infinity
    }
    this.#lasts[index] = Math.max(atMs, this.#lasts[index] ?? -Infinity)
    this.#counts[index] = (this.#counts[index] ?? 0) + amount
    this.#sum += amount
  }

  /** Corrects what was added at `atMs`, if that second is still in the window. */
  correct(by: number, atMs: number): void {
    const second = Math.floor(atMs / 1_000)
    const index = second % BUCKETS
    if (this.#seconds[index] !== second) return
    const before = this.#counts[index] ?? 0
    const after = Math.max(0, before + by)
    this.#counts[index] = after
    if ((this.#lasts[index] ?? -Infinity) > this.#summedAt - WINDOW_MS) this.#sum += after - before
  }

  /**
   * Corrects what was added at `atMs`, and answers when it counts. What comes to more after its minute counts now, or long answers would
   * not count at all.
   */
  settle(by: number, atMs: number, nowMs: number): number {
    if (by > 0 && nowMs - atMs >= WINDOW_MS) {
      this.add(by, nowMs)
      return nowMs
    }
    this.correct(by, atMs)
    return atMs
  }

  used(nowMs: number): number {
    if (nowMs < this.#summedAt || nowMs >= this.#leavesAt) this.#sumUp(nowMs)
    return this.#sum
  }

  #sumUp(nowMs: number): void {
    this.#sum = 0
    this.#summedAt = nowMs
    this.#leavesAt = Infinity
    for (let index = 0; index < BUCKETS; index++) {
      const last = this.#lasts[index] ?? -Infinity
      if (last <= nowMs - WINDOW_MS) continue
      this.#sum += this.#counts[index] ?? 0
      this.#leavesAt = Math.min(this.#leavesAt, last + WINDOW_MS)
    }
  }

  remaining(nowMs: number): number {
    return Math.max(0, this.#share - this.used(nowMs))
  }

  view(nowMs: number): WindowView {
    return { limit: this.limit, remaining: this.remaining(nowMs), resetS: this.resetS(nowMs) }
  }

  /** Whole seconds until the window is empty again, rounded up; 0 when it is. */
  resetS(nowMs: number): number {
    const ends = this.#live(nowMs).map(({ endsMs }) => endsMs)
    return ends.length === 0 ? 0 : Math.ceil((Math.max(...ends) - nowMs) / 1_000)
  }

  /** Whole seconds until `amount` more would fit, at least 1; undefined when it never will. */
  waitS(amount: number, nowMs: number): number | undefined {
    if (amount > this.limit) return undefined
    let used = this.used(nowMs)
    let endsMs = nowMs
    for (const bucket of this.#live(nowMs).sort((a, b) => a.endsMs - b.endsMs)) {
      if (used + amount <= this.#share) break
      used -= bucket.count
      endsMs = bucket.endsMs
    }
    return Math.max(1, Math.ceil((endsMs - nowMs) / 1_000))
  }

  /** The buckets that count something now, and when the last came of what each counts. */
  buckets(nowMs: number): { readonly count: number; readonly lastMs: number }[] {
    return this.#live(nowMs).map(({ count, endsMs }) => ({ count, lastMs: endsMs - WINDOW_MS }))
  }

  /** The buckets that count something now, and when each stops to. */
  #live(nowMs: number): { readonly count: number; readonly endsMs: number }[] {
    const live: { count: number; endsMs: number }[] = []
    for (let index = 0; index < BUCKETS; index++) {
      const count = this.#counts[index] ?? 0
      const endsMs = (this.#lasts[index] ?? -Infinity) + WINDOW_MS
      if (count > 0 && endsMs > nowMs) live.push({ count, endsMs })
    }
    return live
  }
}

/** A window under a limit that may be new, or gone; what it has counted stays. */
export const limited = (
  old: SlidingWindow | undefined,
  limit: number | undefined,
  share: Share,
): SlidingWindow | undefined =>
  limit === undefined ? undefined : (old?.under(limit, share) ?? new SlidingWindow(limit, share))

// One count of a minute window for all processes, kept elsewhere; what an actor needs of it. Nothing is promised to be answered by
// it: who asks has a share to go by instead. Times are this process's monotonic milliseconds, but for `second`, which is the counter's.

/** What a window says to so much more. */
export interface Counted {
  /** The set of data that it is of. */
  readonly epoch: string
  /** When it was asked, and counted where it fits. */
  readonly atMs: number
  readonly fits: boolean
  /** Of all processes, with what was just counted. */
  readonly used: number
  /** When nothing of it will be left. */
  readonly emptyAtMs: number
  /** When so much would fit; undefined where it never will. */
  readonly fitsAtMs: number | undefined
}

/** What was counted elsewhere in one second of the counter's clock; negative where too much was. */
export interface SharedBucket {
  readonly second: number
  /** Into the second, when the last of it came. */
  readonly ms: number
  readonly by: number
}

export interface Amount {
  readonly amount: number
  readonly limit: number
}

/** Undefined where nobody says in time; then nothing was counted as far as anybody knows. */
export type CountAnswered = (counted: Counted | undefined) => void

/**
 * `away`: nobody counts. `telling`: those who were away say what they have admitted, and shares are what counts. `exact`: what
 * it says is what counts.
 */
export type CountState = "away" | "telling" | "exact"

export interface WindowCounts {
  readonly state: CountState
  /** Names the set of data: under another one nothing is known of what was told. */
  readonly epoch: string
  /** Counts so much where it fits. */
  take(window: string, asked: Amount, answered: CountAnswered): void
  /** The same, and counts nothing. */
  look(window: string, asked: Amount, answered: CountAnswered): void
  /** Corrects the count, whatever the limit is. */
  add(window: string, added: readonly SharedBucket[], answered: CountAnswered): void
  /** In the counter's clock, milliseconds. */
  timeOf(atMs: number): number
}
