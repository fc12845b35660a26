/**
 * Finds what owners are to be told of: a balance that fell below what they set, and keys' budgets that passed half, four fifths
 * and all. What a statement finds it writes into the outbox: whatever a process or a connection does, each is found once. Which was
 * found is kept beside the account and the key, and forgotten when it is over.
 */
import { micro, type Micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"
import { hasRoom } from "./outbox.ts"

interface AlertStore {
  /** Falls of balances: of an account a few a day, however often its owner moves the threshold. The address may be anybody's. */
  findLowBalances(): Promise<void>
  findBudgets(): Promise<void>
}

const FOUND = 200
const FALLS_A_DAY = 5
/** Accounts whose budgets one statement looks at: whole ones, until they have so many keys together. */
const ACCOUNTS_AT_ONCE = 100
const KEYS_AT_ONCE = 1_000
const again = { retry: true } as const

/** An alert of yesterday is no news. A webhook is tried for days, and says when it was. */
const expiries = (sql: Sql) =>
  sql`(values ('mail', interval '1 day'), ('webhook', interval '5 days')) as expiry (channel, lasts)`

/** `sendsMail`: there is a mail server. */
export const alertStore = (database: Database, sendsMail: boolean): AlertStore => ({
  async findLowBalances() {
    await database.run(
      (sql) => sql`
        with risen as (
          update accounts a set low_balance_told_at = null from balances b
          where b.account_id = a.id and a.low_balance_threshold_micro is not null and a.low_balance_told_at is not null
            and b.posted_micro >= a.low_balance_threshold_micro
        ), fallen as (
          select a.id, b.posted_micro from accounts a join balances b on b.account_id = a.id
          where a.low_balance_threshold_micro is not null
            and (${sendsMail} and a.low_balance_email is not null and not a.email_unproved
              or exists (select from webhooks w where w.account_id = a.id and w.disabled_at is null))
            and a.low_balance_told_at is null and a.deleted_at is null and b.posted_micro < a.low_balance_threshold_micro
            and (a.low_balance_mails < ${FALLS_A_DAY} or a.low_balance_mails_since < now() - interval '1 day')
          order by a.id limit ${FOUND} for update of a skip locked
        ), found as (
          update accounts a set low_balance_told_at = now(),
            low_balance_mails = case when low_balance_mails_since > now() - interval '1 day' then low_balance_mails else 0 end + 1,
            low_balance_mails_since =
              case when low_balance_mails_since > now() - interval '1 day' then low_balance_mails_since else now() end
          from fallen f where a.id = f.id
          returning a.id, a.low_balance_email is not null and not a.email_unproved as by_mail, f.posted_micro, a.low_balance_threshold_micro
        )
        insert into outbox (account_id, channel, kind, expires_at, data)
        select f.id, channel, 'balance.low', now() + lasts,
          jsonb_build_object('balance_micro', f.posted_micro, 'threshold_micro', f.low_balance_threshold_micro)
        from found f, ${expiries(sql)}
        where case channel when 'mail' then ${sendsMail} and f.by_mail
          else exists (select from webhooks w where w.account_id = f.id and w.disabled_at is null) end`,
    )
  },

  async findBudgets() {
    for (let after: string | undefined = ""; after !== undefined;)
      after = await findBudgetsOf(database, sendsMail, after)
  },
})

/** Of the accounts after this one, as many as have so many keys together; returns the last of them, undefined if there is none. */
async function findBudgetsOf(database: Database, sendsMail: boolean, after: string): Promise<string | undefined> {
  const [row] = await database.run(
    (sql) => sql<{ last: string | null }[]>`
        with next as (
          select a.id, a.time_zone, ${sendsMail} and a.budget_mails and a.low_balance_email is not null and not a.email_unproved as by_mail,
            w.account_id is not null as by_webhook,
            (select count(*) from (select from api_keys where account_id = a.id and revoked_at is null limit ${KEYS_AT_ONCE}) few) as keys
          from accounts a left join webhooks w on w.account_id = a.id and w.disabled_at is null
          where a.id > ${after} and a.deleted_at is null and (${sendsMail} and a.budget_mails and a.low_balance_email is not null and not a.email_unproved or w.account_id is not null)
          order by a.id limit ${ACCOUNTS_AT_ONCE}
        ), watched as materialized (
          select * from (select *, sum(keys) over (order by id) - keys as keys_before from next) n where keys_before < ${KEYS_AT_ONCE}
        ), seen as (
          -- Of children there are hundreds: a webhook takes them, and a mailbox would drown.
          select k.id as key_id, k.name, w.id as account_id, w.by_mail and k.parent_id is null as by_mail, w.by_webhook, s.period, s.period_start, s.spent_micro,
            k.spending_limit_micro as limit_micro,
            case when s.spent_micro >= k.spending_limit_micro then 100
              when s.spent_micro::numeric * 5 >= k.spending_limit_micro::numeric * 4 then 80
              when s.spent_micro::numeric * 2 >= k.spending_limit_micro then 50 else 0 end as reached
          from watched w join lateral (
            -- Account by account, and what changed below by its hash: where nobody has gathered statistics, each would be held against each.
            select * from api_keys where account_id = w.id and revoked_at is null and spending_limit_micro > 0 offset 0
          ) k on true join lateral (
            -- The period that is running: one that was carried over a change of the time zone, or the calendar's. It is known by the noon of its first
            -- day. Its midnight may be another one for Postgres: some days have two, and Postgres may have another version of the time zones.
            -- The calendar's begin where the one that was carried over ends: what began before is over.
            select s.* from key_spend s where s.key_id = k.id and s.period = k.spending_period
              and (s.period = 'total'
                or exists (select from running_periods r where r.key_id = k.id and r.period = s.period
                  and r.started_at = s.period_start and r.ends_at > now())
                or (s.period_start + interval '12 hours') at time zone w.time_zone
                    >= date_trunc(case s.period when 'daily' then 'day' else 'month' end, now() at time zone w.time_zone)
                  and not exists (select from running_periods r where r.key_id = k.id and r.period = s.period
                    and s.period_start < r.ends_at))
            order by s.period_start desc limit 1
          ) s on true
        ), changed as (
          insert into budget_alerts as b (key_id, period, period_start, reached, rose)
          select key_id, period, period_start, reached, true from seen
          where reached > 0 or exists (select from budget_alerts o where o.key_id = seen.key_id)
          order by key_id
          on conflict (key_id) do update set period = excluded.period, period_start = excluded.period_start,
            reached = excluded.reached, rose = excluded.reached >
              case when (b.period, b.period_start) = (excluded.period, excluded.period_start) then b.reached else 0 end
          where (b.period, b.period_start, b.reached) is distinct from (excluded.period, excluded.period_start, excluded.reached)
            -- What another process has written since this statement began is of a later look, which is not taken back.
            and exists (select from budget_alerts o where o.key_id = b.key_id
              and (o.period, o.period_start, o.reached) = (b.period, b.period_start, b.reached))
          returning key_id, rose
        ), risen as materialized (
          select * from seen where (key_id in (select key_id from changed where rose)) is true
        ), room as materialized (
          -- Once for each account, of which thousands of children may have risen together.
          select account_id from (select distinct account_id from risen) a where ${hasRoom(sql, sql`a.account_id`)}
        ), notified as (
          select s.*, jsonb_build_object('key_id', s.key_id, 'key_name', s.name, 'period', s.period, 'percent', s.reached,
            'spent_micro', s.spent_micro, 'limit_micro', s.limit_micro) as data
          from risen s where (account_id in (select account_id from room)) is true
        ), written as (
          insert into outbox (account_id, channel, kind, expires_at, data)
          select account_id, 'webhook', 'budget.reached', now() + lasts, data
            from notified, ${expiries(sql)} where by_webhook and channel = 'webhook'
          union all
          -- One mail for all keys of one look.
          select account_id, 'mail', 'budget.reached', now() + lasts, jsonb_build_object('keys', jsonb_agg(data order by name, key_id))
            from notified, ${expiries(sql)} where by_mail and channel = 'mail' group by account_id, lasts
        )
        select max(id) as last from watched`,
    { ...again, attemptMs: 4_000 },
  )
  return row?.last ?? undefined
}

// Finds spending that its owner is warned of, as of a key that leaked: of a key or an account, within ten
// minutes, more than the owner's own ceiling, or more than so many times the usual of that hour of the week. One statement for
// all accounts, which writes what it found into the outbox. Micro-rupiah.
//
// The usual is what was spent in the same hour of the last four weeks, a sixth of it, the mean of as many weeks as the account
// has. It needs a week to be known, and spending of less than `FLOOR_MICRO` is never unusual.

/** Under it nothing is unusual, so that the first call of a quiet hour warns nobody. */
const FLOOR_MICRO = 10_000_000_000n
/** After so long without more, the next time is told again. */
const QUIET = "1 hour"
/** Calls that were begun longer ago are not looked at, whenever they end. */
const LOOK_BACK_MS = 30 * 60_000
/** Of alerts that nobody sees any more. */
const KEPT = "7 days"

/** Why an owner is warned: by a ceiling, or by what is usual. */
type AlertReason = "ceiling" | "usual"

export interface SpendingAlert {
  /** Undefined for the account, all its keys together. */
  readonly key: { readonly id: string; readonly name: string } | undefined
  readonly why: AlertReason
  readonly since: Date
  /** The most within ten minutes, and what it was measured by. */
  readonly spentMicro: Micro
  readonly thresholdMicro: Micro
}

export interface SpendingAlertStore {
  /** Returns the accounts that have something new to hear. */
  find(now: number): Promise<readonly string[]>
  /** Those that are going on, and were not dismissed. */
  list(accountId: string): Promise<readonly SpendingAlert[]>
  /** Until the spending has been usual again. */
  dismiss(accountId: string): Promise<void>
  removeOld(): Promise<void>
}

interface SpendingAlertOptions {
  readonly database: Database
  /** There is a mail server. */
  readonly sendsMail: boolean
  /** Other processes are told who has something new to hear. */
  readonly tells: boolean
  /** What all request ids of this millisecond begin with. */
  readonly firstId: (ms: number) => string
}

export const spendingAlertStore = ({
  database,
  sendsMail,
  tells,
  firstId,
}: SpendingAlertOptions): SpendingAlertStore => ({
  async find(now) {
    const rows = await database.run(
      (sql) => sql<{ account_id: string }[]>`
        with recent as materialized (
          select account_id, key_id, sum(charge_micro)::bigint as spent from usage
          where request_id >= ${firstId(now - LOOK_BACK_MS)} and charge_micro > 0
            and opened_at + duration_ms * interval '1 millisecond' > now() - interval '10 minutes'
          group by 1, 2
        ), owners as (
          -- What children of a key spend is the key's, as its ceiling counts it; of a child alone nobody is warned.
          select k.id as owner_id, k.account_id, k.id as key_id, k.name, sum(r.spent)::bigint as spent,
            -- Whose spending is stopped at its ceiling is told so by the breaker, and has not spent more.
            case when not k.breaker_stops then k.breaker_ceiling_micro end as ceiling
          from recent r join api_keys c on c.id = r.key_id
            join api_keys k on k.id = coalesce(c.parent_id, c.id) and k.revoked_at is null
          group by k.id
          union all
          select r.account_id, r.account_id, null, null, sum(r.spent)::bigint, case when not a.breaker_stops then a.breaker_ceiling_micro end
          from recent r join accounts a on a.id = r.account_id group by a.id, r.account_id
        ), weighed as (
          select o.*, a.email_unproved, case
              when a.breaker_factor is null or a.created_at > now() - interval '7 days' then null
              else greatest(${FLOOR_MICRO}::numeric, a.breaker_factor * (
                select coalesce(sum(h.charge_micro), 0) from usage_hours h
                where h.account_id = o.account_id and (o.key_id is null or h.key_id = o.key_id
                    or h.key_id in (select c.id from api_keys c where c.parent_id = o.key_id)) and h.hour in (
                  select date_trunc('hour', now(), 'UTC') - weeks * interval '7 days' from generate_series(1, 4) weeks)
              ) / (6 * least(4, floor(extract(epoch from now() - a.created_at) / 604800)))) end as most
          from owners o join accounts a on a.id = o.account_id and a.deleted_at is null
        ), over as (
          select *, case when spent > ceiling then 'ceiling' else 'usual' end as why,
            case when spent > ceiling then ceiling else floor(most)::bigint end as threshold
          from weighed where spent > ceiling or spent > most
        ), notified as (
          insert into spending_alerts as s (owner_id, account_id, key_id, why, spent_micro, threshold_micro)
          select owner_id, account_id, key_id, why, spent, threshold from over order by owner_id
          on conflict (owner_id) do update set last_at = now(),
            since = case when s.last_at < now() - ${QUIET}::interval then now() else s.since end,
            dismissed = s.dismissed and s.last_at >= now() - ${QUIET}::interval,
            why = excluded.why, threshold_micro = excluded.threshold_micro,
            spent_micro = case when s.last_at < now() - ${QUIET}::interval then excluded.spent_micro
              else greatest(s.spent_micro, excluded.spent_micro) end
          returning owner_id, since = now() as is_new
        ), news as materialized (
          select o.account_id, o.email_unproved, jsonb_build_object('key_id', o.key_id, 'key_name', o.name, 'why', o.why,
            'spent_micro', o.spent, 'threshold_micro', o.threshold) as data
          from over o join notified t on t.owner_id = o.owner_id and t.is_new
        ), room as (
          select * from news where ${hasRoom(sql, sql`account_id`)}
        ), posted as (
          insert into outbox (account_id, channel, kind, expires_at, data)
          select n.account_id, 'webhook', 'spending.unusual', now() + interval '5 days', n.data
          from room n join webhooks w on w.account_id = n.account_id and w.disabled_at is null
        ), mailed as (
          -- One mail for all that one look has found.
          insert into outbox (account_id, channel, kind, expires_at, data)
          select account_id, 'mail', 'spending.unusual', now() + interval '1 day', jsonb_build_object('alerts', jsonb_agg(data order by data))
          from room where ${sendsMail} and not email_unproved group by account_id
        )
        select account_id ${tells ? sql`, pg_notify('loket', 'unusual account ' || account_id)::text as asked` : sql``}
        from (select distinct account_id from news) accounts`,
      { ...again, attemptMs: 4_000 },
    )
    return rows.map(({ account_id: id }) => id)
  },

  async list(accountId) {
    const rows = await database.run(
      (sql) => sql<AlertRow[]>`
        select s.key_id, k.name, s.why, s.since, s.spent_micro, s.threshold_micro
        from spending_alerts s left join api_keys k on k.id = s.key_id
        where s.account_id = ${accountId} and not s.dismissed and s.last_at > now() - ${QUIET}::interval
        order by s.key_id is not null, s.since, s.owner_id`,
      again,
    )
    return rows.map((row) => ({
      key: row.key_id === null ? undefined : { id: row.key_id, name: row.name ?? "" },
      why: row.why,
      since: row.since,
      spentMicro: micro(row.spent_micro),
      thresholdMicro: micro(row.threshold_micro),
    }))
  },

  async dismiss(accountId) {
    await database.run(
      (sql) => sql`update spending_alerts set dismissed = true where account_id = ${accountId} and not dismissed`,
      again,
    )
  },

  async removeOld() {
    await database.run((sql) => sql`delete from spending_alerts where last_at < now() - ${KEPT}::interval`, again)
    // They count for eleven minutes (0062_breakers.sql).
    await database.run((sql) => sql`delete from spending_minutes where minute < now() - interval '1 hour'`, again)
  },
})

interface AlertRow {
  key_id: string | null
  name: string | null
  why: AlertReason
  since: Date
  spent_micro: bigint
  threshold_micro: bigint
}
