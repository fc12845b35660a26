/** So many a minute of each name, all processes together; for what no key's own window counts. */
import type { Share } from "../../actors/share.ts"
import { SlidingWindow, type WindowView } from "../../actors/window.ts"
import { RecentEntries } from "../accounts/rate-limits.ts"

export interface MinuteLimits {
  readonly limit: number
  /** How many names are remembered: more than come within a minute. */
  readonly remembered: number
  /** This process's part of the limit, as it is now. */
  readonly share: () => Share
  /** Milliseconds. */
  readonly monotonic: () => number
}

export class MinuteRateLimiter {
  readonly #terms: MinuteLimits
  readonly #windows: RecentEntries<{ readonly window: SlidingWindow; readonly share: Share }>

  constructor(terms: MinuteLimits) {
    this.#terms = terms
    this.#windows = new RecentEntries(terms.remembered)
  }

  /** What is left with this one, or in how many seconds it may come again; what is refused is not counted. */
  count(name: string): WindowView | { readonly retryAfterS: number } {
    const { limit } = this.#terms
    // Whole, so that a minute of it is no more than sixty seconds when it is rounded up.
    const now = Math.floor(this.#terms.monotonic())
    const share = this.#terms.share()
    const before = this.#windows.get(name)
    const window =
      before?.share === share ? before.window : (before?.window.under(limit, share) ?? new SlidingWindow(limit, share))
    if (!window.fits(1, now)) return { retryAfterS: window.waitS(1, now) ?? 1 }
    window.add(1, now)
    this.#windows.set(name, { window, share })
    return window.view(now)
  }
}
