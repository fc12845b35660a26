/**
 * Leases: how much of an account one process may spend without asking again (decisions §3). Micro-rupiah, cumulative. A
 * process that is alone leases all there is. Where others live it takes half of what is free, so that they do not fight.
 * `ActorStore` is all that the actors of one process read and lease.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { LoadedKey } from "../../actors/key-record.ts"
import type { Growth, VersionedLease } from "../../actors/lease.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { RunLookup, RunRecord, RunRequest } from "../../actors/run.ts"
import { type BreakerPurses, breakerPurses } from "./breakers.ts"
import { type BudgetPeriod, type GrownBudget, budgetStatements, growBudget, returnBudget } from "./budget-leases.ts"
import type { Database, Sql } from "./database.ts"
import { keyStatements, loadKey } from "./live-keys.ts"
import { findOrOpenRun, runStatements } from "./runs.ts"

interface Row {
  readonly id: bigint
  readonly granted_micro: bigint
  readonly returned_micro: bigint
  readonly settled_micro: bigint
  readonly version: number
}

const again = { retry: true } as const

const toLease = (row: Row): AccountLease => ({
  id: row.id,
  granted: micro(row.granted_micro),
  returned: micro(row.returned_micro),
  settled: micro(row.settled_micro),
  version: row.version,
})

/**
 * Opens this process's lease on an account, or grows the open one, in one statement: by `short` if there is as much, and
 * by more if nobody else needs it. Neighbours that have some left are asked for what is still short. `version` is the
 * lease's as it is known, 0 of one that was never seen: where another statement about the lease was carried out since,
 * this one's own repetition included, it grants nothing, asks nobody, and answers with what there is, so that each growth
 * is carried out once at most, however late. Undefined when there is no such account, or when this process has been
 * closed by another and may lease nothing any more.
 */
export async function growLease(
  database: Database,
  processId: string,
  accountId: string,
  short: Micro,
  version: number,
): Promise<Growth<AccountLease> | undefined> {
  const grow = () => database.run((sql) => grown(sql, processId, accountId, short, version), again)
  // A lease that was opened while the statement waited is one that it could not see.
  const row = (await grow())[0] ?? (await grow())[0]
  return row && { lease: toLease(row), more: row.more }
}

function grown(sql: Sql, processId: string, accountId: string, short: Micro, version: number) {
  return sql<(Row & { more: boolean })[]>`
with alive as (
  select id from processes where id = ${processId} and closed_at is null for share
),
-- Locked before the balance, as settling and closing do.
mine as (
  select id, version from leases where account_id = ${accountId} and process_id = ${processId} and closed_at is null for update
),
free as (
  select b.account_id, b.posted_micro - b.leased_micro as amount
  from balances b
  where b.account_id = ${accountId} and exists (select 1 from alive) and (select count(*) from mine) >= 0 for update
),
share as (
  select account_id, overtaken, amount as free, case when overtaken then 0
    when exists (select from processes where id <> ${processId} and closed_at is null)
    then least(amount, greatest(${short}::bigint, amount / 2)) else amount end as amount
  from free, (select coalesce((select version from mine), 0) <> ${version}::integer as overtaken) as known
),
-- One that another statement has just opened is not locked, as an upsert would: that statement's next one locks it before the
-- balance, which this one holds.
opened as (
  insert into leases (account_id, process_id, granted_micro, version)
  select s.account_id, ${processId}, s.amount, 1 from share s where not exists (select from mine)
  on conflict (account_id, process_id) where closed_at is null do nothing
  returning id, granted_micro, returned_micro, settled_micro, version
),
enlarged as (
  update leases l set granted_micro = l.granted_micro + s.amount, version = l.version + 1
  from mine m, share s where l.id = m.id
  returning l.id, l.granted_micro, l.returned_micro, l.settled_micro, l.version
),
lease as (
  select * from opened union all select * from enlarged
),
taken as (
  -- The least of the two is what was just locked. Postgres checks constraints also on the row as it was when the statement
  -- began, before it finds that there is a newer one, and would refuse a share of money that came in between.
  update balances b set leased_micro = b.leased_micro + least(s.amount, b.posted_micro - b.leased_micro)
  from share s, lease where b.account_id = s.account_id and s.amount > 0
),
answer as materialized (
  select l.*, s.free > s.amount as rest, case when s.overtaken then 0 else ${short}::bigint - s.amount end as short, exists (
    select from leases o where o.account_id = ${accountId} and o.process_id <> ${processId} and o.closed_at is null
      and o.granted_micro > o.returned_micro + o.settled_micro
  ) as neighbours
  from lease l, share s
)
select id, granted_micro, returned_micro, settled_micro, version, neighbours or rest as more,
  case when neighbours and short > 0
    then pg_notify('loket', concat_ws(' ', 'short account', ${accountId}::text, ${processId}::text, short))::text end as asked
from answer`
}

