/**
 * What must be true of the books at any moment, each as a query for what contradicts it. Micro-rupiah.
 *
 * A claim is evaluated in one statement, which sees the database as it was at one moment, and everything that moves money
 * is one statement too (decisions §3): so a claim holds in the midst of calls, and not only when nobody calls.
 * A query names the account that a row is about; null is the house's books as a whole. Columns in `_micro` are money.
 */
import { claimsOfSums } from "./claims-of-sums.ts"
import { type Claim, claimsOfRefunds, claimsOfTopUps } from "./claim.ts"
import { ARCHIVED_AT, ARCHIVED_CALLS, BOOKED, movedBy, OF_CALLS, ofEach, OWN_CHARGES, partiesOf } from "./claim.ts"

const PRICE = `u.input_tokens::numeric * p.input_micro + u.output_tokens::numeric * p.output_micro
  + u.cache_read_tokens::numeric * p.cache_read_micro + u.cache_write_tokens::numeric * p.cache_write_micro`

/** Who gives and who takes of each of these transfers, which are SQL that can follow `from`. */
const knownKinds = (transfers: string): string => `
      with wrong as materialized (
        select t.*, null as audited from ${transfers} t
        where t.idempotency_key not like 'adjustment:%' and split_part(t.idempotency_key, ':', 1) not in ('refund', 'refund-cancelled', 'claim')
          and case split_part(t.idempotency_key, ':', 1)
          when 'charge' then t.reason = 'charge' and t.credit_account = 'house:revenue' and t.debit_account not like 'house:%'
          when 'absorb' then t.reason = 'absorbed' and t.debit_account = 'house:absorbed' and t.credit_account = 'house:revenue'
          when 'void' then t.reason = 'void' and t.debit_account = 'house:revenue' and t.credit_account not like 'house:%'
          when 'void-absorb' then t.reason = 'void' and t.debit_account = 'house:revenue' and t.credit_account = 'house:absorbed'
          when 'topup' then t.debit_account = 'house:cash_clearing' and case t.reason
            when 'service_fee' then t.credit_account = 'house:revenue' and t.idempotency_key like '%:service_fee'
            else t.reason = 'top_up' and t.credit_account not like 'house:%' end
          when 'trial' then t.reason = 'trial_credit' and t.debit_account = 'house:trial_credits'
            and t.credit_account = split_part(t.idempotency_key, ':', 2)
            and exists (select from trial_credits c where c.account_id = t.credit_account and c.amount_micro = t.amount_micro)
          else false end is not true
        union all
        select t.*, a.request_id from ${transfers} t
        left join audit_log a on a.action = 'account.adjusted' and a.after ->> 'transfer' = t.idempotency_key
        where t.idempotency_key like 'adjustment:%'
          and (t.reason = 'adjustment' and case (a.after ->> 'amount_micro')::numeric
            when t.amount_micro then t.debit_account = 'house:adjustments' and t.credit_account = a.subject
            when -t.amount_micro then t.debit_account = a.subject and t.credit_account = 'house:adjustments'
            else false end) is not true
      )
      select s.account_id, t.idempotency_key, t.reason, t.debit_account, t.credit_account, t.amount_micro, t.audited
      from wrong t
      cross join lateral ${partiesOf("t.debit_account", "t.credit_account")} s`

/** `key_spend` has runs and breakers beside keys. */
const OF_A_KEY = "key_id not like all (array['run\\_%', 'brk\\_%'])"

/** Of rows of `account_id` and `amount` (`movedBy`). */
export const balances = (moved: string): string => `
      with sums as (
        select account_id, sum(amount) as amount from (${moved}) as moved where account_id not like 'house:%' group by 1
      )
      select account_id, b.posted_micro, s.amount as of_transfers_micro
      from balances b full join sums s using (account_id)
      where b.posted_micro is distinct from coalesce(s.amount, 0)`

export const houseOwes = (moved: string): string => `
      with house as (
        select coalesce(sum(amount), 0) as amount from (${moved}) as moved where account_id like 'house:%'
      )
      select null::text as account_id, house.amount as house_micro, b.posted as customers_micro
      from house, (select coalesce(sum(posted_micro), 0) as posted from balances) b
      where house.amount + b.posted <> 0`

