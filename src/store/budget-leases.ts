/**
 * Leases of a key's budget of one period, or of a run's budget: like those of an account (leases.ts), with the limit less what
 * was spent in place of the balance. Micro-rupiah, cumulative. A limit that was lowered under what is leased leaves nothing free.
 */
import type { Growth, VersionedLease } from "../../actors/lease.ts"
import { type Micro, micro, minus } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import type { Database, Sql } from "./database.ts"

export interface BudgetPeriod {
  /** Of a key; or of a run, with the period `total`. */
  readonly keyId: string
  readonly period: SpendingPeriod
  /** Milliseconds since the epoch. */
  readonly start: number
}

export type GrownBudget = Required<Growth>

interface Row {
  readonly granted_micro: bigint
  readonly returned_micro: bigint
  readonly settled_micro: bigint
  readonly version: number
}

const again = { retry: true } as const

const toLease = (row: Row): VersionedLease => ({
  granted: micro(row.granted_micro),
  returned: micro(row.returned_micro),
  settled: micro(row.settled_micro),
  version: row.version,
})

/** One statement each, which may come twice, or late. */
export interface BudgetStatements {
  /** Undefined also while the period has no row, which is then to be opened, or has a lease that could not be seen yet. */
  growBudget(processId: string, of: BudgetPeriod, short: Micro, version: number): Promise<GrownBudget | undefined>
  openBudget(of: BudgetPeriod): Promise<void>
}

export const budgetStatements = (database: Database): BudgetStatements => ({
  growBudget: async (processId, of, short, version) => {
    const [row] = await database.run((sql) => grown(sql, processId, of, short, version), again)
    if (row === undefined) return undefined
    const lease = toLease(row)
    return { lease, more: row.more, elsewhere: minus(micro(row.spent_micro), lease.settled) }
  },
  openBudget: async ({ keyId, period, start }) => {
    await database.run(
      (sql) => sql`
        insert into key_spend (key_id, period, period_start, spent_micro)
        values (${keyId}, ${period}, ${new Date(start)}, 0) on conflict do nothing`,
      again,
    )
  },
})

/**
 * Grants nothing where another statement about the lease was carried out since its `version` was as it is known, as for
 * accounts. Undefined when this process has been closed by another and may lease nothing any more.
 */
export async function growBudget(
  statements: BudgetStatements,
  processId: string,
  of: BudgetPeriod,
  short: Micro,
  version: number,
): Promise<GrownBudget | undefined> {
  const grow = () => statements.growBudget(processId, of, short, version)
  const grown = await grow()
  if (grown !== undefined) return grown
  // What is locked and counted on has to be there before the statement begins.
  await statements.openBudget(of)
  // A lease that was opened while the statement waited is one that it could not see.
  return (await grow()) ?? (await grow())
}

function grown(sql: Sql, processId: string, { keyId, period, start }: BudgetPeriod, short: Micro, version: number) {
  const from = new Date(start)
  return sql<(Row & { spent_micro: bigint; more: boolean })[]>`
with alive as (
  select id from processes where id = ${processId} and closed_at is null for share
),
mine as (
  select version from budget_leases
  where key_id = ${keyId} and period = ${period} and period_start = ${from} and process_id = ${processId} for update
),
free as (
  -- Without a limit there is nothing to keep from others: it was removed a moment ago. A process that has not heard of a new
  -- time zone may take a period for begun in which an older one runs on.
  select s.spent_micro,
    case when s.key_id like 'run\\_%' then greatest(0, coalesce(r.budget_micro, 0) - s.spent_micro - s.leased_micro)
      when k.id is null then ${short}::bigint
      when exists (select from running_periods r where r.key_id = ${keyId} and r.period = ${period}
        and r.started_at < ${from} and r.ends_at > ${from}) then 0
      else greatest(0, k.spending_limit_micro - s.spent_micro - s.leased_micro) end as amount
  from key_spend s left join api_keys k on k.id = s.key_id and k.spending_period = s.period
    left join runs r on r.id = s.key_id
  where s.key_id = ${keyId} and s.period = ${period} and s.period_start = ${from}
    and exists (select 1 from alive) and (select count(*) from mine) >= 0
  for update of s
),
share as (
  select spent_micro, overtaken, amount as free, case when overtaken then 0
    when exists (select from processes where id <> ${processId} and closed_at is null)
    then least(amount, greatest(${short}::bigint, amount / 2)) else amount end as amount
  from free, (select coalesce((select version from mine), 0) <> ${version}::integer as overtaken) as known
),
lease as (
  insert into budget_leases (key_id, period, period_start, process_id, granted_micro, version)
  select ${keyId}, ${period}, ${from}, ${processId}, amount, 1 from share
  on conflict (key_id, period, period_start, process_id)
  do update set granted_micro = budget_leases.granted_micro + excluded.granted_micro, version = budget_leases.version + 1
  where exists (select from mine)
  returning granted_micro, returned_micro, settled_micro, version
),
taken as (
  update key_spend s set leased_micro = s.leased_micro + share.amount
  from share, lease where s.key_id = ${keyId} and s.period = ${period} and s.period_start = ${from} and share.amount > 0
),
-- Periods that are over, and settled.
over as (
  delete from budget_leases where key_id = ${keyId} and period = ${period} and period_start < ${from}
    and process_id = ${processId} and granted_micro = returned_micro + settled_micro
),
answer as materialized (
  select l.*, s.spent_micro, s.free > s.amount as rest,
    case when s.overtaken then 0 else ${short}::bigint - s.amount end as short, exists (
    select from budget_leases o where o.key_id = ${keyId} and o.period = ${period} and o.period_start = ${from}
      and o.process_id <> ${processId} and o.granted_micro > o.returned_micro + o.settled_micro
  ) as neighbours
  from lease l, share s
)
select granted_micro, returned_micro, settled_micro, version, spent_micro, neighbours or rest as more,
  case when neighbours and short > 0 then (
    select pg_notify('loket', concat_ws(' ', 'short', owner, ${processId}::text, short))::text
    from (
      select 'key ' || encode(key_hash, 'hex') as owner from api_keys where id = ${keyId}
      union all select 'run ' || id from runs where id = ${keyId}
    ) named) end as asked
from answer`
}

/** Gives back what is not needed; `returned` is cumulative. Undefined when the lease is not there any more. */
export async function returnBudget(
  database: Database,
  processId: string,
  { keyId, period, start }: BudgetPeriod,
  returned: Micro,
): Promise<VersionedLease | undefined> {
  const from = new Date(start)
  const rows = await database.run(
    (sql) => sql<Row[]>`
with mine as (
  select greatest(0, least(${returned}::bigint, granted_micro - settled_micro) - returned_micro) as back
  from budget_leases
  where key_id = ${keyId} and period = ${period} and period_start = ${from} and process_id = ${processId} for update
),
freed as (
  update key_spend s set leased_micro = s.leased_micro - m.back
  from mine m where s.key_id = ${keyId} and s.period = ${period} and s.period_start = ${from} and m.back > 0
)
update budget_leases l set returned_micro = l.returned_micro + m.back, version = l.version + 1
from mine m
where l.key_id = ${keyId} and l.period = ${period} and l.period_start = ${from} and l.process_id = ${processId}
returning l.granted_micro, l.returned_micro, l.settled_micro, l.version`,
    again,
  )
  const row = rows[0]
  return row && toLease(row)
}
