/**
 * Rate limits against abuse: of password guesses and of sign-ups, by account and by the client's network, and so many a minute of
 * what is free. A `RateLimiter` allows a burst, and then one each `everyMs`, in order of arrival. It stores one time for each
 * name: when the whole burst is available again (the generic cell rate algorithm). Milliseconds.
 */
import type { Share } from "../../actors/lease.ts"
import { isLoopbackNetwork, networkOf } from "../../actors/network.ts"
import { SlidingWindow, type WindowView } from "../../actors/window.ts"
import { Failure, wholeSeconds } from "../failure/failure.ts"
import type { SignUpLimits, SignUpStore } from "../store/allowances.ts"

/** A wall clock that is set back must keep nobody out until it is where it was. */
const monotonic = (): number => performance.now()

interface RateLimit {
  readonly burst: number
  readonly everyMs: number
  /** How many names are remembered. */
  readonly remembered: number
}

class RateLimiter {
  readonly #limit: RateLimit
  readonly #replenishedAt: RecentEntries<number>

  constructor(terms: RateLimit) {
    this.#limit = terms
    this.#replenishedAt = new RecentEntries(terms.remembered)
  }

  /** How long the next request would wait. */
  waitMs(name: string, now: number): number {
    const { burst, everyMs } = this.#limit
    return Math.max(0, (this.#replenishedAt.get(name) ?? now) - now - (burst - 1) * everyMs)
  }

  consume(name: string, now: number): void {
    this.#replenishedAt.set(name, Math.max(this.#replenishedAt.get(name) ?? now, now) + this.#limit.everyMs)
  }

  /** A consumed request does not count. */
  refund(name: string): void {
    const fullAt = this.#replenishedAt.get(name)
    if (fullAt !== undefined) this.#replenishedAt.set(name, fullAt - this.#limit.everyMs)
  }
}

/** Values by name, up to a capacity. The one that was set longest ago is evicted first. */
class RecentEntries<Value> {
  readonly #capacity: number
  readonly #values = new Map<string, Value>()

  constructor(kept: number) {
    this.#capacity = kept
  }

  get(name: string): Value | undefined {
    return this.#values.get(name)
  }

  set(name: string, value: Value): void {
    // Inserted again, so that the map's order is the order of last use.
    this.#values.delete(name)
    this.#values.set(name, value)
    if (this.#values.size <= this.#capacity) return
    const [oldest] = this.#values.keys()
    if (oldest !== undefined) this.#values.delete(oldest)
  }

  delete(name: string): void {
    this.#values.delete(name)
  }
}

interface ThrottleLimits {
  /** Failures without a delay. A network may be a whole office behind one router, so it gets more of them. */
  readonly freePerPair: number
  readonly freePerNetwork: number
  readonly firstPauseMs: number
  readonly longestPauseMs: number
  readonly longestWaitMs: number
  /** All failures are forgotten after this time without an attempt. */
  readonly memoryMs: number
  /** Failures at one account without a delay, from all networks together, and how often another one is allowed. */
  readonly freePerAccount: number
  readonly accountEveryMs: number
  /** Capacity of accounts, networks and pairs. The one that was seen longest ago is evicted first. */
  readonly remembered: number
}

/**
 * Delays wrong passwords, without delaying anybody but the guesser. Milliseconds. Three delays apply to an attempt: for failures at
 * the same account from the same network, for all failures from its network, and, under an attack from many networks, for all
 * failures at its account. The last one does not apply to the owner's networks, from which somebody has signed in, so others cannot
 * lock the owner out. An attempt is delayed, not refused: a person who mistypes waits a few seconds. Only an attempt that would wait
 * longer than `longestWaitMs` is refused unchecked, with the same 401 and a Retry-After. Unknown accounts are throttled alike. The
 * state is in memory and bounded: a restart forgets failures, but not the owner's networks, which are rows. One network makes at most
 * one guess in 4 s at an account, so it never reaches the account's own limit. That takes four networks that do nothing else.
 */
export const throttleLimits: ThrottleLimits = {
  freePerPair: 5,
  freePerNetwork: 50,
  firstPauseMs: 250,
  longestPauseMs: 4_000,
  longestWaitMs: 8_000,
  memoryMs: 15 * 60_000,
  freePerAccount: 100,
  accountEveryMs: 1_000,
  remembered: 10_000,
}

/** An attempt to sign in: the account, and where it comes from. */
interface PasswordGuess {
  readonly account: string
  readonly address: string
  /** Somebody has signed in to this account from this network. */
  readonly isKnown: boolean
}

interface FailureHistory {
  /** Attempts that failed or are under way. */
  attempts: number
  /** When the last admitted attempt may start. */
  nextAt: number
  seenAt: number
}

export interface Attempt {
  /** Clears the failures of this network at the account. */
  succeeded(): void
  /** The password was not checked (no capacity, no database), so this attempt does not count. */
  notChecked(): void
}

export class PasswordThrottle {
  readonly #limits: ThrottleLimits
  readonly #now: () => number
  readonly #sleep: (ms: number) => Promise<void>
  readonly #pairs: RecentEntries<FailureHistory>
  readonly #networks: RecentEntries<FailureHistory>
  readonly #accounts: RateLimiter

  constructor(
    terms: ThrottleLimits = throttleLimits,
    now: () => number = monotonic,
    sleep: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#limits = terms
    this.#now = now
    this.#sleep = sleep
    this.#pairs = new RecentEntries(terms.remembered)
    this.#networks = new RecentEntries(terms.remembered)
    this.#accounts = new RateLimiter({
      burst: terms.freePerAccount,
      everyMs: terms.accountEveryMs,
      remembered: terms.remembered,
    })
  }

  /** Waits for the delay of this guess, or refuses it if that is too long. */
  async attempt({ account, address, isKnown }: PasswordGuess): Promise<Attempt | Failure> {
    const now = this.#now()
    const network = networkOf(address)
    const pair = `${network} ${account}`
    const { freePerPair, freePerNetwork } = this.#limits
    const ofPair = this.#trace(this.#pairs, pair, freePerPair, now)
    const ofNetwork = this.#trace(this.#networks, network, freePerNetwork, now)
    const pairAt = this.#startOf(ofPair, freePerPair, now)
    const networkAt = this.#startOf(ofNetwork, freePerNetwork, now)
    const accountMs = isKnown ? 0 : this.#accounts.waitMs(account, now)
    const waitMs = Math.max(pairAt - now, networkAt - now, accountMs)
    if (waitMs > this.#limits.longestWaitMs) return tooManyFailures(waitMs)

    // The attempt is counted before the check and refunded if it succeeds. Otherwise a thousand concurrent guesses would all be the first.
    ofPair.attempts += 1
    ofPair.nextAt = pairAt
    ofNetwork.attempts += 1
    ofNetwork.nextAt = networkAt
    if (!isKnown) this.#accounts.consume(account, now)
    if (waitMs > 0) await this.#sleep(waitMs)
    const takeBack = () => {
      ofNetwork.attempts -= 1
      if (!isKnown) this.#accounts.refund(account)
    }
    return {
      succeeded: () => {
        this.#pairs.delete(pair)
        takeBack()
      },
      notChecked: () => {
        ofPair.attempts -= 1
        takeBack()
      },
    }
  }

  #startOf(trace: FailureHistory, free: number, now: number): number {
    const over = Math.ceil(trace.attempts) - free
    if (over < 0) return now
    const pause = Math.min(this.#limits.firstPauseMs * 2 ** over, this.#limits.longestPauseMs)
    return Math.max(now, trace.nextAt) + pause
  }

  /**
   * In `memoryMs` as many failures are forgotten as are free, also while others come: somebody always signs in from a network such as
   * a mobile carrier's.
   */
  #trace(traces: RecentEntries<FailureHistory>, name: string, free: number, now: number): FailureHistory {
    const trace = traces.get(name) ?? { attempts: 0, nextAt: now, seenAt: now }
    const peace = (now - trace.seenAt) / this.#limits.memoryMs
    trace.attempts = peace > 1 ? 0 : Math.max(0, Math.min(trace.attempts, 2 * free) - peace * free)
    trace.seenAt = now
    traces.set(name, trace)
    return trace
  }
}

export const tooManyFailures = (waitMs: number): Failure =>
  new Failure("auth.unauthorized", {
    message: "There were too many failed attempts; wait before the next.",
    retryAfterS: Math.ceil(waitMs / 1000),
  })

const SIGN_UP_RATE = { burst: 10, everyMs: 1_000, remembered: 10_000 }
/** A longer wait is refused: a 429 with a `Retry-After`. */
const LONGEST_WAIT_MS = 10_000

/**
 * Limits the accounts that one network may create: a burst, then one at a time with pauses, and a number for each hour and day
 * (decisions §13.11). Milliseconds. The limits are generous, because a mobile carrier puts many customers behind one address. The
 * pauses are in memory. The counts are rows, so that a restart or a second process does not reset them. Loopback is not counted:
 * behind a proxy, `CLIENT_ADDRESS_HEADER` names the caller.
 */
export class SignUpLimiter {
  readonly #store: SignUpStore
  readonly #limits: SignUpLimits
  readonly #now: () => number
  readonly #sleep: (ms: number) => Promise<void>
  readonly #pace = new RateLimiter(SIGN_UP_RATE)