/** Of rows of `lease_id` and a charge. */
export const charges = (charged: string): string => `
      with open as materialized (
        select id, account_id, settled_micro from leases where closed_at is null
      ), charged as (
        select lease_id, sum(amount) as amount from (${charged}) as charges (lease_id, amount)
        where lease_id in (select id from open) group by 1
      )
      select o.account_id, o.id as lease_id, o.settled_micro, c.amount as charged_micro
      from open o left join charged c on c.lease_id = o.id
      where o.settled_micro <> coalesce(c.amount, 0)`

// Of transfers of calls, by their `kind`: less what was taken back.
const CHARGED = "sum(case kind when 'charge' then amount_micro when 'void' then -amount_micro else 0 end)"
const ABSORBED = "sum(case kind when 'absorb' then amount_micro when 'void-absorb' then -amount_micro else 0 end)"

/** Of `parts`, which are transfers of calls by `kind` and `request_id`, and of the records of the same calls (`u`). */
export const transfersOfCalls = (parts: string, records: string): string => `${parts}, booked as (
        select request_id, max(case kind when 'charge' then debit_account when 'void' then credit_account end) as account_id,
          ${CHARGED} as charged, ${ABSORBED} as absorbed
        from parts group by 1
      ), recorded as (
        select u.request_id, max(u.account_id) as account_id, sum(u.absorbed_micro) as absorbed,
          sum(case when u.request_id < ${OWN_CHARGES} then u.charge_micro else 0 end) as charged
        from ${records} group by 1
      )
      select coalesce(r.account_id, b.account_id) as account_id, request_id,
        b.charged as charge_booked_micro, r.charged as charge_recorded_micro,
        b.absorbed as absorbed_booked_micro, r.absorbed as absorbed_recorded_micro
      from booked b full join recorded r using (request_id)
      where coalesce(b.charged, 0) <> coalesce(r.charged, 0) or coalesce(b.absorbed, 0) <> coalesce(r.absorbed, 0)`

