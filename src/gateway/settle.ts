/**
 * The end of a call's money: price → account and key → ledger, and only then the last byte (decisions §3). What is not
 * durable in time is withdrawn: nothing is deducted, and the record says so. Statuses: gateway-api.md, "Usage
 * record status", and decisions §12.12.
 */
import type { Charged } from "../../actors/account.ts"
import { type Soon, soon } from "../../actors/kernel/actor.ts"
import type { CallUsage } from "../../actors/key.ts"
import type { Opening, Settled, Settlement, UsageRecord, UsageStatus } from "../../actors/ledger.ts"
import { type Micro, minus, microToJson, plus, smaller, zero } from "../../actors/money/micro.ts"
import { price } from "../../actors/money/price.ts"
import { noTokens, type Tokens, totalTokens } from "../../actors/money/tokens.ts"
import { Failure } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import type { Withdrawals } from "../store/withdrawals.ts"
import type { Actors } from "./actors.ts"
import type { Admission } from "./admit.ts"
import type { End } from "./attempt.ts"
import type { CallCosts, CostPart } from "./call-costs.ts"
import type { Marker } from "./candidates.ts"
import type { FinishedCall } from "./ports.ts"

/** A call as its customer pays for it. */
export interface BilledCall {
  readonly keyHash: string
  /** Of the last admission. */
  readonly opening: Opening
  readonly admission: Admission
  readonly markers: readonly Marker[]
  /** Tries of the model that was asked last. */
  readonly attempts: number
  /** Usable output came at this time; undefined when none did. */
  readonly firstTokenMs: number | undefined
  readonly durationMs: number
  readonly costs: Pick<CallCosts, "final" | "parts">
}

/** What a call came to. */
export interface Bill {
  readonly record: UsageRecord
  /** What backends counted of an answer. */
  readonly tokens: Tokens | undefined
  /** What the account's actor has charged, to be taken back if it is not booked. */
  readonly charged: Charged | undefined
}

/**
 * Ends both holds. Only an answer is charged, and no more than the key's budget and then the account cover. `drainedOut`: the
 * client went away, and its backend was read on for as long as it may be.
 */
export function charge(actors: Actors, call: BilledCall, end: End, drainedOut: boolean): Soon<Bill> {
  const outcome = statusOf(call, end, drainedOut)
  const tokens = end.kind === "answered" ? end.tokens : undefined
  const charging = outcome.status === "ok" && tokens !== undefined ? chargeActors(actors, call, tokens) : undefined
  return soon(charging, (charged) => billed(actors, call, end, outcome, charged))
}

function billed(
  actors: Actors,
  call: BilledCall,
  end: End,
  { status, errorCode }: Outcome,
  charged: Charged | "unknown" | undefined,
): Bill {
  const { admission } = call
  const tokens = end.kind === "answered" ? end.tokens : undefined
  if (charged === undefined) releaseActors(actors, call, status)
  admission.settled()
  // What a backend counted over its bounds is the house's, whatever the customer could have paid.
  const excess = typeof charged === "object" && end.kind === "answered" ? end.excess : zero
  const { charge, absorbed } = typeof charged === "object" ? charged : { charge: zero, absorbed: zero }
  const final = charged === "unknown" ? "billing_error" : status
  const record: UsageRecord = {
    part: 0,
    model: admission.offer.model.id,
    priceId: admission.offer.price.id,
    status: final,
    tokens: tokens ?? noTokens,
    charge,
    absorbed: plus(absorbed, excess),
    excess,
    turns: end.kind === "answered" ? end.turns : 1,
    attempts: call.attempts,
    errorCode,
    flagged: final === "usage_missing" || final === "billing_error" || excess > zero,
    firstTokenMs: call.firstTokenMs,
    durationMs: call.durationMs,
    member: call.admission.seat.member.id,
    cost: call.costs.final,
  }
  return { record, tokens, charged: typeof charged === "object" ? charged : undefined }
}

