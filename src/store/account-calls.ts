/**
 * The calls of one account, by the index `usage_calls` (migrations/0100_calls_of_accounts.sql). Its entries are the hash of the account's
 * id and the nine characters of the request id that are its time, so that an entry is 28 bytes and not 72. Postgres takes an index of
 * expressions only where a statement has them: they stand here alone. All conditions are on rows of `usage` that are called `u`.
 */
import type { Fragment } from "postgres"
import type { Sql } from "./sql.ts"

/** A request id, a column, or a query of one. Not a function, which would be called for each row. */
type Call = string | Fragment

/** Final records alone: a marker of a reroute is no call. */
export const callsOf = (sql: Sql, accountId: string): Fragment => sql`
  u.account_id = ${accountId} and hashtext(u.account_id) = hashtext(${accountId}::text) and u.part = 0`

export const fromCall = (sql: Sql, call: Call): Fragment => sql`
  u.request_id >= ${call} and ${time(sql)} >= substr(${call}::text, 5, 9)`

export const afterCall = (sql: Sql, call: Call): Fragment => sql`
  u.request_id > ${call} and ${time(sql)} >= substr(${call}::text, 5, 9)`

export const beforeCall = (sql: Sql, call: Call): Fragment => sql`u.request_id < ${call} and ${noLaterThan(sql, call)}`

/** Of the same millisecond or an earlier one. */
export const noLaterThan = (sql: Sql, call: Call): Fragment => sql`${time(sql)} <= substr(${call}::text, 5, 9)`

/**
 * To be put behind the conditions: at least so many of the newest or of the oldest, and all of the last one's millisecond, which the index
 * does not tell apart. Who reads them sorts them by their ids.
 */
export const atLeastNewest = (sql: Sql, count: number): Fragment => sql`
  order by ${time(sql)} desc fetch first (${count}) rows with ties`
export const atLeastOldest = (sql: Sql, count: number): Fragment => sql`
  order by ${time(sql)} fetch first (${count}) rows with ties`

const time = (sql: Sql): Fragment => sql`substr(u.request_id, 5, 9)`
