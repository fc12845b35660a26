/**
 * What moved an account's balance beside its calls: top-ups, adjustments, and whatever else is a transfer of it. Micro-rupiah,
 * positive for what came. Charges and what was taken back of them are not in it: the sums of usage have them, net.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Database, Sql } from "./database.ts"

export interface Movement {
  readonly id: bigint
  readonly at: Date
  readonly amountMicro: Micro
  /** What it adds to the claim on the account, or, negative, settles of it. What was spent already moves this alone. */
  readonly claimMicro: Micro
  /** Of the transfer: `top_up`, `adjustment`, `trial_credit`, `refund`, `provider_refund`, `chargeback`, `refund_cancelled`, `claim`. */
  readonly reason: string
  /** The top-up that was paid, or that went back. */
  readonly topUpId: string | undefined
  /** Of an adjustment or a refund, what its operator wrote. */
  readonly note: string | undefined
}

export interface Movements {
  /** What all those before the range came to, and what of it was claimed. */
  readonly beforeMicro: Micro
  readonly claimBeforeMicro: Micro
  /** From the oldest. */
  readonly list: readonly Movement[]
}

export interface MovementStore {
  /** `from` is included, `to` is not. */
  within(range: { readonly accountId: string; readonly from: Date; readonly to: Date }): Promise<Movements>
}

const once = { deadlineMs: 5_000, retry: true } as const

interface Row {
  /** Null in the one row of all that came before. */
  readonly id: bigint | null
  readonly created_at: Date
  readonly amount: bigint
  readonly claim: bigint
  readonly reason: string
  readonly top_up: string | null
  readonly note: string | null
}

export function movementStore(database: Database): MovementStore {
  return {
    async within({ accountId, from, to }) {
      const rows = await database.run(
        (sql) => sql<Row[]>`
          with mine as materialized (${ofAccount(sql, accountId, to)})
          select null as id, null as created_at, coalesce(sum(amount), 0)::bigint as amount,
            coalesce(sum(claim), 0)::bigint as claim, null as reason, null as top_up, null as note
          from mine where created_at < ${from}
          union all
          select m.id, m.created_at, m.amount, m.claim, m.reason, coalesce(t.id, r.top_up_id),
            case when r.kind = 'refund' then r.reason when m.reason = 'adjustment' then (select l.reason from audit_log l where l.subject = ${accountId}
              and l.action = 'account.adjusted' and l.after->>'transfer' = m.idempotency_key) end
          from mine m left join top_ups t on t.account_id = ${accountId} and m.reason = 'top_up'
            and m.idempotency_key = concat_ws(':', 'topup', t.provider, t.reference)
          left join refunds r on split_part(m.idempotency_key, ':', 1) in ('refund', 'refund-cancelled')
            and r.id = split_part(m.idempotency_key, ':', 2)
          where m.created_at >= ${from}
          order by 1 nulls first`,
        once,
      )
      const list = rows.flatMap((row) => (row.id === null ? [] : [movementOf(row.id, row)]))
      const before = rows.find(({ id }) => id === null)
      return { beforeMicro: micro(before?.amount ?? 0n), claimBeforeMicro: micro(before?.claim ?? 0n), list }
    },
  }
}

/** The transfers that credit an account. Said in the words of the index that has them, which is without the house's revenue. */
export const credits = (sql: Sql, accountId: string) =>
  sql`credit_account = ${accountId} and credit_account <> 'house:revenue'`

/** Each side by its index, and what was claimed at once. */
const ofAccount = (sql: Sql, accountId: string, to: Date) => sql`
  select id, created_at, amount_micro as amount, 0 as claim, reason, idempotency_key from transfers
  where ${credits(sql, accountId)} and reason <> 'void' and created_at < ${to}
  union all
  select id, created_at, -amount_micro, case reason when 'claim' then -amount_micro else 0 end, reason, idempotency_key from transfers
  where debit_account = ${accountId} and reason <> 'charge' and created_at < ${to}
  union all
  select id, created_at, 0, amount_micro, reason, idempotency_key from transfers
  where debit_account = ${`house:claims:${accountId}`} and reason <> 'charge' and created_at < ${to}`

const movementOf = (id: bigint, row: Row): Movement => ({
  id,
  at: row.created_at,
  amountMicro: micro(row.amount),
  claimMicro: micro(row.claim),
  reason: row.reason,
  topUpId: row.top_up ?? undefined,
  note: row.note ?? undefined,
})
