/** The records of a call as the ledger books them: its final one, its markers, and the parts of its costs; and its line of the log. */
import type { Settled, Settlement, UsageRecord } from "../../actors/ledger.ts"
import { microToJson, plus, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/tokens.ts"
import type { FailureCode } from "../failure/table.ts"
import type { CostPart } from "./call-costs.ts"
import type { Marker } from "./candidates.ts"
import type { FinishedCall } from "./ports.ts"
import type { BilledCall } from "./settle.ts"

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
