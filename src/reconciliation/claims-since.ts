/**
 * The claims (`claims.ts`) held against what is new since a proof, whose sums stand for all before it. Micro-rupiah.
 *
 * New are calls whose ids sort after the proof's and their charges, other transfers with higher ids, and calls whose records were changed
 * or came late (`call_changes`): what they were charged then is there, or is one of the other transfers. What is kept of whom nothing is new, as a key's spending, is not looked at; balances all are. Where something differs
 * everything is read (`reconcile.ts`), so what only seems to differ freezes nobody.
 */
import type { Proof } from "../store/reconciliations.ts"
import { balances, charges, claims, houseOwes, transfersOfCalls } from "./claims.ts"
import {
  ARCHIVED_CALLS,
  CALL_KINDS,
  type Claim,
  CREDIT_KEY,
  movedSince,
  type New,
  newSince,
  OF_CALLS,
  refundsSince,
  type Replaced,
} from "./claim.ts"
import { sumsSince } from "./claims-of-sums.ts"

/** All claims, in their order. */
export function claimsSince(proof: Proof): readonly Claim[] {
  const since = newSince(proof)
  const replaced: Replaced = {
    ...ofBalances(since),
    ...ofCalls(since),
    ...ofKeys(since),
    ...ofTopUps(since),
    ...refundsSince(since),
    ...sumsSince(since),
  }
  for (const name of Object.keys(replaced))
    if (!claims.some((claim) => claim.name === name)) throw new Error(`there is no claim that ${name}`)
  return claims.map((claim) => {
    const rows = claim.of === "transfers" || claim.of === "all_transfers" ? since.transfers : since.usage
    const ofNew = claim.ofSome && { compared: `${rows} x`, contradictions: claim.ofSome(rows) }
    return { ...claim, ...ofNew, ...replaced[claim.name] }
  })
}

const ofBalances = (since: New): Replaced => ({
  "a balance is the sum of its transfers": { contradictions: balances(movedSince(since)) },
  "what customers have, the house owes": {
    compared: `${since.transfers} t`,
    contradictions: houseOwes(movedSince(since)),
  },
  "an open lease has settled the charges under it": {
    contradictions: charges(`
      select lease_id, charge_micro from usage where request_id >= ${since.call}
      union all select lease_id, charge_micro from call_changes where request_id < ${since.call}
      union all select lease_id, charge_micro from proven_leases where proof_id = ${since.proof}`),
  },
})

const ofCalls = ({ call, usage, booked }: New): Replaced => {
  const compared = `${usage} u`
  return {
    "the transfers of a call are its charge and what the house absorbed of it": {
      compared,
      contradictions: `
        with calls as materialized (
          select request_id from usage where request_id >= ${call}
          union select request_id from call_changes
          union select split_part(idempotency_key, ':', 2) from ${booked} t where ${OF_CALLS}
        ), ${transfersOfCalls(
          `parts as (
            -- Each by its key, however many transfers there are.
            select c.request_id, k.kind, t.debit_account, t.credit_account, t.amount_micro
            from calls c cross join unnest(array[${CALL_KINDS}]) as k (kind) cross join lateral (
              select * from transfers where idempotency_key = k.kind || ':' || c.request_id offset 0
            ) t
            union all
            select c.request_id, 'charge', t.account_id, 'house:revenue', t.amount_micro
            from calls c cross join lateral (select * from charges where request_id = c.request_id offset 0) t
          )`,
          "calls c cross join lateral (select * from usage where request_id = c.request_id offset 0) u",
        )}`,
    },
    // A transfer of a call that is archived by now: then all are added up.
    "the transfers of archived calls are what was archived": {
      contradictions: `
        select null::text as account_id, idempotency_key, amount_micro from ${booked} t
        where ${OF_CALLS} and split_part(idempotency_key, ':', 2) < ${ARCHIVED_CALLS}`,
    },
    "a charge goes from its own account to revenue, and is taken back the same way": {
      compared: `${booked} t`,
      contradictions: `
        with parts as (
          select split_part(idempotency_key, ':', 1) as kind, split_part(idempotency_key, ':', 2) as request_id,
            debit_account, credit_account, amount_micro
          from ${booked} t where split_part(idempotency_key, ':', 1) in ('charge', 'void')
        )
        select u.account_id, t.request_id, t.kind, t.debit_account, t.credit_account, t.amount_micro
        from parts t cross join lateral (select account_id from usage where request_id = t.request_id and part = 0 offset 0) u
        where case t.kind when 'charge' then (t.debit_account, t.credit_account) <> (u.account_id, 'house:revenue')
          else (t.debit_account, t.credit_account) <> ('house:revenue', u.account_id) end`,
    },
  }
}

