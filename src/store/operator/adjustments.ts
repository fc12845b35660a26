/**
 * Balance that operators give and take, against `house:adjustments`. Micro-rupiah. One statement: the transfer, the
 * balance and the row of the audit log are there together or not at all, and hang on the transfer being new.
 */
import { largestMicro, type Micro, micro } from "../../../actors/money/micro.ts"
import type { Database, Sql } from "../database.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

export interface Adjustment {
  readonly accountId: string
  /** Positive gives, negative takes. */
  readonly amountMicro: Micro
  readonly reason: string
  /** The operator's own: the same adjustment comes once under it. */
  readonly idempotencyKey: string
}

export type Adjusted =
  /** Now, or under this key before. */
  | { readonly outcome: "adjusted"; readonly balanceMicro: Micro }
  /** Another amount was moved under this key, or the same for another reason. */
  | { readonly outcome: "other"; readonly amountMicro: Micro; readonly reason: string }
  /** More than is free, that is, neither spent nor leased; or the balance would pass what JSON says exactly. */
  | { readonly outcome: "refused"; readonly freeMicro: Micro; readonly balanceMicro: Micro }
  | { readonly outcome: "no account" }

const once = { deadlineMs: 5_000, retry: true } as const

export async function adjust(database: Database, adjustment: Adjustment, act: Act): Promise<Adjusted> {
  const { accountId, amountMicro: amount, reason } = adjustment
  const transfer = `adjustment:${accountId}:${adjustment.idempotencyKey}`
  const attempt = (sql: Sql) => sql<Row[]>`
      with target as materialized (
        select account_id, posted_micro, leased_micro, claim_micro from balances where account_id = ${accountId} for update
      ), allowed as (
        select * from target
        where posted_micro - leased_micro + ${amount}::bigint >= 0
          and posted_micro + ${amount}::bigint between 0 and ${largestMicro}
      ), fresh as (
        insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
        select ${transfer}, case when ${amount}::bigint > 0 then 'house:adjustments' else account_id end,
          case when ${amount}::bigint > 0 then account_id else 'house:adjustments' end, abs(${amount}::bigint), 'adjustment'
        from allowed
        on conflict (idempotency_key) do nothing
        returning 1
      ), logged as (
        insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
        select ${signature(sql, act)}, 'account.adjusted', a.account_id,
          jsonb_build_object('balance_micro', a.posted_micro),
          jsonb_build_object('balance_micro', ${after(sql, amount)}, 'amount_micro', ${amount}::bigint,
            'transfer', ${transfer}::text),
          ${reason}
        from allowed a where exists (select from fresh)
      )
      select apply_1(null, array(
          select ('account', t.account_id, null, null, null, -${amount}::bigint)::change_1 from fresh)),
        t.posted_micro, t.leased_micro, (select ${after(sql, amount)} from allowed a) as after_micro, exists (select from fresh) as fresh, exists (select from allowed) as allowed,
        (select case when x.credit_account = ${accountId} then x.amount_micro else -x.amount_micro end
          from transfers x where x.idempotency_key = ${transfer}) as earlier,
        (select l.reason from audit_log l where l.subject = ${accountId} and l.action = 'account.adjusted'
          and l.after->>'transfer' = ${transfer}) as earlier_reason
      from target t`
  const [first] = await database.run(attempt, once)
  // One that was made while this statement waited for the balance is seen by the next: it may be what took all that is free.
  const isUnknown = first?.fresh === false && first.earlier === null
  const row = isUnknown ? (await database.run(attempt, once))[0] : first
  if (row === undefined) return { outcome: "no account" }
  if (row.fresh) return { outcome: "adjusted", balanceMicro: micro(row.after_micro) }
  if (row.earlier !== null) {
    const earlierReason = row.earlier_reason ?? ""
    return row.earlier === amount && earlierReason === reason
      ? { outcome: "adjusted", balanceMicro: micro(row.posted_micro) }
      : { outcome: "other", amountMicro: micro(row.earlier), reason: earlierReason }
  }
  // Somebody else made it at the same time, after this statement too had begun.
  if (row.allowed) return await adjust(database, adjustment, act)
  const balanceMicro = micro(row.posted_micro)
  return { outcome: "refused", freeMicro: micro(row.posted_micro - row.leased_micro), balanceMicro }
}

/** The balance afterwards: of what is given, an open claim is settled first (migrations/0043_refunds.sql). */
const after = (sql: Sql, amount: Micro) => sql`a.posted_micro + ${amount}::bigint
  - least(a.claim_micro, greatest(0, a.posted_micro + ${amount}::bigint - a.leased_micro))`

interface Row {
  posted_micro: bigint
  /** Of one that was made now. */
  after_micro: bigint
  leased_micro: bigint
  fresh: boolean
  allowed: boolean
  /** Moved under this key before. */
  earlier: bigint | null
  earlier_reason: string | null
}
