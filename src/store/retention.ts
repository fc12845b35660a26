/**
 * How long what is known of people is kept (docs/operating/privacy.md). Each rule removes what is over its time, a batch at a
 * time, so that no statement keeps anybody waiting. Money's rows stay, under an account's id that names nobody any more.
 *
 * Beside it the months of records: a table of usage for each, by the time that its request ids begin with. They are made three
 * months ahead. A call whose month has none is recorded in `usage_other`, and found there like any other.
 */
import { allowanceStore } from "./allowances.ts"
import type { Database, Sql } from "./database.ts"
import { RUN_KEPT_DAYS } from "./runs.ts"

/** Rows of one statement, and statements of one rule in one round; what is left comes with the next round. */
const BATCH = 500
const BATCHES = 100
const ROUND_S = 3_600
/** For so long somebody's network is known; a sign-in is slowed down by the same time (`accounts.ts`). */
const NETWORK_DAYS = 90
/** What was told, by mail or webhook. */
const OUTBOX_DAYS = 30
/** What became of backends, and their tries by the hour. */
const BACKEND_EVENT_DAYS = 90
const BACKEND_HOUR_DAYS = 30
/** What was done to an account. */
const EVENT_DAYS = 365

export interface RetentionTimes {
  /** From an account's deletion until its address and what else names its owner is gone. */
  readonly erasedAfterDays: number
}

/** One statement that removes at most `BATCH` rows, and returns a row for each. A new kind of data is one more rule. */
type Rule = (sql: Sql, times: RetentionTimes) => ReturnType<Sql>

/**
 * A batch of rows, as `gone`; `table`: whose rows, where there are several. They are chosen apart (`materialized`): a planner that takes the
 * table for an empty one would choose anew for each of its rows, and then there is no bound.
 */
const chosen = (sql: Sql, rows: ReturnType<Sql>, table?: string) => sql`
  with gone as materialized (
    ${rows} limit ${BATCH} for update ${table === undefined ? sql`` : sql`of ${sql(table)}`} skip locked)`

const rules: Readonly<Record<string, Rule>> = {
  sessions: (sql) => sql`
    ${chosen(sql, sql`select token_hash from sessions where expires_at <= now()`)}
    delete from sessions where token_hash in (select * from gone) returning 1`,
  account_networks: (sql) => sql`
    ${chosen(sql, sql`select account_id, network from account_networks where signed_in_at < now() - make_interval(days => ${NETWORK_DAYS})`)}
    delete from account_networks where (account_id, network) in (select * from gone) returning 1`,
  sign_ups: (sql) => sql`
    ${chosen(sql, sql`select network from sign_ups where day_began_at < now() - interval '1 day'`)}
    delete from sign_ups where network in (select * from gone) returning 1`,
  account_mails: (sql) => sql`
    ${chosen(sql, sql`select id from account_mails where expires_at < now()`)}
    delete from account_mails where id in (select * from gone) returning 1`,
  invitations: (sql) => sql`
    ${chosen(sql, sql`select id from invitations where expires_at < now()`)}
    delete from invitations where id in (select * from gone) returning 1`,
  sign_in_steps: (sql) => sql`
    ${chosen(sql, sql`select token_hash from sign_in_steps where expires_at < now()`)}
    delete from sign_in_steps where token_hash in (select * from gone) returning 1`,
  passkey_challenges: (sql) => sql`
    ${chosen(sql, sql`select challenge from passkey_challenges where expires_at < now()`)}
    delete from passkey_challenges where challenge in (select * from gone) returning 1`,
  outbox: (sql) => sql`
    ${chosen(sql, sql`select id from outbox where due_at is null and created_at < now() - make_interval(days => ${OUTBOX_DAYS})`)}
    delete from outbox where id in (select * from gone) returning 1`,
  // Once it holds, nothing can be taken back of it.
  announced_accounts: (sql) => sql`
    ${chosen(
      sql,
      sql`select t.announcement_id, t.account_id from announced_accounts t join announcements n on n.id = t.announcement_id
        join accounts a on a.id = t.account_id
      where n.holds_until < now() - interval '1 day' or a.deleted_at is not null`,
      "t",
    )}
    delete from announced_accounts where (announcement_id, account_id) in (select * from gone) returning 1`,
  announcements: (sql) => sql`
    ${chosen(
      sql,
      sql`select n.id from announcements n
      where least(n.holds_until, n.withdrawn_at) < now() - interval '1 day'
        and not exists (select from announced_accounts t where t.announcement_id = n.id)
        and not exists (select from announcement_rounds r where r.id = n.round_id and r.ended_at is null)`,
    )}
    delete from announcements where id in (select * from gone) returning 1`,
  announcement_rounds: (sql) => sql`
    ${chosen(
      sql,
      sql`select r.id from announcement_rounds r where r.ended_at < now() - interval '1 day'
        and not exists (select from announcements n where n.round_id = r.id)`,
    )}
    delete from announcement_rounds where id in (select * from gone) returning 1`,
  allowances: (sql) => sql`
    ${chosen(sql, sql`select name from allowances where ends_at < now()`)}
    delete from allowances where name in (select * from gone) returning 1`,
  // With what it has spent and leased; a lease that has something left is of a process that will give it back.
  runs: (sql) => sql`
    ${chosen(
      sql,
      sql`select id from runs where ends_at < now() - make_interval(days => ${RUN_KEPT_DAYS}) and not exists (
        select from budget_leases b where b.key_id = runs.id and b.granted_micro > b.returned_micro + b.settled_micro)`,
    )},
    leased as (delete from budget_leases where key_id in (select * from gone)),
    spent as (delete from key_spend where key_id in (select * from gone))
    delete from runs where id in (select * from gone) returning 1`,
  keys_of_erased_accounts: (sql, { erasedAfterDays }) => sql`
    ${chosen(
      sql,
      sql`select k.id from api_keys k join accounts a on a.id = k.account_id
      where a.deleted_at < now() - make_interval(days => ${erasedAfterDays}) and ((k.name, k.prefix, k.last4) <> ('', '', '') or k.networks is not null or k.origins is not null)`,
      "k",
    )}
    update api_keys set name = '', prefix = '', last4 = '', networks = null, origins = null where id in (select * from gone) returning 1`,
  estimates_of_erased_accounts: (sql, { erasedAfterDays }) => sql`
    ${chosen(
      sql,
      sql`select f.account_id, f.model, f.part from estimate_factors f join accounts a on a.id = f.account_id
      where a.deleted_at < now() - make_interval(days => ${erasedAfterDays})`,
      "f",
    )}
    delete from estimate_factors where (account_id, model, part) in (select * from gone) returning 1`,
  account_events: (sql) => sql`
    ${chosen(sql, sql`select id from account_events where at < now() - make_interval(days => ${EVENT_DAYS})`)}
    delete from account_events where id in (select * from gone) returning 1`,
  events_of_erased_accounts: (sql, { erasedAfterDays }) => sql`
    ${chosen(
      sql,
      sql`select e.id from account_events e join accounts a on a.id = e.account_id
      where a.deleted_at < now() - make_interval(days => ${erasedAfterDays})`,
      "e",
    )}
    delete from account_events where id in (select * from gone) returning 1`,
  backend_events: (sql) => sql`
    ${chosen(sql, sql`select id from backend_events where at < now() - make_interval(days => ${BACKEND_EVENT_DAYS})`)}
    delete from backend_events where id in (select * from gone) returning 1`,
  backend_hours: (sql) => sql`
    ${chosen(sql, sql`select hour, member, model, process_id from backend_hours where hour < now() - make_interval(days => ${BACKEND_HOUR_DAYS})`)}
    delete from backend_hours where (hour, member, model, process_id) in (select * from gone) returning 1`,
  // Last, so that an account whose address is gone has nothing left of the others. To whom a refund is to be paid is known until it has ended.
  erased_accounts: (sql, { erasedAfterDays }) => sql`
    ${chosen(
      sql,
      sql`select id from accounts where deleted_at < now() - make_interval(days => ${erasedAfterDays})
        and email <> id || '@deleted.invalid'
        and not exists (select from refunds r where r.account_id = accounts.id and r.status in ('booked', 'sending'))`,
    )}
    update accounts set email = id || '@deleted.invalid', password_hash = '', low_balance_email = null,
      low_balance_threshold_micro = null, low_balance_told_at = null,
      buyer_name = null, buyer_address = null, buyer_npwp = null,
      frozen_reason = case when frozen_reason is not null then '' end
    where id in (select * from gone) returning 1`,
}

