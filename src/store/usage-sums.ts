/**
 * Sums of usage as its owner reads them. Whole hours are read from `usage_hours`, what is left of a range at its ends from the
 * records themselves, so that a range is exact to the millisecond. Micro-rupiah.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Tokens } from "../../actors/money/tokens.ts"
import type { Database, Sql } from "./database.ts"
import { narrowed, type TokenColumns, toTokens, type UsageNarrowing } from "./usage.ts"

export const usageGroups = ["day", "hour", "model", "key", "format", "status"] as const
export type UsageGroup = (typeof usageGroups)[number]
/** What a group may be divided by. */
export const usageSplits = ["model", "key", "format", "status"] as const satisfies readonly UsageGroup[]
export type UsageSplit = (typeof usageSplits)[number]

/** `from` is included, `to` is not. */
export interface UsageRange {
  readonly accountId: string
  readonly from: Date
  readonly to: Date
  readonly only?: UsageNarrowing
}

interface ZonedRange extends UsageRange {
  /** In which days and hours are counted. */
  readonly timeZone: string
}

export interface SummaryQuestion extends ZonedRange {
  /** The range again, roughly, as request ids: what the account's index is by. */
  readonly ids: { readonly from: string; readonly to: string }
  readonly groupBy: UsageGroup
  readonly splitBy: UsageSplit | undefined
}

/** Of a range's calls. */
export interface UsageTotal {
  readonly requests: number
  /** Of them, those that ended well and so were charged. */
  readonly ok: number
  /** Of them, those that read from a cache. */
  readonly cacheReads: number
  readonly tokens: Tokens
  readonly chargeMicro: Micro
}

export interface UsageSum extends UsageTotal {
  /** A day (2026-11-20), an hour (2026-11-20T09:00), a model's id, a key's id, a format or a status. */
  readonly group: string
  readonly split: string | undefined
}

/** Milliseconds to the first token. */
export interface FirstTokens {
  readonly p50Ms: number
  readonly p95Ms: number
}

export interface FirstTokenFigures {
  /** By `groupName` of group and split, and of all together; groups without a first token have none. */
  readonly of: ReadonlyMap<string, FirstTokens>
  /** Whether they are those of the newest calls alone, because there were too many to look at all. */
  readonly newestOnly: boolean
}

export interface UsageError {
  readonly code: string
  readonly requests: number
  readonly lastAt: Date
}

export interface UsageSumStore {
  summarise(question: SummaryQuestion): Promise<readonly UsageSum[]>
  /** Of all the range's calls. */
  total(range: ZonedRange): Promise<UsageTotal>
  /** Of the newest `FIRST_TOKENS_OF` of the range's calls (of the key's, if it is narrowed to one). */
  firstTokens(question: SummaryQuestion): Promise<FirstTokenFigures>
  /** What went wrong, the most frequent first. */
  errors(range: UsageRange): Promise<readonly UsageError[]>
}

export const groupName = (group: string, split: string | undefined): string => JSON.stringify([group, split ?? null])
/** Of all groups together. */
export const allGroups = "all"

const once = { deadlineMs: 5_000, retry: true } as const
const HOUR_MS = 60 * 60 * 1000
/** Percentiles are of the records themselves, and reading them takes time. */
export const FIRST_TOKENS_OF = 25_000

export function usageSumStore(database: Database): UsageSumStore {
  return {
    async summarise(question) {
      const rows = await database.run(
        (sql) => sql<SumRow[]>`
          select ${named(sql, question)}, ${summed(sql)}
          from (${partsOf(sql, question)}) parts
          group by 1, 2 having sum(calls) > 0 order by 1, 2`,
        once,
      )
      return rows.map((row) => ({ group: row.name, split: row.split ?? undefined, ...toTotal(row) }))
    },

    async total(range) {
      const [row] = await database.run(
        (sql) => sql<TotalRow[]>`select ${summed(sql)} from (${partsOf(sql, range)}) parts`,
        once,
      )
      if (row === undefined) throw new Error("a sum has one row")
      return toTotal(row)
    },

    async firstTokens(question) {
      const rows = await database.run(
        (sql) => sql<FirstTokenRow[]>`
          with newest as materialized (${newestOf(sql, question)})
          select name, split, percentile_disc(array[0.5, 0.95]) within group (order by first_token_ms) as percentiles,
            (select count(*) from newest)::int as looked_at
          from (
            select ${named(sql, question)}, first_token_ms from newest u
            where first_token_ms is not null ${narrowed(sql, question.only ?? {})}
          ) named
          group by grouping sets ((name, split), ()) `,
        once,
      )
      // The row of all has no name; a range without a call has that one row, without figures.
      const of = new Map(
        rows.flatMap(({ name, split, percentiles }) => {
          const [p50Ms, p95Ms] = percentiles ?? []
          if (p50Ms === undefined || p95Ms === undefined) return []
          return [[name === null ? allGroups : groupName(name, split ?? undefined), { p50Ms, p95Ms }] as const]
        }),
      )
      return { of, newestOnly: rows.some(({ looked_at: count }) => count === FIRST_TOKENS_OF) }
    },

    async errors({ accountId, from, to, only = {} }) {
      const rows = await database.run(
        (sql) => sql<{ error_code: string; requests: number; last_at: Date }[]>`
          select error_code, count(*)::int as requests, max(opened_at) as last_at from usage u
          where account_id = ${accountId} and part = 0 and error_code is not null
            and opened_at >= ${from} and opened_at < ${to} ${narrowed(sql, only)}
          group by 1 order by 2 desc, 1`,
        once,
      )
      return rows.map((row) => ({ code: row.error_code, requests: row.requests, lastAt: row.last_at }))
    },
  }
}

