/**
 * Idempotent changes: a change with an `Idempotency-Key` is carried out once, however often it is sent within 24 hours. A row claims
 * the key for all processes before the change begins (`idempotency-keys.ts`). Concurrent duplicates in one process wait for the one
 * response. For five minutes the process replays its response. It is only kept in memory, because it may hold an API key.
 */
import { createHmac, createHash } from "node:crypto"
import { nanoid } from "nanoid"
import { type Clock, systemClock } from "../../actors/kernel/clock.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import {
  type ChangeName,
  type Claim,
  type Found,
  IDEMPOTENCY_KEY,
  idempotencyKeyOf,
  type IdempotencyKeyStore,
  REPLAYED,
} from "../store/idempotency-keys.ts"

export interface Sent {
  readonly accountId: string
  /** The sender, where that may be a member or a management token. Nobody gets the response of another sender. */
  readonly personId?: string
  readonly request: Request
  readonly body: Uint8Array
}

export interface Outcome {
  readonly answer: unknown
  readonly status: number | string | undefined
}

export interface ChangesOptions {
  readonly store: IdempotencyKeyStore
  readonly processId: string
  readonly failed: (error: unknown) => void
  /** Milliseconds. */
  readonly now?: () => number
  readonly clock?: Pick<Clock, "wait">
}

const KEPT_MS = 5 * 60_000
const LARGEST_KEPT = 64 * 1024
/** Characters of all stored responses. */
const MOST_KEPT = 8 * 1024 * 1024
const MAX_OF_ONE_ACCOUNT = 20

interface Attempt {
  readonly accountId: string
  readonly fingerprint: Buffer
  readonly outcome: Promise<Outcome | Failure>
}

interface Kept {
  readonly accountId: string
  readonly fingerprint: Buffer
  /** JSON. Undefined for an empty response. */
  readonly text: string | undefined
  readonly status: Outcome["status"]
  readonly untilMs: number
}

export class Changes {
  readonly #parts: ChangesOptions
  readonly #now: () => number
  readonly #clock: Pick<Clock, "wait">
  readonly #underWay = new Map<string, Attempt>()
  /** Stored responses, the oldest first. */
  readonly #replays = new Map<string, Kept>()
  #keptSize = 0
  #sweepIsDue = false

  constructor(parts: ChangesOptions) {
    this.#parts = parts
    this.#now = parts.now ?? Date.now
    this.#clock = parts.clock ?? systemClock
  }

  /** Characters of the stored responses, with the overhead of each. */
  get keptSize(): number {
    return this.#keptSize
  }

