/**
 * Calls that repeat another one: whoever comes second holds nothing and pays nothing, and gets the answer of the first, as it comes
 * or as it was. One that carries an `Idempotency-Key` has a row, which says for all processes whose call it is before that is
 * forwarded; what the call came to is said by its usage record alone (src/store/call-keys.ts). One that an SDK sends again by
 * itself is known in this process alone (sdk-retries.ts).
 */
import { createHash, createHmac } from "node:crypto"
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import { type CallClaim, type CallClaimed, type CallKeyStatements, claimCall } from "../store/call-keys.ts"
import { KeptAnswers } from "./kept-answers.ts"
import { type HandedCall, handOver, type Neighbours, received } from "./handed-answers.ts"
import type { Answer, UnreadBytes } from "./outbox.ts"
import { type Asking, type FirstCall, Repeatable, type RepeatOutcome } from "./repeatable.ts"
import { SdkRetries } from "./sdk-retries.ts"
import { SharedAnswer } from "./shared-answer.ts"

export interface RepeatsParts {
  readonly clock: Clock
  readonly store: CallKeyStatements
  readonly processId: string
  readonly limits: {
    readonly heartbeatMs: number
    readonly readerStallMs: number
    /** What of answers may be kept: for those that carry a key, and half as much for what SDKs may send again. */
    readonly keptAnswerBytes: number
  }
  readonly unread: UnreadBytes
  /** Undefined where this process has no others beside it. */
  readonly neighbours?: Neighbours | undefined
  /** A key could not be freed; it is tried again. */
  readonly failed: (error: unknown) => void
}

/** A call that carries a key. */
export interface KeyedAsking extends Asking {
  readonly key: string
}

/** What a call is known by, before its body is read. */
interface Naming extends Pick<Asking, "caller" | "endpoint"> {
  readonly key: string | undefined
  readonly retries: number | undefined
}

const KEPT_MS = 10 * 60_000
const LARGE_BODY_BYTES = 65_536
const FREED_AGAIN_MS = 5_000
const MOST_FREED_AGAIN = 720

export class Repeats {
  readonly #parts: RepeatsParts
  readonly #kept: KeptAnswers
  /** By the hash of API key and header. */
  readonly #calls = new Map<string, Repeatable>()
  readonly #retries: SdkRetries
  /** How many calls repeated another one, since this process began. */
  readonly outcomes: Record<RepeatOutcome, number> = { attached: 0, replayed: 0, refused: 0 }

  constructor(parts: RepeatsParts) {
    this.#parts = parts
    this.#kept = new KeptAnswers(parts.clock, parts.limits.keptAnswerBytes, KEPT_MS)
    this.#retries = new SdkRetries(parts.clock, Math.floor(parts.limits.keptAnswerBytes / 2))
  }

  /** Bytes of memory. */
  get keptBytes(): number {
    return this.#kept.bytes + this.#retries.kept.bytes
  }
  get mostKeptBytes(): number {
    return this.#kept.limit + this.#retries.kept.limit
  }

  /** Whether what such a call may repeat is under way here, or kept, with as many bytes: one that asks for it again needs no money. */
  isKnown({ caller: { record }, endpoint, key, retries = 0 }: Naming, bytes: number): boolean {
    if (key !== undefined) return this.#calls.get(keyHashOf(record.keyId, key).toString("hex"))?.bodyBytes === bytes
    return retries > 0 && this.#retries.isKnown({ keyId: record.keyId, endpoint, bodyBytes: bytes })
  }

  /** A call was refused. If it is of an SDK, which counts what it sends, it is sent again, and that is no repeat. */
  refused(keyId: string, retries: number | undefined, failure: Failure): void {
    if (retries !== undefined) this.#retries.refused(keyId, failure)
  }