/** The range's whole hours, and its ends; all of it where the zone's days do not begin with an hour of UTC. */
function partsOf(sql: Sql, range: ZonedRange) {
  const { accountId, from, to } = range
  const first = new Date(Math.ceil(from.getTime() / HOUR_MS) * HOUR_MS)
  const last = new Date(Math.floor(to.getTime() / HOUR_MS) * HOUR_MS)
  if (first >= last || !hasWholeHours(range.timeZone)) return recordsOf(sql, range, from, to)
  return sql`
    select hour as at, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens,
      cache_write_tokens, charge_micro, cache_reads
    from usage_hours u where account_id = ${accountId} and hour >= ${first} and hour < ${last}
      ${narrowed(sql, range.only ?? {})}
    ${from < first ? sql`union all ${recordsOf(sql, range, from, first)}` : sql``}
    ${last < to ? sql`union all ${recordsOf(sql, range, last, to)}` : sql``}`
}

const recordsOf = (sql: Sql, range: UsageRange, from: Date, to: Date) => sql`
  select opened_at as at, model, key_id, endpoint, status, 1 as calls, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, charge_micro, (cache_read_tokens > 0)::integer as cache_reads
  from usage u where key_id in (${keysOf(sql, range)})
    and part = 0 and opened_at >= ${from} and opened_at < ${to} ${narrowed(sql, range.only ?? {})}`

/** Records are found by way of the account's keys, because the index that has the time is the keys'. */
const keysOf = (sql: Sql, { accountId }: UsageRange) => sql`select id from api_keys where account_id = ${accountId}`

/** A key's calls by their time; the account's by their ids, which is what the account's index is by. */
const newestOf = (sql: Sql, { accountId, ids, from, to, only }: SummaryQuestion) => sql`
  select opened_at as at, model, key_id, endpoint, status, first_token_ms from usage
  where account_id = ${accountId} and part = 0 and opened_at >= ${from} and opened_at < ${to}
  ${
    only?.keyId === undefined
      ? sql`and request_id >= ${ids.from} and request_id < ${ids.to} order by request_id desc`
      : sql`and key_id = ${only.keyId} order by opened_at desc`
  }
  limit ${FIRST_TOKENS_OF}`

/** Where clocks are never half an hour off UTC's, not in winter and not in summer. */
function hasWholeHours(timeZone: string): boolean {
  return ["2026-01-01T00:00Z", "2026-07-01T00:00Z"].every((instant) => {
    const { offsetNanoseconds } = Temporal.Instant.from(instant).toZonedDateTimeISO(timeZone)
    return offsetNanoseconds % (HOUR_MS * 1_000_000) === 0
  })
}

const named = (sql: Sql, { groupBy, splitBy, timeZone }: SummaryQuestion) => {
  const groups = {
    day: sql`to_char(at at time zone ${timeZone}, 'YYYY-MM-DD')`,
    hour: sql`to_char(at at time zone ${timeZone}, 'YYYY-MM-DD"T"HH24:00')`,
    model: sql`model`,
    key: sql`key_id`,
    format: sql`endpoint`,
    status: sql`status`,
  }
  return sql`${groups[groupBy]} as name, ${splitBy === undefined ? sql`null::text` : groups[splitBy]} as split`
}

const summed = (sql: Sql) => sql`
  coalesce(sum(calls), 0)::int as requests, coalesce(sum(calls) filter (where status = 'ok'), 0)::int as ok,
  coalesce(sum(cache_reads), 0)::int as cache_reads, coalesce(sum(input_tokens), 0)::bigint as input_tokens,
  coalesce(sum(output_tokens), 0)::bigint as output_tokens,
  coalesce(sum(cache_read_tokens), 0)::bigint as cache_read_tokens,
  coalesce(sum(cache_write_tokens), 0)::bigint as cache_write_tokens,
  coalesce(sum(charge_micro), 0)::bigint as charge_micro`

const toTotal = (row: TotalRow): UsageTotal => ({
  requests: row.requests,
  ok: row.ok,
  cacheReads: row.cache_reads,
  tokens: toTokens(row),
  chargeMicro: micro(row.charge_micro),
})

interface SumRow extends TotalRow {
  name: string
  split: string | null
}
interface TotalRow extends TokenColumns {
  requests: number
  ok: number
  cache_reads: number
  charge_micro: bigint
}
interface FirstTokenRow {
  name: string | null
  split: string | null
  percentiles: number[] | null
  looked_at: number
}
