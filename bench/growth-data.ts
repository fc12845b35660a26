/**
 * A year of records that agree with each other, as a house leaves them behind, made by the server itself. An account in every hundred
 * records; the first of them makes a twentieth of all calls, and of the others a few make most. Micro-rupiah.
 */
import type { Sql } from "../src/store/database.ts"

/** Makes a twentieth of all calls, with twelve keys. */
export const BIG = "acc_g0000000"
export const BIG_KEY = "key_g0000000_00"
export const DAYS = 365
/** Those of the catalogue that the gateway is started with. */
export const MODELS = ["m-0", "m-1", "m-2", "m-3", "m-4"]

const BIG_KEYS = 13
/** The last of them, which has hardly any calls. */
export const RARE_KEY = `key_g0000000_${BIG_KEYS - 1}`
const PART = 250_000
const SESSIONS = 3
const RUN_CALLS = 500
const CHILDREN = 2_000
const HOUR_COLUMNS = `calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro`

/** In sessions that carry out no triggers, and makes indexes at the end. What does not need each other is made at once. Analysed. */
export async function fillYear(connect: () => Sql, records: number): Promise<void> {
  const accounts = Math.max(100, Math.round(records / 100))
  const sessions = await Promise.all(
    Array.from({ length: SESSIONS }, async () => {
      const sql = connect()
      // Nothing of it has to survive a crash.
      await sql.unsafe(`set session_replication_role = replica; set synchronous_commit = off; set work_mem = '512MB';
        set maintenance_work_mem = '512MB'; set max_parallel_workers_per_gather = 0; set jit = off`)
      return sql
    }),
  )
  const [sql] = sessions
  if (sql === undefined) throw new Error("no session")
  const step = async (what: string, statement: string, on = sql) => {
    const startedAt = performance.now()
    await on.unsafe(statement)
    console.log(`  ${what.padEnd(60)}${((performance.now() - startedAt) / 1_000).toFixed(1).padStart(7)} s`)
  }
  /** Each session takes the next one. */
  const inTurns = async (steps: readonly (readonly [what: string, statement: string])[]) => {
    const left = [...steps]
    await Promise.all(
      sessions.map(async (on) => {
        for (let next = left.shift(); next !== undefined; next = left.shift()) await step(...next, on)
      }),
    )
  }
  await step("accounts, keys, prices", people(accounts))
  const indexes = await sql<{ name: string; definition: string }[]>`
    select c.relname as name, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') as definition
    from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid in ('usage'::regclass, 'transfers'::regclass)
      and not exists (select from pg_constraint k where k.conindid = i.indexrelid)`
  for (const { name } of indexes) await sql.unsafe(`drop index ${name}`)
  const parts = Array.from({ length: Math.ceil(records / PART) }, (_, n) => n * PART + 1)
  const house = { records, accounts }
  await inTurns(parts.map((from) => [`records from ${from}`, callsOf(from, Math.min(records, from + PART - 1), house)]))
  await inTurns([
    ["sums by the hour", hours],
    ["what the house bore", transfers],
    ["sums of profit", profit],
    ["times to the first token", latency],
    ["sums of hours", callHours],
  ])
  await inTurns([
    ["top-ups, balances, what keys have spent", moneyOf(accounts)],
    // Two sessions cannot make indexes of partitions of one table at once.
    ...indexes.map(
      ({ name, definition }) => [`index ${name}`, `lock table usage in access exclusive mode; ${definition}`] as const,
    ),
  ])
  await step("history, refusals, audit log, and what else there is", beside(accounts))
  for (const session of sessions) await session.unsafe("set session_replication_role = origin")
  await step("analyze", "vacuum analyze")
}

const people = (accounts: number) => `
  insert into accounts (id, email, password_hash, created_at, agreed_version, agreed_at)
    select 'acc_g' || lpad(n::text, 7, '0'), 'person' || n || '@example.test', 'x',
      now() - interval '${DAYS + 30} days' + n * interval '${(DAYS * 86_400) / accounts} seconds', null, null
    from generate_series(0, ${accounts - 1}) n;
  insert into api_keys (id, account_id, name, key_hash, prefix, last4, created_at)
    select 'key_g' || lpad(n::text, 7, '0') || '_' || lpad(k::text, 2, '0'), 'acc_g' || lpad(n::text, 7, '0'), 'key ' || k,
      sha256((n || '.' || k)::bytea), 'sk-' || lpad(n::text, 10, '0'), 'last', now() - interval '${DAYS + 20} days'
    from generate_series(0, ${accounts - 1}) n, generate_series(0, ${BIG_KEYS - 1}) k where k = 0 or n = 0;
  insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
    select model, 1000, 5000, 100, 1250, timestamptz '2020-01-01' from models where model like 'm-%';
  insert into processes (id, started_at, closed_at) values ('prc_year', now() - interval '${DAYS} days', now())`