/**
 * Gives back what of a lease is not needed. `returned` is what was given back over the lease's whole life, so that the
 * statement may come twice, or late. Less is taken back while a charge has still to be taken back from the lease: what
 * comes back says how much it was. A growth that is still on its way grants nothing any more. Undefined when the lease is
 * not open any more.
 */
export async function returnLease(
  database: Database,
  leaseId: bigint,
  returned: Micro,
): Promise<AccountLease | undefined> {
  const rows = await database.run(
    (sql) => sql<Row[]>`
with mine as (
  select id, account_id, greatest(0, least(${returned}::bigint, granted_micro - settled_micro) - returned_micro) as back
  from leases where id = ${leaseId} and closed_at is null for update
),
freed as (
  -- Bounded for the row as it was when the statement began, as in growing.
  update balances b set leased_micro = greatest(0, b.leased_micro - m.back)
  from mine m where b.account_id = m.account_id and m.back > 0
)
update leases l set returned_micro = l.returned_micro + least(m.back, l.granted_micro - l.settled_micro - l.returned_micro),
  version = l.version + 1
from mine m where l.id = m.id
returning l.id, l.granted_micro, l.returned_micro, l.settled_micro, l.version`,
    again,
  )
  const row = rows[0]
  return row && toLease(row)
}

/** Everything throws `DatabaseUnavailable` when Postgres did not answer: then it is unknown whether it was done. */
export interface ActorStore {
  /**
   * Undefined when there is no such key. `keyHash` is the hex SHA-256 of the whole key. What was spent is read when `written`
   * has resolved for the key's account.
   */
  loadKey(
    keyHash: string,
    nowMs: number,
    written?: (accountId: string) => Promise<void>,
  ): Promise<LoadedKey | undefined>
  findRun(runId: string): Promise<RunRecord | undefined>
  /** Makes the run where there is none, if a budget is given. */
  findOrOpenRun(asked: RunRequest, nowMs: number): Promise<RunLookup>
  /** Whether the account may have one more. */
  mayOpenRun(accountId: string, nowMs: number): Promise<boolean>
  /** `version` as it is known, 0 at first. Undefined when there is no such account, or this process was closed by another. */
  growLease(accountId: string, short: Micro, version: number): Promise<Growth<AccountLease> | undefined>
  /** `returned` is cumulative. Undefined when the lease is not open any more. */
  returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined>
  /** Undefined when this process was closed by another. */
  growBudget(of: BudgetPeriod, short: Micro, version: number): Promise<GrownBudget | undefined>
  readonly breakers: BreakerPurses
  /** `returned` is cumulative. Undefined when the lease is not there any more. */
  returnBudget(of: BudgetPeriod, returned: Micro): Promise<VersionedLease | undefined>
}

export const actorStore = (database: Database, processId: string, sendsMail: boolean): ActorStore => ({
  breakers: breakerPurses(database, processId, sendsMail),
  loadKey: (keyHash, nowMs, written) => loadKey(keyStatements(database), keyHash, nowMs, written),
  findRun: (runId) => runStatements(database).findRun(runId),
  findOrOpenRun: (asked, nowMs) => findOrOpenRun(runStatements(database), asked, nowMs),
  mayOpenRun: (accountId, nowMs) => runStatements(database).mayOpenRun(accountId, nowMs),
  growLease: (accountId, short, version) => growLease(database, processId, accountId, short, version),
  returnLease: (leaseId, returned) => returnLease(database, leaseId, returned),
  growBudget: (of, short, version) => growBudget(budgetStatements(database), processId, of, short, version),
  returnBudget: (of, returned) => returnBudget(database, processId, of, returned),
})

/** How often, and how many milliseconds apart, what was called back is looked for. */
const LOOKS = 10
const LOOK_MS = 100

interface Debit<T> {
  /** Again and again, until it is not short of anything. The last time it is told so. */
  readonly attempt: (isLast: boolean) => Promise<T>
  /** What is missing, and may be leased to processes that do not need it. Undefined where no wait would help. */
  readonly shortOf: (outcome: T) => Micro | undefined
  /** Asks every process for so much of what it has leased of the account and does not need. */
  readonly recall: (amount: Micro) => void
}

/**
 * Takes balance that nobody has leased. A process may have leased what it does not need: that is called back before the debit is
 * refused, because a process that is alone leases all there is.
 */
export async function takeFree<T>({ attempt, shortOf, recall }: Debit<T>): Promise<T> {
  for (let looks = 0; ; looks++) {
    const isLast = looks === LOOKS
    const outcome = await attempt(isLast)
    const short = shortOf(outcome)
    if (short === undefined || isLast) return outcome
    // Asked once: a process that was in use then gives what a call's end frees.
    if (looks === 0) recall(short)
    await Bun.sleep(LOOK_MS)
  }
}
