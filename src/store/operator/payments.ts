/** Everybody's top-ups and refunds, and payments that came and could not be credited. */
import { type Micro, micro } from "../../../actors/money/micro.ts"
import type { Database, Sql } from "../database.ts"
import { type Refund, type RefundRow, refundsBefore, toRefund } from "../refunds.ts"
import { type ListPage, TOP_UP_COLUMNS, type TopUp, type TopUpRow, toTopUp } from "../top-ups.ts"
import type { PaymentProblem } from "../payment-problems.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

export interface OwnedTopUp extends TopUp {
  readonly email: string
}

export type OwnedRefund = Refund & { readonly email: string }

export const waitingStatuses = ["booked", "sending"] as const

export interface StoredProblem extends PaymentProblem {
  readonly id: bigint
  /** Whose top-up it is; undefined for an order that nobody knows. */
  readonly accountId: string | undefined
  /** What of a reversal is over what was paid, and not booked; undefined of other problems, and of versions before this was written down. */
  readonly overMicro: Micro | undefined
  readonly firstSeenAt: Date
  readonly lastSeenAt: Date
  readonly resolution:
    | { readonly at: Date; readonly by: string | undefined; readonly note: string | undefined }
    | undefined
}

export interface PaymentViews {
  /** The newest first, after a top-up; of all accounts, or of one. */
  topUps(page: {
    readonly accountId: string | undefined
    readonly status: TopUp["status"] | undefined
    readonly after: string | undefined
    readonly limit: number
  }): Promise<readonly OwnedTopUp[]>
  /** Refunds that are not paid out, or that are so far; the newest first. */
  waitingRefunds(status: Refund["status"] | undefined, page: ListPage): Promise<readonly OwnedRefund[]>
  /** The newest first; unresolved ones alone, or all. */
  problems(page: {
    readonly all: boolean
    readonly before: bigint | undefined
    readonly limit: number
  }): Promise<readonly StoredProblem[]>
  problem(id: bigint): Promise<StoredProblem | undefined>
  /** One that is resolved keeps its first note. */
  resolve(id: bigint, note: string, act: Act): Promise<void>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function paymentViews(database: Database): PaymentViews {
  return {
    async topUps({ accountId, status, after, limit }) {
      const rows = await database.run(
        (sql) => sql<(TopUpRow & { email: string })[]>`
          select t.*, a.email from (select ${sql.unsafe(TOP_UP_COLUMNS)} from top_ups) t
          join accounts a on a.id = t.account_id
          where ${status === undefined ? sql`true` : sql`t.status = ${status}`}
            ${accountId === undefined ? sql`` : sql`and t.account_id = ${accountId}`}
            ${after === undefined ? sql`` : sql`and (t.created_at, t.id) < (select created_at, id from top_ups where id = ${after})`}
          order by t.created_at desc, t.id desc limit ${limit}`,
        once,
      )
      return rows.map((row) => ({ ...toTopUp(row), email: row.email }))
    },

    async waitingRefunds(status, { after, limit }) {
      const rows = await database.run(
        (sql) => sql<(RefundRow & { email: string })[]>`
          select refunds.*, (select email from accounts where accounts.id = refunds.account_id) from refunds
          where status in ('booked', 'sending') ${status === undefined ? sql`` : sql`and status = ${status}`} ${refundsBefore(sql, after)}
          order by created_at desc, id desc limit ${limit}`,
        once,
      )
      return rows.map((row) => ({ ...toRefund(row), email: row.email }))
    },

    async problems({ all, before, limit }) {
      const rows = await database.run(
        (sql) => sql<Row[]>`
          ${selectProblems(sql)}
          where ${all ? sql`true` : sql`p.resolved_at is null`} ${before === undefined ? sql`` : sql`and p.id < ${before}`}
          order by p.id desc limit ${limit}`,
        once,
      )
      return rows.map(toProblem)
    },

    async problem(id) {
      const [row] = await database.run((sql) => sql<Row[]>`${selectProblems(sql)} where p.id = ${id}`, once)
      return row && toProblem(row)
    },

    async resolve(id, note, act) {
      await database.run(
        (sql) => sql`
          with resolved as (
            update payment_problems set resolved_at = now(), resolved_by = ${act.operatorId ?? null}, note = ${note}
            where id = ${id} and resolved_at is null returning id
          )
          insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
          select ${signature(sql, act)}, 'payment_problem.resolved', id::text, '{"resolved":false}', '{"resolved":true}',
            ${note} from resolved`,
        once,
      )
    },
  }
}

const selectProblems = (sql: Sql) =>
  sql`select p.*, t.account_id from payment_problems p left join top_ups t on t.id = p.top_up_id`

interface Row {
  id: bigint
  provider: string
  kind: PaymentProblem["kind"]
  reference: string
  top_up_id: string | null
  account_id: string | null
  paid: string
  over_micro: bigint | null
  first_seen_at: Date
  last_seen_at: Date
  resolved_at: Date | null
  resolved_by: string | null
  note: string | null
}

const toProblem = (row: Row): StoredProblem => ({
  id: row.id,
  provider: row.provider,
  kind: row.kind,
  reference: row.reference,
  topUpId: row.top_up_id ?? undefined,
  accountId: row.account_id ?? undefined,
  paid: row.paid,
  overMicro: row.over_micro === null ? undefined : micro(row.over_micro),
  firstSeenAt: row.first_seen_at,
  lastSeenAt: row.last_seen_at,
  resolution:
    row.resolved_at === null
      ? undefined
      : { at: row.resolved_at, by: row.resolved_by ?? undefined, note: row.note ?? undefined },
})
