/**
 * A claim: what must be true of the books, as a query for what contradicts it; what it has come to; and what of the books is new
 * since a proof, as SQL.
 *
 * And the claims of payments: what must be true of money that was paid and that went back, and of what is claimed of an account
 * for it. Micro-rupiah.
 */
import type { Proof } from "../store/reconciliations.ts"

/** What must be true of the books, as a query for what contradicts it. */
export interface Claim {
  readonly name: string
  /** The table whose rows are compared. */
  readonly of:
    | "balances"
    | "transfers"
    | "all_transfers"
    | "leases"
    | "key_spend"
    | "runs"
    | "usage"
    | "usage_hours"
    | "usage_groups"
    | "usage_spans"
    | "profit_hours"
    | "profit_days"
    | "profit_house"
    | "profit_account_days"
    | "profit_account_months"
    | "profit_account_models"
    | "customer_days"
    | "model_customers"
    | "call_hours"
    | "openings"
    | "archives"
    | "refunds"
    | "top_ups"
  /** What is counted of it, as SQL that can follow `from`; without it the whole table. */
  readonly compared?: string
  /** Yields `account_id` and whatever shows the contradiction. */
  readonly contradictions: string
  /** The same, of some rows of the table alone, which are SQL that can follow `from`: a claim about each by itself. */
  readonly ofSome?: (rows: string) => string
}

/** A claim about each row by itself. */
export const ofEach = (of: Claim["of"], name: string, contradictions: (rows: string) => string): Claim => ({
  name,
  of,
  contradictions: contradictions(of),
  ofSome: contradictions,
})

/** What holding one claim against what is there has come to. */
export interface Finding {
  readonly claim: string
  /** How many rows were compared. */
  readonly compared: number
  /** How many could not be, because somebody else gave no answer. Not differences. */
  readonly notCompared: number
  readonly differences: number
  /** That something is wrong with, and so are to be frozen. */
  readonly accounts: readonly string[]
  /** The first of the differences. */
  readonly shown: readonly Difference[]
}

export interface Difference {
  /** Null: it is about the house's books as a whole. */
  readonly accountId: string | null
  /** Ids and amounts; names in `_micro` are micro-rupiah. */
  readonly figures: Readonly<Record<string, string | null>>
  /** Put right at once. */
  readonly mended: boolean
}

const sum = (findings: readonly Finding[], of: "differences" | "notCompared"): number =>
  findings.reduce((total, finding) => total + finding[of], 0)

export const differencesIn = (findings: readonly Finding[]): number => sum(findings, "differences")
export const notComparedIn = (findings: readonly Finding[]): number => sum(findings, "notCompared")

/** What is new, as SQL. */
export interface New {
  readonly proof: bigint
  /** What the ids of new calls sort after, quoted. */
  readonly call: string
  /** Their records, and those that changed. */
  readonly usage: string
  readonly transfers: string
  /** Of them those that are rows of their own, and not records. */
  readonly booked: string
  /** The first whole hour of which every call is new, quoted. */
  readonly hour: string
}

const HOUR_MS = 3_600_000

/** New are calls whose ids sort after the proof's, with their charges, other transfers with higher ids, and calls whose records changed. */
export function newSince({ id, untilCall, untilTransfer }: Proof): New {
  if (!/^req_[0-9a-z]{9}$/.test(untilCall)) throw new Error(`a proof until the call ${untilCall}`)
  const call = `'${untilCall}'`
  const untilMs = Number.parseInt(untilCall.slice("req_".length), 36)
  // An id is given up to an hour before the time of the call.
  const hour = new Date((Math.floor(untilMs / HOUR_MS) + 2) * HOUR_MS)
  return {
    proof: id,
    call,
    usage: `(select * from usage where request_id >= ${call} union all
      select * from usage where request_id < ${call} and request_id in (select request_id from call_changes))`,
    // Each half by its own key: with "or" neither could be used.
    transfers: `(select * from all_transfers where id > ${untilTransfer} union all
      select * from all_transfers where request_id >= ${call})`,
    booked: `(select ${BOOKED_COLUMNS} from transfers where id > ${untilTransfer} union all
      select ${CHARGE_COLUMNS} from charges where request_id >= ${call})`,
    hour: `'${hour.toISOString()}'::timestamptz`,
  }
}

const BOOKED_COLUMNS = "idempotency_key, debit_account, credit_account, amount_micro"
const CHARGE_COLUMNS = "'charge:' || request_id, account_id, 'house:revenue', amount_micro"
/** All transfers that are rows of their own. */
export const BOOKED = `(select ${BOOKED_COLUMNS} from transfers union all select ${CHARGE_COLUMNS} from charges)`
export const CALL_KINDS = "'charge', 'absorb', 'void', 'void-absorb'"
/** Of transfers, those of calls. */
export const OF_CALLS = `split_part(idempotency_key, ':', 1) in (${CALL_KINDS})`
/** Of calls from it on a record is its charge. */
export const OWN_CHARGES = "(select until_call from charges_end)"

