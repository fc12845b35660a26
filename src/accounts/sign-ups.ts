/**
 * How many accounts may be made from one network: a few at once, then one after the other with a pause between them, and so
 * many in an hour and in a day (decisions §13.11). Milliseconds. Generous, because a mobile carrier puts many customers behind
 * one address. The pauses are kept in memory; the counts are rows, so that a restart or a second process forgives nothing.
 * This machine itself is not counted: behind a proxy `CLIENT_ADDRESS_HEADER` says who calls.
 */
import { Failure } from "../failure/failure.ts"
import type { SignUpLimits, SignUpStore } from "../store/sign-ups.ts"
import { isLoopbackNetwork, networkOf } from "./network.ts"
import { Pace } from "./pace.ts"

const PACE = { free: 10, everyMs: 1_000, remembered: 10_000 }
/** Whoever would wait longer gets a 429 with a `Retry-After`. */
const LONGEST_WAIT_MS = 10_000

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
