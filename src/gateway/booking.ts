/**
 * The money of one call that was forwarded: its opening, its settlement, or its withdrawal, by the functions of settle.ts.
 * What the ledger says comes back to the call as events.
 */
import type { KeyRecord } from "../../actors/key-record.ts"
import { voidedRecord } from "../../actors/batch.ts"
import { runThen } from "../../actors/kernel/actor.ts"
import type { Opening, Settled, UsageRecord } from "../../actors/ledger.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import { Failure } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import type { Admission } from "./admit.ts"
import type { End } from "./attempt.ts"
import type { CallCosts } from "./call-costs.ts"
import type { FinishedCall, GatewayPorts } from "./ports.ts"
import type { Marker } from "./candidates.ts"
import * as records from "./call-records.ts"
import * as settling from "./settle.ts"
import type { CallEvent, State } from "./states.ts"
import type { CallPlan } from "./parse-request.ts"

/** What booking needs of its call. */
export interface BookedCall {
  readonly ports: Pick<GatewayPorts, "actors" | "withdrawals" | "finished" | "calibration" | "factors">
  readonly requestId: string
  readonly caller: { readonly keyHash: string; readonly record: Pick<KeyRecord, "accountId" | "keyId" | "breakers"> }
  readonly run: { readonly runId: string } | undefined
  readonly plan: CallPlan
  readonly markers: readonly Marker[]
  readonly attempts: number
  readonly firstTokenMs: number | undefined
  readonly elapsedMs: number
  readonly costs: CallCosts
  readonly isAlerted: boolean
  readonly trace: TracedBooking | undefined
  readonly state: State
  receive(event: CallEvent): void
}

/** Hears of a sampled call's settlement. */
export interface TracedBooking {
  committing(): void
  finished(call: FinishedCall): void
}

export class Booking {
  readonly #call: BookedCall
  #admission: Admission
  #opening: Opening
  #bill: settling.Bill | undefined
  /** Both holds are being ended, or have been. */
  #isCharging = false
  #isDurable = false
  #record: UsageRecord | undefined