/**
 * What was removed, by the rule's name; undefined when another process has done it within the hour. Throws what kept a rule from being
 * carried out, when the others are.
 */
export async function removeOverdue(
  database: Database,
  times: RetentionTimes,
): Promise<Readonly<Record<string, number>> | undefined> {
  const waitS = await allowanceStore(database).take({ name: "retention", most: 1, seconds: ROUND_S })
  if (waitS !== undefined) return undefined
  const removed: Record<string, number> = {}
  const failures: unknown[] = []
  for (const [name, rule] of Object.entries(rules)) {
    try {
      const count = await removeBy(database, (sql) => rule(sql, times))
      if (count > 0) removed[name] = count
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
  return removed
}

async function removeBy(database: Database, rule: (sql: Sql) => ReturnType<Sql>): Promise<number> {
  let count = 0
  for (let batch = 0; batch < BATCHES; batch++) {
    const { length } = await database.run(rule, { deadlineMs: 10_000, retry: true })
    count += length
    if (length < BATCH) break
  }
  return count
}

/** The names of those that were made now: none where another process is at it. Throws where somebody reads all months just then. */
export async function makeMonths(database: Database): Promise<readonly string[]> {
  const [row] = await database.run((sql) => sql<{ made: string[] }[]>`select make_months_1() as made`, {
    deadlineMs: 10_000,
  })
  return row?.made ?? []
}

export interface Months {
  /** How many whole months after this one have a table. */
  readonly ahead: number
  /** There are records outside of all months, or were. */
  readonly hasOthers: boolean
  /** The database's collation sorts request ids by their time; some languages' do not, as Danish, with `aa` after `z`. */
  readonly inOrder: boolean
}

/** Whoever runs a gateway may ask, who may not read a partition by itself. */
export async function monthsOf(sql: Sql): Promise<Months> {
  const [row] = await sql<Months[]>`
    select count(*) filter (where to_regclass('usage_' || to_char(m.since, 'YYYY_MM')) is not null
        or first_call(m.since at time zone 'UTC') < coalesce(b.until, ''))::int as ahead,
      pg_relation_size('usage_other') > 0 as "hasOthers", (
        select array_agg(pair order by pair) = array_agg(pair order by pair collate "C") from (
          select substr(digits, n / 36 + 1, 1) || substr(digits, n % 36 + 1, 1) as pair
          from (values ('0123456789abcdefghijklmnopqrstuvwxyz')) d (digits), generate_series(0, 36 * 36 - 1) n
        ) p
      ) as "inOrder"
    from (select date_trunc('month', now() at time zone 'UTC') + n * interval '1 month' as since from generate_series(1, 3) n) m
    left join lateral (
      select substring(pg_get_expr(relpartbound, oid) from 'TO \\(''([^'']*)''') as until from pg_class
      where oid = to_regclass('usage_before') and relispartition
    ) b on true`
  return row ?? { ahead: 0, hasOthers: false, inOrder: true }
}
