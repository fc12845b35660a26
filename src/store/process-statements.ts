/**
 * The statements that a process is registered, shared with, found dead and closed by (processes.ts), each on its own and
 * idempotent.
 */
import type postgres from "postgres"
import type { Share } from "../../actors/share.ts"
import { type Database, RowsHeld, type Sql } from "./database.ts"
import { lockKey } from "./session-lock.ts"

/** An exclusive one passes over a process whose session lock is held. */
export interface ProcessStatements extends ClosingStatements {
  registerProcess(id: string): Promise<void>
  serve(id: string): Promise<void>
  drain(id: string): Promise<void>
  /** Its place among the processes that take calls; undefined when it is none of them. */
  share(id: string): Promise<Share | undefined>
  /** But `own`: those that are not wholly closed. */
  findDead(own: string, exclusive: boolean): Promise<string[]>
}

/** What closing a process takes, in this order. */
export interface ClosingStatements {
  fence(id: string, exclusive: boolean): Promise<void>
  /** How many leases. */
  returnLeases(id: string): Promise<number>
  returnBudgets(id: string): Promise<void>
  /** How many records. */
  recordOpenings(id: string): Promise<number>
}

const again = { deadlineMs: 10_000, retry: true } as const

export const processStatements = (db: Database): ProcessStatements => ({
  registerProcess: async (id) => {
    await db.run((sql) => sql`insert into processes (id) values (${id}) on conflict do nothing`, again)
  },
  serve: async (id) => void (await db.run((sql) => serve(sql, id), again)),
  drain: async (id) => void (await db.run((sql) => drain(sql, id), again)),
  share: async (id) => (await db.run((sql) => findShare(sql, id), again))[0],
  findDead: async (own, exclusive) => {
    const rows = await db.run((sql) => findDead(sql, own, exclusive), again)
    return rows.map((row) => row.id)
  },
  fence: async (id, exclusive) => void (await db.run((sql) => fence(sql, id, exclusive), again)),
  returnLeases: async (id) => (await ofWhatIsFree(db, (sql, free) => returnLeases(sql, id, free)))[0]?.count ?? 0,
  returnBudgets: async (id) => void (await ofWhatIsFree(db, (sql, free) => returnBudgets(sql, id, free))),
  recordOpenings: async (id) => (await ofWhatIsFree(db, (sql, free) => recordOpenings(sql, id, free)))[0]?.count ?? 0,
})

/** Which of the locked rows a statement waits for. */
type Waiting = (sql: Sql) => postgres.Fragment
const forAll: Waiting = (sql) => sql``
const forNone: Waiting = (sql) => sql`skip locked`

/** Rows that others hold are waited for, but not for ever: one customer's are then left for the next look, and the others' are not. */
async function ofWhatIsFree<T>(db: Database, statement: (sql: Sql, waiting: Waiting) => PromiseLike<T>): Promise<T> {
  try {
    return await db.run((sql) => statement(sql, forAll), again)
  } catch (error) {
    if (!(error instanceof RowsHeld)) throw error
    return await db.run((sql) => statement(sql, forNone), again)
  }
}

function serve(sql: Sql, id: string): PromiseLike<unknown> {
  return sql`update processes set serving_since = now() where id = ${id} and serving_since is null`
}

function drain(sql: Sql, id: string): PromiseLike<unknown> {
  return sql`update processes set serving_since = null where id = ${id} and serving_since is not null`
}

/** In the order in which they began, so that who comes later moves nobody. One that has died counts until it is closed. */
function findShare(sql: Sql, id: string): PromiseLike<Share[]> {
  return sql`
    with serving as (
      select id, row_number() over (order by serving_since, id) - 1 as index, count(*) over () as count
      from processes where serving_since is not null and closed_at is null
    )
    select index::int, count::int from serving where id = ${id}`
}

/** A closed process with something left is one whose last statement overtook its closing; it is closed once more. */
function findDead(sql: Sql, own: string, exclusive: boolean): PromiseLike<{ id: string }[]> {
  return sql`
    with unfinished as materialized (
      select id from processes where id <> ${own} and closed_at is null
      union select process_id from openings where process_id <> ${own}
      union select process_id from leases where process_id <> ${own} and closed_at is null
      union select process_id from budget_leases where process_id <> ${own}
    )
    select id from unfinished where case when ${exclusive} then pg_try_advisory_xact_lock(${lockKey(sql, sql`id`)}) else true end`
}

function fence(sql: Sql, id: string, exclusive: boolean): PromiseLike<unknown> {
  return sql`
    update processes set closed_at = now()
    where id = ${id} and closed_at is null
      and case when ${exclusive} then pg_try_advisory_xact_lock(${lockKey(sql, sql`id`)}) else true end`
}

function returnLeases(sql: Sql, id: string, waiting: Waiting): PromiseLike<{ count: number }[]> {
  return sql`
    with open as materialized (
      select l.id from leases l join processes p on p.id = l.process_id
        join balances b on b.account_id = l.account_id
      where p.id = ${id} and p.closed_at is not null and l.closed_at is null
      order by l.account_id for update of l, b ${waiting(sql)}
    ), closed as (
      update leases l set closed_at = now() from open where l.id = open.id
      returning l.account_id, l.granted_micro - l.returned_micro - l.settled_micro as back
    ), returned as materialized (
      select account_id, sum(back)::bigint as back from closed group by account_id
    ), given_back as (
      update balances b set leased_micro = b.leased_micro - r.back
      from returned r where b.account_id = r.account_id
    )
    select count(*)::int as count from closed`
}

/** After the leases: without one nothing is spent of a budget any more. */
function returnBudgets(sql: Sql, id: string, waiting: Waiting): PromiseLike<unknown> {
  return sql`
    with open as materialized (
      select b.key_id, b.period, b.period_start from budget_leases b join processes p on p.id = b.process_id
        join key_spend s using (key_id, period, period_start)
      where p.id = ${id} and p.closed_at is not null
      order by 1, 2, 3 for update of b, s ${waiting(sql)}
    ), closed as (
      delete from budget_leases b using open o
      where b.process_id = ${id} and b.key_id = o.key_id and b.period = o.period and b.period_start = o.period_start
      returning b.key_id, b.period, b.period_start, b.granted_micro - b.returned_micro - b.settled_micro as back
    )
    update key_spend s set leased_micro = s.leased_micro - c.back
    from closed c where s.key_id = c.key_id and s.period = c.period and s.period_start = c.period_start`
}

function recordOpenings(sql: Sql, id: string, waiting: Waiting): PromiseLike<{ count: number }[]> {
  return sql`
    with left_open as materialized (
      select o.request_id from openings o join processes p on p.id = o.process_id
      where p.id = ${id} and p.closed_at is not null
      order by o.request_id for update of o ${waiting(sql)}
    ), gone as (
      delete from openings o using left_open l where o.request_id = l.request_id returning o.*
    ), recorded as (
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id,
        turns, attempts, error_code, flagged, opened_at, first_token_ms, duration_ms)
      select request_id, 0, account_id, key_id, lease_id, model, endpoint, streamed, 'billing_error',
        0, 0, 0, 0, 0, 0, price_id,
        1, 0, 'internal.error', true, opened_at, null,
        greatest(0, least(extract(epoch from now() - opened_at) * 1000, 2147483647))::integer
      from gone order by request_id
      on conflict (request_id, part) do nothing
      returning 1
    )
    select count(*)::int as count from recorded`
}
