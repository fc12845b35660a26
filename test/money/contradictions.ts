/**
 * Recomputes all money from what is written and compares: every balance from its transfers, every lease and every key's
 * spending from the charges, every charge from its tokens and its price version. Micro-rupiah. Each check is a query for
 * what is wrong, so a failure names the rows.
 */
import type { Sql } from "../../src/store/database.ts"

export interface Expected {
  /** Calls may be under way: their openings are there. */
  readonly busy?: boolean
}

/** Each claim that does not hold, with the rows that are against it. */
export async function contradictionsIn(sql: Sql, { busy = false }: Expected = {}): Promise<Record<string, unknown>> {
  const wrong: Record<string, unknown> = {}
  for (const [claim, query] of Object.entries(contradictions)) {
    const rows = await sql.unsafe(query)
    if (rows.length > 0) wrong[claim] = [...rows]
  }
  const open = busy ? [] : await sql`select request_id, process_id from openings`
  if (open.length > 0) wrong["no call is left open"] = [...open]
  return wrong
}

const contradictions = {
  "a balance is the sum of its transfers": `
    with moves as (
      select credit_account as account_id, amount_micro as amount from transfers
      union all select debit_account, -amount_micro from transfers
    ), sums as (select account_id, sum(amount) as amount from moves where account_id not like 'house:%' group by 1)
    select account_id, b.posted_micro, s.amount as of_transfers
    from balances b full join sums s using (account_id)
    where b.posted_micro is distinct from coalesce(s.amount, 0)`,

  "what customers have, the house owes": `
    with house as (
      select coalesce(sum(case when credit_account like 'house:%' then amount_micro else 0 end), 0)
        - coalesce(sum(case when debit_account like 'house:%' then amount_micro else 0 end), 0) as amount
      from transfers
    )
    select house.amount, b.posted from house, (select coalesce(sum(posted_micro), 0) as posted from balances) b
    where house.amount + b.posted <> 0`,

  "what is leased of a balance is what its open leases have left, and is covered": `
    select b.account_id, b.posted_micro, b.leased_micro, l.left_micro
    from balances b cross join lateral (
      select coalesce(sum(granted_micro - returned_micro - settled_micro), 0) as left_micro
      from leases where account_id = b.account_id and closed_at is null
    ) l
    where not (b.posted_micro >= b.leased_micro and b.leased_micro = l.left_micro and l.left_micro >= 0)`,

  "an open lease has settled the charges under it": `
    select l.id, l.account_id, l.settled_micro, c.charged
    from leases l cross join lateral (
      select coalesce(sum(charge_micro), 0) as charged from usage u where u.lease_id = l.id
    ) c
    where l.closed_at is null and l.settled_micro <> c.charged`,

  "what is leased of a key's budget is what its leases have left": `
    select s.key_id, s.period, s.leased_micro, l.left_micro
    from key_spend s cross join lateral (
      select coalesce(sum(granted_micro - returned_micro - settled_micro), 0) as left_micro
      from budget_leases b where b.key_id = s.key_id and b.period = s.period and b.period_start = s.period_start
    ) l
    where s.leased_micro <> l.left_micro`,

  "the transfers of a call are its charge and what the house absorbed of it": `
    with booked as (
      select split_part(idempotency_key, ':', 2) as request_id,
        sum(case split_part(idempotency_key, ':', 1) when 'charge' then amount_micro when 'void' then -amount_micro else 0 end) as charged,
        sum(case split_part(idempotency_key, ':', 1) when 'absorb' then amount_micro when 'void-absorb' then -amount_micro else 0 end) as absorbed
      from transfers where idempotency_key ~ '^(charge|absorb|void|void-absorb):' group by 1
    ), recorded as (
      select request_id, sum(charge_micro) as charged, sum(absorbed_micro) as absorbed from usage group by 1
    )
    select request_id, b.charged as charge_booked, r.charged as charge_recorded,
      b.absorbed as absorbed_booked, r.absorbed as absorbed_recorded
    from booked b full join recorded r using (request_id)
    where coalesce(b.charged, 0) <> coalesce(r.charged, 0) or coalesce(b.absorbed, 0) <> coalesce(r.absorbed, 0)`,

  "a charge goes from its own account to revenue": `
    select t.idempotency_key, t.debit_account, t.credit_account, u.account_id
    from transfers t join usage u on t.idempotency_key = 'charge:' || u.request_id and u.part = 0
    where (t.debit_account, t.credit_account) <> (u.account_id, 'house:revenue')`,

  "a charge is its tokens at its price version": `
    select u.request_id, u.part, u.status, u.charge_micro, u.absorbed_micro,
      u.input_tokens::numeric * p.input_micro + u.output_tokens::numeric * p.output_micro
        + u.cache_read_tokens::numeric * p.cache_read_micro + u.cache_write_tokens::numeric * p.cache_write_micro as price
    from usage u left join prices p on p.id = u.price_id
    where p.id is null or ((u.status = 'ok' or u.absorbed_micro > 0) and u.charge_micro + u.absorbed_micro is distinct from
      u.input_tokens::numeric * p.input_micro + u.output_tokens::numeric * p.output_micro
        + u.cache_read_tokens::numeric * p.cache_read_micro + u.cache_write_tokens::numeric * p.cache_write_micro)`,

  "only an answer is charged": `
    select request_id, part, status, charge_micro from usage where charge_micro <> 0 and (status <> 'ok' or part <> 0)`,

  "a call has one final record": `
    select request_id, count(*) filter (where part = 0) as final from usage group by 1
    having count(*) filter (where part = 0) <> 1`,

  "an ended call is not open": `
    select o.request_id, u.status from openings o join usage u on u.request_id = o.request_id and u.part = 0`,

  "a key has spent its charges, in all three calendars": `
    with spent as (
      select key_id, coalesce(sum(spent_micro) filter (where period = 'daily'), 0) as daily,
        coalesce(sum(spent_micro) filter (where period = 'monthly'), 0) as monthly,
        coalesce(sum(spent_micro) filter (where period = 'total'), 0) as total
      from key_spend group by 1
    ), charged as (select key_id, sum(charge_micro) as amount from usage group by 1)
    select key_id, s.daily, s.monthly, s.total, c.amount
    from spent s full join charged c using (key_id)
    where (coalesce(s.daily, 0), coalesce(s.monthly, 0), coalesce(s.total, 0))
      <> (coalesce(c.amount, 0), coalesce(c.amount, 0), coalesce(c.amount, 0))`,

  "a paid top-up was credited once, in full": `
    select p.id, p.balance_purchased_micro, count(t.id) as credits, sum(t.amount_micro) as credited
    from top_ups p left join transfers t
      on t.reason = 'top_up' and t.idempotency_key like '%' || p.id and t.credit_account = p.account_id
    where p.status = 'paid' group by p.id
    having count(t.id) <> 1 or sum(t.amount_micro) <> p.balance_purchased_micro`,
} as const
