/**
 * Finds what owners are to be told of: a balance that fell below what they set, and keys' budgets that passed half, four fifths
 * and all. One statement for all accounts, which writes what it found into the outbox: whatever a process or a connection does,
 * each is found once. Which was found is kept beside the account and the key, and forgotten when it is over.
 */
import type { Database, Sql } from "./database.ts"
import { hasRoom } from "./outbox.ts"

export interface AlertStore {
  /** Falls of balances. Who wishes ever something else is told a few times a day: the address may be anybody's. */
  findLowBalances(): Promise<void>
  findBudgets(): Promise<void>
}

const FOUND = 200
const FALLS_A_DAY = 5
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
    await database.run(
      (sql) => sql`
        with watched as (
          select a.id, a.time_zone, ${sendsMail} and a.budget_mails and a.low_balance_email is not null and not a.email_unproved as by_mail,
            w.account_id is not null as by_webhook
          from accounts a left join webhooks w on w.account_id = a.id and w.disabled_at is null
          where a.deleted_at is null and (${sendsMail} and a.budget_mails and a.low_balance_email is not null and not a.email_unproved or w.account_id is not null)
        ), seen as (
          -- Of children there are hundreds: a webhook takes them, and a mailbox would drown.
          select k.id as key_id, k.name, w.id as account_id, w.by_mail and k.parent_id is null as by_mail, w.by_webhook, s.period, s.period_start, s.spent_micro,
            k.spending_limit_micro as limit_micro,
            case when s.spent_micro >= k.spending_limit_micro then 100
              when s.spent_micro::numeric * 5 >= k.spending_limit_micro::numeric * 4 then 80
              when s.spent_micro::numeric * 2 >= k.spending_limit_micro then 50 else 0 end as reached
          from watched w join api_keys k on k.account_id = w.id and k.revoked_at is null and k.spending_limit_micro > 0
          join lateral (
            -- The period that is running: one that was carried over a change of the time zone, or the calendar's.
            select s.* from key_spend s where s.key_id = k.id and s.period = k.spending_period
              and (s.period = 'total'
                or exists (select from running_periods r where r.key_id = k.id and r.period = s.period
                  and r.started_at = s.period_start and r.ends_at > now())
                or s.period_start >= date_trunc(case s.period when 'daily' then 'day' else 'month' end,
                    now() at time zone w.time_zone) at time zone w.time_zone
                  and not exists (select from running_periods r where r.key_id = k.id and r.period = s.period
                    and s.period_start > r.started_at and s.period_start < r.ends_at))
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
          returning key_id, reached, rose
        ), told as (
          select s.*, jsonb_build_object('key_id', s.key_id, 'key_name', s.name, 'period', s.period, 'percent', s.reached,
            'spent_micro', s.spent_micro, 'limit_micro', s.limit_micro) as data
          from changed c join seen s using (key_id)
          where c.rose and ${hasRoom(sql, sql`s.account_id`)}
        )
        insert into outbox (account_id, channel, kind, expires_at, data)
        select account_id, 'webhook', 'budget.reached', now() + lasts, data
          from told, ${expiries(sql)} where by_webhook and channel = 'webhook'
        union all
        -- One mail for all keys of one look.
        select account_id, 'mail', 'budget.reached', now() + lasts, jsonb_build_object('keys', jsonb_agg(data order by name, key_id))
          from told, ${expiries(sql)} where by_mail and channel = 'mail' group by account_id, lasts`,
      { ...again, attemptMs: 4_000 },
    )
  },
})
