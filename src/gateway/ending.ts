/**
 * How a call ended, and what is left to tell of it when it has been settled (gateway-api.md, "Usage record status";
 * decisions §12.12).
 */
import type { UsageRecord } from "../../actors/ledger.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/tokens.ts"
import type { Offer } from "../catalogue/live.ts"
import type { JsonObject } from "../language/json.ts"
import { Failure } from "../failure/failure.ts"
import type { FailureCode } from "../failure/table.ts"
import type { StreamPosition } from "../wire/format.ts"
import type { Routed } from "./route.ts"
import type { Booked, Ending } from "./settle.ts"

export interface EndingTerms {
  readonly streamed: boolean
  /** The client went away, and its backend was read on for as long as it may be. */
  readonly drainedOut: boolean
  readonly firstTokenMs: number | undefined
  readonly durationMs: number
}

export function endingOf({ end, attempts }: Routed, terms: EndingTerms): Ending {
  const turns = end.kind === "answered" ? end.turns : 1
  const common = {
    turns,
    attempts,
    tokens: undefined,
    excess: zero,
    firstTokenMs: terms.firstTokenMs,
    durationMs: terms.durationMs,
  }
  if (end.kind === "answered") {
    const { tokens, excess } = end
    return { ...common, status: tokens === undefined ? "usage_missing" : "ok", tokens, excess, errorCode: undefined }
  }
  const { fault, usable } = end
  // The backend answered, and nobody read what it counted.
  if (terms.drainedOut && usable) return { ...common, status: "usage_missing", errorCode: undefined }
  const status = terms.streamed && fault.opened && !usable ? "aborted_stream" : "upstream_error"
  return { ...common, status, errorCode: fault.failure.code }
}

/** The record of a call of which a failure is told before it could be settled. */
export const unsettledRecord = (
  { model, price: version }: Offer,
  errorCode: FailureCode,
  firstTokenMs: number | undefined,
  durationMs: number,
): UsageRecord => ({
  part: 0,
  model: model.id,
  priceId: version.id,
  status: "billing_error",
  tokens: noTokens,
  charge: zero,
  absorbed: zero,
  excess: zero,
  turns: 1,
  attempts: 1,
  errorCode,
  flagged: true,
  firstTokenMs,
  durationMs,
})

/** What is left to tell when a call has been settled. */
export type Delivery =
  | {
      readonly kind: "failure"
      readonly failure: Failure
      readonly model: string
      readonly position: StreamPosition | undefined
    }
  | { readonly kind: "reply"; readonly body: JsonObject; readonly charge: Micro }
  | { readonly kind: "stream"; readonly last: string }

export function deliveryOf({ end, admission }: Routed, booked: Booked): Delivery {
  const model = admission.offer.model.id
  if (end.kind === "failed") return { kind: "failure", failure: end.fault.failure, model, position: end.position }
  if (typeof end.last === "string") return { kind: "stream", last: end.last }
  if (booked.durable) return { kind: "reply", body: end.last, charge: booked.charge }
  return { kind: "failure", failure: new Failure("billing.reconcile_failed"), model, position: undefined }
}
