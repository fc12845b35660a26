/** How each claim is broken, and what is told of it. */
import type { Sql } from "../../src/store/database.ts"
import type { BrokenBooks } from "./world.ts"

export interface Break {
  readonly claim: string
  readonly by: (world: BrokenBooks) => PromiseLike<unknown>
  /** Whose account it is; the house's books as a whole unless told. */
  readonly about: "victim" | "nobody"
  readonly figures: Readonly<Record<string, string | null>>
  /** It is about what was proven, which is read again by a full reconciliation. */
  readonly isProven?: true
  /** Others that cannot but be frozen too. */
  readonly alsoFrozen?: "bystander"
}

const sums =
  "records input_tokens output_tokens cache_read_tokens cache_write_tokens charge_micro absorbed_micro cost_micro estimated_micro unknown under under_micro"
    .split(" ")
    .map((column) => `sum(${column})`)
    .join(", ")

/** Of all days that have parts, as they are summed once the days are over. */
async function accountSums(sql: Sql) {
  await sql`insert into profit_parts select distinct since from profit_days`
  await sql`insert into profit_account_summed select distinct (since at time zone 'UTC')::date, false from profit_days`
  for (let day: unknown = ""; day !== null && day !== undefined;)
    day = (await sql<{ day: string | null }[]>`select sum_profit_accounts_1()::text as day`)[0]?.day
}

/** Of an account's days, as they are summed once they are over. */
async function daySums(sql: Sql, accountId: string) {
  await sql`delete from call_late`
  await sql`
    insert into usage_span_accounts
    select distinct account_id, false, (hour at time zone 'UTC')::date from usage_hours where account_id = ${accountId}`
  await sql`
    insert into usage_spans
    select h.account_id, z.zone, false, a.since, model, key_id, endpoint, status, sum(calls), sum(input_tokens), sum(output_tokens),
      sum(cache_read_tokens), sum(cache_write_tokens), sum(charge_micro), sum(cache_reads)
    from usage_span_accounts a cross join (values (0), (7), (8), (9)) z (zone) join usage_hours h on h.account_id = a.account_id
      and h.hour >= span_begins(a.since, z.zone) and h.hour < span_ends(a.since, false, z.zone)
    group by 1, 2, 3, 4, 5, 6, 7, 8`
  await sql`select sum_usage_groups_1(account_id, is_month, since) from usage_span_accounts`
}

/** As if the calls had come before records were charges. */
async function chargedApart(sql: Sql) {
  await sql`update charges_end set until_call = 'req_zzz'`
  await sql`insert into charges (request_id, account_id, amount_micro)
    select request_id, account_id, charge_micro from usage where charge_micro > 0`
}

const madeArchive = (sql: Sql) => sql`
  insert into archives (name, from_call, until_call, until_at, records, charge_micro, absorbed_micro, bytes, sha256)
  values ('usage_before', '', 'req_000000001', 'epoch', 0, 0, 0, 0, '')`

/** The victim's call is one of a run. */
export async function madeRun({ sql, victim }: BrokenBooks, { budget, spent }: { budget: number; spent: number }) {
  await sql`insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
    values ('run_1', ${victim.accountId}, ${victim.keyId}, '1', ${budget}, '2020-01-01', '2120-01-01')`
  await sql`update usage set run_id = 'run_1' where request_id = ${victim.requestId} and part = 0`
  await sql`insert into key_spend (key_id, period, period_start, spent_micro) values ('run_1', 'total', 'epoch', ${spent})`
}

interface Guard {
  readonly table: string
  readonly trigger: string
}

/** Does what the trigger keeps others from. Afterwards it is as it was, so that the database is of use to the next test. */
export async function withoutTrigger(
  sql: Sql,
  { table, trigger }: Guard,
  work: () => PromiseLike<unknown>,
): Promise<void> {
  await sql.unsafe(`alter table ${table} disable trigger ${trigger}`)
  await work()
  await sql.unsafe(`alter table ${table} enable trigger ${trigger}`)
}