/** Milliseconds as request ids say them. */
const base36 = (ms: string): string =>
  Array.from({ length: 9 }, (_, n) => {
    const digit = `(${ms}) / ${36 ** (8 - n)} % 36`
    return `substr('0123456789abcdefghijklmnopqrstuvwxyz', (${digit})::integer + 1, 1)`
  }).join(" || ")

/**
 * One call in 25 failed, one in 1,000 could not be counted, one in 500 was borne in part by the house, one in 200 was rerouted, one in 2,000 was of
 * the last model, and one in 5,000 of a format and one in 7,000 of a key that hardly anybody uses. Of the large account one in five was of a run.
 */
const callsOf = (from: number, to: number, { records, accounts }: { records: number; accounts: number }) => `
  with numbered as (
    select n, now() - interval '${DAYS} days' - interval '1 minute' + n * interval '${(DAYS * 86_400) / records} seconds' as at,
      case when n % 20 = 0 then 0 else 1 + floor(${accounts - 1} * power((n::bigint * 7919 % 1000003) / 1000003.0::float8, 3))::int end as account,
      n / 20 as k, n / 20 % 25 <> 0 and n / 20 % 1000 <> 1 as ok
    from generate_series(${from}, ${to}) n
  ), counted as (
    select *, lpad(account::text, 7, '0') as account_name, (extract(epoch from at) * 1000)::bigint as ms, 'm-' || case k % 2000 when 77 then 4 else k % 4 end as model,
      case when ok then 100 + n % 4000 else 0 end as input, case when ok then 20 + n % 900 else 0 end as output,
      case when ok and n % 3 = 0 then n % 2000 else 0 end as cached
    from numbered
  ), priced as (select *, input * 1000::bigint + output * 5000::bigint + cached * 100::bigint as price from counted)
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns, attempts,
    error_code, flagged, opened_at, first_token_ms, duration_ms, cost_micro, member, run_id)
  select 'req_' || ${base36("ms")} || substr(md5(n::text), 1, 18), part, 'acc_g' || account_name,
    'key_g' || account_name || '_' || case when account = 0 then lpad((case k % 7000 when 11 then ${BIG_KEYS - 1} else k % ${BIG_KEYS - 1} end)::text, 2, '0') else '00' end, 1, p.model,
    case when k % 5000 = 9 then 'responses' when n % 3 = 0 then 'messages' else 'chat' end, n % 4 <> 0,
    case when part = 1 then 'fallback_429' when ok then 'ok' when k % 25 = 0 then 'upstream_error' else 'usage_missing' end,
    case when part = 0 then input else 0 end, case when part = 0 then output else 0 end, case when part = 0 then cached else 0 end, 0,
    case when part = 1 then 0 when k % 500 = 3 then price / 2 else price end,
    case when part = 0 and k % 500 = 3 then price - price / 2 else 0 end, 0, v.id, 1, 1,
    case when part = 0 and not ok then case when k % 25 = 0 then 'dependency.upstream_unavailable' else 'dependency.usage_missing' end end,
    part = 0 and not ok and k % 25 <> 0, to_timestamp(ms / 1000.0), 100 + n % 900, 1000 + n % 9000,
    case when part = 0 then price * 8 / 10 end, case when part = 0 then 'vendor/default/' || p.model end,
    case when account = 0 and k % 5 = 0 then 'run_' || lpad((k / ${RUN_CALLS})::text, 7, '0') end
  from priced p join prices v on v.model = p.model and v.effective_at = timestamptz '2020-01-01'
  cross join generate_series(0, 1) part
  where part = 0 or k % 200 = 7
  order by n, part`

const hours = `
  insert into usage_hours (account_id, hour, model, key_id, endpoint, status, ${HOUR_COLUMNS}, cache_reads)
  select account_id, date_trunc('hour', opened_at, 'UTC'), model, key_id, endpoint, status, count(*), sum(input_tokens),
    sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(charge_micro), count(*) filter (where cache_read_tokens > 0)
  from usage where part = 0 group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6`

