/** What wants an operator's look in the books: flagged records, and what reconciliations found. Micro-rupiah. */
import { largestMicro, type Micro, micro } from "../../../actors/money/micro.ts"
import type { Database } from "../database.ts"

/**
 * Why a record is flagged: the counts could not be read, bookkeeping failed, a closed process sent its charge, or the
 * backend counted more than was asked for.
 */
export type FlaggedKind = "usage_missing" | "billing_error" | "fenced" | "excess"

export interface FlaggedRecord {
  readonly requestId: string
  readonly kind: FlaggedKind
  readonly accountId: string
  readonly keyId: string
  readonly model: string
  readonly errorCode: string | undefined
  readonly absorbedMicro: Micro
  readonly openedAt: Date
}

export interface BillingSums {
  readonly byKind: Readonly<Partial<Record<FlaggedKind, number>>>
  /** Of all time: what customers' calls cost the house. */
  readonly absorbedMicro: Micro
  readonly fencedMicro: Micro
  /** What backends counted over their bounds. */
  readonly excessMicro: Micro
}

export interface ReconciliationRun {
  readonly id: bigint
  readonly startedAt: Date
  readonly endedAt: Date | undefined
  readonly differences: number | undefined
  readonly notCompared: number | undefined
  /** It will not end: its process is closed, or it began more than a day ago. */
  readonly brokenOff: boolean
}

export interface DifferenceRow {
  readonly id: bigint
  readonly reconciliationId: bigint
  readonly claim: string
  readonly accountId: string | undefined
  readonly figures: unknown
  readonly mended: boolean
}

export interface BillingHealthStore {
  /** The newest first, before a request id. */
  flagged(page: { readonly before: string | undefined; readonly limit: number }): Promise<readonly FlaggedRecord[]>
  sums(): Promise<BillingSums>
  /** The latest, the newest first. */
  runs(limit: number): Promise<readonly ReconciliationRun[]>
  differences(limit: number): Promise<readonly DifferenceRow[]>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function billingHealthStore(database: Database): BillingHealthStore {
  return {
    async flagged({ before, limit }) {
      const rows = await database.run(
        (sql) => sql<FlaggedRow[]>`
          select request_id, ${sql.unsafe(KIND)} as kind, account_id, key_id, model, error_code, absorbed_micro, opened_at
          from usage where flagged and part = 0 ${before === undefined ? sql`` : sql`and request_id < ${before}`}
          order by request_id desc limit ${limit}`,
        once,
      )
      return rows.map((row) => ({
        requestId: row.request_id,
        kind: row.kind,
        accountId: row.account_id,
        keyId: row.key_id,
        model: row.model,
        errorCode: row.error_code ?? undefined,
        absorbedMicro: micro(row.absorbed_micro),
        openedAt: row.opened_at,
      }))
    },

    async sums() {
      const [row] = await database.run(
        (sql) => sql<{ by_kind: BillingSums["byKind"]; fenced: bigint; excess: bigint; absorbed: bigint }[]>`
          with flagged as (
            select ${sql.unsafe(KIND)} as kind, count(*)::int as records, sum(absorbed_micro)::bigint as absorbed,
              sum(excess_micro) as excess
            from usage where flagged and part = 0 group by 1
          )
          select coalesce((select jsonb_object_agg(kind, records) from flagged), '{}') as by_kind,
            coalesce((select absorbed from flagged where kind = 'fenced'), 0)::bigint as fenced,
            least(coalesce((select sum(excess) from flagged), 0), ${MOST_SAID})::bigint as excess,
            (select least(coalesce(sum(case debit_account when 'house:absorbed' then amount_micro else -amount_micro end), 0),
                ${MOST_SAID})::bigint
              from transfers where debit_account = 'house:absorbed' or credit_account = 'house:absorbed') as absorbed`,
        once,
      )
      if (row === undefined) throw new Error("sums returned nothing")
      return {
        byKind: row.by_kind,
        absorbedMicro: micro(row.absorbed),
        fencedMicro: micro(row.fenced),
        excessMicro: micro(row.excess),
      }
    },

    async runs(limit) {
      const rows = await database.run(
        (sql) => sql<RunRow[]>`
          select id, started_at, ended_at, differences, not_compared, ended_at is null and (
            started_at < now() - interval '1 day'
            or process_id is not null and not exists (select from processes p where p.id = process_id and p.closed_at is null)
          ) as broken_off
          from reconciliations order by id desc limit ${limit}`,
        once,
      )
      return rows.map((row) => ({
        id: row.id,
        startedAt: row.started_at,
        endedAt: row.ended_at ?? undefined,
        differences: row.differences === null ? undefined : Number(row.differences),
        notCompared: row.not_compared === null ? undefined : Number(row.not_compared),
        brokenOff: row.broken_off,
      }))
    },

    async differences(limit) {
      const rows = await database.run(
        (sql) => sql<DifferenceColumns[]>`
          select id, reconciliation_id, claim, account_id, figures, mended from reconciliation_differences
          order by id desc limit ${limit}`,
        once,
      )
      return rows.map((row) => ({
        id: row.id,
        reconciliationId: row.reconciliation_id,
        claim: row.claim,
        accountId: row.account_id ?? undefined,
        figures: row.figures,
        mended: row.mended,
      }))
    },
  }
}

/** A backend that counts without sense may bring a sum past what JSON says exactly; it is then told as that much. */
const MOST_SAID = String(largestMicro)

/** The ledger flags whatever came under a lease that was not open any more, and lets the house bear it. */
const KIND = `case when status = 'usage_missing' then 'usage_missing'
  when status = 'ok' and excess_micro > 0 then 'excess'
  when status = 'billing_error' and absorbed_micro = 0 then 'billing_error' else 'fenced' end`

interface FlaggedRow {
  request_id: string
  kind: FlaggedKind
  account_id: string
  key_id: string
  model: string
  error_code: string | null
  absorbed_micro: bigint
  opened_at: Date
}
interface RunRow {
  id: bigint
  started_at: Date
  ended_at: Date | null
  differences: bigint | null
  not_compared: bigint | null
  broken_off: boolean
}
interface DifferenceColumns {
  id: bigint
  reconciliation_id: bigint
  claim: string
  account_id: string | null
  figures: unknown
  mended: boolean
}
