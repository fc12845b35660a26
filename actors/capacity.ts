/**
 * The limits of one backend: calls at once, requests and tokens in any minute. Where processes on one database share a limit, this
 * process keeps its share of it. Times are monotonic milliseconds.
 */
import { type Share, shareOf, whole } from "./share.ts"
import { limited, type SlidingWindow } from "./window.ts"

/** An undefined limit does not bound. */
export interface CapacityLimits {
  readonly maxConcurrency?: number | undefined
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
}

export class Capacity {
  inFlight = 0
  #most: number | undefined
  #requests: SlidingWindow | undefined
  #tokens: SlidingWindow | undefined

  constructor(limits: CapacityLimits, share: Share = whole) {
    this.setLimits(limits, share)
  }

  /** New limits, or another share of them. What was counted stays. */
  setLimits({ maxConcurrency: most, requestsPerMinute, tokensPerMinute }: CapacityLimits, share: Share): void {
    this.#most = most === undefined ? undefined : shareOf(most, share)
    this.#requests = limited(this.#requests, requestsPerMinute, share)
    this.#tokens = limited(this.#tokens, tokensPerMinute, share)
  }

  /** Whether there is room for one more call of so many tokens. */
  hasRoomFor(tokens: number, nowMs: number): boolean {
    if (this.#most !== undefined && this.inFlight >= this.#most) return false
    if (this.#requests !== undefined && !this.#requests.fits(1, nowMs)) return false
    return this.#tokens === undefined || this.#tokens.fits(tokens, nowMs) || this.#fitsAlone(tokens, nowMs)
  }

  enter(tokens: number, nowMs: number): void {
    this.inFlight += 1
    this.countRequest(tokens, nowMs)
  }

  /** One more request of a call that has entered. */
  countRequest(tokens: number, nowMs: number): void {
    this.#requests?.add(1, nowMs)
    this.#tokens?.add(tokens, nowMs)
  }

  /** What was counted at `atMs` came to so many more tokens. */
  correctTokens(by: number, atMs: number): void {
    this.#tokens?.correct(by, atMs)
  }

  leave(): void {
    this.inFlight -= 1
  }

  /** A call that is larger than the limit itself may go when nothing else is counted: else it never could. */
  #fitsAlone(tokens: number, nowMs: number): boolean {
    return this.#tokens !== undefined && tokens > this.#tokens.limit && this.#tokens.used(nowMs) === 0
  }
}
