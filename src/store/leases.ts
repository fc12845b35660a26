/**
 * Leases: how much of an account one process may spend without asking again (decisions §3). Micro-rupiah, cumulative.
 */
import type { Lease } from "../../actors/account.ts"
import { micro } from "../../actors/money/micro.ts"
import type { Database } from "./database.ts"

/**
 * Opens this process's lease on an account, or grows the open one, by all that is free, in one statement. Sent twice it
 * does no harm: the second time nothing is free, and the sums that come back are cumulative. Undefined when there is no
 * such account, or when this process has been closed by another and may lease nothing any more.
 */
export async function growLease(database: Database, processId: string, accountId: string): Promise<Lease | undefined> {
  const rows = await database.run(
    (sql) => sql<{ id: bigint; granted_micro: bigint; settled_micro: bigint }[]>`
with alive as (
  select id from processes where id = ${processId} and closed_at is null for share
),
-- Locked before the balance, as settling and closing do.
mine as (
  select id from leases where account_id = ${accountId} and process_id = ${processId} and closed_at is null for update
),
free as (
  select b.account_id, b.posted_micro - b.leased_micro as amount
  from balances b
  where b.account_id = ${accountId} and exists (select 1 from alive) and (select count(*) from mine) >= 0 for update
),
taken as (
  update balances b set leased_micro = b.leased_micro + f.amount
  from free f where b.account_id = f.account_id and f.amount > 0
)
insert into leases (account_id, process_id, granted_micro)
select f.account_id, ${processId}, f.amount from free f
on conflict (account_id, process_id) where closed_at is null
do update set granted_micro = leases.granted_micro + excluded.granted_micro
returning id, granted_micro, settled_micro`,
    { retry: true },
  )
  const row = rows[0]
  return row && { id: row.id, granted: micro(row.granted_micro), settled: micro(row.settled_micro) }
}
