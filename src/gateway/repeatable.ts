/**
 * A call that may be asked for again, and its answer for those that do. `durable` is the row that says for all processes whose call
 * it is; without one the call is known here alone, and until its client has all of the answer.
 */
import type { UsageRecord, UsageStatus } from "../../actors/ledger.ts"
import { microToRupiah } from "../../actors/money/micro.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import { IDEMPOTENCY_KEY, REPLAYED } from "../idempotency-key.ts"
import type { CallClaimed } from "../store/call-keys.ts"
import type { Caller } from "./authenticate.ts"
import type { KeptAnswers } from "./kept-answers.ts"
import type { Answer, Outbox, StreamConnection } from "./outbox.ts"
import type { SharedAnswer } from "./shared-answer.ts"

export const ORIGINAL_REQUEST_ID = "Idempotency-Original-Request-Id"

/** A call as it comes in. */
export interface Asking {
  readonly endpoint: string
  readonly body: Uint8Array<ArrayBuffer>
  readonly caller: Caller
  readonly requestId: string
  readonly signal: AbortSignal
  readonly connection: StreamConnection | undefined
}

/** What the first of several equal calls is to do. */
export interface FirstCall {
  readonly shared: SharedAnswer
  /** Before it is forwarded. An answer, or a Failure: it is not to be. */
  claim(): Promise<Answer | Failure | undefined>
  /** It is over, with this record if it was ever booked. */
  over(record: UsageRecord | undefined, isBooked: boolean): void
}

/** With these a client has its answer, or had it. */
const ANSWERED: ReadonlySet<UsageStatus> = new Set(["ok", "usage_missing", "billing_error"])

export interface RepeatableParts {
  readonly accountId: string
  readonly requestId: string
  /** Of what was asked. */
  readonly fingerprint: Buffer
  readonly bodyBytes: number
  readonly kept: KeptAnswers
  readonly durable: DurableKey | undefined
  /** It is known no more. */
  readonly forgotten: () => void
  readonly told: (outcome: RepeatOutcome) => void
}

interface DurableKey {
  claim(): Promise<CallClaimed>
  free(): void
  /** The answer of a call that another process of this machine makes, or has made. */
  elsewhere(claimed: CallClaimed): Promise<Answer | Failure | undefined>
}

/** What became of a call that repeats another one: it read along, was given what is kept, or was refused. */
export type RepeatOutcome = "attached" | "replayed" | "refused"

export class Repeatable implements FirstCall {
  readonly accountId: string
  readonly bodyBytes: number
  readonly fingerprint: Buffer
  readonly shared: SharedAnswer
  readonly #parts: RepeatableParts
  readonly #head: Promise<Answer["headers"] | Failure>
  #sayHead: (head: Answer["headers"] | Failure) => void = () => {}
  #isClaimed = false
  #isOver = false
  #isForgotten = false
  /** Whose it is, where it is not this process's. */
  turnedAway: CallClaimed | undefined
  /** What a whole answer cost, in rupiah. */
  #cost: string | undefined

  constructor(parts: RepeatableParts, shared: SharedAnswer) {
    this.accountId = parts.accountId
    this.bodyBytes = parts.bodyBytes
    this.fingerprint = parts.fingerprint
    this.#parts = parts
    this.#head = new Promise((resolve) => (this.#sayHead = resolve))
    this.shared = shared
  }

  /** Whether there is room to keep its answer. */
  begin(): boolean {
    return this.#parts.kept.begin(this)
  }

  /** Makes the call, and hears what its client is told. */
  async make(work: (first: FirstCall) => Promise<Answer | Failure>): Promise<Answer | Failure> {
    try {
      const answer = await work(this)
      this.#answered(answer)
      return answer
    } catch (error) {
      this.#answered(new Failure("internal.error"))
      throw error
    }
  }

  async claim(): Promise<Answer | Failure | undefined> {
    const { durable, told } = this.#parts
    if (durable === undefined) return undefined
    // Freed whatever comes of it: a statement that was lost may have taken the key.
    this.#isClaimed = true
    const claimed = await durable.claim()
    if (claimed.kind === "claimed") return undefined
    this.#isClaimed = false
    const refusal = refusalOf(claimed)
    this.turnedAway = claimed
    this.#sayHead(refusal)
    this.forget()
    const answer = await durable.elsewhere(claimed)
    if (answer === undefined) told("refused")
    return answer ?? refusal
  }

  over(record: UsageRecord | undefined, isBooked: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    const isAnswered = record !== undefined && ANSWERED.has(record.status)
    if (isAnswered) this.#cost = microToRupiah(record.charge)
    if (isAnswered && !this.#isForgotten && !this.shared.isLost) return this.#parts.kept.keep(this)
    this.forget()
    // Of a call that crashed nobody knows yet what is recorded.
    if (!isAnswered && (record !== undefined || !isBooked)) this.#free()
  }

  /** What the first client was told. */
  #answered(answer: Answer | Failure): void {
    if (!(answer instanceof Failure)) {
      if (typeof answer.body === "string") this.shared.wasWhole(answer.body)
      return this.#sayHead(answer.headers)
    }
    this.#sayHead(answer)
    // A failure is not kept. One that came before the call was under way ends it.
    this.forget()
    if (!this.#isOver) this.over(undefined, false)
  }

  forget(): void {
    if (this.#isForgotten) return
    this.#isForgotten = true
    this.shared.lose()
    this.#parts.kept.end(this)
    this.#parts.forgotten()
  }

  #free(): void {
    if (this.#isClaimed) this.#parts.durable?.free()
    this.#isClaimed = false
  }

  /** The same is asked once more. */
  async again(
    fingerprint: Buffer,
    { signal, connection }: Pick<Asking, "signal" | "connection">,
  ): Promise<Answer | Failure> {
    const { told, requestId } = this.#parts
    const refused = fingerprint.equals(this.fingerprint) ? undefined : mismatch()
    if (refused !== undefined || !this.shared.takesReaders) {
      told("refused")
      return refused ?? inProgress()
    }
    const outcome = this.#isOver ? "replayed" : "attached"
    let reader: Outbox = this.shared.join(connection)
    const leave = () => reader.leave()
    if (signal.aborted) leave()
    signal.addEventListener("abort", leave)
    const head = await this.#head
    const original = { [ORIGINAL_REQUEST_ID]: requestId, ...REPLAYED }
    told(head instanceof Failure ? "refused" : outcome)
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
    // What went out in one piece was not written, and is read from what is kept.
    if (this.shared.hasEnded && !reader.hasBegun && !signal.aborted) {
      reader.leave()
      if (this.shared.isLost) return inProgress()
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
