/**
 * The end of a call's money: price → account and key → ledger, and only then the last byte (decisions §3). What is not
 * durable in time is withdrawn: nothing is deducted, and the record says so. Statuses: gateway-api.md, "Usage
 * record status", and decisions §12.12.
 */
import type { Charged } from "../../actors/account.ts"
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { Opening, Settlement, UsageRecord, UsageStatus } from "../../actors/ledger.ts"
import { type Micro, minus, plus, smaller, zero } from "../../actors/money/micro.ts"
import { noTokens, price, type Tokens, totalTokens } from "../../actors/money/price.ts"
import { Failure } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import type { Withdrawals } from "../store/withdrawals.ts"
import type { Actors } from "./actors.ts"
import type { Admission } from "./admit.ts"
import type { End } from "./attempt.ts"
import {
  type ChargedPurse,
  type PayingKeys,
  paidOf,
  releaseBreakers,
  settleBreakers,
  settleKeys,
  tellKeysSettled,
  unsettleBreakers,
  unsettleKeys,
} from "./purses.ts"
import type { CallCosts } from "./call-costs.ts"
import type { Marker } from "./candidates.ts"

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

/** What the account has paid, and what breakers were charged of it. */
interface ChargedCall extends Charged {
  readonly breakers: readonly ChargedPurse[]
}

/** What a call came to. */
export interface Bill {
  readonly record: UsageRecord
  /** What backends counted of an answer. */
  readonly tokens: Tokens | undefined
  /** What the account's actor has charged, to be taken back if it is not booked. */
  readonly charged: ChargedCall | undefined
}

/**
 * Ends both holds. Only an answer is charged, and no more than the key's budget and then the account cover. `drainedOut`: the
 * client went away, and its backend was read on for as long as it may be.
 */
export function charge(actors: Actors, call: BilledCall, end: End, drainedOut: boolean): MaybePromise<Bill> {
  const outcome = statusOf(call, end, drainedOut)
  const tokens = end.kind === "answered" ? end.tokens : undefined
  const charging = tokens === undefined ? undefined : chargeActors(actors, call, tokens)
  return andThen(charging, (charged) => makeBill(actors, call, end, outcome, charged))
}

function makeBill(
  actors: Actors,
  call: BilledCall,
  end: End,
  { status, errorCode }: Outcome,
  charged: ChargedCall | "unknown" | undefined,
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
  const errorCode = fault.failure.code
  // The backend answered, and nobody read what it counted.
  if (drainedOut && isUsable) return { status: "usage_missing", errorCode }
  const isAborted = opening.streamed && fault.opened && !isUsable
  return { status: isAborted ? "aborted_stream" : "upstream_error", errorCode }
}

/** Unknown when the account's actor could not say what it charged. */
function chargeActors(actors: Actors, call: BilledCall, tokens: Tokens): MaybePromise<ChargedCall | "unknown"> {
  const { opening, admission } = call
  const actual = price(tokens, admission.offer.price.rates)
  const usage = { requestId: opening.requestId, tokens: totalTokens(tokens), actual }
  return andThen(settleKeys(actors, keysOf(call), usage, admission.hold), (payable) =>
    chargeRun(actors, call, actual, payable),
  )
}

const keysOf = ({ keyHash, opening: { starts, parent } }: Pick<BilledCall, "keyHash" | "opening">): PayingKeys => ({
  keyHash,
  starts,
  parent,
})

/** As the key, so its run: no more than what it can pay. */
function chargeRun(
  actors: Actors,
  call: BilledCall,
  actual: Micro,
  ofKey: Micro,
): MaybePromise<ChargedCall | "unknown"> {
  const { opening, admission } = call
  const { requestId, runId } = opening
  if (runId === undefined) return chargeAccount(actors, call, actual, ofKey)
  return andThen(actors.runs.settle(runId, requestId, ofKey), (paid) => {
    const payable = paid instanceof Failure ? smaller(ofKey, admission.hold) : paid
    if (paid instanceof Failure) actors.runs.tellSettled(runId, requestId, payable)
    if (payable < ofKey) unsettleKeys(actors, keysOf(call), minus(ofKey, payable))
    return chargeAccount(actors, call, actual, payable)
  })
}

function chargeAccount(
  actors: Actors,
  call: BilledCall,
  actual: Micro,
  ofRun: Micro,
): MaybePromise<ChargedCall | "unknown"> {
  const { requestId, accountId, runId, breakers = [] } = call.opening
  const reverseExcess = (paid: Micro) => {
    if (paid >= ofRun) return
    unsettleKeys(actors, keysOf(call), minus(ofRun, paid))
    if (runId !== undefined) actors.runs.unsettle(runId, minus(ofRun, paid))
  }
  const unknown = () => {
    actors.accounts.release(accountId, requestId)
    reverseExcess(zero)
    return "unknown" as const
  }
  return andThen(settleBreakers(actors, breakers, requestId, ofRun), (breakersCharge) => {
    if (breakersCharge === "unknown") return unknown()
    return andThen(actors.accounts.settle(accountId, requestId, breakersCharge.payable), (charged) => {
      const paid = charged instanceof Failure ? zero : charged.charge
      unsettleBreakers(actors, breakersCharge.charged, paid)
      if (charged instanceof Failure) return unknown()
      reverseExcess(paid)
      return { ...charged, absorbed: minus(actual, paid), breakers: paidOf(breakersCharge.charged, paid) }
    })
  })
}

function releaseActors(actors: Actors, call: BilledCall, status: UsageStatus): void {
  const { opening, admission } = call
  const { requestId, accountId, runId, breakers = [] } = opening
  actors.accounts.release(accountId, requestId)
  releaseBreakers(actors, breakers, requestId)
  if (runId !== undefined) actors.runs.release(runId, requestId)
  const tokens = status === "usage_missing" ? admission.reservedTokens : 0
  tellKeysSettled(actors, keysOf(call), { requestId, tokens, actual: zero })
}

/** The actors take back what is not booked. */
export function reverseCharge(actors: Actors, call: BilledCall, { charged }: Bill): void {
  if (charged === undefined) return
  const { opening } = call
  actors.accounts.unsettle(opening.accountId, charged)
  unsettleBreakers(actors, charged.breakers)
  unsettleKeys(actors, keysOf(call), charged.charge)
  if (opening.runId !== undefined) actors.runs.unsettle(opening.runId, charged.charge)
}

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
  for (let n = 0; n < 2; n++) {
    for (const settlement of kept) ledger.void(settlement)
    for (const accountId of accounts) await durable(accountId)
  }
  for (const { opening } of kept) withdrawals.forget(opening.requestId)
  return kept.length
}