/** Calls whose ids sort before it are archived (`archives`), and the time that is in it. */
export const ARCHIVED_CALLS = "(select coalesce(max(until_call), '') from archives)"
export const ARCHIVED_AT = "(select coalesce(max(until_at), '-infinity') from archives)"

/** By a claim's name, how it is held against what is new. */
export type Replaced = Readonly<Record<string, Pick<Claim, "contradictions" | "compared">>>

/** What transfers add to each account, or take, as rows of `account_id` and `amount`. */
export const movedBy = (transfers: string): string => `
  select m.account_id, m.amount from ${transfers} t cross join lateral (
    values (t.credit_account, t.amount_micro), (t.debit_account, -t.amount_micro)
  ) as m(account_id, amount)`

/** The same with what a proof's accounts had, and what of its calls was charged or changed since. */
export const movedSince = ({ proof, call, transfers }: New): string => `
  select account_id, amount_micro as amount from proven_accounts where proof_id = ${proof} union all ${movedBy(transfers)}
  union all select m.account_id, m.amount from call_changes c cross join lateral (
    values ('house:revenue', c.charge_micro), (c.account_id, -c.charge_micro)
  ) as m(account_id, amount) where c.request_id < ${call} and c.request_id >= ${OWN_CHARGES}`

/** Whose money a transfer moves: its accounts but those of the house, or null. As SQL that can follow `cross join lateral`. */
export const partiesOf = (debit: string, credit: string): string => `(
        select distinct account_id from (values (${debit}), (${credit})) sides(account_id) where account_id not like 'house:%'
        union all select null where ${debit} like 'house:%' and ${credit} like 'house:%'
      )`

/** Whoever credits gives the provider's reference, which older versions did not write down: it was the top-up's id. */
export const CREDIT_KEY = "'topup:' || provider || ':' || coalesce(reference, id)"

/** Of rows of `account_id` and `amount`: what transfers add to each account, or take. */
const claimed = (moved: string): string => `
      with sums as (
        select substr(account_id, length('house:claims:') + 1) as account_id, -sum(amount) as amount
        from (${moved}) as moved where account_id like 'house:claims:%' group by 1
      )
      select account_id, b.claim_micro, s.amount as of_transfers_micro, b.posted_micro, b.leased_micro
      from balances b full join sums s using (account_id)
      where b.claim_micro is distinct from coalesce(s.amount, 0) or (b.claim_micro > 0 and b.posted_micro <> b.leased_micro)`

const BOOKED_COLUMNS_AND_REASON = "idempotency_key, debit_account, credit_account, amount_micro, reason"
const OF_REFUNDS = "split_part(idempotency_key, ':', 1) in ('refund', 'refund-cancelled')"

/** Of the transfers of refunds; those that are due are `due`. */
const refunded = (booked: string): string => `
      with due as (
        select r.account_id, r.id, v.*
        from refunds r cross join lateral (values
          ('refund:' || r.id, r.account_id, 'house:cash_clearing', r.balance_micro - r.claimed_micro, r.kind),
          ('refund:' || r.id || ':claim', 'house:claims:' || r.account_id, 'house:cash_clearing', r.claimed_micro, r.kind),
          ('refund:' || r.id || ':service_fee', 'house:revenue', 'house:cash_clearing', r.service_fee_micro, 'fee_refund'),
          ('refund-cancelled:' || r.id, 'house:cash_clearing', r.account_id,
            case r.status when 'cancelled' then r.balance_micro else 0 end, 'refund_cancelled'),
          ('refund-cancelled:' || r.id || ':service_fee', 'house:cash_clearing', 'house:revenue',
            case r.status when 'cancelled' then r.service_fee_micro else 0 end, 'fee_refund')
        ) v (idempotency_key, debit_account, credit_account, amount_micro, reason)
        where v.amount_micro > 0
      ), booked as (
        ${booked}
      )
      select s.account_id, idempotency_key, d.amount_micro as due_micro, b.amount_micro as booked_micro, b.debit_account, b.credit_account
      from due d full join booked b using (idempotency_key)
      cross join lateral ${partiesOf("coalesce(d.account_id, b.debit_account)", "coalesce(d.account_id, b.credit_account)")} s
      where (d.debit_account, d.credit_account, d.amount_micro, d.reason)
        is distinct from (b.debit_account, b.credit_account, b.amount_micro, b.reason)`

const FEES = "service_fee_micro + payment_fee_micro"