/** Three top-ups each that pay for all calls and leave Rp 10,000 or a little more; one in ten accounts left one unpaid. */
const moneyOf = (accounts: number) => `
  create temporary table spent as
    select a.id as account_id, a.created_at, coalesce(sum(h.charge_micro), 0)::bigint as amount
    from accounts a left join usage_hours h on h.account_id = a.id where a.id like 'acc\\_g%' group by a.id;
  insert into top_ups (id, account_id, provider, status, balance_purchased_micro, service_fee_micro, payment_fee_micro,
    network_fee_micro, qr_payload, created_at, expires_at, paid_at, reference, next_check_at)
  select 'top_' || account_id || '_' || n, account_id, 'simulated', case when n = 4 then 'expired' else 'paid' end,
    amount / 3 + 10000000000 / 3 + 3, 1000000000, 0, 0, 'qr', t.at, t.at + interval '1 hour', case when n < 4 then t.at end,
    case when n < 4 then 'top_' || account_id || '_' || n end, null
  from spent, generate_series(1, 4) n, lateral (select created_at + n * interval '7 days' as at) t
  where n < 4 or right(account_id, 1) = '7' order by t.at, account_id;
  analyze top_ups;
  insert into balances (account_id, posted_micro)
    select s.account_id, (select sum(balance_purchased_micro) from top_ups t where t.account_id = s.account_id and t.status = 'paid') - s.amount
    from spent s;
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
    select 'topup:simulated:' || id || k.suffix, 'house:cash_clearing', case when k.suffix = '' then account_id else 'house:revenue' end,
      case when k.suffix = '' then balance_purchased_micro else service_fee_micro end,
      case when k.suffix = '' then 'top_up' else 'service_fee' end, paid_at
    from top_ups, (values (''), (':service_fee')) k (suffix) where status = 'paid' order by created_at, id, k.suffix;
  insert into leases (account_id, process_id, granted_micro, settled_micro, opened_at, closed_at)
    select account_id, 'prc_year', amount, amount, created_at, now() from spent;
  insert into key_spend (key_id, period, period_start, spent_micro)
    select key_id, p.name, p.since, sum(charge_micro)
    from (select key_id, date_trunc('day', hour at time zone 'Asia/Jakarta') as day, sum(charge_micro) as charge_micro from usage_hours group by 1, 2) d
    cross join lateral (values ('daily', day at time zone 'Asia/Jakarta'),
      ('monthly', date_trunc('month', day) at time zone 'Asia/Jakarta'), ('total', to_timestamp(0))) p (name, since)
    group by 1, 2, 3 order by 1, 2, 3;
  insert into audit_log (request_id, action, subject, after, reason, at)
    select 'req_audit' || n, 'account.frozen', 'acc_g' || lpad(n::text, 7, '0'), '{}', 'a reason', now() - n * interval '1 minute'
    from generate_series(${accounts - 1}, 0, -1) n`

const transfers = `
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
  select 'absorb:' || request_id, 'house:absorbed', 'house:revenue', absorbed_micro, 'absorbed', opened_at + duration_ms * interval '1 millisecond'
  from usage where absorbed_micro > 0 order by request_id`

const PROFIT = `records, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, cost_micro,
  estimated_micro, unknown, under, under_micro`

const ACCOUNT_SUMS = `sum(records), sum(charge_micro), sum(absorbed_micro), sum(cost_micro), sum(estimated_micro), sum(unknown), sum(under), sum(under_micro)`
const PROFIT_SUMS = PROFIT.split(",")
  .map((column) => `sum(${column.trim()})`)
  .join(", ")

