/**
 * Reconciliations as rows: which day's was done, by which process, and what it found. Each function is one autocommit
 * statement that may be sent twice with the effect of once.
 */
import type { Database } from "./database.ts"

/** What a reconciliation came to, without the differences themselves. */
export interface LastReconciliation {
  readonly endedAt: Date
  readonly differences: number
  readonly notCompared: number
}

export interface ReconciliationOutcome {
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