export const claimsOfTopUps: readonly Claim[] = [
  {
    name: "a paid top-up was credited once, in full, and no other was",
    of: "top_ups",
    contradictions: `
      with credits as (
        select idempotency_key, credit_account, amount_micro from transfers where reason = 'top_up'
      )
      select coalesce(p.account_id, c.credit_account) as account_id, p.id as top_up_id, p.status,
        p.balance_purchased_micro, c.idempotency_key, c.amount_micro as credited_micro, c.credit_account as credited_account
      from (select *, ${CREDIT_KEY} as idempotency_key from top_ups) p full join credits c using (idempotency_key)
      where (p.status = 'paid') is distinct from (c.amount_micro is not null) or (c.amount_micro is not null
        and (c.amount_micro, c.credit_account) is distinct from (p.balance_purchased_micro, p.account_id))`,
  },
  {
    name: "the service fee of a paid top-up is revenue, once",
    of: "top_ups",
    contradictions: `
      with fees as (
        select idempotency_key, amount_micro from transfers
        where reason = 'service_fee' and credit_account = 'house:revenue'
      )
      select null::text as account_id, p.id as top_up_id, p.status, p.service_fee_micro, f.idempotency_key,
        f.amount_micro as booked_micro
      from (select *, ${CREDIT_KEY} || ':service_fee' as idempotency_key from top_ups) p
      full join fees f using (idempotency_key)
      where coalesce(f.amount_micro, 0) <> case when p.status = 'paid' then p.service_fee_micro else 0 end`,
  },
]

export const claimsOfRefunds: readonly Claim[] = [
  {
    name: "a claim is what its transfers leave, and is settled before anything is free",
    of: "balances",
    contradictions: claimed(movedBy("transfers")),
  },
  {
    name: "a refund is booked once, in full, of its own account and of the house",
    of: "refunds",
    contradictions: refunded(`select ${BOOKED_COLUMNS_AND_REASON} from transfers where ${OF_REFUNDS}`),
  },
  {
    name: "of a top-up no more goes back than was paid, and as much as its refunds say",
    of: "top_ups",
    contradictions: `
      with back as (
        select top_up_id, max(account_id) as account_id, sum(balance_micro) as balance, sum(service_fee_micro) as service_fee,
          sum(payment_fee_micro) as payment_fee
        from refunds where top_up_id is not null and status <> 'cancelled' group by 1
      )
      select t.account_id, t.id as top_up_id, t.balance_purchased_micro, b.balance as refunded_micro,
        t.refunded_balance_micro as kept_micro, b.service_fee + b.payment_fee as refunded_fees_micro, t.status
      from top_ups t left join back b on b.top_up_id = t.id
      where (t.refunded_balance_micro, t.refunded_service_fee_micro, t.refunded_payment_fee_micro)
          <> (coalesce(b.balance, 0), coalesce(b.service_fee, 0), coalesce(b.payment_fee, 0))
        or b.balance > t.balance_purchased_micro or b.service_fee > t.service_fee_micro
        or b.payment_fee > t.payment_fee_micro + t.network_fee_micro
        or (b.balance is not null and (t.status <> 'paid' or t.account_id <> b.account_id))`,
  },
  {
    name: "a refund that no provider made is an operator's",
    of: "refunds",
    contradictions: `
      select r.account_id, r.id as refund_id, r.balance_micro, r.${FEES} as fees_micro
      from refunds r where r.kind = 'refund' and not exists (
        select from audit_log a where a.subject = r.account_id and a.action = 'account.refunded' and a.after ->> 'refund' = r.id
          and (a.after ->> 'amount_micro')::numeric = r.balance_micro + r.${FEES})`,
  },
  ofEach(
    "transfers",
    "a claim is settled of its own account",
    (rows) => `
      select s.account_id, idempotency_key, debit_account, credit_account, amount_micro, reason
      from ${rows} t cross join lateral ${partiesOf("debit_account", "credit_account")} s
      where split_part(idempotency_key, ':', 1) = 'claim'
        and (reason, credit_account, split_part(idempotency_key, ':', 2)) <> ('claim', 'house:claims:' || debit_account, debit_account)`,
  ),
]

export const refundsSince = (since: New): Replaced => ({
  "a claim is what its transfers leave, and is settled before anything is free": {
    contradictions: claimed(movedSince(since)),
  },
  "a refund is booked once, in full, of its own account and of the house": {
    contradictions: refunded(`
        select ${BOOKED_COLUMNS_AND_REASON} from transfers where idempotency_key in (select idempotency_key from due)
        union select ${BOOKED_COLUMNS_AND_REASON} from ${since.transfers} t where ${OF_REFUNDS}`),
  },
})
