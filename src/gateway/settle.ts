/**
 * The end of a call's money: price → account and key → ledger, and only then the last byte (decisions §3). When the
 * ledger does not answer in time the settlement is voided: nothing is deducted, and the record says so.
 */
import type { Charged } from "../../actors/account.ts"
import type { Opening, UsageRecord, UsageStatus } from "../../actors/ledger.ts"
import { type Micro, minus, plus, smaller, zero } from "../../actors/money/micro.ts"
import { price } from "../../actors/money/price.ts"
import { noTokens, type Tokens, totalTokens } from "../../actors/money/tokens.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import type { Actors } from "./actors.ts"
import type { Withdrawals } from "../store/withdrawals.ts"
import type { Admission } from "./admit.ts"
import type { Verdict } from "./verdict.ts"
import { withdraw } from "./withdraw.ts"

/** What became of a call. */
export interface Ending {
  readonly status: UsageStatus
  /** Of all turns together. */
  readonly tokens: Tokens | undefined
  /** The price of what backends counted over their bounds (actors/money/bounds.ts). */
  readonly excess: Micro
  readonly turns: number
  readonly attempts: number
  readonly errorCode: FailureCode | undefined
  readonly firstTokenMs: number | undefined
  readonly durationMs: number
}

/** A model that the call was rerouted from. */
export interface Marker {
  readonly offer: Offer
  readonly status: "fallback_429" | "fallback_oversize"
  readonly attempts: number
  readonly durationMs: number
}

export interface Booked {
  readonly charge: Micro
  /** What the customer could not be charged. */
  readonly absorbed: Micro
  readonly status: UsageStatus
  /** False when the ledger could not say in time that it is durable; then nothing is deducted. */
  readonly durable: boolean
}

export interface SettleTerms {
  readonly keyHash: string
  readonly opening: Opening
  readonly admission: Admission
  readonly ending: Ending
  readonly markers: readonly Marker[]
  readonly verdict: Verdict
}

export async function settle(actors: Actors, withdrawals: Withdrawals, terms: SettleTerms): Promise<Booked> {
  const { keyHash, opening, admission, ending, verdict } = terms
  const { accountId, starts } = opening
  const charged = await chargeCustomer(actors, terms)
  const status = charged === "unknown" ? "billing_error" : ending.status
  // What a backend counted over its bounds is the house's, whatever the customer could have paid.
  const excess = typeof charged === "string" ? zero : ending.excess
  const { charge, absorbed } =
    typeof charged === "string"
      ? { charge: zero, absorbed: zero }
      : { charge: charged.charge, absorbed: plus(charged.absorbed, excess) }
  admission.settled()
  const final: UsageRecord = {
    part: 0,
    model: admission.offer.model.id,
    priceId: admission.offer.price.id,
    status,
    tokens: ending.tokens ?? noTokens,
    charge,
    absorbed,
    excess,
    turns: ending.turns,
    attempts: ending.attempts,
    errorCode: ending.errorCode,
    flagged: status === "usage_missing" || status === "billing_error" || excess > zero,
    firstTokenMs: ending.firstTokenMs,
    durationMs: ending.durationMs,
  }
  const settlement = { opening, records: [final, ...terms.markers.map(markerRecord)] as const, voided: false }
  // Once a client has been told that nothing is charged, not even the attempt is made.
  const durable = async () =>
    verdict.withdrawn.aborted
      ? undefined
      : await Promise.race([actors.ledger.settle(settlement), aborted(verdict.withdrawn)])
  const outcome = await durable()
  if (typeof outcome === "string" && verdict.book()) {
    if (outcome === "durable") return { charge, absorbed, status, durable: true }
    // The answer is delivered, and the house bears what it cost.
    return { charge: zero, absorbed: plus(absorbed, charge), status: "billing_error", durable: true }
  }

  if (typeof charged !== "string") {
    actors.accounts.unsettle(accountId, charged)
    actors.keys.unsettle(keyHash, charge, starts)
  }
  await withdraw(actors, withdrawals, settlement)
  return { charge: zero, absorbed: zero, status: "billing_error", durable: false }
}

const aborted = (signal: AbortSignal): Promise<undefined> =>
  new Promise((resolve) => {
    const end = () => resolve(undefined)
    if (signal.aborted) end()
    else signal.addEventListener("abort", end)
  })

/**
 * Ends both holds. Only an answer is charged, and no more than the key's budget and then the account cover; unknown when
 * the account's actor could not say what it charged.
 */
async function chargeCustomer(
  actors: Actors,
  { keyHash, opening, admission, ending }: SettleTerms,
): Promise<Charged | "nothing" | "unknown"> {
  const { requestId, accountId, starts } = opening
  const release = () => actors.accounts.release(accountId, requestId)
  if (ending.status !== "ok" || ending.tokens === undefined) {
    release()
    const tokens = ending.status === "usage_missing" ? admission.reservedTokens : 0
    actors.keys.tellSettled(keyHash, { requestId, tokens, actual: zero, starts })
    return "nothing"
  }
  const actual = price(ending.tokens, admission.offer.price.rates)
  const usage = { requestId, tokens: totalTokens(ending.tokens), actual, starts }
  const budgeted = await actors.keys.settle(keyHash, usage)
  // A key that did not say in time is told, and pays what it held.
  const payable = budgeted instanceof Failure ? smaller(actual, admission.hold) : budgeted
  if (budgeted instanceof Failure) actors.keys.tellSettled(keyHash, { ...usage, actual: payable })
  const outcome = await actors.accounts.settle(accountId, requestId, payable)
  if (outcome instanceof Failure) release()
  const charged = outcome instanceof Failure ? undefined : outcome
  const charge = charged?.charge ?? zero
  if (charge < payable) actors.keys.unsettle(keyHash, minus(payable, charge), starts)
  return charged === undefined ? "unknown" : { ...charged, absorbed: minus(actual, charge) }
}

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
})
