/**
 * Detects retries of SDKs that count them (`x-stainless-retry-count`). A retry with the same body, while the client does not have
 * the whole response yet, is a duplicate. The state is in the memory of this process. A call with count 0 is never a duplicate:
 * clients may send equal calls on purpose.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { DenseSet, type Placed } from "../../actors/kernel/dense-set.ts"
import type { Failure } from "../failure/failure.ts"
import { ReplayMemory } from "./replay-memory.ts"
import type { ReplayableCall } from "./replayable-call.ts"

const RETRY_COUNT = "x-stainless-retry-count"
const COUNT = /^\d{1,4}$/

/** How often an SDK has sent this call before. Undefined if it does not count. */
export function retryCountOf(headers: Headers): number | undefined {
  const count = headers.get(RETRY_COUNT)
  return count !== null && COUNT.test(count) ? Number(count) : undefined
}

export interface RetryIdentity {
  readonly keyId: string
  readonly endpoint: string
  readonly bodyBytes: number
  /** SHA-256 of the body. */
  readonly fingerprint: Buffer
}

/** A call that its SDK may retry. */
export interface TrackedCall extends Placed {
  readonly name: RetryIdentity
  readonly call: ReplayableCall
}

/** How long an undelivered response is stored and a refusal is remembered. */
const REPLAY_MS = 2 * 60_000
const MAX_REFUSED = 4_096

export class SdkRetries {
  readonly replayMemory: ReplayMemory
  readonly #clock: Clock
  /** By API key. Retries are rare, so the calls of one key are searched one by one. */
  readonly #calls = new Map<string, DenseSet<TrackedCall>>()
  /** Until when a retry with an API key may belong to a refused call, the oldest first. */
  readonly #refused = new Map<string, number>()

  constructor(clock: Clock, keptBytes: number) {
    this.#clock = clock
    this.replayMemory = new ReplayMemory(clock, keptBytes, REPLAY_MS)
  }

  isKnown({ keyId, endpoint, bodyBytes }: Omit<RetryIdentity, "fingerprint">): boolean {
    const isEqual = ({ name }: TrackedCall) => name.bodyBytes === bodyBytes && name.endpoint === endpoint
    return this.#calls.get(keyId)?.all().some(isEqual) ?? false
  }

  /** SDKs retry after these statuses. */
  noteRefusal(keyId: string, { status }: Failure): void {
    if (status !== 408 && status !== 409 && status !== 429 && status < 500) return
    this.#refused.delete(keyId)
    for (const [oldest, untilMs] of this.#refused) {
      if (untilMs > this.#clock.monotonic() && this.#refused.size < MAX_REFUSED) break
      this.#refused.delete(oldest)
    }
    this.#refused.set(keyId, this.#clock.monotonic() + REPLAY_MS)
  }

  /**
   * The original of a retry. A call without readers comes first. A connection can be dead for the client before the gateway notices;
   * this is assumed if there is exactly one candidate, and the retry cannot belong to a refused call.
   */
  find(name: RetryIdentity): ReplayableCall | undefined {
    const equal: ReplayableCall[] = []
    for (const { name: of, call } of this.#calls.get(name.keyId)?.all() ?? []) {
      if (of.bodyBytes !== name.bodyBytes || of.endpoint !== name.endpoint) continue
      if (!of.fingerprint.equals(name.fingerprint)) continue
      if (call.shared.hasLeft) return call
      equal.push(call)
    }
    const mayBeRefused = (this.#refused.get(name.keyId) ?? -Infinity) > this.#clock.monotonic()
    return equal.length === 1 && !mayBeRefused ? equal[0] : undefined
  }

  add(sent: TrackedCall): void {
    const { keyId } = sent.name
    const calls = this.#calls.get(keyId) ?? new DenseSet<TrackedCall>()
    if (calls.size === 0) this.#calls.set(keyId, calls)
    calls.add(sent)
  }

  delete(sent: TrackedCall): void {
    const calls = this.#calls.get(sent.name.keyId)
    if (calls?.delete(sent) === true && calls.size === 0) this.#calls.delete(sent.name.keyId)
  }
}
