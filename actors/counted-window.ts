/**
 * A key's window of a minute, by whichever count there is. Alone or without a counter it is this process's own count
 * under its share. With one (`WindowCounts`) it is asked, and the own count goes on beside it, for the time in which the counter is away.
 *
 * What the counter does not know is owed to it: what was admitted by the share, and every correction. It is told as soon as the counter
 * is there, and all of the own count where the counter has begun anew. What was told without an answer is told again, but for what was
 * given back: a call that is counted twice for a minute is better than one that is not counted.
 *
 * While the counter is away, what it last said of the others still counts: they have used that much, whatever their shares are.
 */
import type { Share } from "./lease.ts"
import { unreachable } from "./unreachable.ts"
import type { Amount, Counted, SlidingWindow, SharedBucket, WindowCounts, WindowView } from "./window.ts"

export type Taken =
  | { readonly fits: true; readonly atMs: number }
  /** `retryAfterS` is undefined where no wait helps. */
  | { readonly fits: false; readonly retryAfterS: number | undefined }

/** What a call has to wait for that a window has no room for; `retryAfterS` is undefined where no wait helps. */
export interface Wait {
  readonly retryAfterS: number | undefined
}

/** What comes of what was asked of the counter. */
export type CountNews =
  | {
      readonly type: "taken"
      readonly amount: number
      readonly counted: Counted | undefined
      readonly done: (taken: Taken) => void
    }
  | {
      readonly type: "looked"
      readonly amount: number
      readonly counted: Counted | undefined
      readonly done: (wait: Wait | undefined) => void
    }
  | { readonly type: "added"; readonly added: readonly SharedBucket[]; readonly counted: Counted | undefined }

/** A window's name at the counter, and how what it says comes back as a command. */
export interface Counter {
  readonly counts: WindowCounts
  readonly window: string
  readonly self: (news: CountNews) => void
}

/** As the counter last said. */
interface Seen {
  readonly atMs: number
  readonly used: number
  /** Of that, by other processes. */
  readonly others: number
  readonly emptyAtMs: number
}

/** For so long what the counter said of a window is told as it is. */
const FRESH_MS = 1_000
const WINDOW_S = 60

export class CountedWindow {
  #own: SlidingWindow
  readonly #counter: Counter | undefined
  #seen: Seen | undefined
  /** Until then one more does not fit, of a window of which time alone gives back, until it is corrected. */
  #fullUntilMs = -Infinity
  readonly #isOnlyCounted: boolean
  /** What the counter is not known to know, by its seconds. */
  readonly #unreported = new Map<number, SharedBucket>()
  #isTelling = false
  /** Under which all but the owed was told. */
  #epoch: string | undefined

  /** `isOnlyCounted`: by ones, of which few are taken back. */
  constructor(own: SlidingWindow, counter: Counter | undefined, isOnlyCounted: boolean) {
    this.#own = own
    this.#counter = counter
    this.#isOnlyCounted = isOnlyCounted
    this.#epoch = counter?.counts.epoch
  }

  /** The same counts under another limit or another share of it. */
  limit(limit: number, share: Share): void {
    this.#own = this.#own.under(limit, share)
    this.#fullUntilMs = -Infinity
  }

  /** Nothing is counted that a fresh window would not know. */
  isEmpty(nowMs: number): boolean {
    return this.#own.used(nowMs) === 0
  }

