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

  #set(): void {
    this.#requests = limited(this.#requests, this.#limits.requestsPerMinute, this.#share)
    this.#tokens = limited(this.#tokens, this.#limits.tokensPerMinute, this.#share)
  }
}
