/**
 * Deduplication of calls. A duplicate takes no hold and pays nothing. It gets the response of the original call, while that
 * streams or afterwards. A call with an `Idempotency-Key` has a row, which is written before the call is forwarded and tells all
 * processes which call is the original (src/store/call-keys.ts); its outcome stands in its usage record alone. A retry that an SDK
 * sends by itself is only recognised by the process that has the original (sdk-retries.ts).
 */
import { createHash, createHmac } from "node:crypto"
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import { type CallClaim, type CallClaimed, type CallKeyStatements, claimCall } from "../store/call-keys.ts"
import { turns } from "../store/gate.ts"
import { ReplayMemory } from "./replay-memory.ts"
import { type HandoverRequest, serveHandover, type Neighbours, requestHandover } from "./response-handover.ts"
import type { Answer, UnreadBytes } from "./outbox.ts"
import {
  type DuplicateOutcome,
  type IncomingCall,
  type OriginalCall,
  ReplayableCall,
  type ReplayableCallOptions,
} from "./replayable-call.ts"
import { SdkRetries } from "./sdk-retries.ts"

export interface DeduplicationOptions {
  readonly clock: Clock
  readonly store: CallKeyStatements
  readonly processId: string
  readonly limits: {
    readonly heartbeatMs: number
    readonly readerStallMs: number
    /** Memory for the responses of calls with a key. SDK retries have half as much beside it. */
    readonly replayBytes: number
  }
  readonly unread: UnreadBytes
  /** Undefined where this process has no others beside it. */
  readonly neighbours?: Neighbours | undefined
  /** Hears that a key could not be freed. Freeing is tried again. */
  readonly onError: (error: unknown) => void
}

/** A call with an `Idempotency-Key`. */
export interface KeyedCall extends IncomingCall {
  readonly key: string
}

/** Identifies a call before its body is read. */
interface CallIdentity extends Pick<IncomingCall, "caller" | "endpoint"> {
  readonly key: string | undefined
  readonly retries: number | undefined
}

const REPLAY_MS = 10 * 60_000
const LARGE_BODY_BYTES = 65_536
const FREE_RETRY_MS = 5_000
const MAX_FREE_ATTEMPTS = 720
/**
 * Statements of one account at a time. A claim comes before the call is paid for, and so is free: whoever has no money must not take
 * all places that a process has at the database. A claim that is freed stands in the same line, so that nobody claims faster than is
 * freed. Beyond so many statements the next claim is refused.
 */
const STATEMENTS_AT_ONCE = 4
const MAX_STATEMENTS = 2_000

export class CallDeduplication {
  readonly #options: DeduplicationOptions
  readonly #replayMemory: ReplayMemory
  /** Calls with a key, by the hash of API key and header. */
  readonly #calls = new Map<string, ReplayableCall>()
  readonly #retries: SdkRetries
  readonly #retryOptions: ReplayableCallOptions
  readonly #inTurn = turns({ atOnce: STATEMENTS_AT_ONCE, most: MAX_STATEMENTS, refused: tooManyClaims })
  /** Duplicates since this process began. */
  readonly outcomes: Record<DuplicateOutcome, number> = { attached: 0, replayed: 0, refused: 0 }

