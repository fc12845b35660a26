/**
 * Calls that were refused before they were forwarded (decisions §13.15), as rows of seven days: a sample of each account's, and
 * how many there were in all, by hour and code. One statement for all that a process has gathered; it may be sent twice.
 */
import type { Database } from "./database.ts"

export interface RefusedCall {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly endpoint: string
  /** As it was asked for; undefined where no id was read. */
  readonly model: string | undefined
  readonly code: string
}

/** What one process has counted of an hour until now. */
export interface RefusedCount {
  readonly accountId: string
  readonly code: string
  /** Hours since the epoch. */
  readonly hour: number
  readonly calls: number
}

export interface RefusedFilter {
  readonly accountId: string
  /** When they were refused; `to` is not included. */
  readonly from: Date | undefined
  readonly to: Date | undefined
  /** Between which ids all calls of the range are, among others; `to` is not included. */
  readonly ids: { readonly from: string | undefined; readonly to: string | undefined }
  readonly keyId: string | undefined
  readonly model: string | undefined
  readonly endpoint: string | undefined
  readonly code: string | undefined
}

export interface RefusedPage {
  /** A request id. */
  readonly after: string | undefined
  readonly limit: number
}

export interface RefusedCallStore {
  /** `dayBefore` is what ids from a day ago begin with. */
  keep(calls: readonly RefusedCall[], counts: readonly RefusedCount[], dayBefore: string): Promise<void>
  /** The newest first. */
  list(filter: RefusedFilter, page: RefusedPage): Promise<readonly RefusedCall[]>
  find(accountId: string, requestId: string): Promise<RefusedCall | undefined>
  /** How many were refused in the hours that touch the range, by code, the most frequent first. */
  counts(
    accountId: string,
    from: Date | undefined,
    to: Date | undefined,
  ): Promise<readonly { readonly code: string; readonly calls: number; readonly lastHour: Date }[]>
  /** What is older than seven days; ids from then begin with `before`. How many rows went, at most 20,000. */
  removeOld(before: string): Promise<number>
}

/** Of one account within 24 hours. */
const MAX_A_DAY = 1_000
const REMOVED_AT_ONCE = 10_000
const HOUR_S = 3_600

const of = <T, V>(rows: readonly T[], value: (row: T) => V): V[] => rows.map(value)

const once = { deadlineMs: 5_000, retry: true } as const

export interface RefusedCallOptions {
  readonly processId: string
  /** Whether other processes listen. */
  readonly tells: boolean
  readonly mostADay?: number
}

