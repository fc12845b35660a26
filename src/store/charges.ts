/**
 * What calls were charged (migrations/0089_charges.sql), of one account: each is a transfer from it to `house:revenue`. Micro-rupiah. There
 * is no index by account: a charge is found by its call's record, and where records are archived by an index that archiving makes.
 */
import type { Sql } from "./database.ts"

/** Rows of `request_id`, `amount_micro` and `at`, when the call had ended; of an archived one, when it came. In no order. */
const charges = (sql: Sql, accountId: string, which: ReturnType<Sql>, order = sql``) => sql`
  (select u.request_id, c.amount_micro, u.opened_at + u.duration_ms * interval '1 millisecond' as at
    from usage u join charges c on c.request_id = u.request_id
    -- Of one that was taken back the record has no charge any more.
    where u.account_id = ${accountId} and u.part = 0 and (u.charge_micro > 0 or u.status = 'billing_error')
      and u.request_id >= greatest(${archived(sql)}, ${first(sql)}) and ${which} ${order})
  union all
  (select u.request_id, u.amount_micro, call_at(u.request_id) from charges u
    where u.account_id = ${accountId} and u.request_id < ${archived(sql)} and ${which} ${order})`

const archived = (sql: Sql) => sql`(select coalesce(max(until_call), '') from archives)`
/** Calls before it were charged in `transfers`. */
const first = (sql: Sql) => sql`(select coalesce(min(request_id), 'req_z') from charges)`

/** At least so many of the newest before a call, or all of them. */
export const newestCharges = (sql: Sql, accountId: string, before: string | undefined, limit: number) =>
  charges(
    sql,
    accountId,
    before === undefined ? sql`true` : sql`u.request_id < ${before}`,
    sql`order by u.request_id desc limit ${limit}`,
  )

/** At least so many of the oldest after a call, or all of them. */
export const oldestCharges = (sql: Sql, accountId: string, after: string, limit: number) =>
  charges(sql, accountId, sql`u.request_id > ${after}`, sql`order by u.request_id limit ${limit}`)

/** What those from a call on come to. */
export const chargedFrom = (sql: Sql, accountId: string, from: string) => sql`
  (select coalesce(sum(amount_micro), 0) from (${charges(sql, accountId, sql`u.request_id >= ${from}`)}) newer)`
