/**
 * Announcements to everybody who was charged for a model lately: its next price, and that it was retired. What stands is found in the
 * catalogue's own rows, whoever wrote them. Each step is one statement that goes by what is stored, so that whatever a process
 * or a connection does, and however many look at once, an account is told once. Money is exact to the micro-rupiah.
 */
import { largestMicro, micro, type Micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"

export interface AnnouncementStore {
  /** Begins to announce what has stood for a while, and finds what does not stand any more. */
  look(): Promise<void>
  /** Writes the mails of the next accounts, at most so many; false when there are none left. */
  tellNext(accounts: number): Promise<boolean>
  /** Tells the next of those who were told what was withdrawn; false when there are none left. */
  takeBackNext(accounts: number): Promise<boolean>
}

/** A slip can be taken back for so long, and nobody has heard of it. */
const STANDS_MINUTES = 10
/** For so long a mail is tried. More than an alert's day: of mails that wait, those that expire first go first. */
const MAIL_LASTS = "3 days"
const again = { deadlineMs: 10_000, attemptMs: 4_000, retry: true } as const

export const announcementStore = (database: Database): AnnouncementStore => ({
  async look() {
    await database.run(
      (sql) => sql`
        with coming as (
          select distinct on (p.model) p.*, ${priceTerms(sql)} as terms
          from prices p join lateral (${inForce(sql, sql`p.model`, sql`p.effective_at`)}) f on true
          where p.effective_at > now() and not exists (select from model_aliases a where a.alias = p.model)
            and (p.input_micro, p.output_micro, p.cache_read_micro, p.cache_write_micro)
              <> (f.input_micro, f.output_micro, f.cache_read_micro, f.cache_write_micro)
          order by p.model, p.effective_at
        ), present as (
          select 'price' as kind, c.model, c.terms, c.effective_at as holds_until,
            -- A catalogue file may change a coming price in its place.
            case when exists (select from announcements o where o.kind = 'price' and o.model = c.model
                and o.terms->'price_id' = c.terms->'price_id' and o.terms <> c.terms)
              then now() else least(c.created_at, now()) end as stands_since
          from coming c
          union all
          select 'retirement', a.alias, ${aliasTerms(sql)}, a.until, now()
          from model_aliases a join models m on m.model = a.alias where a.until > now()
        ), gone as (
          update announcements n set withdrawn_at = now()
          where n.withdrawn_at is null and n.holds_until > now() - interval '1 day' and not case n.kind
            when 'price' then exists (select from prices p where p.model = n.model and ${priceTerms(sql)} = n.terms)
            else exists (select from model_aliases a where a.alias = n.model and ${aliasTerms(sql)} = n.terms) end
        ), due as (
          select n.id from announcements n join present p using (kind, model, terms)
          where n.withdrawn_at is null and n.round_id is null
            and n.stands_since <= now() - make_interval(mins => ${STANDS_MINUTES})
          order by n.id for update of n
        ), round as (
          insert into announcement_rounds (began_at) select now() where exists (select from due) returning id
        ), begun as (
          update announcements n set round_id = r.id from due d, round r where n.id = d.id
        )
        insert into announcements (kind, model, terms, holds_until, stands_since)
        select kind, model, terms, holds_until, stands_since from present order by kind, model on conflict do nothing`,
      again,
    )
  },

  async tellNext(accounts) {
    const [row] = await database.run(
      (sql) => sql<{ goes_on: boolean }[]>`
        with round as materialized (
          select id, after_account from announcement_rounds where ended_at is null
          order by id limit 1 for update skip locked
        ), batch as materialized (
          select a.* from round r, lateral (
            select a.id, a.time_zone, a.deleted_at is null and not a.email_unproved as has_address
            from accounts a where a.id > r.after_account order by a.id limit ${accounts}
          ) a
        ), said as materialized (
          select n.id, n.kind, n.model, m.display_name, n.terms, s.display_name as target_name,
            f.input_micro as from_input, f.output_micro as from_output, f.cache_read_micro as from_cache_read,
            f.cache_write_micro as from_cache_write,
            case n.kind when 'price' then (n.terms->>'input_micro')::bigint else t.input_micro end as input_micro,
            case n.kind when 'price' then (n.terms->>'output_micro')::bigint else t.output_micro end as output_micro,
            case n.kind when 'price' then (n.terms->>'cache_read_micro')::bigint else t.cache_read_micro end as cache_read_micro,
            case n.kind when 'price' then (n.terms->>'cache_write_micro')::bigint else t.cache_write_micro end as cache_write_micro
          from announcements n join round r on n.round_id = r.id join models m on m.model = n.model
          join lateral (
            ${inForce(sql, sql`n.model`, sql`case n.kind when 'price' then n.holds_until else 'infinity' end`)}) f on true
          left join models s on s.model = n.terms->>'target'
          left join lateral (${inForce(sql, sql`s.model`, sql`'infinity'::timestamptz`)}) t on true
          where n.withdrawn_at is null
        ), used as (
          -- One reading of the index for each account.
          select b.id as account_id, u.* from batch b cross join lateral (
            select u.model, ${tokenSums(sql)} from usage_hours u
            where u.account_id = b.id and u.hour >= date_trunc('hour', now() - interval '720 hours', 'UTC') and u.status = 'ok'
              and u.model in (select model from said)
            group by u.model having sum(u.calls) > 0
          ) u where b.has_address
        ), changes as (
          select u.account_id, s.id, s.kind, d.difference, jsonb_build_object('announcement', s.id, 'model', s.model,
            'display_name', s.display_name, 'target_name', s.target_name, 'calls', u.calls, 'difference_micro', d.difference,
            'from', ${ratesOf(sql, sql`s.from_input, s.from_output, s.from_cache_read, s.from_cache_write`)},
            'to', ${ratesOf(sql, sql`s.input_micro, s.output_micro, s.cache_read_micro, s.cache_write_micro`)})
            || (s.terms - '{price_id,input_micro,output_micro,cache_read_micro,cache_write_micro}'::text[]) as change
          from used u join said s on s.model = u.model
          cross join lateral (select s.from_input as input_micro, s.from_output as output_micro,
            s.from_cache_read as cache_read_micro, s.from_cache_write as cache_write_micro) f
          cross join lateral (select case when s.input_micro is not null
            then ${differenceOf(sql, { from: sql`f`, to: sql`s` })} end as difference) d
          where not exists (select from announced_accounts o where o.announcement_id = s.id and o.account_id = u.account_id)
        ), mails as materialized (
          select 'msg_' || replace(gen_random_uuid()::text, '-', '') as id, account_id, kind,
            jsonb_agg(change order by abs(difference) desc, change->>'model') as changes
          from changes group by account_id, kind
        ), notified as (
          insert into announced_accounts (announcement_id, account_id, mail_id)
          select c.id, c.account_id, m.id from changes c join mails m using (account_id, kind)
        ), written as (
          insert into outbox (id, account_id, channel, kind, expires_at, data)
          select m.id, m.account_id, 'mail', case m.kind when 'price' then 'price.announced' else 'model.retired' end,
            now() + ${MAIL_LASTS}::interval, jsonb_build_object('time_zone', b.time_zone, 'changes', m.changes)
          from mails m join batch b on b.id = m.account_id
        )
        update announcement_rounds r set after_account = coalesce((select max(id) from batch), r.after_account),
          ended_at = case when (select count(*) from batch) < ${accounts} then now() end
        from round where r.id = round.id
        returning r.ended_at is null or exists (
          select from announcement_rounds o where o.ended_at is null and o.id <> r.id) as goes_on`,
      again,
    )
    return row?.goes_on === true
  },

  async takeBackNext(accounts) {
    const rows = await database.run(
      (sql) => sql`
        with batch as (
          select distinct t.account_id from announced_accounts t join announcements n on n.id = t.announcement_id
          where n.withdrawn_at is not null order by t.account_id limit ${accounts}
        ), gone as (
          delete from announced_accounts t using announcements n, batch b
          where n.id = t.announcement_id and n.withdrawn_at is not null and t.account_id = b.account_id
          returning t.account_id, t.mail_id, n.id, n.kind, n.model, n.terms
        ), unsent as materialized (
          -- With what somebody has in hand, and may yet put back.
          select o.id, o.data, o.due_at is not null as waits from outbox o
          where o.id in (select mail_id from gone) and (o.due_at is not null or o.problem = 'unknown')
          order by o.id for update
        ), left_over as (
          -- What no mail has told yet is left out of it.
          select u.id, u.waits, (select jsonb_agg(c order by place) from jsonb_array_elements(u.data->'changes') with ordinality as e (c, place)
            where not exists (select from gone g where g.mail_id = u.id and to_jsonb(g.id) = c->'announcement')) as changes
          from unsent u
        ), amended as (
          update outbox o set data = jsonb_set(o.data, '{changes}', coalesce(l.changes, '[]')),
            due_at = case when l.changes is not null then o.due_at end,
            outcome = case when l.waits and l.changes is null then 'failed' else o.outcome end,
            problem = case when l.waits and l.changes is null then 'withdrawn' else o.problem end
          from left_over l where o.id = l.id
        ), notified as (
          insert into outbox (account_id, channel, kind, expires_at, data)
          select g.account_id, 'mail', case g.kind when 'price' then 'price.retracted' else 'model.restored' end,
            now() + ${MAIL_LASTS}::interval, jsonb_build_object('time_zone', a.time_zone, 'changes', jsonb_agg(
              jsonb_build_object('model', g.model, 'display_name', m.display_name) || (g.terms - 'price_id') order by g.model))
          from gone g join accounts a on a.id = g.account_id join models m on m.model = g.model
          left join outbox o on o.id = g.mail_id
          where g.mail_id not in (select id from unsent where waits)
            and (o.outcome is distinct from 'failed' or o.problem = 'unknown')
            -- Served as another one, or until another time: that is announced by itself.
            and not (g.kind = 'retirement' and exists (select from model_aliases l where l.alias = g.model))
          group by g.account_id, g.kind, a.time_zone
        )
        select 1 from gone limit 1`,
      again,
    )
    return rows.length > 0
  },
})

const ms = (sql: Sql, time: ReturnType<Sql>) => sql`(extract(epoch from ${time}) * 1000)::bigint`

/** Of a price `p`, and of an alias `a`. */
const priceTerms = (sql: Sql) => sql`
  jsonb_build_object('price_id', p.id, 'begins_at_ms', ${ms(sql, sql`p.effective_at`)}, 'input_micro', p.input_micro,
    'output_micro', p.output_micro, 'cache_read_micro', p.cache_read_micro, 'cache_write_micro', p.cache_write_micro)`
const aliasTerms = (sql: Sql) => sql`jsonb_build_object('target', a.target, 'until_ms', ${ms(sql, sql`a.until`)})`

/** A model's price of this moment, or the last one before another begins. */
const inForce = (sql: Sql, model: ReturnType<Sql>, before: ReturnType<Sql>) => sql`
  select v.input_micro, v.output_micro, v.cache_read_micro, v.cache_write_micro from prices v
  where v.model = ${model} and v.effective_at <= now() and v.effective_at < ${before}
  order by v.effective_at desc limit 1`

const ratesOf = (sql: Sql, columns: ReturnType<Sql>) => sql`jsonb_build_array(${columns})`

/** Prices that are still to come, and what they would have made of an account's own calls: summed in SQL, exact to the micro-rupiah. */
interface PriceChange {
  readonly model: string
  readonly displayName: string
  readonly effectiveAt: Date
  /** The account's charged calls of the model in the period. */
  readonly calls: number
  /** What the tokens of these calls come to at the coming price, less what they come to at the present one. */
  readonly differenceMicro: Micro
}

export interface PriceChangeStore {
  /**
   * Of models on sale that the account was charged for in the hours from `since` on, the largest difference first. Of several
   * coming prices of a model only the next one with other rates is told: the one after it changes a price that does not hold yet.
   */
  coming(accountId: string, period: { readonly since: Date; readonly now: Date }): Promise<readonly PriceChange[]>
}

const once = { deadlineMs: 5_000, retry: true } as const

export const priceChangeStore = (database: Database): PriceChangeStore => ({
  async coming(accountId, { since, now }) {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        with used as (
          select u.model, ${tokenSums(sql)} from usage_hours u
          where u.account_id = ${accountId} and u.hour >= ${since} and u.status = 'ok'
            -- On most days there is none, and then no hour is read.
            and u.model in (select p.model from prices p where p.effective_at > ${now})
            and not exists (select from model_aliases a where a.alias = u.model)
          group by u.model having sum(u.calls) > 0
        ), changes as (
          select u.model, m.display_name, t.effective_at, u.calls,
            ${differenceOf(sql, { from: sql`f`, to: sql`t` })} as difference
          from used u join models m on m.model = u.model
          join lateral (
            select * from prices p where p.model = u.model and p.effective_at <= ${now}
            order by p.effective_at desc limit 1
          ) f on true
          join lateral (
            select * from prices p where p.model = u.model and p.effective_at > ${now}
              and (p.input_micro, p.output_micro, p.cache_read_micro, p.cache_write_micro)
                <> (f.input_micro, f.output_micro, f.cache_read_micro, f.cache_write_micro)
            order by p.effective_at limit 1
          ) t on true
        )
        select * from changes order by abs(difference) desc, model`,
      once,
    )
    return rows.map((row) => ({
      model: row.model,
      displayName: row.display_name,
      effectiveAt: row.effective_at,
      calls: row.calls,
      differenceMicro: micro(row.difference),
    }))
  },
})

/** Of rows `u` of `usage_hours`. */
const tokenSums = (sql: Sql) => sql`
  sum(u.calls)::int as calls, sum(u.input_tokens) as input, sum(u.output_tokens) as output,
  sum(u.cache_read_tokens) as cache_read, sum(u.cache_write_tokens) as cache_write`

/** Of such sums `u`, between two rows of rates. What does not fit JSON is told as the most that does. */
function differenceOf(sql: Sql, { from: f, to: t }: { readonly from: Fragment; readonly to: Fragment }) {
  const most = sql`${String(largestMicro)}::numeric`
  return sql`
    greatest(-${most}, least(${most},
      u.input * (${t}.input_micro - ${f}.input_micro) + u.output * (${t}.output_micro - ${f}.output_micro)
      + u.cache_read * (${t}.cache_read_micro - ${f}.cache_read_micro)
      + u.cache_write * (${t}.cache_write_micro - ${f}.cache_write_micro)))::bigint`
}

type Fragment = ReturnType<Sql>

interface Row {
  model: string
  display_name: string
  effective_at: Date
  calls: number
  difference: bigint
}
