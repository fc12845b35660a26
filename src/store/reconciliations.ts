/**
 * Reconciliations as rows: which day's was done, by which process, and what it found. Beside them their proofs
 * (migrations/0070_proofs.sql): up to where the books were found to agree, with the sums of all before it. Each function is one
 * autocommit statement. Those of reconciliations may be sent twice with the effect of once.
 */
import type { Database, Sql } from "./database.ts"

/** What a reconciliation came to, without the differences themselves. */
export interface LastReconciliation {
  readonly endedAt: Date
  readonly differences: number
  readonly notCompared: number
}

interface ReconciliationOutcome {
  /** By claim: its name and its counts. */
  readonly claims: readonly { readonly name: string; readonly compared: number; readonly differences: number }[]
  readonly differences: number
  readonly notCompared: number
  /** The first differences of each claim. */
  readonly shown: readonly {
    readonly claim: string
    readonly accountId: string | null
    readonly figures: Readonly<Record<string, string | null>>
    readonly mended: boolean
  }[]
}

export interface ReconciliationStore {
  /** One that a person asked for. */
  begin(): Promise<bigint>
  /**
   * The one of a day (`2026-11-21`). Undefined when it is done, or when another living process is at it; an attempt of
   * one's own that came to nothing is taken up again, and one of a process that was closed is taken over.
   */
  beginDay(day: string, processId: string): Promise<bigint | undefined>
  end(id: bigint, outcome: ReconciliationOutcome): Promise<void>
  /** The one that ended last, whoever did it. */
  last(): Promise<LastReconciliation | undefined>
}

const once = { deadlineMs: 5_000, retry: true } as const

export const reconciliationStore = (database: Database): ReconciliationStore => ({
  async begin() {
    // Sent twice it leaves a row that never ends, and that says nothing.
    const [row] = await database.run(
      (sql) => sql<{ id: bigint }[]>`insert into reconciliations (charges_read_by) values ('') returning id`,
      once,
    )
    if (row === undefined) throw new Error("no reconciliation was begun")
    return row.id
  },

  async beginDay(day, processId) {
    const [row] = await database.run(
      (sql) => sql<{ id: bigint }[]>`
        insert into reconciliations as r (day, process_id, charges_read_by) values (${day}::date, ${processId}, ${processId})
        on conflict (day) do update set process_id = excluded.process_id, started_at = now(), charges_read_by = excluded.charges_read_by
        where r.ended_at is null and (r.process_id = excluded.process_id
          -- One of the version before cannot end it, and would begin it anew every minute.
          or r.charges_read_by is distinct from r.process_id
          or not exists (select from processes p where p.id = r.process_id and p.closed_at is null))
        returning id`,
      once,
    )
    return row?.id
  },

  async end(id, { claims, differences, notCompared, shown }) {
    await database.run(
      (sql) => sql`
        with ended as (
          update reconciliations set ended_at = now(), claims = ${JSON.stringify(claims)}::text::jsonb,
            differences = ${differences}, not_compared = ${notCompared}
          where id = ${id} and ended_at is null returning id
        )
        insert into reconciliation_differences (reconciliation_id, claim, account_id, figures, mended)
        select e.id, d.claim, d."accountId", d.figures, d.mended
        from ended e cross join jsonb_to_recordset(${JSON.stringify(shown)}::text::jsonb)
          as d(claim text, "accountId" text, figures jsonb, mended boolean)`,
      once,
    )
  },

  async last() {
    const [row] = await database.run(
      (sql) => sql<{ ended_at: Date; differences: bigint; not_compared: bigint }[]>`
        select ended_at, differences, not_compared from reconciliations
        where ended_at is not null order by ended_at desc limit 1`,
      once,
    )
    return (
      row && {
        endedAt: row.ended_at,
        differences: Number(row.differences),
        notCompared: Number(row.not_compared),
      }
    )
  },
})

/** Of a proof. Calls whose ids sort before `untilCall` and their charges, and other transfers up to `untilTransfer`, are in its sums. */
export interface Proof {
  readonly id: bigint
  readonly madeAt: Date
  /** When everything was read last, and not only what was new. */
  readonly fullAt: Date
  readonly untilCall: string
  readonly untilTransfer: bigint
}

/** What a reconciliation that begins now may come to prove. */
interface ProofPoint {
  readonly base: Proof | undefined
  readonly untilCall: string
  readonly untilTransfer: bigint
  /** What it can see, as a snapshot: of what is changed by others nobody knows whether anybody looked at it. */
  readonly seen: string
}

/** A call's record may come an hour after its id without being marked, and its opening an hour after that (`call_changes`). */
const CALLS_MS = 3 * 3_600_000

interface Row {
  readonly until_transfer: bigint
  readonly seen: string
  readonly id: bigint | null
  readonly made_at: Date
  readonly full_at: Date
  readonly until_call: string
  readonly base_transfer: bigint
}

/** `firstId` gives what all request ids of a millisecond begin with. */
export async function proofPoint(sql: Sql, firstId: (ms: number) => string, nowMs: number): Promise<ProofPoint> {
  // Ids of transfers are given before they are committed: what began an hour ago has ended.
  const [row] = await sql<Row[]>`
    select coalesce((select t.id from transfers t where t.created_at < ${new Date(nowMs)}::timestamptz - interval '1 hour' order by t.id desc limit 1), 0)
        as until_transfer,
      pg_current_snapshot()::text as seen,
      p.id, p.made_at, p.until_call, p.until_transfer as base_transfer, (select max(made_at) from proofs where is_full) as full_at
    from (values (1)) one left join (select * from proofs order by id desc limit 1) p on true`
  if (row === undefined) throw new Error("no answer to what was proven")
  const base = row.id !== null && {
    id: row.id,
    madeAt: row.made_at,
    fullAt: row.full_at,
    untilCall: row.until_call,
    untilTransfer: row.base_transfer,
  }
  return {
    base: base || undefined,
    untilCall: firstId(nowMs - CALLS_MS),
    untilTransfer: row.until_transfer,
    seen: row.seen,
  }
}

/** False where another proof was made meanwhile. `everything`: nothing was taken from the proof before. */
export async function prove(sql: Sql, point: ProofPoint, everything: boolean): Promise<boolean> {
  const { base, seen } = point
  // With a clock that was set back nothing is taken out of the sums again.
  const from = everything ? undefined : base
  const untilCall = from !== undefined && from.untilCall > point.untilCall ? from.untilCall : point.untilCall
  const untilTransfer =
    from !== undefined && from.untilTransfer > point.untilTransfer ? from.untilTransfer : point.untilTransfer
  const [row] = await sql<{ made: bigint | null }[]>`
    select prove_2(${base?.id ?? null}::bigint, ${everything}, ${untilCall}, ${untilTransfer}, ${seen}::text::pg_snapshot) as made`
  return row !== undefined && row.made !== null
}