export const claims: readonly Claim[] = [
  {
    name: "a balance is the sum of its transfers",
    of: "balances",
    contradictions: balances(movedBy("all_transfers")),
  },
  {
    name: "what customers have, the house owes",
    of: "all_transfers",
    contradictions: houseOwes(movedBy("all_transfers")),
  },
  {
    name: "what is leased of a balance is what its open leases have left, and is covered",
    of: "balances",
    contradictions: `
      with lefts as (
        select account_id, sum(granted_micro - returned_micro - settled_micro) as amount
        from leases where closed_at is null group by 1
      )
      select account_id, b.posted_micro, b.leased_micro, l.amount as of_leases_micro
      from balances b full join lefts l using (account_id)
      where (b.posted_micro >= b.leased_micro and b.leased_micro = coalesce(l.amount, 0) and coalesce(l.amount, 0) >= 0)
        is not true`,
  },
  {
    name: "an open lease has settled the charges under it",
    of: "leases",
    contradictions: charges(
      "select lease_id, charge_micro from usage union all select lease_id, charge_micro from archived_leases",
    ),
  },
  {
    name: "what is leased of a key's budget is what its leases have left",
    of: "key_spend",
    contradictions: `
      with lefts as (
        select key_id, period, period_start, sum(granted_micro - returned_micro - settled_micro) as amount
        from budget_leases group by 1, 2, 3
      )
      select coalesce(k.account_id, r.account_id) as account_id, s.key_id, s.period, s.period_start, s.leased_micro,
        l.amount as of_leases_micro
      from key_spend s left join lefts l using (key_id, period, period_start) left join api_keys k on k.id = s.key_id
        left join runs r on r.id = s.key_id
      where s.leased_micro <> coalesce(l.amount, 0)`,
  },
  {
    // Of a call whose record is its charge there is a transfer of that only where it was taken back, and it was taken back whole.
    name: "the transfers of a call are its charge and what the house absorbed of it",
    of: "usage",
    contradictions: `
      with ${transfersOfCalls(
        `parts as (
          select split_part(idempotency_key, ':', 1) as kind, split_part(idempotency_key, ':', 2) as request_id,
            debit_account, credit_account, amount_micro
          from ${BOOKED} b where ${OF_CALLS} and split_part(idempotency_key, ':', 2) >= ${ARCHIVED_CALLS}
        )`,
        `usage u where request_id >= ${ARCHIVED_CALLS}
          and (absorbed_micro <> 0 or (charge_micro <> 0 and request_id < ${OWN_CHARGES}))`,
      )}`,
  },
  {
    name: "the transfers of archived calls are what was archived",
    of: "archives",
    contradictions: `
      with parts as (
        select split_part(idempotency_key, ':', 1) as kind, amount_micro
        from all_transfers where ${OF_CALLS} and split_part(idempotency_key, ':', 2) < ${ARCHIVED_CALLS}
      ), booked as (
        select coalesce(${CHARGED}, 0) as charged, coalesce(${ABSORBED}, 0) as absorbed from parts
      ), recorded as (
        -- Some may have been where no month was made.
        select coalesce(sum(charge_micro), 0) as charged, coalesce(sum(absorbed_micro), 0) as absorbed from (
          select charge_micro, absorbed_micro from archives
          union all select charge_micro, absorbed_micro from usage where request_id < ${ARCHIVED_CALLS}
        ) each_record
      )
      select null::text as account_id, b.charged as charge_booked_micro, r.charged as charge_recorded_micro,
        b.absorbed as absorbed_booked_micro, r.absorbed as absorbed_recorded_micro
      from booked b, recorded r where (b.charged, b.absorbed) <> (r.charged, r.absorbed)`,
  },
  {
    name: "the keys' sums of archived calls are what was archived",
    of: "archives",
    contradictions: `
      select null::text as account_id, a.charged as archived_micro, k.charged as of_keys_micro
      from (select coalesce(sum(charge_micro), 0) as charged from archives) a,
        (select coalesce(sum(charge_micro), 0) as charged from archived_keys) k
      where a.charged <> k.charged`,
  },
  {
    name: "a charge goes from its own account to revenue, and is taken back the same way",
    of: "all_transfers",
    contradictions: `
      with parts as (
        select split_part(idempotency_key, ':', 1) as kind, split_part(idempotency_key, ':', 2) as request_id,
          debit_account, credit_account, amount_micro
        from ${BOOKED} b where split_part(idempotency_key, ':', 1) in ('charge', 'void')
      )
      select u.account_id, t.request_id, t.kind, t.debit_account, t.credit_account, t.amount_micro
      from parts t join usage u on u.request_id = t.request_id and u.part = 0
      where case t.kind when 'charge' then (t.debit_account, t.credit_account) <> (u.account_id, 'house:revenue')
        else (t.debit_account, t.credit_account) <> ('house:revenue', u.account_id) end`,
  },
  ofEach(
    "usage",
    "a charge is its tokens at its price version",
    (rows) => `
      select u.account_id, u.request_id, u.part, u.status, u.price_id, u.charge_micro, u.absorbed_micro,
        u.excess_micro, ${PRICE} as of_tokens_micro
      from ${rows} u left join prices p on p.id = u.price_id
      where p.id is null or ((u.status = 'ok' or u.absorbed_micro > 0)
        and u.charge_micro + u.absorbed_micro - u.excess_micro is distinct from ${PRICE})`,
  ),
  ofEach(
    "usage",
    "only an answer is charged",
    (rows) => `
      select account_id, request_id, part, status, charge_micro
      from ${rows} u where charge_micro <> 0 and (status <> 'ok' or part <> 0)`,
  ),
  ofEach(
    "usage",
    "a call has one final record",
    (rows) => `
      select max(account_id) as account_id, request_id, count(*) filter (where part = 0) as final_records
      from ${rows} u group by request_id having count(*) filter (where part = 0) <> 1`,
  ),
  {
    name: "an ended call is not open",
    of: "openings",
    contradictions: `
      select o.account_id, o.request_id, u.status
      from openings o join usage u on u.request_id = o.request_id and u.part = 0`,
  },
  ...claimsOfSums,
  {
    name: "a key has spent its charges, and those of its children, in all three calendars",
    of: "key_spend",
    contradictions: `
      with spent as (
        select key_id, coalesce(sum(spent_micro) filter (where period = 'daily'), 0) as daily,
          coalesce(sum(spent_micro) filter (where period = 'monthly'), 0) as monthly,
          coalesce(sum(spent_micro) filter (where period = 'total'), 0) as total
        from key_spend where ${OF_A_KEY} group by 1
      ), charged as (
        -- What a child is charged its parent has spent too.
        select paying.key_id, max(o.account_id) as account_id, sum(o.amount) as amount
        from (select key_id, max(account_id) as account_id, sum(charge_micro) as amount from (
          select key_id, account_id, charge_micro from usage union all select key_id, null, charge_micro from archived_keys
        ) each_charge group by 1) o
        left join api_keys k on k.id = o.key_id
        cross join lateral (values (o.key_id), (k.parent_id)) as paying (key_id)
        where paying.key_id is not null group by 1
      )
      select coalesce(c.account_id, k.account_id) as account_id, key_id,
        s.daily as daily_micro, s.monthly as monthly_micro, s.total as total_micro, c.amount as charged_micro
      from spent s full join charged c using (key_id) left join api_keys k on k.id = key_id
      where (coalesce(s.daily, 0), coalesce(s.monthly, 0), coalesce(s.total, 0))
        <> (coalesce(c.amount, 0), coalesce(c.amount, 0), coalesce(c.amount, 0))`,
  },
  {
    // A run of the same name is made anew some time after it was removed, and the records of the one before it stay.
    name: "a run has spent what its calls are charged, and no more than its budget",
    of: "runs",
    contradictions: `
      with charged as (
        select u.run_id, sum(u.charge_micro) as amount from usage u join runs r on r.id = u.run_id
        where u.opened_at > r.created_at - interval '1 day' group by 1
      ), spent as (
        select key_id as run_id, period, spent_micro from key_spend where key_id like 'run\\_%'
      )
      select r.account_id, coalesce(r.id, s.run_id) as run_id, s.period, r.budget_micro, s.spent_micro,
        c.amount as charged_micro
      from runs r full join spent s on s.run_id = r.id left join charged c on c.run_id = r.id
      where (r.id is not null and coalesce(s.period, 'total') = 'total' and coalesce(s.spent_micro, 0) = coalesce(c.amount, 0)
        and coalesce(s.spent_micro, 0) <= r.budget_micro) is not true
        -- Of one that may have begun in an archived month not all records are here.
        and coalesce(r.created_at > ${ARCHIVED_AT} + interval '2 days', true)`,
  },
  ...claimsOfTopUps,
  // Amounts of calls and top-ups are compared elsewhere; here it is who gives and who takes, and that nothing else moves money.
  ofEach("all_transfers", "a transfer is of a known kind, and an adjustment is an operator's", knownKinds),
  ...claimsOfRefunds,
  ofEach(
    "usage",
    "a record is of its key's account",
    (rows) => `
      select u.account_id, u.request_id, u.part, u.key_id, k.account_id as of_key
      from ${rows} u join api_keys k on k.id = u.key_id where k.account_id <> u.account_id`,
  ),
  // The price is wrong, not the account of whoever called: none is frozen. A clock may be off by an hour, and a gateway whose clock is set back goes on selling at a model's first price.
  ofEach(
    "usage",
    "a price had begun when a call was opened at it",
    (rows) => `
      with opened as (
        select price_id, count(*) as calls, min(opened_at) as first_opened_at from ${rows} u group by 1
      )
      select null::text as account_id, p.id as price_id, p.model, p.effective_at, o.first_opened_at, o.calls
      from opened o join prices p on p.id = o.price_id
      where p.effective_at > o.first_opened_at + interval '2 hours' and (p.effective_at > p.created_at + interval '1 minute'
        or exists (select from prices e where e.model = p.model and e.effective_at <= o.first_opened_at))`,
  ),
]
