/**
 * The ledger's store as it was before the database had a function for it: the statement that an older process goes on sending
 * while newer ones are started beside it. Never changed; to be deleted with the last version that may still run.
 */
import postgres from "postgres"
import { type Batch, BatchRefused, type Settlement } from "../../../actors/ledger.ts"
import type { Database, Sql } from "../../../src/store/database.ts"

/** How long one batch may take before it is given up and sent again on a fresh connection. */
const ATTEMPT_MS = 3_000

export interface LedgerStoreOptions {
  readonly database: Database
  readonly processId: string
  /** Calls whose lease was no longer open: what they cost went to `house:absorbed`. */
  readonly fenced: (requestIds: readonly string[]) => void
}

export const ledgerStore = ({ database, processId, fenced }: LedgerStoreOptions) => ({
  async commit(batch: Batch): Promise<readonly string[]> {
    const options = { deadlineMs: ATTEMPT_MS }
    if (batch.openings.length === 0 && batch.settlements.length === 0) {
      await database.run((sql) => sql`select 1`, options)
      return []
    }
    const rows = await database.run((sql) => statement(sql, processId, batch), options).catch(refusal)
    const ids = rows.map((row) => row.request_id)
    if (ids.length > 0) fenced(ids)
    return ids
  },
})

/** SQLSTATE classes 22 and 23 blame the values: out of range, a constraint violated. All else may pass. */
function refusal(error: unknown): never {
  if (error instanceof postgres.PostgresError && /^2[23]/.test(error.code)) {
    throw new BatchRefused(error.message, { cause: error })
  }
  throw error
}