export const breaks: readonly Break[] = [
  {
    claim: "a balance is the sum of its transfers",
    by: ({ sql, victim }) =>
      sql`update balances set posted_micro = posted_micro + 7 where account_id = ${victim.accountId}`,
    about: "victim",
    figures: { posted_micro: "10000800007", of_transfers_micro: "10000800000" },
  },
  {
    claim: "a balance is the sum of its transfers",
    by: async ({ sql, victim }) => {
      await chargedApart(sql)
      await sql`insert into charges (request_id, account_id, amount_micro) values ('req_zz', ${victim.accountId}, 7)`
    },
    about: "victim",
    figures: { posted_micro: "10000800000", of_transfers_micro: "10000799993" },
  },
  {
    claim: "a balance is the sum of its transfers",
    by: async ({ sql, victim }) => {
      await withoutTrigger(
        sql,
        { table: "usage", trigger: "usage_charge_is_final" },
        () =>
          sql`update usage set charge_micro = charge_micro + 7 where request_id = ${victim.requestId} and charge_micro > 0`,
      )
    },
    about: "victim",
    figures: { posted_micro: "10000800000", of_transfers_micro: "10000799993" },
  },
  {
    claim: "a balance is the sum of its transfers",
    by: async ({ sql, victim }) => {
      await withoutTrigger(
        sql,
        { table: "usage", trigger: "usage_charge_is_kept" },
        () => sql`delete from usage where request_id = ${victim.requestId}`,
      )
    },
    about: "victim",
    figures: { posted_micro: "10000800000", of_transfers_micro: "10001000000" },
  },
  {
    claim: "a balance is the sum of its transfers",
    by: async ({ sql, victim }) => {
      await madeArchive(sql)
      await sql`insert into archived_charges (archive, account_id, amount_micro) values ('usage_before', ${victim.accountId}, 7)`
    },
    isProven: true,
    about: "victim",
    figures: { posted_micro: "10000800000", of_transfers_micro: "10000799993" },
  },
  {
    claim: "what customers have, the house owes",
    by: ({ sql, victim }) =>
      sql`update balances set posted_micro = posted_micro + 7 where account_id = ${victim.accountId}`,
    about: "nobody",
    figures: { house_micro: "-20001600000", customers_micro: "20001600007" },
  },
  {
    claim: "what is leased of a balance is what its open leases have left, and is covered",
    by: ({ sql, victim }) =>
      sql`update balances set leased_micro = leased_micro - 1 where account_id = ${victim.accountId}`,
    about: "victim",
    figures: { leased_micro: "799999", of_leases_micro: "800000" },
  },
  {
    claim: "an open lease has settled the charges under it",
    by: ({ sql, victim }) =>
      sql`update leases set settled_micro = settled_micro + 1, granted_micro = granted_micro + 1
        where account_id = ${victim.accountId}`,
    about: "victim",
    figures: { settled_micro: "200001", charged_micro: "200000" },
  },
  {
    claim: "what is leased of a key's budget is what its leases have left",
    by: ({ sql, victim }) =>
      sql`update key_spend set leased_micro = 5 where key_id = ${victim.keyId} and period = 'daily'`,
    about: "victim",
    figures: { period: "daily", leased_micro: "5", of_leases_micro: null },
  },
  {
    claim: "the transfers of a call are its charge and what the house absorbed of it",
    by: async ({ sql, victim }) => {
      await chargedApart(sql)
      await withoutTrigger(
        sql,
        { table: "charges", trigger: "charges_are_final" },
        () => sql`delete from charges where request_id = ${victim.requestId}`,
      )
    },
    about: "victim",
    figures: { charge_booked_micro: null, charge_recorded_micro: "200000" },
  },
  {
    claim: "the transfers of a call are its charge and what the house absorbed of it",
    by: async ({ sql, victim }) => {
      await chargedApart(sql)
      await withoutTrigger(
        sql,
        { table: "charges", trigger: "charges_are_final" },
        () => sql`update charges set amount_micro = 199999 where request_id = ${victim.requestId}`,
      )
    },
    about: "victim",
    figures: { charge_booked_micro: "199999", charge_recorded_micro: "200000" },
  },
  {
    claim: "the transfers of a call are its charge and what the house absorbed of it",
    by: async ({ sql, victim }) => {
      await chargedApart(sql)
      await sql`insert into charges (request_id, account_id, amount_micro) values ('req_zz', ${victim.accountId}, 7)`
    },
    about: "victim",
    figures: { request_id: "req_zz", charge_booked_micro: "7", charge_recorded_micro: null },
  },
  {
    claim: "the transfers of a call are its charge and what the house absorbed of it",
    by: ({ sql, victim }) => sql`
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      select idempotency_key, debit_account, credit_account, amount_micro, reason from all_transfers
      where idempotency_key = ${`charge:${victim.requestId}`}`,
    about: "victim",
    figures: { charge_booked_micro: "200000" },
  },
  {
    claim: "the transfers of archived calls are what was archived",
    by: async ({ sql, victim }) => {
      await sql`insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
        values ('charge:req_000000000', ${victim.accountId}, 'house:revenue', 7, 'charge')`
      await madeArchive(sql)
    },
    about: "nobody",
    figures: {},
  },
  {
    claim: "the transfers of archived calls are what was archived",
    by: async ({ sql, victim }) => {
      await madeArchive(sql)
      await sql`insert into archived_charges (archive, account_id, amount_micro) values ('usage_before', ${victim.accountId}, 7)`
    },
    isProven: true,
    about: "nobody",
    figures: { charge_booked_micro: "7", charge_recorded_micro: "0" },
  },
  {
    claim: "the keys' sums of archived calls are what was archived",
    by: ({ sql, victim }) =>
      sql`insert into archived_keys (key_id, charge_micro, last_used_at) values (${victim.keyId}, 7, now())`,
    about: "nobody",
    figures: { archived_micro: "0", of_keys_micro: "7" },
  },
  {
    claim: "a charge goes from its own account to revenue, and is taken back the same way",
    by: async ({ sql, victim, bystander }) => {
      await chargedApart(sql)
      await withoutTrigger(
        sql,
        { table: "charges", trigger: "charges_are_final" },
        () => sql`update charges set account_id = ${bystander.accountId} where request_id = ${victim.requestId}`,
      )
    },
    about: "victim",
    figures: { kind: "charge", credit_account: "house:revenue", amount_micro: "200000" },
    alsoFrozen: "bystander",
  },
  {
    claim: "a charge goes from its own account to revenue, and is taken back the same way",
    by: ({ sql, victim, bystander }) => sql`
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      values (${`charge:${victim.requestId}`}, ${victim.accountId}, 'house:revenue', 5, 'charge'),
        (${`void:${victim.requestId}`}, 'house:revenue', ${bystander.accountId}, 5, 'void')`,
    about: "victim",
    figures: { kind: "void", debit_account: "house:revenue", amount_micro: "5" },
    alsoFrozen: "bystander",
  },
  {
    claim: "a charge is its tokens at its price version",
    by: ({ sql, victim }) =>
      sql`update usage set input_tokens = input_tokens + 1 where request_id = ${victim.requestId} and part = 0`,
    about: "victim",
    figures: { status: "ok", charge_micro: "200000", of_tokens_micro: "201000" },
  },
  {
    claim: "only an answer is charged",
    by: async ({ sql, victim }) => {
      await sql`alter table usage drop constraint usage_check`
      await sql`update usage set status = 'upstream_error' where request_id = ${victim.requestId} and part = 0`
    },
    about: "victim",
    figures: { status: "upstream_error", charge_micro: "200000" },
  },
  {
    claim: "only an answer is charged",
    by: async ({ sql, victim }) => {
      await withoutTrigger(
        sql,
        { table: "usage", trigger: "usage_charge_is_final" },
        () => sql`update usage set charge_micro = 7, status = 'ok' where request_id = ${victim.requestId} and part = 1`,
      )
    },
    about: "victim",
    figures: { part: "1", status: "ok", charge_micro: "7" },
  },
  {
    claim: "a call has one final record",
    by: async ({ sql, victim }) => {
      await withoutTrigger(
        sql,
        { table: "usage", trigger: "usage_charge_is_final" },
        () => sql`update usage set part = 7 where request_id = ${victim.requestId} and part = 0`,
      )
    },
    about: "victim",
    figures: { final_records: "0" },
  },
  {
    claim: "an ended call is not open",
    by: ({ sql, victim }) => sql`
      insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro,
        price_id, opened_at)
      select request_id, ${victim.processId}, account_id, key_id, lease_id, model, endpoint, streamed, 0, price_id, opened_at
      from usage where request_id = ${victim.requestId} and part = 0`,
    about: "victim",
    figures: { status: "ok" },
  },
  {
    claim: "the sums by the hour are those of the records",
    by: ({ sql, victim }) => sql`update usage_hours set calls = calls + 3 where account_id = ${victim.accountId}`,
    about: "nobody",
    figures: { kept_calls: "4", recorded_calls: "1" },
  },
  {
    claim: "the sums of profit are those of the records",
    by: ({ sql, victim }) =>
      sql`update profit_hours set cost_micro = cost_micro + 3 where account_id = ${victim.accountId} and kind = 'ok'`,
    about: "nobody",
    figures: { kept_cost_micro: "90003", recorded_cost_micro: "90000", kind: "ok" },
  },
  {
    claim: "the sums of profit by parts of days are those of the hours",
    by: async ({ sql, victim }) => {
      await sql`delete from profit_late`
      await sql`insert into profit_parts select distinct profit_part(hour) from profit_hours`
      await sql.unsafe(`insert into profit_days select profit_part(hour), account_id, model, member, kind, ${sums} from profit_hours
        group by 1, 2, 3, 4, 5`)
      await sql`update profit_days set cost_micro = cost_micro + 3 where account_id = ${victim.accountId} and kind = 'ok'`
    },
    about: "nobody",
    figures: { kept_cost_micro: "90003", recorded_cost_micro: "90000", kind: "ok" },
  },
  {
    claim: "the sums of profit of the house are those of its accounts",
    by: async ({ sql }) => {
      await sql.unsafe(`insert into profit_days select profit_part(hour), account_id, model, member, kind, ${sums} from profit_hours
        group by 1, 2, 3, 4, 5`)
      await sql.unsafe(
        `insert into profit_house select since, model, member, kind, ${sums} from profit_days group by 1, 2, 3, 4`,
      )
      await sql`update profit_house set cost_micro = cost_micro + 3 where kind = 'ok'`
    },
    about: "nobody",
    figures: { kept_cost_micro: "180003", recorded_cost_micro: "180000", kind: "ok" },
  },
  {
    claim: "the sums of profit by accounts are those of the parts of days",
    by: async ({ sql, victim }) => {
      await sql`delete from profit_late`
      await sql.unsafe(`insert into profit_days select profit_part(hour), account_id, model, member, kind, ${sums} from profit_hours
        group by 1, 2, 3, 4, 5`)
      await accountSums(sql)
      await sql`update profit_account_days set cost_micro = cost_micro + 3 where account_id = ${victim.accountId}`
      await sql`update profit_account_months set cost_micro = cost_micro + 3 where account_id = ${victim.accountId}`
    },
    about: "nobody",
    figures: { kept_cost_micro: "180003", recorded_cost_micro: "180000" },
  },
  {
    claim: "the sums of profit by accounts and months are those of their days",
    by: async ({ sql, victim }) => {
      await sql`delete from profit_late`
      await sql.unsafe(`insert into profit_days select profit_part(hour), account_id, model, member, kind, ${sums} from profit_hours
        group by 1, 2, 3, 4, 5`)
      await accountSums(sql)
      await sql`update profit_account_months set cost_micro = cost_micro + 3 where account_id = ${victim.accountId}`
    },
    about: "nobody",
    figures: { kept_cost_micro: "180003", recorded_cost_micro: "180000" },
  },
  {
    claim: "the sums of profit by accounts, models and months are those of the parts of days",
    by: async ({ sql, victim }) => {
      await sql`delete from profit_late`
      await sql.unsafe(`insert into profit_days select profit_part(hour), account_id, model, member, kind, ${sums} from profit_hours
        group by 1, 2, 3, 4, 5`)
      await accountSums(sql)
      await sql`update profit_account_models set cost_micro = cost_micro + 3 where account_id = ${victim.accountId}`
    },
    about: "nobody",
    figures: { kept_cost_micro: "180003", recorded_cost_micro: "180000" },
  },
  {
    claim: "the sums of customers by days are those of the parts of days",
    by: async ({ sql }) => {
      await sql`delete from profit_late`
      await sql.unsafe(`insert into profit_days select profit_part(hour), account_id, model, member, kind, ${sums} from profit_hours
        group by 1, 2, 3, 4, 5`)
      await sql`
        insert into customer_days
        select 7, ((since at time zone 'UTC') + interval '7 hours')::date, count(distinct account_id) + 3 from profit_days group by 1, 2`
    },
    about: "nobody",
    figures: { zone: "7", kept_accounts: "5", found_accounts: "2" },
  },
  {
    claim: "the sums of customers by models are those of the hours",
    by: async ({ sql, victim }) => {
      await sql`delete from profit_late`
      await sql`insert into profit_parts select distinct profit_part(hour) from profit_hours on conflict do nothing`
      await sql`select sum_model_customers_1(since, false) from profit_parts`
      await sql`delete from model_customers where account_id = ${victim.accountId}`
    },
    about: "nobody",
    figures: { model: "m", kept_hour: null },
  },
  {
    claim: "the sums of how calls ended are those of the records",
    by: async ({ sql }) => {
      await sql`select sum_call_hour_1(hour, 'req_', 'req_zzzz') from (select distinct hour from usage_hours) hours`
      await sql`update call_hours set calls = calls + 3`
    },
    about: "nobody",
    figures: { status: "ok", kept_calls: "5", recorded_calls: "2" },
  },
  {
    claim: "the sums by days and months are those of the hours",
    by: async ({ sql, victim }) => {
      await daySums(sql, victim.accountId)
      const { count } = await sql`
        update usage_spans set charge_micro = charge_micro + 3 where (account_id, zone) in (select account_id, min(zone) from usage_spans group by 1)`
      if (count !== 1) throw new Error(`${count} sums were changed`)
    },
    about: "nobody",
    figures: { kept_micro: "200003", recorded_micro: "200000" },
  },
  {
    claim: "the sums of each model, key, format and status by days and months are those of all",
    by: async ({ sql, victim }) => {
      await daySums(sql, victim.accountId)
      const { count } = await sql`
        update usage_groups set ok = ok - 1, charge_micro = charge_micro + 3 where grouped_by = 'key'
          and (account_id, zone) in (select account_id, min(zone) from usage_spans group by 1)`
      if (count !== 1) throw new Error(`${count} sums were changed`)
    },
    about: "nobody",
    figures: { grouped_by: "key", kept_micro: "200003", summed_micro: "200000" },
  },
  {
    claim: "a key has spent its charges, and those of its children, in all three calendars",
    by: ({ sql, victim }) =>
      sql`update key_spend set spent_micro = spent_micro + 1 where key_id = ${victim.keyId} and period = 'monthly'`,
    about: "victim",
    figures: { daily_micro: "200000", monthly_micro: "200001", charged_micro: "200000" },
  },
  {
    claim: "a run has spent what its calls are charged, and no more than its budget",
    by: (world) => madeRun(world, { budget: 300_000, spent: 200_001 }),
    about: "victim",
    figures: { run_id: "run_1", budget_micro: "300000", spent_micro: "200001", charged_micro: "200000" },
  },
  {
    claim: "a run has spent what its calls are charged, and no more than its budget",
    by: (world) => madeRun(world, { budget: 199_999, spent: 200_000 }),
    about: "victim",
    figures: { run_id: "run_1", budget_micro: "199999", spent_micro: "200000", charged_micro: "200000" },
  },
  {
    claim: "a paid top-up was credited once, in full, and no other was",
    by: ({ sql, victim }) =>
      sql`update top_ups set balance_purchased_micro = balance_purchased_micro + 1 where id = ${victim.topUpId}`,
    about: "victim",
    figures: { status: "paid", balance_purchased_micro: "10000000001", credited_micro: "10000000000" },
  },
  {
    claim: "the service fee of a paid top-up is revenue, once",
    by: ({ sql, victim }) => sql`update top_ups set service_fee_micro = 0 where id = ${victim.topUpId}`,
    about: "nobody",
    figures: { service_fee_micro: "0", booked_micro: "500000000" },
  },
  {
    claim: "a transfer is of a known kind, and an adjustment is an operator's",
    by: ({ sql, victim: { accountId } }) =>
      moveBetween(sql, {
        key: `adjustment:${accountId}:mine`,
        from: "house:adjustments",
        to: accountId,
        reason: "adjustment",
      }),
    about: "victim",
    figures: { debit_account: "house:adjustments", amount_micro: "7", audited: null },
  },
  {
    claim: "a claim is what its transfers leave, and is settled before anything is free",
    by: async ({ sql, victim }) => {
      await sql`alter table balances disable trigger claims_first`
      await sql`alter table balances drop constraint balances_claim_first`
      await sql`update balances set claim_micro = 7 where account_id = ${victim.accountId}`
    },
    about: "victim",
    figures: { claim_micro: "7", of_transfers_micro: null },
  },
  {
    claim: "a refund is booked once, in full, of its own account and of the house",
    by: async ({ sql, victim }) => {
      await sql`alter table refunds drop constraint refunds_check`
      await sql`insert into refunds (id, account_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro,
          claimed_micro, reason, status, paid_out_at)
        values ('ref_x', ${victim.accountId}, 'chargeback', 'k', 7, 0, 0, 0, '', 'paid_out', now())`
    },
    about: "victim",
    figures: { idempotency_key: "refund:ref_x", due_micro: "7", booked_micro: null },
  },
  {
    claim: "of a top-up no more goes back than was paid, and as much as its refunds say",
    by: ({ sql, victim }) => sql`update top_ups set refunded_balance_micro = 7 where id = ${victim.topUpId}`,
    about: "victim",
    figures: { kept_micro: "7", refunded_micro: null },
  },
  {
    claim: "of a top-up no more goes back than was paid, and as much as its refunds say",
    by: async ({ sql, victim }) => {
      await sql`select * from refund_1('ref_x', 'chargeback', ${victim.accountId}, ${victim.topUpId}, 7, 'k', '', 'paid_out', '1', null, false)`
      await sql`update top_ups set status = 'pending' where id = ${victim.topUpId}`
    },
    about: "victim",
    figures: { kept_micro: "7", refunded_micro: "7", status: "pending" },
  },
  {
    claim: "a refund that no provider made is an operator's",
    by: ({ sql, victim }) => sql`
      select * from refund_1('ref_x', 'refund', ${victim.accountId}, ${victim.topUpId}, 7, 'operator:k', 'r', 'booked', null, null, false)`,
    about: "victim",
    figures: { refund_id: "ref_x", balance_micro: "7" },
  },
  {
    claim: "a claim is settled of its own account",
    by: async ({ sql, victim, bystander }) => {
      await sql`insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
        values (${`claim:${bystander.accountId}:1`}, ${victim.accountId}, ${`house:claims:${bystander.accountId}`}, 7, 'claim')`
    },
    about: "victim",
    figures: { amount_micro: "7" },
    alsoFrozen: "bystander",
  },
  {
    claim: "a record is of its key's account",
    by: ({ sql, victim, bystander }) =>
      sql`update usage set account_id = ${victim.accountId} where request_id = ${bystander.requestId} and part = 1`,
    about: "victim",
    figures: { part: "1" },
  },
  {
    claim: "a price had begun when a call was opened at it",
    by: ({ sql }) => sql`update prices set effective_at = now() + interval '3 hours'`,
    about: "nobody",
    figures: { model: "m", calls: "4" },
  },
]

export interface Movement {
  readonly key: string
  readonly from: string
  readonly to: string
  readonly reason: string
}

/** As somebody does who knows the tables: the balances move too. */
export async function moveBetween(sql: Sql, { key, from, to, reason }: Movement): Promise<void> {
  await sql`insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values (${key}, ${from}, ${to}, 7, ${reason})`
  await sql`update balances set posted_micro = posted_micro - 7 where account_id = ${from}`
  await sql`update balances set posted_micro = posted_micro + 7 where account_id = ${to}`
}
