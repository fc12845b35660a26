/**
 * Refunds as rows: money that goes back to a payer, by an operator or by the payment provider itself. Micro-rupiah. Each is
 * booked in one statement, in the function `refund_1` of the database (migrations/0043_refunds.sql), once for each key.
 */
import { MICRO_PER_RUPIAH, type Micro, micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"
import { insertProblems, isLeftToOperator, isUnanswered, type PaymentProblem } from "./payment-problems.ts"
import type { ListPage } from "./top-ups.ts"

/** `refund` is an operator's; the others the provider made unasked. */
export const refundKinds = ["refund", "provider_refund", "chargeback"] as const
export type RefundKind = (typeof refundKinds)[number]
/** `sending`: the provider was asked to pay it out, or will be, and has not said whether it did. */
export const refundStatuses = ["booked", "sending", "paid_out", "cancelled"] as const

export interface Refund {
  readonly id: string
  readonly accountId: string
  /** Undefined for what was left of a closed account. */
  readonly topUpId: string | undefined
  readonly kind: RefundKind
  readonly balanceMicro: Micro
  /** What of the top-up's fees went back as well; the house bears it. */
  readonly feesMicro: Micro
  /** What of the balance was spent already, and became a claim. */
  readonly claimedMicro: Micro
  readonly reason: string
  readonly status: (typeof refundStatuses)[number]
  readonly payout: "by_hand" | "provider" | undefined
  readonly reference: string | undefined
  /** Why the provider did not pay it out. */
  readonly problem: string | undefined
  readonly createdAt: Date
  readonly paidOutAt: Date | undefined
}

export interface NewRefund {
  readonly id: string
  readonly accountId: string
  readonly topUpId: string | undefined
  readonly amountMicro: Micro
  readonly reason: string
  readonly idempotencyKey: string
  /** Whether the provider is to be asked to pay it out. */
  readonly byProvider: boolean
}

/** One that the provider made. */
export interface Reversal extends Pick<NewRefund, "id" | "accountId" | "amountMicro" | "reason"> {
  readonly topUpId: string
  readonly kind: Exclude<RefundKind, "refund">
  readonly provider: string
  /** The provider's name for it: one booking for each of a top-up. */
  readonly reference: string
  /** All that the provider says it has taken back of the top-up unasked. */
  readonly upToMicro: Micro | undefined
  /** Whether what is not free becomes a claim; else nothing is booked where something is not. */
  readonly mayClaim: boolean
}

export interface Booked {
  /** `before`: another one under this key. `over`: more than is left of the top-up. `short`: more than is free. `nothing`: all is booked. */
  readonly outcome: "booked" | "before" | "no account" | "not paid" | "over" | "short" | "nothing"
  readonly refundId: string | undefined
  readonly freeMicro: Micro
  readonly postedMicro: Micro
  readonly refundableMicro: Micro
  readonly amountMicro: Micro
  /** What the provider took back over all that was paid; it is not booked. */
  readonly overMicro: Micro
}

/** `problems`: what it leaves to an operator and is new, kept in the statement that books, so that none is lost between two. */
export type BookedReversal = Booked & { readonly problems: readonly PaymentProblem[] }

export interface MadeRefund {
  readonly refund: Refund
  /** As it was asked for at first; undefined for one of before this was written down. */
  readonly byProvider: boolean | undefined
}

export interface RefundStore {
  /** With the row of the audit log, in one statement. */
  book(refund: NewRefund, act: Act): Promise<Booked>
  /** The operator's refund that was made under this key. */
  madeUnder(key: Pick<NewRefund, "accountId" | "idempotencyKey">): Promise<MadeRefund | undefined>
  reverse(reversal: Reversal): Promise<BookedReversal>
  find(id: string): Promise<Refund | undefined>
  /** The newest first; of one account, or of one top-up. Without a page the latest hundred. */
  list(of: { readonly accountId: string } | { readonly topUpId: string }, page?: ListPage): Promise<readonly Refund[]>
  /** Those that the provider is to be asked about now, also where a clock has put them off that was set back; each is put off for everybody. */
  claimDue(): Promise<readonly Refund[]>
  /** Takes the right to ask the provider about one now. */
  claim(id: string): Promise<boolean>
  /** The provider has paid it out, or says that it will not: then a person must. */
  ended(id: string, as: { readonly reference: string } | { readonly problem: string }): Promise<void>
  /** A person paid it out (`isUnanswered`), or the provider is asked to, or the balance gets it back. False where its status does not allow it. */
  change(id: string, change: RefundChange, act: Act): Promise<boolean>
  /** Accounts with a claim that still have something leased. */
  claimed(): Promise<readonly { readonly accountId: string; readonly claimMicro: Micro }[]>
}

export type RefundChange =
  | { readonly to: "paid_out"; readonly reference: string; readonly reason: string }
  | { readonly to: "sending"; readonly reason: string }
  | { readonly to: "cancelled"; readonly reason: string }

const LISTED = 100
const CLAIMED = 10
const once = { deadlineMs: 5_000, retry: true } as const

export function refundStore(database: Database): RefundStore {
  const run = async (query: (sql: Sql) => Promise<readonly RefundRow[]>): Promise<readonly Refund[]> =>
    (await database.run(query, once)).map(toRefund)
  return {
    async book({ id, accountId, topUpId, amountMicro, reason, idempotencyKey, byProvider }, act) {
      const [row] = await database.run(
        (sql) => sql<BookedRow[]>`
          with booked as materialized (
            select * from refund_1(${id}, 'refund', ${accountId}, ${topUpId ?? null}, ${amountMicro}::bigint,
              ${`operator:${idempotencyKey}`}, ${reason}, ${byProvider ? "sending" : "booked"}, null, null, false)
          ), logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
            select ${signature(sql, act)}, 'account.refunded', ${accountId}::text,
              jsonb_build_object('balance_micro', posted_micro + least(amount_micro,
                -- What is more than this is fees.
                (select balance_purchased_micro - refunded_balance_micro from top_ups where id = ${topUpId ?? null}::text))),
              jsonb_build_object('balance_micro', posted_micro, 'amount_micro', amount_micro, 'refund', refund_id,
                'top_up', ${topUpId ?? null}::text, 'payout', ${byProvider ? "provider" : "by_hand"}::text), ${reason}
            from booked where outcome = 'booked'
          )
          select ${bookedColumns(sql)} from booked`,
        once,
      )
      return toBooked(row, id)
    },

    async madeUnder({ accountId, idempotencyKey }) {
      const [row] = await database.run(
        (sql) => sql<(RefundRow & { asked: string | null })[]>`
          select r.*, (select a.after ->> 'payout' from audit_log a where a.subject = r.account_id and a.action = 'account.refunded' and a.after ->> 'refund' = r.id)
            as asked from refunds r where r.account_id = ${accountId} and r.idempotency_key = ${`operator:${idempotencyKey}`}`,
        once,
      )
      return row && { refund: toRefund(row), byProvider: row.asked === null ? undefined : row.asked === "provider" }
    },

    async reverse({ id, accountId, topUpId, kind, amountMicro, reason, provider, reference, upToMicro, mayClaim }) {
      const name = `${topUpId}:${reference}`
      const problem = { provider, reference: name, topUpId, paid: `${amountMicro / MICRO_PER_RUPIAH} IDR` }
      const [row] = await database.run(
        (sql) => sql<(BookedRow & { problems: PaymentProblem["kind"][] })[]>`
          with booked as materialized (
            select * from refund_1(${id}, ${kind}, ${accountId}, ${topUpId}, case when ${isLeftToOperator(sql, problem)} then 0 else ${amountMicro}::bigint end,
              ${`provider:${provider}:${name}`}, ${reason}, 'paid_out', ${reference}, ${upToMicro ?? null}::bigint, ${mayClaim})
          ), kept as (
            ${insertProblems(
              sql,
              problem,
              // The status that is told is of the latest reversal; what was booked before may have been of another kind.
              sql`select 'over_refunded' as kind, over_micro, ${upToMicro ?? null}::bigint as up_to_micro from booked where outcome <> 'short' and over_micro > 0 union all
                select 'chargeback', null, null from booked where outcome <> 'short'
                  and coalesce((select r.kind from refunds r where r.id = refund_id), ${kind}) = 'chargeback'`,
            )}
          )
          select ${bookedColumns(sql)}, array(select kind from kept where is_new) as problems from booked`,
        once,
      )
      return { ...toBooked(row, id), problems: (row?.problems ?? []).map((of) => ({ ...problem, kind: of })) }
    },

    find: async (id) => (await run((sql) => sql`select * from refunds where id = ${id}`))[0],

    list: (of, { after, limit } = { after: undefined, limit: LISTED }) =>
      run(
        (sql) => sql`
          select * from refunds
          where ${"accountId" in of ? sql`account_id = ${of.accountId}` : sql`top_up_id = ${of.topUpId}`} ${refundsBefore(sql, after)}
          order by created_at desc, id desc limit ${limit}`,
      ),

    claimDue: () =>
      run(
        (sql) => sql`
          with due as (
            select id as due_id from refunds where status = 'sending' and (next_attempt_at <= now() or next_attempt_at > now() + interval '61 minutes')
            order by next_attempt_at limit ${CLAIMED} for update skip locked
          )
          update refunds set next_attempt_at = now() + ${later(sql)} from due where id = due_id returning refunds.*`,
      ),

    async claim(id) {
      const rows = await run(
        (sql) => sql`
          update refunds set next_attempt_at = now() + ${later(sql)}
          where id = ${id} and status = 'sending' and next_attempt_at <= now() returning *`,
      )
      return rows.length > 0
    },

    async ended(id, as) {
      await database.run(
        (sql) =>
          "reference" in as
            ? sql`
              update refunds set status = 'paid_out', paid_out_at = now(), payout = 'provider', reference = ${as.reference}, problem = null
              where id = ${id} and status in ('sending', 'booked')`
            : sql`update refunds set status = 'booked', problem = ${as.problem} where id = ${id} and status = 'sending'`,
        once,
      )
    },

    async change(id, change, act) {
      const rows = await database.run(
        (sql) => sql<{ account_id: string | null }[]>`
          with changed as materialized (${changed(sql, id, change)}), logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
            select ${signature(sql, act)}, ${`refund.${change.to}`}, account_id,
              jsonb_build_object('refund', ${id}::text), jsonb_build_object('refund', ${id}::text, 'status', ${change.to}::text,
                'reference', ${change.to === "paid_out" ? change.reference : null}::text), ${change.reason}
            from changed where account_id is not null
          )
          select account_id from changed where account_id is not null`,
        once,
      )
      return rows.length > 0
    },

    async claimed() {
      const rows = await database.run(
        (sql) => sql<{ account_id: string; claim_micro: bigint }[]>`
          select account_id, claim_micro from balances where claim_micro > 0 and leased_micro > 0 order by random() limit ${LISTED}`,
        once,
      )
      return rows.map((row) => ({ accountId: row.account_id, claimMicro: micro(row.claim_micro) }))
    },
  }
}

/** After one of a list that has the newest first. */
export const refundsBefore = (sql: Sql, after: string | undefined) =>
  after === undefined ? sql`` : sql`and (created_at, id) < (select created_at, id from refunds where id = ${after})`

/** Ever less often: after half of its age, to an hour. From then on another process may take it over, when this one has died. */
const later = (sql: Sql) => sql`greatest(interval '15 seconds', least(interval '1 hour', (now() - created_at) / 2))`

function changed(sql: Sql, id: string, change: RefundChange) {
  if (change.to === "cancelled") return sql`select cancel_refund_2(${id}) as account_id`
  return change.to === "paid_out"
    ? sql`update refunds set status = 'paid_out', paid_out_at = now(), payout = 'by_hand', reference = ${change.reference}
        where id = ${id} and (status = 'booked' or status = 'sending' and ${isUnanswered(sql)}) returning account_id`
    : sql`update refunds set status = 'sending', next_attempt_at = now(), payout = 'provider', problem = null
        where id = ${id} and status = 'booked' and top_up_id is not null returning account_id`
}

const bookedColumns = (sql: Sql) => sql`
  outcome, refund_id as "refundId", free_micro as "freeMicro", posted_micro as "postedMicro", refundable_micro as "refundableMicro",
  amount_micro as "amountMicro", over_micro as "overMicro"`

type BookedRow = Omit<Booked, "refundId"> & { readonly refundId: string | null }

/** One that was there under this very id was booked by this statement, which was sent again. */
function toBooked(row: BookedRow | undefined, id: string): Booked {
  if (row === undefined) throw new Error("a refund had no outcome")
  return { ...row, outcome: row.refundId === id ? "booked" : row.outcome, refundId: row.refundId ?? undefined }
}

export interface RefundRow {
  id: string
  account_id: string
  top_up_id: string | null
  kind: RefundKind
  balance_micro: bigint
  service_fee_micro: bigint
  payment_fee_micro: bigint
  claimed_micro: bigint
  reason: string
  status: Refund["status"]
  payout: "by_hand" | "provider" | null
  reference: string | null
  problem: string | null
  created_at: Date
  paid_out_at: Date | null
}

export const toRefund = (row: RefundRow): Refund => ({
  id: row.id,
  accountId: row.account_id,
  topUpId: row.top_up_id ?? undefined,
  kind: row.kind,
  balanceMicro: micro(row.balance_micro),
  feesMicro: micro(row.service_fee_micro + row.payment_fee_micro),
  claimedMicro: micro(row.claimed_micro),
  reason: row.reason,
  status: row.status,
  payout: row.payout ?? undefined,
  reference: row.reference ?? undefined,
  problem: row.problem ?? undefined,
  createdAt: row.created_at,
  paidOutAt: row.paid_out_at ?? undefined,
})