  constructor(call: BookedCall, admission: Admission, openedAt: number) {
    const { offer, request } = call.plan
    const { accountId, keyId, breakers } = call.caller.record
    this.#call = call
    this.#admission = admission
    this.#opening = {
      requestId: call.requestId,
      accountId,
      keyId,
      leaseId: admission.leaseId,
      model: offer.model.id,
      endpoint: request.endpoint,
      streamed: request.stream,
      hold: admission.hold,
      priceId: admission.offer.price.id,
      openedAt,
      starts: admission.starts,
      parent: admission.parent,
      breakers,
      runId: call.run?.runId,
    }
  }

  /** What the call holds, or held last. */
  get admission(): Admission {
    return this.#admission
  }
  /** The ledger has the settlement. */
  get isDurable(): boolean {
    return this.#isDurable
  }
  /** Once it is final. */
  get record(): UsageRecord | undefined {
    return this.#record
  }
  /** Nothing until the ledger has it, nor where it was withdrawn. */
  get charge(): Micro {
    return this.#isDurable ? this.#requireBill().record.charge : zero
  }

  /** Resolves when the ledger has said whether the opening is durable. */
  open(): Promise<"durable" | Failure> {
    return this.#call.ports.actors.ledger.open(this.#opening)
  }

  /** A call that was rerouted is charged, and its charge taken back, under the lease and in the periods of its last admission. */
  replaceAdmission(admission: Admission): void {
    const { leaseId, starts, parent } = admission
    this.#admission = admission
    this.#opening = { ...this.#opening, leaseId, starts, parent }
  }

  /** Charges the actors, then the ledger: comes back as `settled` or `not-settled`. */
  settle(end: End, isDrainedOut: boolean): void {
    this.#isCharging = true
    runThen(
      () => settling.charge(this.#call.ports.actors, this.#billedCall(), end, isDrainedOut),
      (bill) => this.#onCharged(bill),
      (error) => {
        this.#admission.release()
        this.#call.receive({ type: "crashed", error })
      },
    )
  }

  /** Once it is decided that nothing is charged, not even the attempt is made. */
  #onCharged(bill: settling.Bill): void {
    const { ports, state } = this.#call
    if (state !== "settling") return settling.reverseCharge(ports.actors, this.#billedCall(), bill)
    this.#bill = bill
    const answered = (settled: Settled | Failure) =>
      this.#call.receive(settled instanceof Failure ? { type: "not-settled" } : { type: "settled", settled })
    this.#call.trace?.committing()
    void ports.actors.ledger.settle(records.settlement(this.#billedCall(), bill.record)).then(answered)
  }

  /** The ledger has it. */
  onSettled(settled: Settled): void {
    const { ports, plan, costs } = this.#call
    const bill = this.#requireBill()
    learn(ports, plan, this.#opening.accountId, { ...bill, hasSearched: costs.hasSearched })
    this.#bill = { ...bill, record: records.booked(bill.record, settled) }
    this.#isDurable = true
    this.#report(this.#bill.record, true)
  }

  /** Takes everything back: comes back as `withdrawn` when it is safe to say so. `errorCode` is what the client is told. */
  withdraw(errorCode: FailureCode | undefined): void {
    const { ports } = this.#call
    // What is being charged is taken back when it has been.
    if (!this.#isCharging) this.#admission.release()
    const billed = this.#billedCall()
    if (this.#bill !== undefined) settling.reverseCharge(ports.actors, billed, this.#bill)
    const unended = { record: records.unendedRecord(billed), tokens: undefined, charged: undefined }
    const bill = this.#bill ?? unended
    const record = { ...bill.record, errorCode }
    this.#bill = { ...bill, record }
    settling.withdraw(ports.actors, ports.withdrawals, records.settlement(billed, record)).then(
      () => this.#call.receive({ type: "withdrawn" }),
      (error: unknown) => this.#call.receive({ type: "crashed", error }),
    )
  }

  /** It is kept that nothing is charged. */
  onWithdrawn(): void {
    this.#report(voidedRecord(this.#requireBill().record), false)
  }

  #requireBill(): settling.Bill {
    if (this.#bill === undefined) throw new Error("the call has no bill yet")
    return this.#bill
  }

  #billedCall(): settling.BilledCall {
    const { caller, markers, attempts, firstTokenMs, elapsedMs, costs } = this.#call
    return {
      keyHash: caller.keyHash,
      opening: this.#opening,
      admission: this.#admission,
      markers,
      attempts,
      firstTokenMs,
      durationMs: elapsedMs,
      costs,
    }
  }

  #report(record: UsageRecord, durable: boolean): void {
    this.#record = record
    const { requestId, accountId, keyId, endpoint } = this.#opening
    const { tokens } = this.#requireBill()
    const alert = this.#call.isAlerted
    const finished = { requestId, accountId, keyId, endpoint, record, tokens, durable, alert }
    this.#call.ports.finished(finished)
    this.#call.trace?.finished(finished)
  }
}

/** What the backend counted of the prompt corrects the estimates to come; one turn says it exactly. */
function learn(
  { calibration, factors }: BookedCall["ports"],
  { request, inputEstimate }: CallPlan,
  accountId: string,
  { record, tokens, hasSearched }: settling.Bill & Pick<CallCosts, "hasSearched">,
): void {
  if (record.status !== "ok" || tokens === undefined || record.turns > 1) return
  const counted = tokens.input + tokens.cacheRead + tokens.cacheWrite
  // What a file comes to, or what a backend found, says nothing of how a model cuts text.
  if (request.media === undefined && !hasSearched)
    calibration.learn(accountId, record.model, inputEstimate.texts, counted)
  if (record.absorbed <= record.excess || counted <= request.inputTokens) return
  if (inputEstimate.documents === 0) factors.learn(accountId, record.model, "texts", counted / inputEstimate.texts)
  else factors.learn(accountId, record.model, "documents", (counted - inputEstimate.texts) / inputEstimate.documents)
}