const profit = `
  insert into profit_hours (hour, account_id, model, member, kind, ${PROFIT})
  select date_trunc('hour', opened_at, 'UTC'), account_id, model, member, profit_kind(part, status), count(*), sum(input_tokens),
    sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(charge_micro), sum(absorbed_micro),
    coalesce(sum(cost_micro), 0),
    sum(profit_estimated(status, input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, cost_micro)),
    count(*) - count(cost_micro), count(*) filter (where profit_under(part, status, charge_micro + absorbed_micro, cost_micro) > 0),
    sum(profit_under(part, status, charge_micro + absorbed_micro, cost_micro))
  from usage where member is not null group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5;
  insert into profit_days (since, account_id, model, member, kind, ${PROFIT})
  select profit_part(hour), account_id, model, member, kind, ${PROFIT_SUMS}
  from profit_hours group by 1, 2, 3, 4, 5 having profit_part_end(profit_part(min(hour))) < now() - interval '2 hours' order by 1, 2, 3, 4, 5;
  insert into profit_parts select distinct since from profit_days;
  insert into model_customers
  select model, account_id, max(hour) from profit_hours
  where kind = 'ok' and records > 0 and profit_part(hour) in (select since from profit_parts) group by 1, 2;
  insert into profit_house (since, model, member, kind, ${PROFIT})
  select since, model, member, kind, ${PROFIT_SUMS} from profit_days group by 1, 2, 3, 4;
  insert into profit_account_days
  select account_id, (since at time zone 'UTC')::date, coalesce(sum(records) filter (where profit_is_final(kind)), 0), ${ACCOUNT_SUMS}
  from profit_days where since < date_trunc('day', (select profit_part_end(max(since)) from profit_parts), 'UTC') group by 2, 1 order by 2, 1;
  insert into profit_account_months
  select date_trunc('month', day::timestamp)::date, account_id, sum(calls), ${ACCOUNT_SUMS} from profit_account_days group by 1, 2 order by 1, 2;
  insert into profit_account_models
  select date_trunc('month', since at time zone 'UTC')::date, account_id, model, member,
    coalesce(sum(records) filter (where profit_is_final(kind)), 0), ${ACCOUNT_SUMS}
  from profit_days where since < date_trunc('day', (select profit_part_end(max(since)) from profit_parts), 'UTC') group by 1, 2, 3, 4 order by 1, 2, 3, 4;
  insert into profit_account_summed select distinct day, true, true from profit_account_days`

const callHours = `
  insert into call_summed select * from generate_series(date_trunc('hour', now() - interval '${DAYS} days 2 hours', 'UTC'),
    date_trunc('hour', now() - interval '4 hours', 'UTC'), interval '1 hour');
  insert into latency_summed select hour from call_summed;
  insert into call_hours
  select date_trunc('hour', opened_at, 'UTC'), status, coalesce(error_code, ''), count(*), sum(charge_micro), sum(absorbed_micro)
  from usage where part = 0 and opened_at < date_trunc('hour', now() - interval '3 hours', 'UTC') group by 1, 2, 3`

const latency = `
  insert into latency_hours
  select account_id, hour, model, key_id, endpoint, status, array_agg(step order by step), array_agg(calls order by step)
  from (
    select account_id, date_trunc('hour', opened_at, 'UTC') as hour, model, key_id, endpoint, status, latency_step(first_token_ms) as step, count(*) as calls
    from usage where part = 0 and first_token_ms is not null and opened_at < date_trunc('hour', now() - interval '3 hours', 'UTC')
    group by 1, 2, 3, 4, 5, 6, 7
  ) steps group by 1, 2, 3, 4, 5, 6`