const statement = (sql: Sql, processId: string, batch: Batch) => {
  const opening = columns(sql, batch.openings)
  const settled = columns(sql, batch.settlements.flatMap(settlementRows))
  return sql<{ request_id: string }[]>`
with opening_rows as (
  select * from unnest(
    ${opening("text", (o) => o.requestId)}::text[], ${opening("text", (o) => o.accountId)}::text[], ${opening("text", (o) => o.keyId)}::text[],
    ${opening("bigint", (o) => o.leaseId)}::bigint[], ${opening("text", (o) => o.model)}::text[], ${opening("text", (o) => o.endpoint)}::text[],
    ${opening("boolean", (o) => o.streamed)}::boolean[], ${opening("bigint", (o) => o.hold)}::bigint[], ${opening("bigint", (o) => o.priceId)}::bigint[],
    ${opening("float8", (o) => o.openedAt)}::float8[]
  ) as t(request_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro, price_id, opened_ms)
),
settled_rows as (
  select * from unnest(
    ${settled("text", (s) => s.opening.requestId)}::text[], ${settled("int", (s) => s.record.part)}::int[],
    ${settled("text", (s) => s.opening.accountId)}::text[], ${settled("text", (s) => s.opening.keyId)}::text[],
    ${settled("bigint", (s) => s.opening.leaseId)}::bigint[], ${settled("text", (s) => s.record.model)}::text[],
    ${settled("text", (s) => s.opening.endpoint)}::text[], ${settled("boolean", (s) => s.opening.streamed)}::boolean[],
    ${settled("text", (s) => s.record.status)}::text[], ${settled("bigint", (s) => s.record.tokens.input)}::bigint[],
    ${settled("bigint", (s) => s.record.tokens.output)}::bigint[], ${settled("bigint", (s) => s.record.tokens.cacheRead)}::bigint[],
    ${settled("bigint", (s) => s.record.tokens.cacheWrite)}::bigint[], ${settled("bigint", (s) => s.record.charge)}::bigint[],
    ${settled("bigint", (s) => s.record.absorbed)}::bigint[], ${settled("bigint", (s) => s.record.excess)}::bigint[],
    ${settled("bigint", (s) => s.record.priceId)}::bigint[],
    ${settled("int", (s) => s.record.turns)}::int[], ${settled("int", (s) => s.record.attempts)}::int[],
    ${settled("text", (s) => s.record.errorCode ?? null)}::text[], ${settled("boolean", (s) => s.record.flagged)}::boolean[],
    ${settled("float8", (s) => s.opening.openedAt)}::float8[], ${settled("int", (s) => s.record.firstTokenMs ?? null)}::int[],
    ${settled("int", (s) => s.record.durationMs)}::int[], ${settled("float8", (s) => s.opening.starts.daily)}::float8[],
    ${settled("float8", (s) => s.opening.starts.monthly)}::float8[], ${settled("boolean", (s) => s.voided)}::boolean[]
  ) as t(request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns, attempts, error_code, flagged,
    opened_ms, first_token_ms, duration_ms, daily_ms, monthly_ms, voided)
),
locked_leases as (
  select id, closed_at is null as open from leases
  where id in (select lease_id from settled_rows) order by id for update
),
-- The customer pays only under an open lease; what a fenced process still sends costs the house.
due as (
  select s.*, coalesce(l.open, false) as open,
    case when l.open then s.charge_micro else 0 end as due_micro
  from settled_rows s left join locked_leases l on l.id = s.lease_id
),
fresh as (
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns, attempts,
    error_code, flagged, opened_at, first_token_ms, duration_ms)
  select request_id, part, account_id, key_id, lease_id, model, endpoint, streamed,
    case when due_micro < charge_micro then 'billing_error' else status end, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, due_micro, absorbed_micro + charge_micro - due_micro, excess_micro, price_id, turns, attempts,
    error_code, flagged or not open, to_timestamp(opened_ms / 1000), first_token_ms, duration_ms
  from due
  on conflict (request_id, part) do nothing
  returning request_id, part, account_id, key_id, lease_id, charge_micro, absorbed_micro
),
-- Charges that were booked although the client was told otherwise: taken back (settlements marked as voided). Locked, because
-- a void that was given up and sent again may have been at work when this statement began.
booked as (
  select u.request_id, u.account_id, u.key_id, u.lease_id, u.charge_micro, u.absorbed_micro
  from usage u
  where u.request_id = any (array(select request_id from settled_rows where voided and part = 0)) and u.part = 0
    and (u.charge_micro > 0 or u.absorbed_micro > 0)
  for update of u
),
taken_back as (
  update usage u set status = 'billing_error', charge_micro = 0, absorbed_micro = 0, excess_micro = 0, flagged = true
  from booked b where u.request_id = b.request_id and u.part = 0
),
-- A late record of a process whose calls were ended for it: the house bears what it cost. What was booked in time stays, and
-- what was borne once and then taken back is not borne again.
late as (
  -- Of the model that answered, which need not be the one that the call was opened with.
  update usage u set absorbed_micro = d.charge_micro + d.absorbed_micro, excess_micro = d.excess_micro, input_tokens = d.input_tokens,
    output_tokens = d.output_tokens, cache_read_tokens = d.cache_read_tokens, cache_write_tokens = d.cache_write_tokens,
    model = d.model, price_id = d.price_id, turns = d.turns, attempts = d.attempts
  from due d
  where u.request_id = any (array(select request_id from due where not open and part = 0)) and u.part = 0
    and u.request_id = d.request_id and d.part = 0 and not d.open and d.charge_micro + d.absorbed_micro > 0
    and u.status = 'billing_error' and u.absorbed_micro = 0
    and (select count(*) from transfers t where t.idempotency_key = 'absorb:' || u.request_id) = 0
  returning u.request_id, u.absorbed_micro
),
moved as (
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
  select 'charge:' || request_id, account_id, 'house:revenue', charge_micro, 'charge' from fresh where charge_micro > 0
  union all
  select 'absorb:' || request_id, 'house:absorbed', 'house:revenue', absorbed_micro, 'absorbed' from fresh where absorbed_micro > 0
  union all
  select 'absorb:' || request_id, 'house:absorbed', 'house:revenue', absorbed_micro, 'absorbed' from late
  union all
  select 'void:' || request_id, 'house:revenue', account_id, charge_micro, 'void' from booked where charge_micro > 0
  union all
  select 'void-absorb:' || request_id, 'house:revenue', 'house:absorbed', absorbed_micro, 'void' from booked where absorbed_micro > 0
  on conflict (idempotency_key) do nothing
),
changes as (
  select request_id, account_id, key_id, lease_id, charge_micro as amount from fresh where charge_micro > 0
  union all
  select request_id, account_id, key_id, lease_id, -charge_micro from booked where charge_micro > 0
),
spent_leases as (
  update leases l set settled_micro = l.settled_micro + c.amount
  from (select lease_id, sum(amount)::bigint as amount from changes group by lease_id) c
  join locked_leases k on k.id = c.lease_id
  where l.id = c.lease_id and k.open
),
locked_balances as (
  select account_id from balances where account_id in (select account_id from changes) order by account_id for update
),
spent_balances as (
  update balances b set posted_micro = b.posted_micro - c.amount, leased_micro = b.leased_micro - c.leased
  from (
    select account_id, sum(amount)::bigint as amount, coalesce(sum(amount) filter (where k.open), 0)::bigint as leased
    from changes left join locked_leases k on k.id = changes.lease_id group by account_id
  ) c join locked_balances using (account_id)
  where b.account_id = c.account_id
),
key_changes as (
  select c.key_id, p.period, p.period_start, sum(c.amount)::bigint as amount
  from changes c
  join settled_rows s on s.request_id = c.request_id and s.part = 0
  cross join lateral (values
    ('daily', to_timestamp(s.daily_ms / 1000)), ('monthly', to_timestamp(s.monthly_ms / 1000)), ('total', to_timestamp(0))
  ) as p(period, period_start)
  group by c.key_id, p.period, p.period_start
),
locked_budgets as (
  select b.key_id, b.period, b.period_start, b.settled_micro, b.granted_micro - b.returned_micro - b.settled_micro as left_micro
  from budget_leases b
  where b.process_id = ${processId}
    and (b.key_id, b.period, b.period_start) in (select key_id, period, period_start from key_changes)
  order by b.key_id, b.period, b.period_start for update
),
-- What of the spending was leased of the key's budget; a call that was admitted before there was a budget has no part in it.
of_budgets as (
  select key_id, period, period_start, greatest(-b.settled_micro, least(b.left_micro, c.amount)) as amount
  from key_changes c join locked_budgets b using (key_id, period, period_start)
),
spent_budgets as (
  update budget_leases b set settled_micro = b.settled_micro + o.amount
  from of_budgets o
  where b.process_id = ${processId}
    and b.key_id = o.key_id and b.period = o.period and b.period_start = o.period_start
),
spent_keys as (
  insert into key_spend (key_id, period, period_start, spent_micro, leased_micro)
  select c.key_id, c.period, c.period_start, c.amount, -coalesce(o.amount, 0)
  from key_changes c left join of_budgets o using (key_id, period, period_start)
  order by 1, 2, 3
  on conflict (key_id, period, period_start) do update set
    spent_micro = key_spend.spent_micro + excluded.spent_micro,
    leased_micro = key_spend.leased_micro + excluded.leased_micro
),
opened as (
  insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro,
    price_id, opened_at)
  select o.request_id, ${processId}, o.account_id, o.key_id, o.lease_id, o.model, o.endpoint, o.streamed, o.hold_micro,
    o.price_id, to_timestamp(o.opened_ms / 1000)
  from opening_rows o where (select count(*) from usage u where u.request_id = o.request_id and u.part = 0) = 0
  on conflict (request_id) do nothing
),
closed as (
  delete from openings where request_id in (select request_id from settled_rows where part = 0)
)
-- Charges that the house bears; what an earlier sending of this batch has charged, while the lease was open, is charged.
select request_id from due where not open and part = 0 and charge_micro > 0 and (
  request_id = any (array(select request_id from fresh where part = 0))
  or request_id = any (array(
    select u.request_id from usage u
    where u.request_id = any (array(select request_id from due where not open and part = 0)) and u.part = 0
      and u.charge_micro = 0
  ))
)`
}

/** A settlement has one row for each of its records. */
const settlementRows = ({ opening, records, voided }: Settlement) =>
  records.map((record) => ({ opening, record, voided }))

/** The array types of Postgres by their object ids: a parameter's type must be known before the first connection is. */
const oids = { text: 1009, int: 1007, bigint: 1016, float8: 1022, boolean: 1000 } as const

type Column = string | number | bigint | boolean | null

/** The rows' values as one array per column, which is what `unnest` takes. */
const columns =
  <Row>(sql: Sql, rows: readonly Row[]) =>
  (type: keyof typeof oids, of: (row: Row) => Column) =>
    sql.typed(rows.map(of), oids[type])
