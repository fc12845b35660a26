/**
 * What the house bore of calls, by the accounts that made them, over a time. Micro-rupiah. Read from the transfers of
 * `house:absorbed`, which have their index, and not from the records, of which there are far more; so the list adds up to
 * what that account grew by, and what has no record any more is among the others.
 */
import { largestMicro, type Micro, micro } from "../../../actors/money/micro.ts"
import type { Database, Sql } from "../database.ts"

export interface AbsorbedAccount {
  readonly accountId: string
  readonly email: string
  readonly absorbedMicro: Micro
  /** Calls that cost more than they were charged. */
  readonly calls: number
  readonly newestAt: Date
  /** Of the latest of them. */
  readonly requestIds: readonly string[]
  readonly activeKeys: number
  readonly frozen: boolean
  readonly deletedAt: Date | undefined
}

export interface Absorbed {
  /** Those that it bore most for. */
  readonly accounts: readonly AbsorbedAccount[]
  readonly absorbedMicro: Micro
  /** What is not of these accounts, and of how many it is. */
  readonly others: { readonly accounts: number; readonly absorbedMicro: Micro }
}

/** `to` is not included. */
export interface AbsorbedPeriod {
  readonly from: Date
  readonly to: Date
}

/** How many accounts are listed, and how many calls of each. */
const ACCOUNTS = 100
const CALLS = 5

export async function readAbsorbed(database: Database, { from, to }: AbsorbedPeriod): Promise<Absorbed> {
  const rows = await database.run(
    (sql) => sql<Row[]>`
      with moved as (
        select idempotency_key, amount_micro as amount, created_at from transfers
        where debit_account = 'house:absorbed' and created_at >= ${from} and created_at < ${to}
        union all
        select idempotency_key, -amount_micro, created_at from transfers
        where credit_account = 'house:absorbed' and created_at >= ${from} and created_at < ${to}
      ), calls as (
        select substr(idempotency_key, strpos(idempotency_key, ':') + 1) as request_id, sum(amount) as amount,
          max(created_at) as at
        from moved group by 1
      ), sums as (
        select u.account_id, sum(c.amount) as amount, count(*) filter (where c.amount > 0) as calls, max(c.at) as newest_at,
          (array_agg(c.request_id order by c.at desc, c.request_id desc) filter (where c.amount > 0))[1:${CALLS}] as request_ids
        from calls c
        -- Each by its key, however many records there are.
        left join lateral (
          select account_id from usage where request_id = c.request_id and part = 0 limit 1
        ) u on true
        group by u.account_id
      ), whole as (
        select coalesce(sum(amount), 0) as amount, count(account_id) filter (where amount <> 0) as accounts from sums
      ), listed as (
        select * from sums where account_id is not null and amount > 0 order by amount desc, account_id limit ${ACCOUNTS}
      )
      select l.account_id, a.email, ${said(sql, sql`l.amount`)} as absorbed, l.calls::int, l.newest_at, l.request_ids,
        a.frozen_at is not null as frozen, a.deleted_at,
        (select count(*)::int from api_keys k where k.account_id = a.id and k.revoked_at is null) as active_keys,
        ${said(sql, sql`w.amount`)} as whole,
        ${said(sql, sql`w.amount - (select coalesce(sum(amount), 0) from listed)`)} as others,
        (w.accounts - (select count(*) from listed))::int as other_accounts
      from whole w left join (listed l join accounts a on a.id = l.account_id) on true
      order by l.amount desc, l.account_id`,
    { deadlineMs: 5_000, retry: true },
  )
  const [first] = rows
  if (first === undefined) throw new Error("sums returned nothing")
  return {
    accounts: rows.flatMap((row) => (row.account_id === null ? [] : [toAccount(row)])),
    absorbedMicro: micro(first.whole),
    others: { accounts: first.other_accounts, absorbedMicro: micro(first.others) },
  }
}

/** A sum, or the largest amount that can be told. */
const said = (sql: Sql, amount: ReturnType<Sql>) =>
  sql`greatest(least(${amount}, ${String(largestMicro)}::numeric), -${String(largestMicro)}::numeric)::bigint`

interface Whole {
  whole: bigint
  others: bigint
  other_accounts: number
}
interface AccountRow extends Whole {
  account_id: string
  email: string
  absorbed: bigint
  calls: number
  newest_at: Date
  request_ids: string[]
  frozen: boolean
  deleted_at: Date | null
  active_keys: number
}
type Row = AccountRow | (Whole & { account_id: null })

const toAccount = (row: AccountRow): AbsorbedAccount => ({
  accountId: row.account_id,
  email: row.email,
  absorbedMicro: micro(row.absorbed),
  calls: row.calls,
  newestAt: row.newest_at,
  requestIds: row.request_ids,
  activeKeys: row.active_keys,
  frozen: row.frozen,
  deletedAt: row.deleted_at ?? undefined,
})