  /** The answer of the first call with this key, which is made by `work`. */
  async once(asking: KeyedAsking, work: (first: FirstCall) => Promise<Answer | Failure>): Promise<Answer | Failure> {
    const { key, endpoint, body, caller, requestId } = asking
    const { accountId, keyId } = caller.record
    const digesting = digestOf(body)
    const digest = digesting instanceof Promise ? await digesting : digesting
    const fingerprint = fingerprintOf(key, endpoint, digest)
    const keyHash = keyHashOf(keyId, key)
    const name = keyHash.toString("hex")
    const known = this.#calls.get(name)
    if (known !== undefined) {
      const answer = await known.again(fingerprint, asking)
      const elsewhere = known.turnedAway && (await this.#elsewhere(known.turnedAway, { keyHash, fingerprint }, asking))
      return elsewhere ?? answer
    }
    const { store, processId } = this.#parts
    const claim = { keyId, keyHash, accountId, fingerprint, requestId, processId }
    const shared = this.#shared(asking, (bytes) => this.#kept.hold(claim, bytes))
    const call: Repeatable = new Repeatable(
      {
        accountId,
        requestId,
        fingerprint,
        bodyBytes: body.length,
        kept: this.#kept,
        durable: {
          claim: () => claimCall(store, claim),
          free: () => this.#free(claim),
          elsewhere: (claimed) => this.#elsewhere(claimed, claim, asking),
        },
        forgotten: () => this.#calls.delete(name),
        told: this.#told,
      },
      shared,
    )
    if (!call.begin()) return new Failure("gateway.capacity", { message: "Too many answers are kept.", retryAfterS: 1 })
    this.#calls.set(name, call)
    return await call.make(work)
  }

  /**
   * A call of an SDK, which it has sent `retries` times before: where that repeats one whose answer did not come through, its answer.
   * Any other is made by `work`, and may be repeated as long as there is room to keep its answer.
   */
  async retried(
    asking: Asking,
    retries: number,
    work: (first?: FirstCall) => Promise<Answer | Failure>,
  ): Promise<Answer | Failure> {
    const { endpoint, body, caller, requestId } = asking
    const { accountId, keyId } = caller.record
    const digesting = digestOf(body)
    const fingerprint = digesting instanceof Promise ? await digesting : digesting
    const name = { keyId, endpoint, bodyBytes: body.length, fingerprint }
    if (retries > 0) {
      const known = this.#retries.find(name)
      if (known !== undefined) return await known.again(fingerprint, asking)
    }
    const { kept } = this.#retries
    const isKept = (bytes: number) => {
      const hasRoom = kept.hold(caller.record, bytes)
      // What is not kept cannot be repeated.
      if (!hasRoom) call.forget()
      return hasRoom
    }
    const shared = this.#shared(asking, isKept, () => call.forget())
    const call: Repeatable = new Repeatable(
      {
        accountId,
        requestId,
        fingerprint,
        bodyBytes: body.length,
        kept,
        durable: undefined,
        forgotten: () => this.#retries.delete(sent),
        told: this.#told,
      },
      shared,
    )
    const sent = { name, call, place: undefined }
    if (!call.begin()) return await work()
    this.#retries.add(sent)
    return await call.make(work)
  }

  /** For a neighbour, to which a repeat has come: what there is of a call that carries a key, in frames (handed-answers.ts). */
  handOver({ keyHash, fingerprint }: HandedCall, signal: AbortSignal): ReadableStream<Uint8Array> {
    const call = this.#calls.get(keyHash)
    const asking = { signal, connection: undefined }
    return handOver(call?.again(Buffer.from(fingerprint, "hex"), asking), this.#parts.clock)
  }

  /** Undefined where nothing is to be had: then what the row says is the answer. */
  async #elsewhere(
    claimed: CallClaimed,
    claim: Pick<CallClaim, "keyHash" | "fingerprint">,
    { signal, connection }: KeyedAsking,
  ): Promise<Answer | Failure | undefined> {
    const { neighbours, clock, limits, unread, processId } = this.#parts
    const isThere = claimed.kind === "in progress" || claimed.kind === "finished"
    if (neighbours === undefined || !isThere || claimed.processId === undefined || claimed.processId === processId)
      return undefined
    const handed = {
      keyHash: Buffer.from(claim.keyHash).toString("hex"),
      fingerprint: Buffer.from(claim.fingerprint).toString("hex"),
    }
    const { heartbeatMs, readerStallMs: stallMs } = limits
    const receiving = { clock, heartbeatMs, stallMs, unread, connection, signal }
    return await received(neighbours, claimed.processId, handed, receiving)
  }

  stop(): void {
    this.#kept.stop()
    this.#retries.kept.stop()
  }

  readonly #told = (outcome: RepeatOutcome): void => {
    this.outcomes[outcome]++
  }

  #shared({ connection }: Asking, hold: (bytes: number) => boolean, delivered?: () => void): SharedAnswer {
    const { clock, limits, unread } = this.#parts
    const { heartbeatMs, readerStallMs: stallMs } = limits
    const told = delivered === undefined ? {} : { delivered }
    return new SharedAnswer({ clock, heartbeatMs, stallMs, unread, hold, ...told }, connection)
  }

  /** A row that stays keeps others from a call that nobody makes any more, until this process ends. */
  #free(claim: CallClaim, tries = 1): void {
    this.#parts.store.freeCallKey(claim).catch((error: unknown) => {
      this.#parts.failed(error)
      if (tries < MOST_FREED_AGAIN) this.#parts.clock.after(FREED_AGAIN_MS, () => this.#free(claim, tries + 1))
    })
  }
}

const keyHashOf = (keyId: string, key: string): Buffer => createHash("sha256").update(`${keyId}\n${key}`).digest()

/** SHA-256; of a large body off the thread. */
const digestOf = (body: Uint8Array<ArrayBuffer>): MaybePromise<Buffer> =>
  body.length > LARGE_BODY_BYTES
    ? andThen(crypto.subtle.digest("SHA-256", body), (digest) => Buffer.from(digest))
    : Buffer.from(Bun.SHA256.hash(body).buffer)

/** Keyed by what the client alone has, because a body is a prompt. */
const fingerprintOf = (key: string, endpoint: string, digest: Buffer): Buffer =>
  createHmac("sha256", key).update(`call ${endpoint}\n`).update(digest).digest()
