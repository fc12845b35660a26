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
  /** Of the transfer: `top_up`, `adjustment`. */
  readonly reason: string
  /** The top-up that was paid. */
  readonly topUpId: string | undefined
  /** Of an adjustment, what its operator wrote. */
  readonly note: string | undefined
}

export interface Movements {
  /** What all those before the range came to. */
  readonly beforeMicro: Micro
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
          select null as id, null as created_at, coalesce(sum(amount), 0)::bigint as amount, null as reason, null as top_up, null as note
          from mine where created_at < ${from}
          union all
          select m.id, m.created_at, m.amount, m.reason, t.id,
            case when m.reason = 'adjustment' then (select l.reason from audit_log l where l.subject = ${accountId}
              and l.action = 'account.adjusted' and l.after->>'transfer' = m.idempotency_key) end
          from mine m left join top_ups t on t.account_id = ${accountId} and m.reason = 'top_up'
            and m.idempotency_key = concat_ws(':', 'topup', t.provider, t.reference)
          where m.created_at >= ${from}
          order by 1 nulls first`,
        once,
      )
      const list = rows.flatMap((row) => (row.id === null ? [] : [movementOf(row.id, row)]))
      return { beforeMicro: micro(rows.find(({ id }) => id === null)?.amount ?? 0n), list }
    },
  }
}

/** Either side by its index. */
const ofAccount = (sql: Sql, accountId: string, to: Date) => sql`
  select id, created_at, amount_micro as amount, reason, idempotency_key from transfers
  where credit_account = ${accountId} and reason <> 'void' and created_at < ${to}
  union all
  select id, created_at, -amount_micro, reason, idempotency_key from transfers
  where debit_account = ${accountId} and reason <> 'charge' and created_at < ${to}`

const movementOf = (id: bigint, row: Row): Movement => ({
  id,
  at: row.created_at,
  amountMicro: micro(row.amount),
  reason: row.reason,
  topUpId: row.top_up ?? undefined,
  note: row.note ?? undefined,
})
