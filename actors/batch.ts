/** What the ledger writes: openings and settlements, gathered into batches. Money in micro-rupiah, times in milliseconds. */
import type { Reply } from "./kernel/actor.ts"
import { type Micro, zero } from "./money/micro.ts"
import type { Tokens } from "./money/price.ts"
import type { PeriodStarts } from "./period.ts"

/** A call that is being forwarded. */
export interface Opening {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  readonly leaseId: bigint
  /** The catalogue's id of the model asked for. */
  readonly model: string
  readonly endpoint: string
  readonly streamed: boolean
  readonly hold: Micro
  readonly priceId: bigint
  /** Wall clock at admission; the spending periods that the charge counts in. */
  readonly openedAt: number
  readonly starts: PeriodStarts
  /** Of a child's call: the key that pays as well. */
  readonly parent?: PayingParent | undefined
  /** The purses of breakers that pay as well. */
  readonly breakers?: readonly string[] | undefined
  /** The run that pays as well, and that the record names. */
  readonly runId?: string | undefined
}

/** The parent of a call's key, and its spending periods that the charge counts in: they may be others than the child's. */
export interface PayingParent {
  readonly keyId: string
  /** The id of its actor. */
  readonly keyHash: string
  readonly starts: PeriodStarts
}

/** Usage record status (gateway-api.md, "Usage record status"). */
export type UsageStatus =
  | "ok"
  | "upstream_error"
  | "aborted_stream"
  | "usage_missing"
  | "billing_error"
  | "fallback_429"
  | "fallback_oversize"

/** What became of a call, or of one model of its chain. */
export interface UsageRecord {
  /** 0 is the final record; 1, 2, … are the markers of reroutes, and tries that failed and cost something. */
  readonly part: number
  readonly model: string
  readonly priceId: bigint
  readonly status: UsageStatus
  readonly tokens: Tokens
  readonly charge: Micro
  /** What the house bears of it. */
  readonly absorbed: Micro
  /** The part of `absorbed` that is not of `tokens`: counts of the backend over their bounds. */
  readonly excess: Micro
  readonly turns: number
  readonly attempts: number
  readonly errorCode: string | undefined
  readonly flagged: boolean
  readonly firstTokenMs: number | undefined
  readonly durationMs: number
  /** Of the pool of the model: who was asked last; undefined where nobody was. Not for customers. */
  readonly member: string | undefined
  /** What the backends charge the house for it; undefined where that is not known. Not for customers. */
  readonly cost: Micro | undefined
}

export interface Settlement {
  readonly opening: Opening
  /** The final record first, then the markers. */
  readonly records: readonly [UsageRecord, ...UsageRecord[]]
  /** Takes back a charge that may have been booked although nobody heard of it. */
  readonly voided: boolean
}

export interface Batch {
  readonly openings: readonly Opening[]
  readonly settlements: readonly Settlement[]
}

export interface Committed {
  /** Request ids of settlements whose lease was not open any more: the house bears those. */
  readonly fenced: readonly string[]
  /** Accounts whose rows somebody else has locked: nothing that the batch says of them was written. */
  readonly locked: readonly string[]
}

export interface LedgerView {
  /** Entries that are not durable yet. */
  readonly backlog: number
  /** How long the commit under way has been tried, in running time; 0 when none is. */
  readonly lagMs: number
}

export interface LedgerStore {
  /**
   * Resolves once the batch is durable. A patient commit waits some time for rows that somebody else has locked, and names no
   * account. Rejects when the outcome is not known, or with `BatchRefused` or `RowsLocked`. An empty batch asks whether the
   * store is there.
   */
  commit(batch: Batch, patient: boolean): Promise<Committed>
}

/** The store says of the batch's own values that it will never take them. Nothing of it was booked. */
export class BatchRefused extends Error {
  override readonly name = "BatchRefused"
}

/** Rows that the batch needs were locked for too long. Nothing of it was booked. */
export class RowsLocked extends Error {
  override readonly name = "RowsLocked"
}

/** `fenced`: written, but not charged, because this process had been taken for dead and closed. */
export type Settled = "durable" | "fenced"

/** One command's, which lies in all the lanes that it waits for. */
export interface Barrier {
  readonly kind: "barrier"
  /** Undefined: of all. */
  readonly accountId: string | undefined
  /** In how many lanes it still lies. */
  waits: number
  readonly reply: Reply<"durable">
}

interface OpenEntry {
  readonly kind: "open"
  readonly opening: Opening
  /** It waits so long for its settlement at the most, in running time. */
  readonly dueAt: number
  readonly reply: Reply<"durable">
}

export interface SettleEntry {
  readonly kind: "settle"
  /** Replaced by its reversal when it is voided before it was sent. */
  settlement: Settlement
  readonly reply: Reply<Settled>
}

export type Entry = OpenEntry | SettleEntry | Barrier

/** The account that an entry is about; undefined of a barrier that waits for all. */
export function accountOf(entry: Entry): string | undefined {
  if (entry.kind === "open") return entry.opening.accountId
  return entry.kind === "settle" ? entry.settlement.opening.accountId : entry.accountId
}

/** An opening whose settlement is in the same batch need not be written: the record says it all. */
export function batchOf(entries: readonly Entry[]): Batch {
  const settlements = settledIn(entries)
  const openings: Opening[] = []
  for (const entry of entries) {
    if (entry.kind === "open" && !settlements.has(entry.opening.requestId)) openings.push(entry.opening)
  }
  return { openings, settlements: [...settlements.values()] }
}

/** The last settlement of each call, by its request id. */
export function settledIn(entries: readonly Entry[]): ReadonlyMap<string, Settlement> {
  const settlements = new Map<string, Settlement>()
  for (const entry of entries) {
    if (entry.kind === "settle") settlements.set(entry.settlement.opening.requestId, entry.settlement)
  }
  return settlements
}

/** The final record of a call that is taken back: nobody bears anything of it. */
export const voidedRecord = (record: UsageRecord): UsageRecord => ({
  ...record,
  status: "billing_error",
  charge: zero,
  absorbed: zero,
  excess: zero,
  flagged: true,
})

export function voidOf({ opening, records: [final, ...markers] }: Settlement): Settlement {
  return { opening, records: [voidedRecord(final), ...markers], voided: true }
}

/** Tells who waits for entries that they are durable. */
export function answer(entries: readonly Entry[], fenced: readonly string[]): void {
  for (const entry of entries) {
    if (entry.kind === "settle") {
      entry.reply(fenced.includes(entry.settlement.opening.requestId) ? "fenced" : "durable")
    } else if (entry.kind === "open") entry.reply("durable")
    else if (--entry.waits === 0) entry.reply("durable")
  }
}

/** What of these is of an account. */
export const entriesOf = (accountId: string, entries: readonly Entry[]): Entry[] =>
  entries.filter((entry) => entry.kind !== "barrier" && accountOf(entry) === accountId)

export const isFor = (barrier: Barrier, accountId: string): boolean =>
  barrier.accountId === undefined || barrier.accountId === accountId

export const barriersOf = (entries: readonly Entry[]): Barrier[] => entries.filter((entry) => entry.kind === "barrier")
