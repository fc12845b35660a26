/**
 * Slows failed sign-ins down, per account and per client address. Milliseconds.
 * It delays rather than locks: who mistypes waits a few seconds and is then judged as ever. Only a crowd that would wait
 * longer than `longestWaitMs` is turned away unjudged, as the same 401 with a Retry-After; so guesses at one account stay
 * under one in `longestPauseMs`, however many come at once. Kept in memory: a restart forgives.
 */
import { Failure } from "../failure/failure.ts"

export interface SlowDownTerms {
  /** Failures that cost nothing. An address may be a whole office behind one router, so it gets more of them. */
  readonly freePerAccount: number
  readonly freePerAddress: number
  readonly firstPauseMs: number
  readonly longestPauseMs: number
  readonly longestWaitMs: number
  /** After so long without an attempt all is forgotten. */
  readonly memoryMs: number
  /** How many accounts, and how many addresses, are remembered; the oldest goes first. */
  readonly remembered: number
}

export const slowDownTerms: SlowDownTerms = {
  freePerAccount: 5,
  freePerAddress: 50,
  firstPauseMs: 250,
  longestPauseMs: 4_000,
  longestWaitMs: 8_000,
  memoryMs: 15 * 60_000,
  remembered: 10_000,
}

interface Trace {
  /** Attempts that failed or are under way. */
  attempts: number
  /** When the last admitted attempt may start. */
  nextAt: number
  seenAt: number
}

export interface Attempt {
  /** Clears what the account had against it. */
  succeeded(): void
  /** The password was not judged (no capacity, no database), so this attempt counts for nothing. */
  unjudged(): void
}

export class SlowDown {
  readonly #terms: SlowDownTerms
  readonly #now: () => number
  readonly #sleep: (ms: number) => Promise<void>
  readonly #accounts = new Map<string, Trace>()
  readonly #addresses = new Map<string, Trace>()

  constructor(
    terms: SlowDownTerms = slowDownTerms,
    now: () => number = Date.now,
    sleep: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#terms = terms
    this.#now = now
    this.#sleep = sleep
  }

  /** Waits as long as this account and this address have to, or refuses when that is too long. */
  async attempt(account: string, address: string): Promise<Attempt | Failure> {
    const now = this.#now()
    const ofAccount = this.#trace(this.#accounts, account, now)
    const ofAddress = this.#trace(this.#addresses, subnet(address), now)
    const accountAt = this.#startOf(ofAccount, this.#terms.freePerAccount, now)
    const addressAt = this.#startOf(ofAddress, this.#terms.freePerAddress, now)
    const waitMs = Math.max(accountAt, addressAt) - now
    if (waitMs > this.#terms.longestWaitMs) return tooManyFailures(waitMs)

    // Counted before it is judged, and taken back if it succeeds: otherwise a thousand guesses at once would all be the first.
    ofAccount.attempts += 1
    ofAccount.nextAt = accountAt
    ofAddress.attempts += 1
    ofAddress.nextAt = addressAt
    if (waitMs > 0) await this.#sleep(waitMs)
    return {
      succeeded: () => {
        this.#accounts.delete(account)
        ofAddress.attempts -= 1
      },
      unjudged: () => {
        ofAccount.attempts -= 1
        ofAddress.attempts -= 1
      },
    }
  }

  #startOf(trace: Trace, free: number, now: number): number {
    const over = trace.attempts - free
    if (over < 0) return now
    const pause = Math.min(this.#terms.firstPauseMs * 2 ** over, this.#terms.longestPauseMs)
    return Math.max(now, trace.nextAt) + pause
  }

  #trace(traces: Map<string, Trace>, name: string, now: number): Trace {
    const known = traces.get(name)
    const trace =
      known === undefined || now - known.seenAt > this.#terms.memoryMs
        ? { attempts: 0, nextAt: now, seenAt: now }
        : known
    trace.seenAt = now
    // Put in anew, so that the map's order is the order of last use.
    traces.delete(name)
    traces.set(name, trace)
    if (traces.size > this.#terms.remembered) {
      for (const oldest of traces.keys()) {
        traces.delete(oldest)
        break
      }
    }
    return trace
  }
}

/** One customer of an IPv6 network has at least a /64 to choose addresses from. */
function subnet(address: string): string {
  if (!address.includes(":") || address.includes(".")) return address
  const [head = "", tail] = address.split("::")
  const left = head.split(":")
  const right = tail === undefined ? [] : tail.split(":")
  const gap = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length)
  return [...left, ...Array.from({ length: gap }, () => "0"), ...right].slice(0, 4).join(":")
}

const tooManyFailures = (waitMs: number): Failure =>
  new Failure("auth.unauthorized", {
    message: "There were too many failed attempts; wait before the next.",
    retryAfterS: Math.ceil(waitMs / 1000),
  })
