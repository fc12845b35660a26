/**
 * A call whose response can be replayed to duplicates. `durable` is its row, which tells all processes which call is the original.
 * Without a row only this process knows the call, and only until the client has the whole response.
 */
import type { Placed } from "../../actors/kernel/dense-set.ts"
import type { UsageRecord, UsageStatus } from "../../actors/ledger.ts"
import { microToRupiah } from "../../actors/money/micro.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import { IDEMPOTENCY_KEY, REPLAYED } from "../store/idempotency-keys.ts"
import type { CallClaimed } from "../store/call-keys.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import type { Caller } from "./authenticate.ts"
import type { ReplayEntry, ReplayMemory } from "./replay-memory.ts"
import type { Answer, Outbox, OutboxPorts, StreamConnection } from "./outbox.ts"
import { type ResponseStorage, SharedResponse } from "./shared-response.ts"

export const ORIGINAL_REQUEST_ID = "Idempotency-Original-Request-Id"

/** A call as it arrives. */
export interface IncomingCall {
  readonly endpoint: string
  readonly body: Uint8Array<ArrayBuffer>
  readonly caller: Caller
  readonly requestId: string
  readonly signal: AbortSignal
  readonly connection: StreamConnection | undefined
}

/** What the original of several duplicate calls must do. */
export interface OriginalCall {
  readonly shared: SharedResponse
  /** Called before the call is forwarded. An answer or a Failure means that it must not be. */
  claim(): Promise<Answer | Failure | undefined>
  /** The call has ended. `record` is undefined if it was never booked. */
  ended(record: UsageRecord | undefined, isBooked: boolean): void
}

/** Statuses with which the client received its answer, where it was told no failure. */
const ANSWERED: ReadonlySet<UsageStatus> = new Set(["ok", "usage_missing", "billing_error"])

export interface ReplayableCallOptions {
  readonly ports: OutboxPorts
  readonly replayMemory: ReplayMemory
  readonly durable: DurableKey | undefined
  /** Run when the call can no longer be replayed. */
  readonly onForgotten: (call: ReplayableCall) => void
  readonly onOutcome: (outcome: DuplicateOutcome) => void
}

interface DurableKey {
  /** A Failure where it was not tried. */
  claim(): Promise<CallClaimed | Failure>
  free(): void
  /** The answer of a call that another process of this machine runs or ran. */
  fetchFromNeighbour(claimed: CallClaimed): Promise<Answer | Failure | undefined>
}

/** A duplicate joined the stream, got the stored response, or was refused. */
export type DuplicateOutcome = "attached" | "replayed" | "refused"

type Head = Answer["headers"] | Failure

export class ReplayableCall implements OriginalCall, ReplayEntry, ResponseStorage, Placed {
  readonly accountId: string
  readonly keyId: string
  readonly endpoint: string
  readonly bodyBytes: number
  /** Hash of endpoint and body. */
  readonly fingerprint: string
  readonly shared: SharedResponse
  /** For the memory of responses. */
  retained: ReplayEntry["retained"] = undefined
  place: number | undefined
  /** A response with a durable key is given to whoever asks within its time. */
  readonly isKeptOnDelivery: boolean
  readonly #requestId: string
  readonly #options: Omit<ReplayableCallOptions, "durable">
  /** Until the call has ended: it holds the request, and the response may be kept for long after. */
  #durable: DurableKey | undefined
  /** Of the response, once there is one. */
  #head: Head | undefined
  /** Made when a duplicate waits for the head. */
  #pendingHead: PromiseWithResolvers<Head> | undefined
  #isClaimed = false
  #hasEnded = false
  #isForgotten = false
  #isKept = false
  /** The claim of another process, where that has the call. */
  claimedElsewhere: CallClaimed | undefined
  /** Cost of a finished call, in rupiah. */
  #cost: string | undefined

  constructor(
    { endpoint, body, caller, requestId, connection }: IncomingCall,
    fingerprint: string,
    { durable, ...options }: ReplayableCallOptions,
  ) {
    this.accountId = caller.record.accountId
    this.keyId = caller.record.keyId
    this.endpoint = endpoint
    this.bodyBytes = body.length
    this.fingerprint = fingerprint
    this.#requestId = requestId
    this.#options = options
    this.#durable = durable
    this.isKeptOnDelivery = durable !== undefined
    this.shared = new SharedResponse(options.ports, this, connection)
  }

  /** For the shared response. Without room for it, a call that only this process knows is forgotten. */
  reserve(bytes: number): boolean {
    const hasRoom = this.#options.replayMemory.reserve(this, bytes)
    if (!hasRoom && !this.isKeptOnDelivery) this.forget()
    return hasRoom
  }

  /** For the shared response. */
  onDelivered(): void {
    if (!this.isKeptOnDelivery) this.forget()
  }