  constructor(
    store: SignUpStore,
    limits: SignUpLimits,
    now: () => number = monotonic,
    sleep: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#store = store
    this.#limits = limits
    this.#now = now
    this.#sleep = sleep
  }

  /** Counts a sign-up from this address, after its delay. */
  async admit(address: string): Promise<void | Failure> {
    const network = networkOf(address)
    if (isLoopbackNetwork(network)) return undefined
    const now = this.#now()
    const waitMs = this.#pace.waitMs(network, now)
    if (waitMs > LONGEST_WAIT_MS) return tooMany(waitMs / 1_000)
    this.#pace.consume(network, now)
    if (waitMs > 0) await this.#sleep(waitMs)
    const waitS = await this.#store.count(network, this.#limits)
    return waitS === undefined ? undefined : tooMany(waitS)
  }
}

const tooMany = (waitS: number): Failure => new Failure("rate_limit.sign_up", { retryAfterS: wholeSeconds(waitS) })

interface MinuteLimits {
  readonly limit: number
  /** How many names are remembered: more than come within a minute. */
  readonly remembered: number
  /** This process's part of the limit, as it is now. */
  readonly share: () => Share
  /** Milliseconds. */
  readonly monotonic: () => number
}

/** So many a minute of each name, all processes together; for what no key's own window counts. */
export class MinuteRateLimiter {
  readonly #terms: MinuteLimits
  readonly #windows: RecentEntries<SlidingWindow>

  constructor(terms: MinuteLimits) {
    this.#terms = terms
    this.#windows = new RecentEntries(terms.remembered)
  }

  /** What is left with this one, or in how many seconds it may come again; what is refused is not counted. */
  count(name: string): WindowView | { readonly retryAfterS: number } {
    const { limit, share, monotonic } = this.#terms
    // Whole, so that a minute of it is no more than sixty seconds when it is rounded up.
    const now = Math.floor(monotonic())
    const window = (this.#windows.get(name) ?? new SlidingWindow(limit)).under(limit, share())
    if (!window.fits(1, now)) return { retryAfterS: window.waitS(1, now) ?? 1 }
    window.add(1, now)
    this.#windows.set(name, window)
    return window.view(now)
  }
}