export const refusedCallStore = (
  database: Database,
  { processId, tells, mostADay = MAX_A_DAY }: RefusedCallOptions,
): RefusedCallStore => ({
  async keep(calls, counts, dayBefore) {
    await database.run(
      (sql) => sql`
        with given as (
          select * from unnest(
            ${of(calls, (call) => call.requestId)}::text[], ${of(calls, (call) => call.accountId)}::text[],
            ${of(calls, (call) => call.keyId)}::text[], ${sql.array(of(calls, (call) => new Date(call.at)))}::timestamptz[],
            ${of(calls, (call) => call.endpoint)}::text[], ${of(calls, (call) => call.model ?? null)}::text[],
            ${of(calls, (call) => call.code)}::text[]
          ) as g (request_id, account_id, key_id, refused_at, endpoint, model, code)
        ), counted as (
          select * from unnest(
            ${of(counts, (count) => count.accountId)}::text[], ${of(counts, (count) => count.hour * HOUR_S)}::bigint[],
            ${of(counts, (count) => count.code)}::text[], ${of(counts, (count) => count.calls)}::bigint[]
          ) as c (account_id, hour_s, code, calls)
        ), living as (
          select a.id, (
            select count(*) from (
              select from refused_calls r where r.account_id = a.id and r.request_id >= ${dayBefore} limit ${mostADay}
            ) kept
          ) as kept
          from accounts a where a.deleted_at is null and a.id in (select account_id from counted)
        ), ranked as (
          select g.*, l.kept + row_number() over (partition by g.account_id order by g.request_id) as place
          from given g join living l on l.id = g.account_id join api_keys k on k.id = g.key_id
        ), sampled as (
          insert into refused_calls (request_id, account_id, key_id, refused_at, endpoint, model, code)
          select request_id, account_id, key_id, refused_at, endpoint, model, code from ranked where place <= ${mostADay}
          on conflict do nothing
        ), summed as (
          insert into refused_counts as r (account_id, hour, code, process_id, calls)
          select c.account_id, to_timestamp(c.hour_s), c.code, ${processId}, c.calls
          from counted c join living l on l.id = c.account_id
          on conflict (account_id, hour, code, process_id) do update set calls = greatest(r.calls, excluded.calls)
        )
        select ${tells ? sql`pg_notify('loket', 'refused account ' || id)` : sql`id`} from living`,
      once,
    )
  },

  async list({ accountId, from, to, ids, keyId, model, endpoint, code }, { after, limit }) {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        select request_id, account_id, key_id, refused_at, endpoint, model, code from refused_calls
        where account_id = ${accountId} and request_id >= ${ids.from ?? ""}
          ${ids.to === undefined ? sql`` : sql`and request_id < ${ids.to}`}
          ${from === undefined ? sql`` : sql`and refused_at >= ${from}`}
          ${to === undefined ? sql`` : sql`and refused_at < ${to}`}
          ${after === undefined ? sql`` : sql`and request_id < ${after}`}
          ${keyId === undefined ? sql`` : sql`and key_id = ${keyId}`}
          ${model === undefined ? sql`` : sql`and model = ${model}`}
          ${endpoint === undefined ? sql`` : sql`and endpoint = ${endpoint}`}
          ${code === undefined ? sql`` : sql`and code = ${code}`}
        order by request_id desc limit ${limit}`,
      once,
    )
    return rows.map(toCall)
  },

  async find(accountId, requestId) {
    const [row] = await database.run(
      (sql) => sql<Row[]>`
        select request_id, account_id, key_id, refused_at, endpoint, model, code from refused_calls
        where account_id = ${accountId} and request_id = ${requestId}`,
      once,
    )
    return row && toCall(row)
  },

  async counts(accountId, from, to) {
    const rows = await database.run(
      (sql) => sql<{ code: string; calls: number; last: Date }[]>`
        select code, sum(calls)::float8 as calls, max(hour) as last from refused_counts
        where account_id = ${accountId}
          ${from === undefined ? sql`` : sql`and hour > ${from}::timestamptz - interval '1 hour'`}
          ${to === undefined ? sql`` : sql`and hour < ${to}`}
        group by code order by calls desc, code`,
      once,
    )
    return rows.map(({ code, calls, last }) => ({ code, calls, lastHour: last }))
  },

  async removeOld(before) {
    const rows = await database.run(
      (sql) => sql`
        with old_calls as materialized (
          select request_id from refused_calls where request_id < ${before}
          order by request_id limit ${REMOVED_AT_ONCE} for update skip locked
        ), old_counts as materialized (
          select account_id, hour, code, process_id from refused_counts where hour < now() - interval '7 days'
          order by hour limit ${REMOVED_AT_ONCE} for update skip locked
        ), calls as (
          delete from refused_calls where request_id in (select * from old_calls) returning 1
        ), counts as (
          delete from refused_counts where (account_id, hour, code, process_id) in (select * from old_counts) returning 1
        )
        select 1 from calls union all select 1 from counts`,
      once,
    )
    return rows.length
  },
})

interface Row {
  request_id: string
  account_id: string
  key_id: string
  refused_at: Date
  endpoint: string
  model: string | null
  code: string
}

const toCall = (row: Row): RefusedCall => ({
  requestId: row.request_id,
  accountId: row.account_id,
  keyId: row.key_id,
  at: row.refused_at.getTime(),
  endpoint: row.endpoint,
  model: row.model ?? undefined,
  code: row.code,
})
