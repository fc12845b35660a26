/**
 * How much one backend may be asked: calls at once, requests and tokens in any minute. Of a limit that processes on one database
 * keep together it is this process's share. Times are monotonic milliseconds.
 */
import { type Share, shareOf, whole } from "./share.ts"
import { limited, type SlidingWindow } from "./window.ts"

/** What is undefined is not bounded. */
export interface RoomLimits {
  readonly maxConcurrency?: number | undefined
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
}

export class Room {
  underWay = 0
  #most: number | undefined
  #requests: SlidingWindow | undefined
  #tokens: SlidingWindow | undefined

  constructor(limits: RoomLimits, share: Share = whole) {
    this.under(limits, share)
  }

  /** New limits, or another share of them. What was counted stays. */
  under({ maxConcurrency: most, requestsPerMinute, tokensPerMinute }: RoomLimits, share: Share): void {
    this.#most = most === undefined ? undefined : shareOf(most, share)
    this.#requests = limited(this.#requests, requestsPerMinute, share)
    this.#tokens = limited(this.#tokens, tokensPerMinute, share)
  }

  /** Whether there is room for one more call of so many tokens. */
  has(tokens: number, nowMs: number): boolean {
    if (this.#most !== undefined && this.underWay >= this.#most) return false
    if (this.#requests !== undefined && !this.#requests.fits(1, nowMs)) return false
    return this.#tokens === undefined || this.#tokens.fits(tokens, nowMs) || this.#isAlone(tokens, nowMs)
  }

  enters(tokens: number, nowMs: number): void {
    this.underWay += 1
    this.asked(tokens, nowMs)
  }

  /** A request of a call that is in. */
  asked(tokens: number, nowMs: number): void {
    this.#requests?.add(1, nowMs)
    this.#tokens?.add(tokens, nowMs)
  }

  /** What was counted at `atMs` came to so many more tokens. */
  corrected(by: number, atMs: number): void {
    this.#tokens?.correct(by, atMs)
  }

  leaves(): void {
    this.underWay -= 1
  }

  /** One that is larger than the limit itself goes when nothing else is counted: else it never would. */
  #isAlone(tokens: number, nowMs: number): boolean {
    return this.#tokens !== undefined && tokens > this.#tokens.limit && this.#tokens.used(nowMs) === 0
  }
}
