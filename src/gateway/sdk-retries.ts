/**
 * Calls of SDKs that say how often they have sent them (`x-stainless-retry-count`), while their client has not all of the answer: one
 * that comes again with the very same body is a repeat. In memory, and in this process alone. Nothing is looked for where the
 * count is 0: equal calls that are made on purpose are each their own.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { DenseSet, type Placed } from "../../actors/kernel/dense-set.ts"
import type { Failure } from "../failure/failure.ts"
import { KeptAnswers } from "./kept-answers.ts"
import type { Repeatable } from "./repeatable.ts"

const RETRY_COUNT = "x-stainless-retry-count"
const COUNT = /^\d{1,4}$/

/** How often an SDK has sent a call before; undefined where it does not say. */
export function retriesOf(headers: Headers): number | undefined {
  const told = headers.get(RETRY_COUNT)
  return told !== null && COUNT.test(told) ? Number(told) : undefined
}

export interface RetryName {
  readonly keyId: string
  readonly endpoint: string
  readonly bodyBytes: number
  /** Of the body. */
  readonly fingerprint: Buffer
}

/** A call that may be asked for again. */
export interface SentCall extends Placed {
  readonly name: RetryName
  readonly call: Repeatable
}

/** For so long an answer is kept that did not come through, and a refusal is remembered. */
const KEPT_MS = 2 * 60_000
const MOST_REFUSED = 4_096

export class SdkRetries {
  readonly kept: KeptAnswers
  readonly #clock: Clock
  /** By API key: whoever is looked for is rare, and is found among those of his key. */
  readonly #calls = new Map<string, DenseSet<SentCall>>()
  /** Until when a retry of an API key may be of a call that was refused, the oldest first. */
  readonly #refused = new Map<string, number>()

  constructor(clock: Clock, keptBytes: number) {
    this.#clock = clock
    this.kept = new KeptAnswers(clock, keptBytes, KEPT_MS)
  }

  isKnown({ keyId, endpoint, bodyBytes }: Omit<RetryName, "fingerprint">): boolean {
    const isEqual = ({ name }: SentCall) => name.bodyBytes === bodyBytes && name.endpoint === endpoint
    return this.#calls.get(keyId)?.all().some(isEqual) ?? false
  }

  /** An SDK sends it again, for all that is refused so. */
  refused(keyId: string, { status }: Failure): void {
    if (status !== 408 && status !== 409 && status !== 429 && status < 500) return
    this.#refused.delete(keyId)
    for (const [oldest, untilMs] of this.#refused) {
      if (untilMs > this.#clock.monotonic() && this.#refused.size < MOST_REFUSED) break
      this.#refused.delete(oldest)
    }
    this.#refused.set(keyId, this.#clock.monotonic() + KEPT_MS)
  }

  /**
   * The call that such a one repeats: before all others one that nobody reads any more. A connection can be dead for its client and
   * not yet for us; that is believed of the only such call, unless what comes may be a call that was refused.
   */
  find(name: RetryName): Repeatable | undefined {
    const equal: Repeatable[] = []
    for (const { name: of, call } of this.#calls.get(name.keyId)?.all() ?? []) {
      if (of.bodyBytes !== name.bodyBytes || of.endpoint !== name.endpoint) continue
      if (!of.fingerprint.equals(name.fingerprint)) continue
      if (call.shared.hasLeft) return call
      equal.push(call)
    }
    const mayBeRefused = (this.#refused.get(name.keyId) ?? -Infinity) > this.#clock.monotonic()
    return equal.length === 1 && !mayBeRefused ? equal[0] : undefined
  }

  add(sent: SentCall): void {
    const { keyId } = sent.name
    const calls = this.#calls.get(keyId) ?? new DenseSet<SentCall>()
    if (calls.size === 0) this.#calls.set(keyId, calls)
    calls.add(sent)
  }

  delete(sent: SentCall): void {
    const calls = this.#calls.get(sent.name.keyId)
    if (calls?.delete(sent) === true && calls.size === 0) this.#calls.delete(sent.name.keyId)
  }
}
