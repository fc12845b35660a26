/**
 * A key's windows of requests and tokens per minute, each there while the key has its limit (decisions §5). Of both this
 * process has a share. Times are of the monotonic clock, in milliseconds.
 */
import type { Share } from "./share.ts"
import { limited, type SlidingWindow, type WindowView } from "./window.ts"

export interface KeyLimits {
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
}

export interface WindowViews {
  readonly requests: WindowView | undefined
  readonly tokens: WindowView | undefined
}

/** What a call has to wait for that a window has no room for; `retryAfterS` is undefined where no wait helps. */
interface Wait {
  readonly retryAfterS: number | undefined
}

/** Undefined where there is room, or no limit. */
export interface WindowWaits {
  readonly requests: Wait | undefined
  readonly tokens: Wait | undefined
}

export class KeyWindows {
  #share: Share
  #limits: KeyLimits = { requestsPerMinute: undefined, tokensPerMinute: undefined }
  #requests: SlidingWindow | undefined
  #tokens: SlidingWindow | undefined

  constructor(share: Share) {
    this.#share = share
  }

  get requests(): SlidingWindow | undefined {
    return this.#requests
  }
  get tokens(): SlidingWindow | undefined {
    return this.#tokens
  }

  /** New limits act at once; what was counted under the old ones stays. */
  limit(limits: KeyLimits): void {
    this.#limits = limits
    this.#set()
  }

  /** This process's part is another from now on. */
  share(share: Share): void {
    this.#share = share
    this.#set()
  }

  /** Nothing is counted that a fresh window would not know. */
  isEmpty(nowMs: number): boolean {
    return [this.#requests, this.#tokens].every((window) => window === undefined || window.used(nowMs) === 0)
  }

  view(nowMs: number): WindowViews {
    return { requests: this.#requests?.view(nowMs), tokens: this.#tokens?.view(nowMs) }
  }

  /** For a call of so many tokens. */
  waits(tokens: number, nowMs: number): WindowWaits {
    return { requests: waitFor(this.#requests, 1, nowMs), tokens: waitFor(this.#tokens, tokens, nowMs) }
  }

  #set(): void {
    this.#requests = limited(this.#requests, this.#limits.requestsPerMinute, this.#share)
    this.#tokens = limited(this.#tokens, this.#limits.tokensPerMinute, this.#share)
  }
}

const waitFor = (window: SlidingWindow | undefined, amount: number, nowMs: number): Wait | undefined =>
  window === undefined || window.fits(amount, nowMs) ? undefined : { retryAfterS: window.waitS(amount, nowMs) }
