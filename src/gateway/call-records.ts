/**
 * What is kept of a call. Of one that was forwarded, its records as the ledger books them: its final one, its markers, and the
 * parts of its costs; and its line of the log. Of one that was refused before, what its owner is shown.
 */
import type { RefusedCall, RefusedCallStore, RefusedCount } from "../store/refused-calls.ts"
import type { Settled, Settlement, UsageRecord } from "../../actors/ledger.ts"
import { microToJson, plus, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/price.ts"
import type { Offer } from "../catalogue/model.ts"
import type { CostPart } from "./call-costs.ts"
import type { Marker } from "./candidates.ts"
import type { FinishedCall } from "./ports.ts"
import type { BilledCall } from "./settle.ts"

// Calls that were refused before they were forwarded, gathered for their owners (decisions §13.15). A call pays for a look-up and
// a count; everything else is one statement every few seconds. A flood is counted and not kept: of each code an account's first
// calls of a minute are.

interface Tally {
  hour: number
  calls: number
  /** What of them is written. */
  written: number
  minute: number
  /** Of this minute. */
  kept: number
}

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const KEPT_DAYS = 7

const MAX_A_MINUTE = 10
/** That wait to be written, of all accounts. */
const MAX_WAITING = 2_000
/** Accounts that are refused within one hour; those after them are not counted. */
const MAX_ACCOUNTS = 20_000
/** In the last hour's place a new one is counted; what is not written of it waits here. */
const MAX_COUNTS = 40_000

export interface RefusedCallsParts {
  readonly store: Pick<RefusedCallStore, "keep" | "removeOld">
  /** What all request ids of this millisecond begin with. */
  readonly firstId: (ms: number) => string
  readonly now: () => number
}

export class RefusedCalls {
  readonly #parts: RefusedCallsParts
  readonly #accounts = new Map<string, Map<string, Tally>>()
  /** Of hours that are over. */
  #over: RefusedCount[] = []
  #waiting: RefusedCall[] = []

  constructor(parts: RefusedCallsParts) {
    this.#parts = parts
  }

  /** What waits to be written. */
  get waiting(): { readonly calls: number; readonly accounts: number } {
    return { calls: this.#waiting.length, accounts: this.#accounts.size }
  }

  /** Whether the call is one of those that are kept. */
  add(call: RefusedCall): boolean {
    let tallies = this.#accounts.get(call.accountId)
    if (tallies === undefined) {
      if (this.#accounts.size >= MAX_ACCOUNTS) return false
      this.#accounts.set(call.accountId, (tallies = new Map()))
    }
    const minute = Math.floor(call.at / MINUTE_MS)
    let tally = tallies.get(call.code)
    if (tally === undefined) {
      tallies.set(call.code, (tally = { hour: Math.floor(call.at / HOUR_MS), calls: 0, written: 0, minute, kept: 0 }))
    }
    if (minute !== tally.minute) this.#nextMinute(call, tally, minute)
    tally.calls++
    if (tally.kept >= MAX_A_MINUTE || this.#waiting.length >= MAX_WAITING) return false
    tally.kept++
    this.#waiting.push(call)
    return true
  }

  #nextMinute({ accountId, code, at }: RefusedCall, tally: Tally, minute: number): void {
    tally.minute = minute
    tally.kept = 0
    const hour = Math.floor(at / HOUR_MS)
    // A clock that was set back begins no hour anew: one statement writes each once.
    if (hour <= tally.hour) return
    if (tally.calls > tally.written && this.#over.length < MAX_COUNTS)
      this.#over.push({ accountId, code, hour: tally.hour, calls: tally.calls })
    Object.assign(tally, { hour, calls: 0, written: 0 })
  }

  /** Writes what has come since. What could not be written is written with the next. Tells of which accounts there was any. */
  async flush(): Promise<ReadonlySet<string>> {
    const { store, firstId, now } = this.#parts
    const calls = this.#waiting
    const over = this.#over
    const open: { readonly tally: Tally; readonly count: RefusedCount }[] = []
    for (const [accountId, tallies] of this.#accounts)
      for (const [code, tally] of tallies) {
        const { hour, calls } = tally
        if (calls > tally.written) open.push({ tally, count: { accountId, code, hour, calls } })
      }
    if (open.length > 0 || over.length > 0) {
      this.#waiting = []
      this.#over = []
      try {
        await store.keep(calls, [...over, ...open.map(({ count }) => count)], firstId(now() - DAY_MS))
      } catch (error) {
        this.#waiting = [...calls, ...this.#waiting].slice(0, MAX_WAITING)
        this.#over = [...over, ...this.#over].slice(0, MAX_COUNTS)
        throw error
      }
      for (const { tally, count } of open) if (tally.hour === count.hour) tally.written = count.calls
    }
    this.#forget()
    return new Set([...over, ...open.map(({ count }) => count)].map(({ accountId }) => accountId))
  }

  /** Rows of calls whose time is over. */
  async removeOld(): Promise<void> {
    const { store, firstId, now } = this.#parts
    await store.removeOld(firstId(now() - KEPT_DAYS * DAY_MS))
  }

  /** What is of an hour before, and written. */
  #forget(): void {
    const hour = Math.floor(this.#parts.now() / HOUR_MS)
    for (const [accountId, tallies] of this.#accounts) {
      for (const [code, tally] of tallies) if (tally.hour < hour && tally.calls === tally.written) tallies.delete(code)
      if (tallies.size === 0) this.#accounts.delete(accountId)
    }
  }
}

/** The record as the ledger has booked it. A fenced process delivers the answer, and the house bears what it cost. */
export function booked(record: UsageRecord, settled: Settled): UsageRecord {
  if (settled === "durable") return record
  const absorbed = plus(record.absorbed, record.charge)
  return { ...record, charge: zero, absorbed, status: "billing_error", flagged: true }
}

/** What a record says of a model that was asked once, where nobody is charged for it. */
const unbilled = ({ model, price }: Offer) =>
  ({
    model: model.id,
    priceId: price.id,
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
  }) satisfies Partial<UsageRecord>

/** The record of a call that is withdrawn before it had an end. */
export const unendedRecord = (call: BilledCall): UsageRecord => ({
  ...unbilled(call.admission.offer),
  part: 0,
  status: "billing_error",
  attempts: call.attempts,
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
  ...unbilled(offer),
  part,
  status: kind === "searches" ? "ok" : "upstream_error",
  member,
  cost,
})

const markerRecord = (marker: Marker, index: number): UsageRecord => ({
  ...unbilled(marker.offer),
  part: index + 1,
  status: marker.status,
  attempts: marker.attempts,
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

/** The line of one that was refused before it was forwarded. */
export const refusedFields = ({ requestId, accountId, keyId, endpoint, model, code }: RefusedCall) => ({
  request_id: requestId,
  account_id: accountId,
  key_id: keyId,
  model,
  endpoint,
  error_code: code,
})