  /** The outcome of `work`, or the earlier one of a duplicate. Without the header, `work` simply runs. */
  async once(
    { accountId, personId = accountId, request, body }: Sent,
    work: (change: ChangeName | undefined) => Promise<Outcome | Failure>,
  ): Promise<(Outcome & { readonly headers?: Readonly<Record<string, string>> }) | Failure> {
    const key = idempotencyKeyOf(request.headers)
    if (key instanceof Failure) return key
    if (key === undefined) return await work(undefined)
    const scope = personId === accountId ? accountId : `${accountId} ${personId}`
    const keyHash = createHash("sha256").update(`${scope}\n${key}`).digest()
    const name = keyHash.toString("base64")
    const fingerprint = fingerprintOf(key, request, body)
    const underWay = this.#underWay.get(name)
    if (underWay !== undefined) {
      if (!fingerprint.equals(underWay.fingerprint)) return new Failure("idempotency.mismatch")
      const outcome = await underWay.outcome
      if (outcome instanceof Failure) return outcome
      // A file is read by one.
      if (outcome.answer instanceof Response)
        return refusalOf(await this.#parts.store.find({ scope, keyHash, fingerprint }))
      return { ...outcome, headers: REPLAYED }
    }
    const kept = this.#find(name)
    if (kept !== undefined) {
      if (!fingerprint.equals(kept.fingerprint)) return new Failure("idempotency.mismatch")
      return {
        answer: kept.text === undefined ? undefined : JSON.parse(kept.text),
        status: kept.status,
        headers: REPLAYED,
      }
    }
    const claim = { scope, keyHash, accountId, fingerprint, claim: nanoid(), processId: this.#parts.processId }
    const outcome = this.#attempt(claim, work)
    this.#underWay.set(name, { accountId, fingerprint, outcome })
    try {
      const done = await outcome
      if (!(done instanceof Failure)) this.#storeReplay(name, { accountId, fingerprint }, done)
      return done
    } finally {
      this.#underWay.delete(name)
    }
  }

  async #attempt(claim: Claim, work: (change: ChangeName) => Promise<Outcome | Failure>): Promise<Outcome | Failure> {
    const { store } = this.#parts
    const claimed = await store.claim(claim)
    if (claimed.kind !== "claimed") return refusalOf(claimed)
    let outcome: Outcome | Failure
    try {
      outcome = await work({ scope: claim.scope, keyHash: claim.keyHash })
    } catch (error) {
      await this.#noted(store.giveUp(claim))
      throw error
    }
    if (!(outcome instanceof Failure)) await this.#noted(store.finish(claim, madeBy(outcome.answer)))
    else if (outcome.code === "idempotency.finished") return refusalOf(await store.find(claim))
    else await this.#noted(outcome.status < 500 ? store.free(claim) : store.giveUp(claim))
    return outcome
  }

  /** The change stands even if its row could not be updated. The row can then be claimed again after a minute. */
  async #noted(noting: Promise<void>): Promise<void> {
    await noting.catch((error: unknown) => this.#parts.failed(error))
  }

  #find(name: string): Kept | undefined {
    const kept = this.#replays.get(name)
    if (kept === undefined || kept.untilMs > this.#now()) return kept
    this.#forget(name, kept)
    return undefined
  }

  #storeReplay(name: string, { accountId, fingerprint }: Pick<Kept, "accountId" | "fingerprint">, done: Outcome): void {
    const text = done.answer === undefined ? undefined : JSON.stringify(done.answer)
    const size = sizeOf(text)
    if (done.answer instanceof Response || size > LARGEST_KEPT) return
    const untilMs = this.#now() + KEPT_MS
    this.#replays.set(name, { accountId, fingerprint, text, status: done.status, untilMs })
    this.#keptSize += size
    this.#sweepLater(KEPT_MS)
    const ofAccount = [...this.#replays].filter(([, kept]) => kept.accountId === accountId)
    for (const [oldest, kept] of ofAccount.slice(0, -MAX_OF_ONE_ACCOUNT)) this.#forget(oldest, kept)
    for (const [oldest, kept] of this.#replays) {
      if (this.#keptSize <= MOST_KEPT && kept.untilMs > this.#now()) break
      this.#forget(oldest, kept)
    }
  }

  /** What nobody asks for again goes in its time too, because it may hold an API key. */
  #sweepLater(delayMs: number): void {
    if (this.#sweepIsDue) return
    this.#sweepIsDue = true
    this.#clock.wait(delayMs, () => {
      this.#sweepIsDue = false
      const now = this.#now()
      for (const [name, kept] of this.#replays) if (kept.untilMs <= now) this.#forget(name, kept)
      const [oldest] = this.#replays.values()
      if (oldest !== undefined) this.#sweepLater(Math.min(KEPT_MS, oldest.untilMs - now))
    })
  }

  #forget(name: string, { text }: Kept): void {
    this.#replays.delete(name)
    this.#keptSize -= sizeOf(text)
  }
}

/** The text with the overhead of an entry. */
const sizeOf = (text: string | undefined): number => (text?.length ?? 0) + 256

function refusalOf(found: Found): Failure {
  switch (found.kind) {
    case "mismatch":
      return new Failure("idempotency.mismatch")
    case "too many":
      return new Failure("request.invalid", {
        message: `Too many changes carried an '${IDEMPOTENCY_KEY}' within 24 hours; send this one without it, or later.`,
      })
    case "finished": {
      const made = found.made === undefined ? "" : `; it made ${found.made}`
      return new Failure("idempotency.finished", {
        message: `The request with this Idempotency-Key was carried out at ${found.at.toISOString()}${made}.`,
      })
    }
    case "in progress":
      return new Failure("idempotency.in_progress", { retryAfterS: 1 })
    default:
      return unreachable(found)
  }
}

/** The id of the object in a response. */
function madeBy(answer: unknown): string | undefined {
  const id = typeof answer === "object" && answer !== null && "id" in answer ? answer.id : undefined
  return typeof id === "string" ? id : undefined
}

/** An HMAC with the client's own key, because a body may hold a password. */
function fingerprintOf(key: string, { method, url }: Request, body: Uint8Array): Buffer {
  const { pathname, search } = new URL(url)
  return createHmac("sha256", key).update(`${method} ${pathname}${search}\n`).update(body).digest()
}
