/**
 * Proofs as rows (migrations/0070_proofs.sql): up to where the books were found to agree, with the sums of all before it. Each function is
 * one statement, on the connection of a reconciliation.
 */
import type { Sql } from "./database.ts"

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
export interface ProofPoint {
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
