/**
 * A key's windows of requests and tokens per minute, each there while the key has its limit (decisions §5). Of both this
 * process has a share, unless one count is kept for all processes. Times are of the monotonic clock, in milliseconds.
 */
import { CountedWindow, type CountNews, type Wait } from "./counted-window.ts"
import type { Share } from "./lease.ts"
import { SlidingWindow, type WindowCounts, type WindowView } from "./window.ts"

export interface KeyLimits {
  readonly requestsPerMinute: number | undefined
  readonly tokensPerMinute: number | undefined
}

export interface WindowViews {
  readonly requests: WindowView | undefined
  readonly tokens: WindowView | undefined
}

/** Undefined where there is room, or no limit. */
export interface WindowWaits {
  readonly requests: Wait | undefined
  readonly tokens: Wait | undefined
}

/** One count for all processes, and how what it says of a window comes back. */
export interface KeyCounts {
  readonly counts: WindowCounts
  readonly self: (window: CountedWindow, news: CountNews) => void
}

type Kind = "requests" | "tokens"

export class KeyWindows {
  readonly #counts: KeyCounts | undefined
  #share: Share
  #keyId = ""
  #limits: KeyLimits = { requestsPerMinute: undefined, tokensPerMinute: undefined }
  #requests: CountedWindow | undefined
  #tokens: CountedWindow | undefined

  constructor(share: Share, counts: KeyCounts | undefined) {
    this.#share = share
    this.#counts = counts
  }

  get requests(): CountedWindow | undefined {
    return this.#requests
  }
  get tokens(): CountedWindow | undefined {
    return this.#tokens
  }

  /** New limits act at once; what was counted under the old ones stays. */
  limit(limits: KeyLimits & { readonly keyId: string }): void {
    this.#limits = limits
    this.#keyId = limits.keyId
    this.#set()
  }

  /** This process's part is another from now on. */
  share(share: Share): void {
    this.#share = share
    this.#set()
  }

  /** The one count is there again, or has begun anew. */
  tell(nowMs: number): void {
    this.#requests?.tell(nowMs)
    this.#tokens?.tell(nowMs)
  }

  /** Nothing is counted that a fresh window would not know. */
  isEmpty(nowMs: number): boolean {
    return [this.#requests, this.#tokens].every((window) => window?.isEmpty(nowMs) !== false)
  }

  /** As it was last known of what is counted elsewhere. */
  view(nowMs: number): WindowViews {
    return { requests: this.#requests?.view(nowMs), tokens: this.#tokens?.view(nowMs) }
  }

  /** Runs `then` when what `view` says is as it is now: at once where that is known. */
  whenFresh(nowMs: number, then: () => void): void {
    const stale = [this.#requests, this.#tokens].filter((window) => window?.isFresh(nowMs) === false)
    let left = stale.length
    if (left === 0) return then()
    for (const window of stale) {
      window?.look(0, nowMs, () => {
        if (--left === 0) then()
      })
    }
  }

  /** For a call of so many tokens. */
  waits(tokens: number, nowMs: number, then: (waits: WindowWaits) => void): void {
    waitFor(this.#requests, 1, nowMs, (requests) =>
      waitFor(this.#tokens, tokens, nowMs, (ofTokens) => then({ requests, tokens: ofTokens })),
    )
  }

  #set(): void {
    this.#requests = this.#limited("requests", this.#requests, this.#limits.requestsPerMinute)
    this.#tokens = this.#limited("tokens", this.#tokens, this.#limits.tokensPerMinute)
  }

  /** A window under a limit that may be new, or gone; what it has counted stays. */
  #limited(kind: Kind, old: CountedWindow | undefined, limit: number | undefined): CountedWindow | undefined {
    if (limit === undefined) return undefined
    if (old !== undefined) {
      old.limit(limit, this.#share)
      return old
    }
    const known = this.#counts
    const counter = known && {
      counts: known.counts,
      window: `${this.#keyId}:${kind}`,
      self: (news: CountNews) => known.self(window, news),
    }
    const window: CountedWindow = new CountedWindow(new SlidingWindow(limit, this.#share), counter, kind === "requests")
    return window
  }
}

function waitFor(
  window: CountedWindow | undefined,
  amount: number,
  nowMs: number,
  then: (wait: Wait | undefined) => void,
): void {
  if (window === undefined) return then(undefined)
  window.look(amount, nowMs, then)
}
