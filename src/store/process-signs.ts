/**
 * What each process on a PostgreSQL server has leased, and when it last gave a sign of life. The sign is the look that its
 * session lock's connection takes every two seconds: nothing is written for it. Micro-rupiah; times in seconds.
 */
import { micro, type Micro } from "../../actors/money/micro.ts"
import type { Database } from "./database.ts"
import { lockKey } from "./session-lock.ts"

export interface ProcessSign {
  readonly processId: string
  /** Accounts that it holds money of. */
  readonly leases: number
  /** What is left of that money. */
  readonly leased: Micro
  /** Whether its session lock is held; false of one that died and is not closed yet. */
  readonly lockHeld: boolean
  /** Since its last sign; undefined of one whose lock is not held, or where the server does not tell. */
  readonly silentS: number | undefined
}

interface Row {
  readonly id: string
  readonly leases: number
  readonly leased: bigint
  readonly held: boolean
  readonly silent: number | null
}

/** Of those that are not closed. */
export async function processSigns(database: Database): Promise<readonly ProcessSign[]> {
  const rows = await database.run(
    (sql) => sql<Row[]>`
      with held as materialized (
        select (classid::bigint << 32) | objid::bigint as key, pid from pg_locks
        where locktype = 'advisory' and granted and objsubid = 1
          and database = (select oid from pg_database where datname = current_database())
      ), leased as (
        select process_id, count(*)::int as leases, sum(granted_micro - returned_micro - settled_micro)::bigint as micro
        from leases where closed_at is null group by process_id
      )
      select p.id, coalesce(l.leases, 0) as leases, coalesce(l.micro, 0)::bigint as leased,
        h.pid is not null as held, greatest(0, extract(epoch from clock_timestamp() - a.state_change))::float8 as silent
      from processes p
      left join leased l on l.process_id = p.id
      left join held h on h.key = ${lockKey(sql, sql`p.id`)}
      left join pg_stat_activity a on a.pid = h.pid
      where p.closed_at is null`,
    { deadlineMs: 2_000, attemptMs: 2_000 },
  )
  return rows.map(({ id, leases, leased, held, silent }) => ({
    processId: id,
    leases,
    leased: micro(leased),
    lockHeld: held,
    silentS: silent ?? undefined,
  }))
}