  /** Counts so much where it fits; `done` at once where the counter need not be asked. */
  take(amount: number, nowMs: number, done: (taken: Taken) => void): void {
    const counter = this.#exact
    if (counter === undefined) return done(this.#byShare(amount, nowMs))
    if (nowMs < this.#fullUntilMs) return done({ fits: false, retryAfterS: secondsUntil(this.#fullUntilMs, nowMs) })
    counter.counts.take(counter.window, this.#amount(amount), (counted) =>
      counter.self({ type: "taken", amount, counted, done }),
    )
  }

  /** Whether so much would fit; nothing is counted. */
  look(amount: number, nowMs: number, done: (wait: Wait | undefined) => void): void {
    const counter = this.#exact
    if (counter === undefined) return done(this.#waitByShare(amount, nowMs))
    counter.counts.look(counter.window, this.#amount(amount), (counted) =>
      counter.self({ type: "looked", amount, counted, done }),
    )
  }

  /** Corrects what was counted at `atMs`, as `SlidingWindow.settle` does. */
  correct(by: number, atMs: number, nowMs: number): void {
    if (by === 0) return
    this.#fullUntilMs = -Infinity
    this.#owe(by, this.#own.settle(by, atMs, nowMs), nowMs)
  }

  receive(news: CountNews, nowMs: number): void {
    switch (news.type) {
      case "taken":
        return news.done(this.#onTaken(news.amount, news.counted, nowMs))
      case "looked":
        return news.done(this.#onLooked(news.amount, news.counted, nowMs))
      case "added":
        return this.#onSharedCount(news.added, news.counted, nowMs)
      default:
        return unreachable(news)
    }
  }

  /** The counter is there again, or has begun anew: what it does not know is told. */
  tell(nowMs: number): void {
    const counter = this.#counter
    if (counter === undefined || this.#isTelling || counter.counts.state === "away") return
    const { counts } = counter
    if (this.#epoch !== counts.epoch) this.#oweAll(counts, nowMs)
    const oldest = Math.floor(counts.timeOf(nowMs) / 1_000) - WINDOW_S
    const added = [...this.#unreported.values()].filter(({ second, by }) => second >= oldest && by !== 0)
    this.#unreported.clear()
    if (added.length === 0) return
    this.#isTelling = true
    counts.add(counter.window, added, (counted) => counter.self({ type: "added", added, counted }))
  }

  /** Whether what `view` says is as it is now. */
  isFresh(nowMs: number): boolean {
    return this.#exact === undefined || (this.#seen !== undefined && nowMs - this.#seen.atMs <= FRESH_MS)
  }

  view(nowMs: number): WindowView {
    const { limit } = this.#own
    const view = this.#own.view(nowMs)
    const own = view.resetS > WINDOW_S ? { ...view, resetS: WINDOW_S } : view
    const seen = this.#seenAt(nowMs)
    const used = this.#own.used(nowMs)
    if (this.#exact !== undefined) {
      const remaining = Math.max(0, limit - Math.max(seen?.used ?? 0, used))
      return { limit, remaining, resetS: Math.max(own.resetS, seen ? secondsUntil(seen.emptyAtMs, nowMs) : 0) }
    }
    return { ...own, remaining: Math.min(own.remaining, Math.max(0, limit - used - (seen?.others ?? 0))) }
  }

  get #exact(): Counter | undefined {
    return this.#counter?.counts.state === "exact" ? this.#counter : undefined
  }

  #amount = (amount: number): Amount => ({ amount, limit: this.#own.limit })

  #onTaken(amount: number, counted: Counted | undefined, nowMs: number): Taken {
    if (counted === undefined) return this.#byShare(amount, nowMs)
    if (counted.fits) {
      this.#own.add(amount, counted.atMs)
      // Told to a count that has begun anew since.
      if (counted.epoch !== this.#epoch) this.#owe(amount, counted.atMs, nowMs)
    }
    this.#see(counted, nowMs)
    if (counted.fits) return { fits: true, atMs: counted.atMs }
    if (this.#isOnlyCounted && counted.fitsAtMs !== undefined) this.#fullUntilMs = counted.fitsAtMs
    return { fits: false, retryAfterS: waitOf(counted, nowMs)?.retryAfterS }
  }

  #onLooked(amount: number, counted: Counted | undefined, nowMs: number): Wait | undefined {
    if (counted === undefined) return this.#waitByShare(amount, nowMs)
    this.#see(counted, nowMs)
    return waitOf(counted, nowMs)
  }

  #byShare(amount: number, nowMs: number): Taken {
    const wait = this.#waitByShare(amount, nowMs)
    if (wait !== undefined) return { fits: false, ...wait }
    this.#own.add(amount, nowMs)
    this.#owe(amount, nowMs, nowMs)
    return { fits: true, atMs: nowMs }
  }

  #waitByShare(amount: number, nowMs: number): Wait | undefined {
    if (!this.#own.fits(amount, nowMs)) {
      const waitS = this.#own.waitS(amount, nowMs)
      return { retryAfterS: waitS === undefined ? undefined : withinWindow(waitS) }
    }
    const seen = this.#seenAt(nowMs)
    if (seen === undefined || this.#own.used(nowMs) + seen.others + amount <= this.#own.limit) return undefined
    return { retryAfterS: secondsUntil(seen.emptyAtMs, nowMs) }
  }

  #see({ used, emptyAtMs }: Counted, nowMs: number): void {
    this.#seen = { atMs: nowMs, used, emptyAtMs, others: Math.max(0, used - this.#own.used(nowMs)) }
  }

  #seenAt(nowMs: number): Seen | undefined {
    return this.#seen !== undefined && nowMs < this.#seen.emptyAtMs ? this.#seen : undefined
  }

  #owe(by: number, atMs: number, nowMs: number): void {
    const counts = this.#counter?.counts
    if (counts === undefined) return
    this.#oweAt(counts.timeOf(atMs), by)
    this.tell(nowMs)
  }

  #oweAt(timeMs: number, by: number): void {
    const second = Math.floor(timeMs / 1_000)
    const before = this.#unreported.get(second)
    this.#unreported.set(second, {
      second,
      ms: Math.max(before?.ms ?? 0, Math.floor(timeMs - second * 1_000)),
      by: (before?.by ?? 0) + by,
    })
    // A second more than there are in the window can go: its first is over.
    if (this.#unreported.size > WINDOW_S + 1) this.#unreported.delete(Math.min(...this.#unreported.keys()))
  }

  #oweAll(counts: WindowCounts, nowMs: number): void {
    this.#unreported.clear()
    for (const { count, lastMs } of this.#own.buckets(nowMs)) this.#oweAt(counts.timeOf(lastMs), count)
    this.#epoch = counts.epoch
  }

  #onSharedCount(sharedBuckets: readonly SharedBucket[], counted: Counted | undefined, nowMs: number): void {
    this.#isTelling = false
    if (counted === undefined) {
      // What was given back may have been heard: twice, it would open the window.
      for (const { second, ms, by } of sharedBuckets) if (by > 0) this.#oweAt(second * 1_000 + ms, by)
      // It has begun anew since this was told, and said so while nothing else could be told.
      if (this.#epoch !== this.#counter?.counts.epoch) this.tell(nowMs)
      return
    }
    this.#see(counted, nowMs)
    this.tell(nowMs)
  }
}

const secondsUntil = (atMs: number, nowMs: number): number => Math.max(1, Math.ceil((atMs - nowMs) / 1_000))

/** What was counted elsewhere is of a time that is not quite this process's; no wait is longer than the window. */
const withinWindow = (seconds: number): number => Math.min(WINDOW_S, seconds)

function waitOf({ fits, fitsAtMs }: Counted, nowMs: number): Wait | undefined {
  if (fits) return undefined
  return { retryAfterS: fitsAtMs === undefined ? undefined : secondsUntil(fitsAtMs, nowMs) }
}
