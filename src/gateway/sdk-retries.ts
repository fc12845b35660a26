/**
 * Detects retries of SDKs that count them (`x-stainless-retry-count`). A retry with the same body, while the client does not have
 * the whole response yet, is a duplicate. The state is in the memory of this process. A call with count 0 is never a duplicate:
 * clients may send equal calls on purpose.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { DenseSet } from "../../actors/kernel/dense-set.ts"
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

/** What a retry has in common with its original. `fingerprint`: SHA-256 of the body. */
type RetryIdentity = Pick<ReplayableCall, "keyId" | "endpoint" | "bodyBytes" | "fingerprint">

/** How long an undelivered response is stored and a refusal is remembered. */
const REPLAY_MS = 2 * 60_000
const MAX_REFUSED = 4_096

export class SdkRetries {
  readonly replayMemory: ReplayMemory
  readonly #clock: Clock
  /** By API key. Retries are rare, so the calls of one key are searched one by one. */
  readonly #calls = new Map<string, DenseSet<ReplayableCall>>()
  /** Until when a retry with an API key may belong to a refused call, the oldest first. */
  readonly #refused = new Map<string, number>()

  constructor(clock: Clock, keptBytes: number) {
    this.#clock = clock
    this.replayMemory = new ReplayMemory(clock, keptBytes, REPLAY_MS)
  }

  isKnown({ keyId, endpoint, bodyBytes }: Omit<RetryIdentity, "fingerprint">): boolean {
    const isEqual = (call: ReplayableCall) => call.bodyBytes === bodyBytes && call.endpoint === endpoint
    return this.#calls.get(keyId)?.all().some(isEqual) ?? false
  }

  /** SDKs retry after these statuses. */
  noteRefusal(keyId: string, { status }: Failure): void {
    if (status !== 409 && status !== 429 && status < 500) return
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
  find({ keyId, endpoint, bodyBytes, fingerprint }: RetryIdentity): ReplayableCall | undefined {
    const equal: ReplayableCall[] = []
    for (const call of this.#calls.get(keyId)?.all() ?? []) {
      if (call.bodyBytes !== bodyBytes || call.endpoint !== endpoint) continue
      if (call.fingerprint !== fingerprint) continue
      if (call.shared.hasLeft) return call
      equal.push(call)
    }
    const mayBeRefused = (this.#refused.get(keyId) ?? -Infinity) > this.#clock.monotonic()
    return equal.length === 1 && !mayBeRefused ? equal[0] : undefined
  }

  add(call: ReplayableCall): void {
    const calls = this.#calls.get(call.keyId) ?? new DenseSet<ReplayableCall>()
    if (calls.size === 0) this.#calls.set(call.keyId, calls)
    calls.add(call)
  }

  delete(call: ReplayableCall): void {
    const calls = this.#calls.get(call.keyId)
    if (calls?.delete(call) === true && calls.size === 0) this.#calls.delete(call.keyId)
  }
}