const beside = (accounts: number) => `
  insert into account_events (account_id, action, subject, name, at)
    select 'acc_g' || lpad((n % ${accounts})::text, 7, '0'), 'key.made', 'key_x', 'a key', now() - n * interval '10 seconds'
    from generate_series(${5 * accounts}, 1, -1) n;
  insert into account_events (account_id, action, subject, name, at)
    select '${BIG}', 'key.made', 'key_x', 'a key', now() - n * interval '1 minute' from generate_series(5000, 1, -1) n;
  insert into refused_calls (request_id, account_id, key_id, refused_at, endpoint, model, code)
    select 'req_' || ${base36("(extract(epoch from t.at) * 1000)::bigint")} || lpad(n::text, 18, '0'), a.name,
      'key_g' || right(a.name, 7) || '_00', t.at, 'chat', 'm-1', 'rate.requests_exceeded'
    from generate_series(1, ${accounts}) n,
      lateral (select now() - interval '6 days' + n * interval '${500_000 / accounts} seconds' as at) t,
      lateral (select case when n % 10 = 0 then '${BIG}' else 'acc_g' || lpad((n % ${accounts})::text, 7, '0') end as name) a;
  insert into refused_counts (account_id, hour, code, process_id, calls)
    select account_id, date_trunc('hour', refused_at, 'UTC'), code, 'prc_year', count(*) from refused_calls group by 1, 2, 3;
  insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
    select run_id, '${BIG}', min(key_id), run_id, 1000000000, min(opened_at), max(opened_at) + interval '1 day' from usage where run_id is not null group by 1;
  insert into key_spend (key_id, period, period_start, spent_micro)
    select run_id, 'total', to_timestamp(0), sum(charge_micro) from usage where run_id is not null group by 1;
  insert into api_keys (id, account_id, name, key_hash, prefix, last4, created_at, parent_id)
    select 'key_gchild' || lpad(n::text, 7, '0'), '${BIG}', 'child ' || n, sha256(('child' || n)::bytea), 'sk-', 'last', now() - n * interval '1 hour', '${BIG_KEY}'
    from generate_series(1, ${CHILDREN}) n;
  insert into members (account_id, member_id, role, since, invited_by, invitation_hash)
    select '${BIG}', 'acc_g' || lpad(n::text, 7, '0'), 'viewer', now(), '${BIG}', '' from generate_series(1, 50) n;
  insert into management_tokens (id, account_id, key_id, name, token_hash, prefix, last4)
    select 'mgt_' || n, '${BIG}', '${BIG_KEY}', 'token', sha256(('token' || n)::bytea), 'mt-', 'last' from generate_series(1, 10) n;
  insert into webhooks (account_id, url, secret, created_at) values ('${BIG}', 'https://example.test/', 'x', now());
  insert into outbox (account_id, channel, kind, data, created_at, expires_at, due_at, attempts, outcome, status)
    select case when n % 10 = 0 then '${BIG}' else 'acc_g' || lpad((n % ${accounts})::text, 7, '0') end, 'webhook', 'balance.low', '{}',
      now() - n * interval '10 seconds', now(), null, 1, 'sent', 200 from generate_series(1, ${accounts}) n;
  insert into refunds (id, account_id, top_up_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro, claimed_micro, reason, status,
    payout, created_at, paid_out_at)
    select 'ref_' || n, 'acc_g' || lpad((n % 500)::text, 7, '0'), null, 'refund', 'r' || n, 0, 1, 0, 0, 'a reason',
      case when n % 100 = 0 then 'booked' else 'paid_out' end, 'by_hand', now() - n * interval '1 hour', case when n % 100 <> 0 then now() end
    from generate_series(1, 8000) n;
  insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason, created_at)
    select 'refund:' || id || ':service_fee', 'house:revenue', 'house:cash_clearing', service_fee_micro, 'fee_refund', created_at from refunds order by created_at;
  insert into audit_log (request_id, action, subject, after, reason, at)
    select 'req_' || id, 'account.refunded', account_id, jsonb_build_object('refund', id, 'amount_micro', service_fee_micro), 'a reason', created_at
    from refunds order by created_at;
  insert into payment_problems (provider, kind, reference, paid, resolved_at)
    select 'simulated', 'unknown_order', 'order' || n, 'Rp 1', case when n % 20 <> 0 then now() end from generate_series(1, ${accounts / 10}) n;
  insert into documents (number, kind, year, place, account_id, subject, content, issued_at)
    select 'R-' || id, 'receipt', 2020, row_number() over (order by id), account_id, id, '{}', paid_at from top_ups where status = 'paid';
  insert into member_settings (member) select 'vendor/default/m-' || n from generate_series(0, 19) n on conflict do nothing;
  insert into audit_log (request_id, action, subject, after, reason, at)
    select 'req_member' || n, 'member.changed', 'vendor/default/m-' || n % 20, '{}', 'a reason', now() - n * interval '1 hour' from generate_series(1, 2000) n;
  insert into backend_events (minute, member, model, event, at, class, status, processes)
    select date_trunc('minute', t.at), 'vendor/default/m-' || m, 'm-' || m, case n % 2 when 0 then 'opened' else 'closed' end, t.at, 'timeout', null,
      '{"prc_a": 1, "prc_b": 2}'
    from generate_series(1, 90 * 24) n, generate_series(0, 19) m, lateral (select now() - n * interval '1 hour' as at) t;
  insert into backend_hours (hour, member, model, process_id, answered, failed, rate_limited, steps, step_tries)
    select date_trunc('hour', now()) - n * interval '1 hour', 'vendor/default/m-' || m, 'm-' || m, 'prc_' || p, 1000, 10, 1,
      array(select generate_series(1, 30)::smallint), array(select generate_series(1, 30)::bigint)
    from generate_series(0, 90 * 24) n, generate_series(0, 19) m, generate_series(0, 3) p`
