/**
 * The end of a call's money: price → account and key → ledger, and only then the last byte (decisions §3). When the
 * ledger does not answer in time the settlement is voided: nothing is deducted, and the record says so.
 */
import type { Opening, UsageRecord, UsageStatus } from "../../actors/ledger.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import { price } from "../../actors/money/price.ts"
import type { Settled } from "../../actors/money/purse.ts"
import { noTokens, type Tokens, totalTokens } from "../../actors/money/tokens.ts"
import type { Offer } from "../catalogue/live.ts"
import type { FailureCode } from "../failure/table.ts"
import type { Actors } from "./actors.ts"
import type { Admission } from "./admit.ts"

/** What became of a call. */
export interface Ending {
  readonly status: UsageStatus
  readonly tokens: Tokens | undefined
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
  readonly deadlineMs: number
}

export async function settle(actors: Actors, terms: SettleTerms): Promise<Booked> {
  const { keyHash, opening, admission, ending } = terms
  const { requestId, accountId } = opening
  const settled = await chargeAccount(actors, terms)
  const status = settled === undefined ? "billing_error" : ending.status
  const { charge, absorbed } = settled ?? { charge: zero, absorbed: zero }
  const used =
    ending.tokens === undefined
      ? ending.status === "usage_missing"
        ? admission.reservedTokens
        : 0
      : totalTokens(ending.tokens)
  actors.keys.tellIfActive(keyHash, { type: "settle", requestId, tokens: used, charge })
  admission.settled()

  const final: UsageRecord = {
    part: 0,
    model: admission.offer.model.id,
    priceId: admission.offer.price.id,
    status,
    tokens: ending.tokens ?? noTokens,
    charge,
    absorbed,
    turns: 1,
    attempts: ending.attempts,
    errorCode: ending.errorCode,
    flagged: status === "usage_missing" || status === "billing_error",
    firstTokenMs: ending.firstTokenMs,
    durationMs: ending.durationMs,
  }
  const settlement = { opening, records: [final, ...terms.markers.map(markerRecord)] as const, voided: false }
  const durable = await actors.ledger.ask<"durable">(
    (reply) => ({ type: "settle", settlement, reply }),
    terms.deadlineMs,
  )
  if (durable.kind === "ok") return { charge, status, durable: true }

  actors.ledger.tell({ type: "void", settlement })
  if (charge > 0n) {
    actors.accounts.tellIfActive(accountId, { type: "unsettle", charge })
    actors.keys.tellIfActive(keyHash, { type: "unsettle", charge, starts: opening.starts })
  }
  return { charge: zero, status: "billing_error", durable: false }
}

/** Ends the hold. Only an answer is charged; undefined when the account's actor could not say what it charged. */
async function chargeAccount(
  actors: Actors,
  { opening, admission, ending }: SettleTerms,
): Promise<Settled | undefined> {
  const { requestId, accountId } = opening
  if (ending.status !== "ok" || ending.tokens === undefined) {
    actors.accounts.tellIfActive(accountId, { type: "release", requestId })
    return { charge: zero, absorbed: zero }
  }
  const actual = price(ending.tokens, admission.offer.price.rates)
  const outcome = await actors.accounts.ask<Settled>(accountId, (reply) => ({
    type: "settle",
    requestId,
    actual,
    reply,
  }))
  return outcome.kind === "ok" ? outcome.value : undefined
}

const markerRecord = (marker: Marker, index: number): UsageRecord => ({
  part: index + 1,
  model: marker.offer.model.id,
  priceId: marker.offer.price.id,
  status: marker.status,
  tokens: noTokens,
  charge: zero,
  absorbed: zero,
  turns: 1,
  attempts: marker.attempts,
  errorCode: undefined,
  flagged: false,
  firstTokenMs: undefined,
  durationMs: marker.durationMs,
})