interface Outcome {
  readonly status: UsageStatus
  readonly errorCode?: FailureCode
}

function statusOf({ opening, firstTokenMs }: BilledCall, end: End, drainedOut: boolean): Outcome {
  if (end.kind === "answered") return { status: end.tokens === undefined ? "usage_missing" : "ok" }
  const { fault } = end
  const isUsable = firstTokenMs !== undefined
  // The backend answered, and nobody read what it counted.
  if (drainedOut && isUsable) return { status: "usage_missing" }
  const isAborted = opening.streamed && fault.opened && !isUsable
  return { status: isAborted ? "aborted_stream" : "upstream_error", errorCode: fault.failure.code }
}

/** Unknown when the account's actor could not say what it charged. */
function chargeActors(actors: Actors, call: BilledCall, tokens: Tokens): Soon<Charged | "unknown"> {
  const { keyHash, opening, admission } = call
  const { requestId, starts } = opening
  const actual = price(tokens, admission.offer.price.rates)
  const usage = { requestId, tokens: totalTokens(tokens), actual, starts }
  return soon(actors.keys.settle(keyHash, usage), (budgeted) => chargeAccount(actors, call, usage, budgeted))
}

function chargeAccount(
  actors: Actors,
  { keyHash, opening, admission }: BilledCall,
  usage: CallUsage,
  budgeted: Micro | Failure,
): Soon<Charged | "unknown"> {
  const { requestId, accountId, starts } = opening
  const { actual } = usage
  // A key that did not say in time is told, and pays what it held.
  const payable = budgeted instanceof Failure ? smaller(actual, admission.hold) : budgeted
  if (budgeted instanceof Failure) actors.keys.tellSettled(keyHash, { ...usage, actual: payable })
  return soon(actors.accounts.settle(accountId, requestId, payable), (charged) => {
    if (charged instanceof Failure) actors.accounts.release(accountId, requestId)
    const paid = charged instanceof Failure ? zero : charged.charge
    if (paid < payable) actors.keys.unsettle(keyHash, minus(payable, paid), starts)
    return charged instanceof Failure ? "unknown" : { ...charged, absorbed: minus(actual, paid) }
  })
}

function releaseActors(actors: Actors, { keyHash, opening, admission }: BilledCall, status: UsageStatus): void {
  const { requestId, accountId, starts } = opening
  actors.accounts.release(accountId, requestId)
  const tokens = status === "usage_missing" ? admission.reservedTokens : 0
  actors.keys.tellSettled(keyHash, { requestId, tokens, actual: zero, starts })
}

/** The actors take back what is not booked. */
export function takeBack(actors: Actors, { keyHash, opening }: BilledCall, { charged }: Bill): void {
  if (charged === undefined) return
  actors.accounts.unsettle(opening.accountId, charged)
  actors.keys.unsettle(keyHash, charged.charge, opening.starts)
}

/** The record as the ledger has booked it. A fenced process delivers the answer, and the house bears what it cost. */
export function booked(record: UsageRecord, settled: Settled): UsageRecord {
  if (settled === "durable") return record
  const absorbed = plus(record.absorbed, record.charge)
  return { ...record, charge: zero, absorbed, status: "billing_error", flagged: true }
}

/** The record as it is when it was withdrawn. */
export const withdrawn = (record: UsageRecord): UsageRecord => ({
  ...record,
  charge: zero,
  absorbed: zero,
  excess: zero,
  status: "billing_error",
  flagged: true,
})

/** The record of a call that is withdrawn before it had an end. */
export const unendedRecord = (call: BilledCall, errorCode: FailureCode | undefined): UsageRecord => ({
  part: 0,
  model: call.admission.offer.model.id,
  priceId: call.admission.offer.price.id,
  status: "billing_error",
  tokens: noTokens,
  charge: zero,
  absorbed: zero,
  excess: zero,
  turns: 1,
  attempts: call.attempts,
  errorCode,
  flagged: true,
  firstTokenMs: call.firstTokenMs,
  durationMs: call.durationMs,
  member: call.admission.seat.member.id,
  cost: call.costs.final,
})

