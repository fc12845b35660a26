/**
 * What guards one member of a pool: its circuit breaker, its limits, and the budget of retries. Times are monotonic milliseconds,
 * handed in. The state of a circuit is this process's alone: another process finds out by itself.
 *
 * A circuit is closed while calls go through it. Errors open it; after a time it is half-open, and lets one call through at a time,
 * until one has come to something.
 */
import { type Share, shareOf, whole } from "./lease.ts"
import { type SlidingWindow, limited } from "./window.ts"

const WINDOW_MS = 30_000
const BUCKETS = 10
/** So many failures within the window open a circuit, if they are half of the calls that ended. */
const MIN_FAILURES = 3
/** How long it stays open at first; twice as long each time that the call which is let through fails. */
const OPEN_MS = 5_000
const LONGEST_OPEN_MS = 60_000
/** What a backend asks for that throttles and does not say for how long. */
const THROTTLED_MS = 1_000
/** Of a credential that was refused: nothing mends it but the operator, so it is tried seldom. */
const REFUSED_MS = 30_000
const LONGEST_REFUSED_MS = 600_000

type CircuitState = "closed" | "open" | "half-open"

export class Circuit {
  readonly #failed = new Counts(WINDOW_MS)
  readonly #ended = new Counts(WINDOW_MS)
  #opensAgainAt: number | undefined
  #openedAt = -Infinity
  /** How often it opened in a row. */
  #openings = 0
  #isProbing = false

  state(nowMs: number): CircuitState {
    if (this.#opensAgainAt === undefined) return "closed"
    return nowMs < this.#opensAgainAt ? "open" : "half-open"
  }

  /** Calls go through. */
  get isClosed(): boolean {
    return this.#opensAgainAt === undefined
  }

  /** Whether a call may go through now: any while it is closed, one at a time while it is half-open. */
  allows(nowMs: number): boolean {
    return this.#opensAgainAt === undefined || (nowMs >= this.#opensAgainAt && !this.#isProbing)
  }

  /** When the next call is let through; 0 while any is. */
  get reopensAt(): number {
    return this.#opensAgainAt ?? 0
  }

  /** A call begins. True if it is the probe of a half-open circuit; the probe has to call `endProbe` when it is over. */
  beginCall(nowMs: number): boolean {
    const isProbe = this.state(nowMs) === "half-open" && !this.#isProbing
    if (isProbe) this.#isProbing = true
    return isProbe
  }

  endProbe(): void {
    this.#isProbing = false
  }

  /** A call that began at `sinceMs` had content. One from before the circuit opened says nothing of how things are now. */
  onContent(sinceMs: number): void {
    if (this.#opensAgainAt === undefined || sinceMs < this.#openedAt) return
    this.close()
  }

  onSuccess(nowMs: number): void {
    this.#ended.add(nowMs)
    if (this.#opensAgainAt === undefined) this.#openings = 0
  }

  /** An error, a time-out, a broken stream. */
  onFailure(nowMs: number, isProbe: boolean): void {
    this.#ended.add(nowMs)
    this.#failed.add(nowMs)
    const failures = this.#failed.sum(nowMs)
    if (isProbe || (failures >= MIN_FAILURES && 2 * failures >= this.#ended.sum(nowMs)))
      this.#open(nowMs, backoff(OPEN_MS, this.#openings, LONGEST_OPEN_MS), isProbe)
  }

  /** Too many requests: for as long as the backend says, and a minute at the most. */
  onThrottled(nowMs: number, retryAfterMs: number | undefined, isProbe: boolean): void {
    const openMs = retryAfterMs ?? backoff(THROTTLED_MS, this.#openings, LONGEST_OPEN_MS)
    this.#open(nowMs, Math.min(openMs, LONGEST_OPEN_MS), isProbe)
  }

  /** The credential is not taken, or nothing is paid for it. */
  onRefused(nowMs: number, isProbe: boolean): void {
    this.#open(nowMs, backoff(REFUSED_MS, this.#openings, LONGEST_REFUSED_MS), isProbe)
  }

  /** All is well, or an operator says so. */
  close(): void {
    this.#opensAgainAt = undefined
    this.#isProbing = false
    this.#failed.clear()
    this.#ended.clear()
  }

  /** Calls that were under way together are one opening, however many of them fail. */
  #open(nowMs: number, forMs: number, isProbe: boolean): void {
    if (this.state(nowMs) !== "open" || isProbe) {
      this.#openings += 1
      this.#openedAt = nowMs
    }
    this.#opensAgainAt = Math.max(nowMs + forMs, this.reopensAt)
  }
}

const backoff = (ms: number, times: number, longest: number): number => Math.min(ms * 2 ** Math.min(times, 16), longest)

/** Events of a sliding window, in buckets. */
class Counts {
  readonly #bucketMs: number
  readonly #counts = new Float64Array(BUCKETS)
  readonly #buckets = new Float64Array(BUCKETS).fill(-Infinity)

  constructor(windowMs: number) {
    this.#bucketMs = windowMs / BUCKETS
  }

  add(nowMs: number): void {
    const bucket = Math.floor(nowMs / this.#bucketMs)
    const place = bucket % BUCKETS
    if (this.#buckets[place] !== bucket) {
      this.#buckets[place] = bucket
      this.#counts[place] = 0
    }
    this.#counts[place] = (this.#counts[place] ?? 0) + 1
  }

  sum(nowMs: number): number {
    const oldest = Math.floor(nowMs / this.#bucketMs) - BUCKETS
    let sum = 0
    for (let place = 0; place < BUCKETS; place++)
      if ((this.#buckets[place] ?? -Infinity) > oldest) sum += this.#counts[place] ?? 0
    return sum
  }

  clear(): void {
    this.#buckets.fill(-Infinity)
  }
}

/** Of the calls of the window, so many may be asked of another member; and so many in any case. */
const RETRIED_SHARE = 0.1
const MIN_RETRIES = 20
const BUDGET_WINDOW_MS = 10_000

/** Calls that are sent to another member, over all models: an outage of a backend is not multiplied by the pool's size. */
export class RetryBudget {
  readonly #calls = new Counts(BUDGET_WINDOW_MS)
  readonly #retries = new Counts(BUDGET_WINDOW_MS)
  #refused = 0

  /** How often there was none left. */
  get refused(): number {
    return this.#refused
  }

  countCall(nowMs: number): void {
    this.#calls.add(nowMs)
  }

  /** Whether one more may be sent again, which is then counted. */
  take(nowMs: number): boolean {
    if (this.#retries.sum(nowMs) >= Math.max(MIN_RETRIES, RETRIED_SHARE * this.#calls.sum(nowMs))) {
      this.#refused++
      return false
    }
    this.#retries.add(nowMs)
    return true
  }
}

/** An undefined limit does not bound. */
interface CapacityLimits {
  readonly maxConcurrency?: number | undefined
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
}

/**
 * The limits of one backend: calls at once, requests and tokens in any minute. Where processes on one database share a limit, this
 * process keeps its share of it.
 */
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
    // A call that is larger than the limit itself may go when nothing else is counted: else it never could.
    return this.#tokens === undefined || this.#tokens.fits(tokens, nowMs) || this.#tokens.used(nowMs) === 0
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
  correctTokens(by: number, atMs: number, nowMs: number): void {
    this.#tokens?.settle(by, atMs, nowMs)
  }

  leave(): void {
    this.inFlight -= 1
  }
}
