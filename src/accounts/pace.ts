/**
 * Limits by name on what costs the house or tempts a guesser: a pace (so many at once, and then one each `everyMs`, in the order
 * in which they come), guesses of passwords, and accounts that are opened. Milliseconds. What is kept of a name is one time: when
 * all that was taken would be allowed again (the generic cell rate algorithm).
 */
import { Failure } from "../failure/failure.ts"
import type { SignUpLimits, SignUpStore } from "../store/sign-ups.ts"
import { isLoopbackNetwork, networkOf } from "./network.ts"

export interface PaceTerms {
  readonly free: number
  readonly everyMs: number
  /** How many names are remembered. */
  readonly remembered: number
}

class Pace {
  readonly #terms: PaceTerms
  readonly #fullAt: LatestFew<number>

  constructor(terms: PaceTerms) {
    this.#terms = terms
    this.#fullAt = new LatestFew(terms.remembered)
  }

  /** How long the next one would wait. */
  waitMs(name: string, now: number): number {
    const { free, everyMs } = this.#terms
    return Math.max(0, (this.#fullAt.get(name) ?? now) - now - (free - 1) * everyMs)
  }

  take(name: string, now: number): void {
    this.#fullAt.set(name, Math.max(this.#fullAt.get(name) ?? now, now) + this.#terms.everyMs)
  }

  /** One that was taken counts for nothing. */
  giveBack(name: string): void {
    const fullAt = this.#fullAt.get(name)
    if (fullAt !== undefined) this.#fullAt.set(name, fullAt - this.#terms.everyMs)
  }
}

/** Values by name, of which only so many are kept: the one that was set longest ago goes first. */
export class LatestFew<Value> {
  readonly #kept: number
  readonly #values = new Map<string, Value>()

  constructor(kept: number) {
    this.#kept = kept
  }

  get(name: string): Value | undefined {
    return this.#values.get(name)
  }

  set(name: string, value: Value): void {
    // Put in anew, so that the map's order is the order of last use.
    this.#values.delete(name)
    this.#values.set(name, value)
    if (this.#values.size <= this.#kept) return
    for (const oldest of this.#values.keys()) {
      this.#values.delete(oldest)
      return
    }
  }

  delete(name: string): void {
    this.#values.delete(name)
  }
}

export interface SlowDownTerms {
  /** Failures that cost nothing. A network may be a whole office behind one router, so it gets more of them. */
  readonly freePerPair: number
  readonly freePerNetwork: number
  readonly firstPauseMs: number
  readonly longestPauseMs: number
  readonly longestWaitMs: number
  /** After so long without an attempt all is forgotten. */
  readonly memoryMs: number
  /** Failures at one account, from all networks together, that cost nothing; and how often there is another such. */
  readonly freePerAccount: number
  readonly accountEveryMs: number
  /** How many accounts, networks and pairs of them are remembered; the one that was seen longest ago goes first. */
  readonly remembered: number
}

/**
 * Slows wrong passwords down, so that nobody who guesses makes somebody else wait. Milliseconds. An attempt waits for
 * three: for those before it at the same account from the same network, for all from its network, and, only under an
 * attack from many networks, for all at its account. The owner's networks, from which somebody has signed in, do not
 * wait for that last one: a crowd of others does not lock them out. It delays rather than locks: who mistypes waits a
 * few seconds and is then judged as ever. Only a crowd that would wait longer than `longestWaitMs` is turned away
 * unjudged, as the same 401 with a Retry-After. What is not an account is slowed down like one. Kept in memory,
 * bounded: a restart forgives guesses, and remembers the owner's networks, which are rows. One network makes at most
 * one guess in 4 s at an account, and so never meets the wait of the account as a whole, which takes four networks
 * that do nothing else.
 */
export const slowDownTerms: SlowDownTerms = {
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

/** Whose password is tried, and from where. */
export interface Guess {
  readonly account: string
  readonly address: string
  /** Somebody has signed in to this account from this network. */
  readonly isKnown: boolean
}

interface Trace {
  /** Attempts that failed or are under way. */
  attempts: number
  /** When the last admitted attempt may start. */
  nextAt: number
  seenAt: number
}

export interface Attempt {
  /** Clears what the account had against this network. */
  succeeded(): void
  /** The password was not judged (no capacity, no database), so this attempt counts for nothing. */
  unjudged(): void
}

export class SlowDown {
  readonly #terms: SlowDownTerms
  readonly #now: () => number
  readonly #sleep: (ms: number) => Promise<void>
  readonly #pairs: LatestFew<Trace>
  readonly #networks: LatestFew<Trace>
  readonly #accounts: Pace

  constructor(
    terms: SlowDownTerms = slowDownTerms,
    now: () => number = Date.now,
    sleep: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#terms = terms
    this.#now = now
    this.#sleep = sleep
    this.#pairs = new LatestFew(terms.remembered)
    this.#networks = new LatestFew(terms.remembered)
    this.#accounts = new Pace({
      free: terms.freePerAccount,
      everyMs: terms.accountEveryMs,
      remembered: terms.remembered,
    })
  }

  /** Waits as long as this guess has to, or refuses when that is too long. */
  async attempt({ account, address, isKnown }: Guess): Promise<Attempt | Failure> {
    const now = this.#now()
    const network = networkOf(address)
    const pair = `${network} ${account}`
    const ofPair = this.#trace(this.#pairs, pair, now)
    const ofNetwork = this.#trace(this.#networks, network, now)
    const pairAt = this.#startOf(ofPair, this.#terms.freePerPair, now)
    const networkAt = this.#startOf(ofNetwork, this.#terms.freePerNetwork, now)
    const accountMs = isKnown ? 0 : this.#accounts.waitMs(account, now)
    const waitMs = Math.max(pairAt - now, networkAt - now, accountMs)
    if (waitMs > this.#terms.longestWaitMs) return tooManyFailures(waitMs)

    // Counted before it is judged, and taken back if it succeeds: otherwise a thousand guesses at once would all be the first.
    ofPair.attempts += 1
    ofPair.nextAt = pairAt
    ofNetwork.attempts += 1
    ofNetwork.nextAt = networkAt
    if (!isKnown) this.#accounts.take(account, now)
    if (waitMs > 0) await this.#sleep(waitMs)
    const takeBack = () => {
      ofNetwork.attempts -= 1
      if (!isKnown) this.#accounts.giveBack(account)
    }
    return {
      succeeded: () => {
        this.#pairs.delete(pair)
        takeBack()
      },
      unjudged: () => {
        ofPair.attempts -= 1
        takeBack()
      },
    }
  }

  #startOf(trace: Trace, free: number, now: number): number {
    const over = trace.attempts - free
    if (over < 0) return now
    const pause = Math.min(this.#terms.firstPauseMs * 2 ** over, this.#terms.longestPauseMs)
    return Math.max(now, trace.nextAt) + pause
  }

  #trace(traces: LatestFew<Trace>, name: string, now: number): Trace {
    const known = traces.get(name)
    const trace =
      known === undefined || now - known.seenAt > this.#terms.memoryMs
        ? { attempts: 0, nextAt: now, seenAt: now }
        : known
    trace.seenAt = now
    traces.set(name, trace)
    return trace
  }
}

const tooManyFailures = (waitMs: number): Failure =>
  new Failure("auth.unauthorized", {
    message: "There were too many failed attempts; wait before the next.",
    retryAfterS: Math.ceil(waitMs / 1000),
  })

const PACE = { free: 10, everyMs: 1_000, remembered: 10_000 }
/** Whoever would wait longer gets a 429 with a `Retry-After`. */
const LONGEST_WAIT_MS = 10_000

/**
 * How many accounts may be made from one network: a few at once, then one after the other with a pause between them,
 * and so many in an hour and in a day (decisions §13.11). Milliseconds. Generous, because a mobile carrier puts many
 * customers behind one address. The pauses are kept in memory; the counts are rows, so that a restart or a second
 * process forgives nothing. This machine itself is not counted: behind a proxy `CLIENT_ADDRESS_HEADER` says who
 * calls.
 */
export class SignUps {
  readonly #store: SignUpStore
  readonly #limits: SignUpLimits
  readonly #now: () => number
  readonly #sleep: (ms: number) => Promise<void>
  readonly #pace = new Pace(PACE)

  constructor(
    store: SignUpStore,
    limits: SignUpLimits,
    now: () => number = Date.now,
    sleep: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#store = store
    this.#limits = limits
    this.#now = now
    this.#sleep = sleep
  }

  /** Counts one from this address, when its time has come. */
  async admit(address: string): Promise<void | Failure> {
    const network = networkOf(address)
    if (isLoopbackNetwork(network)) return undefined
    const now = this.#now()
    const waitMs = this.#pace.waitMs(network, now)
    if (waitMs > LONGEST_WAIT_MS) return tooMany(waitMs / 1_000)
    this.#pace.take(network, now)
    if (waitMs > 0) await this.#sleep(waitMs)
    const waitS = await this.#store.count(network, this.#limits)
    return waitS === undefined ? undefined : tooMany(waitS)
  }
}

const tooMany = (waitS: number): Failure =>
  new Failure("rate_limit.sign_up", { retryAfterS: Math.max(1, Math.ceil(waitS)) })