export const settlement = ({ opening, markers, costs }: BilledCall, record: UsageRecord): Settlement => ({
  opening,
  records: [
    record,
    ...markers.map(markerRecord),
    ...costs.parts.map((part, index) => costRecord(part, markers.length + index + 1)),
  ],
  voided: false,
})

/** Of the house's own books: it has no charge and no tokens, so that it is no part of what its customer is told. */
const costRecord = ({ kind, offer, member, cost }: CostPart, part: number): UsageRecord => ({
  part,
  model: offer.model.id,
  priceId: offer.price.id,
  status: kind === "searches" ? "ok" : "upstream_error",
  tokens: noTokens,
  charge: zero,
  absorbed: zero,
  excess: zero,
  turns: 1,
  attempts: 1,
  errorCode: undefined,
  flagged: false,
  firstTokenMs: undefined,
  durationMs: 0,
  member,
  cost,
})

const markerRecord = (marker: Marker, index: number): UsageRecord => ({
  part: index + 1,
  model: marker.offer.model.id,
  priceId: marker.offer.price.id,
  status: marker.status,
  tokens: noTokens,
  charge: zero,
  absorbed: zero,
  excess: zero,
  turns: 1,
  attempts: marker.attempts,
  errorCode: undefined,
  flagged: false,
  firstTokenMs: undefined,
  durationMs: marker.durationMs,
  member: marker.member,
  // It was refused, and what is refused is not billed; the tries before it are parts of their own.
  cost: zero,
})

/**
 * Takes back a call whose client is about to be told that nothing is charged, while the database may have booked it or may
 * still: the ledger voids it, and until that is durable it is kept on the local disk, for the case that this process dies.
 * Resolves when it is safe to tell.
 */
export async function withdraw(actors: Actors, withdrawals: Withdrawals, settlement: Settlement): Promise<void> {
  const { requestId, accountId } = settlement.opening
  actors.ledger.void(settlement)
  actors.ledger.whenDurable(accountId, () => withdrawals.forget(requestId))
  await withdrawals.keep(settlement)
}

/** Before the first call: what processes before this one told their clients is made true. */
export async function withdrawKept({ ledger }: Pick<Actors, "ledger">, withdrawals: Withdrawals): Promise<number> {
  const kept = await withdrawals.kept()
  const accounts = new Set(kept.map(({ opening }) => opening.accountId))
  const durable = (accountId: string) => new Promise<void>((resolve) => ledger.whenDurable(accountId, resolve))
  // Twice: what a dead process sent last may still be at work in the database, and a statement that waited for it has not
  // seen what it booked.
  for (let n = 0; n < 2 && kept.length > 0; n++) {
    for (const settlement of kept) ledger.void(settlement)
    for (const accountId of accounts) await durable(accountId)
  }
  for (const { opening } of kept) withdrawals.forget(opening.requestId)
  return kept.length
}

/** One line for each call; never a prompt, an answer or a key (decisions §11). */
export const callFields = ({ requestId, accountId, keyId, endpoint, record, tokens, alert }: FinishedCall) => ({
  request_id: requestId,
  account_id: accountId,
  key_id: keyId,
  model: record.model,
  member: record.member,
  endpoint,
  status: record.status,
  error_code: record.errorCode,
  input_tokens: tokens?.input,
  output_tokens: tokens?.output,
  cache_read_tokens: tokens?.cacheRead,
  cache_write_tokens: tokens?.cacheWrite,
  charge_micro: microToJson(record.charge),
  turns: record.turns,
  attempts: record.attempts,
  first_token_ms: record.firstTokenMs,
  duration_ms: record.durationMs,
  alert: alert || undefined,
})