  constructor(parts: DeduplicationOptions) {
    this.#options = parts
    this.#replayMemory = new ReplayMemory(parts.clock, parts.limits.replayBytes, REPLAY_MS)
    const retries = new SdkRetries(parts.clock, Math.floor(parts.limits.replayBytes / 2))
    this.#retries = retries
    this.#retryOptions = {
      ports: parts,
      replayMemory: retries.replayMemory,
      durable: undefined,
      onForgotten: (call) => retries.delete(call),
      onOutcome: this.#countOutcome,
    }
  }

  /** Bytes in use. */
  get replayBytes(): number {
    return this.#replayMemory.bytes + this.#retries.replayMemory.bytes
  }
  get maxReplayBytes(): number {
    return this.#replayMemory.limit + this.#retries.replayMemory.limit
  }

  /** Whether an original with a body of this size is in flight or stored here. Then the caller needs no money. */
  isKnown({ caller: { record }, endpoint, key, retries = 0 }: CallIdentity, bytes: number): boolean {
    if (key !== undefined) return this.#calls.get(keyHashOf(record.keyId, key).toString("hex"))?.bodyBytes === bytes
    return retries > 0 && this.#retries.isKnown({ keyId: record.keyId, endpoint, bodyBytes: bytes })
  }

  /** Remembers a refused call of an SDK that counts its retries. The SDK sends it again, and that is no duplicate. */
  noteRefusal(keyId: string, retries: number | undefined, failure: Failure): void {
    if (retries !== undefined) this.#retries.noteRefusal(keyId, failure)
  }

  /** Runs `work` once for each key. Duplicates get the response of the original. */
  async runOnce(
    incoming: KeyedCall,
    work: (first: OriginalCall) => Promise<Answer | Failure>,
  ): Promise<Answer | Failure> {
    const { key, endpoint, body, caller, requestId } = incoming
    const { accountId, keyId } = caller.record
    const fingerprint = fingerprintOf(key, endpoint, await digestOf(body))
    const keyHash = keyHashOf(keyId, key)
    const name = keyHash.toString("hex")
    const known = this.#calls.get(name)
    if (known !== undefined) {
      const answer = await known.replay(fingerprint.toString("hex"), incoming)
      const elsewhere =
        known.claimedElsewhere &&
        (await this.#fetchFromNeighbour(known.claimedElsewhere, { keyHash, fingerprint }, incoming))
      return elsewhere ?? answer
    }
    const { processId } = this.#options
    const claim = { keyId, keyHash, accountId, fingerprint, requestId, processId }
    const call = new ReplayableCall(incoming, fingerprint.toString("hex"), {
      ports: this.#options,
      replayMemory: this.#replayMemory,
      durable: this.#durableKey(claim, incoming),
      onForgotten: this.#forgetting(name),
      onOutcome: this.#countOutcome,
    })
    // Others may have filled the memory, which must keep nobody from being answered once.
    call.begin()
    this.#calls.set(name, call)
    return await call.run(work)
  }

  /** Kept with the response. Made in `runOnce`, it would hold what that was called with: the request. */
  #forgetting(name: string): ReplayableCallOptions["onForgotten"] {
    return () => this.#calls.delete(name)
  }

  /** These hold the request, and end with the call. */
  #durableKey(claim: CallClaim, incoming: KeyedCall): NonNullable<ReplayableCallOptions["durable"]> {
    const { store } = this.#options
    return {
      claim: () => this.#inTurn(claim.accountId, () => claimCall(store, claim)),
      free: () => this.#free(claim),
      fetchFromNeighbour: (claimed) => this.#fetchFromNeighbour(claimed, claim, incoming),
    }
  }

  /**
   * Handles a call that an SDK has sent `retries` times before. A retry of a call whose response did not arrive gets that response.
   * Any other call is run by `work`, and can be replayed while there is memory for its response.
   */
  runOrReplay(
    incoming: IncomingCall,
    retries: number,
    work: (first?: OriginalCall) => Promise<Answer | Failure>,
  ): MaybePromise<Answer | Failure> {
    return andThen(digestOf(incoming.body), (fingerprint) => {
      const call = new ReplayableCall(incoming, fingerprint, this.#retryOptions)
      const known = retries > 0 ? this.#retries.find(call) : undefined
      if (known !== undefined) return known.replay(fingerprint, incoming)
      if (!call.begin()) return work()
      this.#retries.add(call)
      return call.run(work)
    })
  }

  /** The response of a call with a key, in frames, for a neighbour process that received a duplicate (response-handover.ts). */
  handOver({ keyHash, fingerprint }: HandoverRequest, signal: AbortSignal): ReadableStream<Uint8Array> {
    const call = this.#calls.get(keyHash)
    const incoming = { signal, connection: undefined }
    return serveHandover(call?.replay(fingerprint, incoming), this.#options.clock)
  }

  /** Undefined where the neighbour has no response; then the row decides the answer. */
  async #fetchFromNeighbour(
    claimed: CallClaimed,
    claim: Pick<CallClaim, "keyHash" | "fingerprint">,
    { signal, connection }: KeyedCall,
  ): Promise<Answer | Failure | undefined> {
    const { neighbours, clock, limits, unread, processId } = this.#options
    const isThere = claimed.kind === "in progress" || claimed.kind === "finished"
    if (neighbours === undefined || !isThere || claimed.processId === undefined || claimed.processId === processId)
      return undefined
    const handed = {
      keyHash: Buffer.from(claim.keyHash).toString("hex"),
      fingerprint: Buffer.from(claim.fingerprint).toString("hex"),
    }
    const receiving = { clock, limits, unread, connection, signal }
    return await requestHandover(neighbours, claimed.processId, handed, receiving)
  }

  stop(): void {
    this.#replayMemory.stop()
    this.#retries.replayMemory.stop()
  }

  readonly #countOutcome = (outcome: DuplicateOutcome): void => {
    this.outcomes[outcome]++
  }

  /** A row that is not freed blocks its key until this process ends. */
  #free(claim: CallClaim, tries = 1): void {
    this.#inTurn(claim.accountId, () => this.#options.store.freeCallKey(claim), true).catch((error: unknown) => {
      this.#options.onError(error)
      if (tries < MAX_FREE_ATTEMPTS) this.#options.clock.after(FREE_RETRY_MS, () => this.#free(claim, tries + 1))
    })
  }
}

const tooManyClaims = (): Failure =>
  new Failure("gateway.capacity", {
    message: "Too many calls of the account wait for their Idempotency-Key.",
    retryAfterS: 1,
  })

const keyHashOf = (keyId: string, key: string): Buffer => createHash("sha256").update(`${keyId}\n${key}`).digest()

/** SHA-256 in base64. A large body is hashed off the main thread. */
const digestOf = (body: Uint8Array<ArrayBuffer>): MaybePromise<string> =>
  body.length > LARGE_BODY_BYTES
    ? andThen(crypto.subtle.digest("SHA-256", body), (digest) => Buffer.from(digest).toString("base64"))
    : Bun.SHA256.hash(body, "base64")

/** An HMAC with the client's own key, because a body is a prompt. */
const fingerprintOf = (key: string, endpoint: string, digest: string): Buffer =>
  createHmac("sha256", key).update(`call ${endpoint}\n`).update(digest, "base64").digest()