/** Of keys with something new, and of their parents, who have spent it too. */
const ofKeys = ({ proof, call }: New): Replaced => ({
  "a key has spent its charges, and those of its children, in all three calendars": {
    compared: `(select distinct key_id from usage where request_id >= ${call}) k`,
    contradictions: `
      with charges as materialized (
        select key_id, account_id, charge_micro from usage where request_id >= ${call}
        union all select key_id, account_id, charge_micro from call_changes where request_id < ${call}
      ), paying as materialized (
        select distinct p.key_id from (select distinct key_id from charges) c left join api_keys k on k.id = c.key_id
        cross join lateral (values (c.key_id), (k.parent_id)) as p (key_id) where p.key_id is not null
      ), calling as materialized (
        select p.key_id as payer, p.key_id from paying p
        union all select k.parent_id, k.id from paying p join api_keys k on k.parent_id = p.key_id
      ), own as (
        select key_id, sum(amount) as amount from (
          select key_id, charge_micro from charges
          union all select key_id, charge_micro from proven_keys
            where proof_id = ${proof} and key_id in (select key_id from calling)
        ) as each_charge (key_id, amount) group by 1
      ), charged as (
        select c.payer as key_id, sum(o.amount) as amount from calling c join own o on o.key_id = c.key_id group by 1
      ), spent as (
        select key_id, coalesce(sum(spent_micro) filter (where period = 'daily'), 0) as daily,
          coalesce(sum(spent_micro) filter (where period = 'monthly'), 0) as monthly,
          coalesce(sum(spent_micro) filter (where period = 'total'), 0) as total
        from key_spend where key_id in (select key_id from paying) group by 1
      )
      select coalesce(k.account_id, (select max(account_id) from charges n where n.key_id = c.key_id)) as account_id, key_id,
        s.daily as daily_micro, s.monthly as monthly_micro, s.total as total_micro, c.amount as charged_micro
      from spent s full join charged c using (key_id) left join api_keys k on k.id = key_id
      where (coalesce(s.daily, 0), coalesce(s.monthly, 0), coalesce(s.total, 0))
        <> (coalesce(c.amount, 0), coalesce(c.amount, 0), coalesce(c.amount, 0))`,
  },
})

/** Those that were made or paid a day before the proof, or later. */
const ofTopUps = ({ hour, transfers }: New): Replaced => {
  const recent = `(select *, ${CREDIT_KEY} as credit_key from top_ups where greatest(created_at, paid_at) > ${hour} - interval '1 day')`
  return {
    "a paid top-up was credited once, in full, and no other was": {
      compared: `${recent} p`,
      contradictions: `
        with p as materialized (select *, credit_key as idempotency_key from ${recent} recent), credits as (
          select idempotency_key, credit_account, amount_micro from ${transfers} t where reason = 'top_up'
          union select idempotency_key, credit_account, amount_micro from transfers
            where reason = 'top_up' and idempotency_key in (select idempotency_key from p)
        )
        select coalesce(p.account_id, c.credit_account) as account_id, p.id as top_up_id, p.status,
          p.balance_purchased_micro, c.idempotency_key, c.amount_micro as credited_micro, c.credit_account as credited_account
        from p full join credits c using (idempotency_key)
        where (p.status = 'paid') is distinct from (c.amount_micro is not null) or (c.amount_micro is not null
          and (c.amount_micro, c.credit_account) is distinct from (p.balance_purchased_micro, p.account_id))`,
    },
    "the service fee of a paid top-up is revenue, once": {
      compared: `${recent} p`,
      contradictions: `
        with p as materialized (select *, credit_key || ':service_fee' as idempotency_key from ${recent} recent), fees as (
          select idempotency_key, amount_micro from ${transfers} t where reason = 'service_fee' and credit_account = 'house:revenue'
          union select idempotency_key, amount_micro from transfers
            where reason = 'service_fee' and credit_account = 'house:revenue' and idempotency_key in (select idempotency_key from p)
        )
        select null::text as account_id, p.id as top_up_id, p.status, p.service_fee_micro, f.idempotency_key,
          f.amount_micro as booked_micro
        from p full join fees f using (idempotency_key)
        where coalesce(f.amount_micro, 0) <> case when p.status = 'paid' then p.service_fee_micro else 0 end`,
    },
  }
}