  /** Whether there is memory for the response. Without it nothing is stored, and a duplicate finds the call under way or ended. */
  begin(): boolean {
    this.#isKept = this.#options.replayMemory.begin(this)
    if (!this.#isKept) this.shared.discard()
    return this.#isKept
  }

  /** Runs the call and stores what its client receives. */
  run(work: (first: OriginalCall) => Promise<Answer | Failure>): Promise<Answer | Failure> {
    return work(this).then(
      (answer) => {
        this.#originalAnswered(answer)
        return answer
      },
      (error: unknown) => {
        // Duplicates are told what the edge tells the first client.
        const isAway = error instanceof DatabaseUnavailable
        this.#originalAnswered(new Failure(isAway ? "dependency.database_unavailable" : "internal.error"))
        throw error
      },
    )
  }

  async claim(): Promise<Answer | Failure | undefined> {
    const { onOutcome } = this.#options
    const durable = this.#durable
    if (durable === undefined) return undefined
    // A statement whose reply was lost may have claimed the key, so it is freed in any case.
    this.#isClaimed = true
    const claimed = await durable.claim()
    if (!(claimed instanceof Failure) && claimed.kind === "claimed") return undefined
    this.#isClaimed = false
    if (claimed instanceof Failure) return claimed
    const refusal = refusalOf(claimed)
    this.claimedElsewhere = claimed
    this.#resolveHead(refusal)
    this.forget()
    const answer = await durable.fetchFromNeighbour(claimed)
    if (answer === undefined) onOutcome("refused")
    return answer ?? refusal
  }

  ended(record: UsageRecord | undefined, isBooked: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const durable = this.#durable
    this.#durable = undefined
    const isAnswered = record !== undefined && record.errorCode === undefined && ANSWERED.has(record.status)
    if (isAnswered) this.#cost = microToRupiah(record.charge)
    if (isAnswered && !this.shared.isDiscarded) return this.#options.replayMemory.retain(this)
    this.forget()
    // The record of a crashed call is not known yet.
    if (!isAnswered && (record !== undefined || !isBooked) && this.#isClaimed) durable?.free()
  }

  /** The client of the original call received this answer. */
  #originalAnswered(answer: Answer | Failure): void {
    if (!(answer instanceof Failure)) {
      if (typeof answer.body === "string") this.shared.deliveredWhole(answer.body)
      return this.#resolveHead(answer.headers)
    }
    this.#resolveHead(answer)
    // A failure is not stored. A failure before the call began ends it.
    this.forget()
    if (!this.#hasEnded) this.ended(undefined, false)
  }

  forget(): void {
    if (this.#isForgotten) return
    this.#isForgotten = true
    this.shared.discard()
    if (this.#isKept) this.#options.replayMemory.release(this)
    this.#options.onForgotten(this)
  }

  #resolveHead(head: Head): void {
    this.#head ??= head
    this.#pendingHead?.resolve(head)
  }

  /** Answers a duplicate. */
  async replay(
    fingerprint: string,
    { signal, connection }: Pick<IncomingCall, "signal" | "connection">,
  ): Promise<Answer | Failure> {
    const { onOutcome } = this.#options
    const refused = fingerprint === this.fingerprint ? undefined : mismatch()
    if (refused !== undefined || !this.shared.acceptsReaders) {
      onOutcome("refused")
      return refused ?? inProgress()
    }
    const outcome = this.#hasEnded ? "replayed" : "attached"
    let reader: Outbox = this.shared.join(connection)
    const leave = () => reader.leave()
    if (signal.aborted) leave()
    signal.addEventListener("abort", leave)
    const head = this.#head ?? (await (this.#pendingHead ??= Promise.withResolvers<Head>()).promise)
    const original = { [ORIGINAL_REQUEST_ID]: this.#requestId, ...REPLAYED }
    onOutcome(head instanceof Failure ? "refused" : outcome)
    if (head instanceof Failure) {
      reader.leave()
      return head.withHeaders(original)
    }
    const isStream = head["Content-Type"]?.startsWith("text/event-stream") === true
    const cost = isStream || this.#cost === undefined ? {} : { "X-Cost-Rp": this.#cost }
    const headers = { ...head, ...cost, ...original }
    const body = signal.aborted ? undefined : this.shared.inOnePiece(reader)
    if (body !== undefined) {
      connection?.takeEnd().ends()
      return { body, headers }
    }
    // A response that went out in one piece was not streamed; the duplicate reads the stored one.
    if (this.shared.hasEnded && !reader.hasBegun && !signal.aborted) {
      reader.leave()
      if (this.shared.isDiscarded) return inProgress()
      reader = this.shared.join(connection)
    }
    return { body: reader.stream(), headers }
  }
}

const inProgress = () => new Failure("idempotency.in_progress", { retryAfterS: 1 })

const mismatch = () =>
  new Failure("idempotency.mismatch", {
    hint: "Make a new key for each call, and send it again only with the very same body, to the same endpoint.",
  })

function refusalOf(claimed: Exclude<CallClaimed, { readonly kind: "claimed" }>): Failure {
  switch (claimed.kind) {
    case "in progress":
      return inProgress()
    case "mismatch":
      return mismatch()
    case "finished": {
      const { requestId, status, charge, inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } =
        claimed.receipt
      const tokens = `${inputTokens} input, ${outputTokens} output, ${cacheReadTokens} cache read and ${cacheWriteTokens} cache write tokens`
      return new Failure("idempotency.finished", {
        message: `The call with this ${IDEMPOTENCY_KEY} was ${requestId}: status ${status}, cost Rp ${microToRupiah(charge)}, ${tokens}. Its answer is not kept any more.`,
        hint: "Nothing was charged again. Send a new Idempotency-Key to have the call made anew.",
        headers: { [ORIGINAL_REQUEST_ID]: requestId },
      })
    }
    default:
      return unreachable(claimed)
  }
}
