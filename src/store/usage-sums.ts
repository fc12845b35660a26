/**
 * Sums of usage as its owner reads them. Whole hours are read from `usage_hours`, what is left of a range at its ends from the
 * records themselves, so that a range is exact to the millisecond. Micro-rupiah.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Tokens } from "../../actors/money/price.ts"
import type { Database, Sql } from "./database.ts"
import {
  atLeastNewest,
  beforeCall,
  callsOf,
  fromCall,
  narrowed,
  sumsOfHours,
  type UsageNarrowing,
  zoneOf,
} from "./usage-spans.ts"
import { LONGEST_ARRIVAL_MS, type TokenColumns, toTokens } from "./usage.ts"

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
  /** Whether of the hours that are not summed yet only the newest calls are in it, because there were too many to look at all. */
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
  /**
   * Of the sums of `latency_hours`, within 2.2 %; of hours that are not summed, of the newest `FIRST_TOKENS_OF` calls themselves (of the
   * key's, if it is narrowed to one).
   */
  firstTokens(question: SummaryQuestion): Promise<FirstTokenFigures>
  /** What went wrong, the most frequent first. */
  errors(range: UsageRange): Promise<readonly UsageError[]>
}

export const groupName = (group: string, split: string | undefined): string => JSON.stringify([group, split ?? null])
/** Of all groups together. */
export const allGroups = "all"

const once = { deadlineMs: 5_000, retry: true } as const
/** A year of an account that calls all the time has millions of steps. */
const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const
const HOUR_MS = 60 * 60 * 1000
/** Of hours whose times are not summed the records are read, which takes time. */
export const FIRST_TOKENS_OF = 25_000

export function usageSumStore(database: Database): UsageSumStore {
  return {
    async summarise(question) {
      const rows = await database.run(
        (sql) => sql<SumRow[]>`
          select ${named(sql, question)}, ${summed(sql)}
          from (${partsOf(sql, question, question.groupBy)}) parts
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
          with ${hoursOf(sql, question)}, newest as materialized (${newestOf(sql, question)}), times as (
            select ${named(sql, question)}, first_token_ms as ms, 1::bigint as calls
            from newest u where first_token_ms is not null ${narrowed(sql, question.only ?? {})}
            union all
            select name, split, latency_of_step(step), sum(h.calls)::bigint
            from (
              -- The names of an hour are made once, and not for each of its steps.
              select ${named(sql, question)}, steps, calls
              from (
                select hour as at, u.* from latency_hours u
                where account_id = ${question.accountId} and hour >= ${question.from} and hour < ${question.to}
                  and hour in (select since from hours where summed) ${narrowed(sql, question.only ?? {})}
              ) u offset 0
            ) r cross join unnest(r.steps, r.calls) h (step, calls) group by name, split, step
          ), counted as (
            select name, split, grouping(name) as is_all, ms, sum(calls) as calls from times
            group by grouping sets ((name, split, ms), (ms))
          ), ranked as (
            select name, split, is_all, ms, sum(calls) over (partition by is_all, name, split order by ms) as up_to,
              sum(calls) over (partition by is_all, name, split) as of
            from counted
          )
          select name, split, min(ms) filter (where up_to >= 0.5 * of) as p50, min(ms) filter (where up_to >= 0.95 * of) as p95,
            (select count(*) from newest)::int as looked_at
          from ranked group by is_all, name, split`,
        patient,
      )
      // The row of all has no name.
      const of = new Map(
        rows.map(({ name, split, p50, p95 }) => [
          name === null ? allGroups : groupName(name, split ?? undefined),
          { p50Ms: p50, p95Ms: p95 },
        ]),
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
function partsOf(sql: Sql, range: ZonedRange, groupBy?: UsageGroup) {
  const { accountId, from, to, timeZone } = range
  const first = new Date(Math.ceil(from.getTime() / HOUR_MS) * HOUR_MS)
  const last = new Date(Math.floor(to.getTime() / HOUR_MS) * HOUR_MS)
  if (first >= last || !hasWholeHours(timeZone)) return recordsOf(sql, range, from, to)
  // Where days are not told apart those of any zone are.
  const zone = groupBy === "hour" ? undefined : (zoneOf(timeZone) ?? (groupBy === "day" ? undefined : 0))
  return sql`
    ${sumsOfHours(sql, { accountId, zone, withMonths: groupBy !== "day", first, last, only: range.only ?? {} })}
    ${from < first ? sql`union all ${recordsOf(sql, range, from, first)}` : sql``}
    ${last < to ? sql`union all ${recordsOf(sql, range, last, to)}` : sql``}`
}

/** Found by their ids, as the account's index is. */
const recordsOf = (sql: Sql, range: UsageRange, from: Date, to: Date) => sql`
  select opened_at as at, model, key_id, endpoint, status, 1 as calls, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, charge_micro, (cache_read_tokens > 0)::integer as cache_reads
  from usage u where ${callsOf(sql, range.accountId)}
    and ${fromCall(sql, sql`(select ${firstCall(sql, sql`${from}::timestamptz`)})`)} and ${beforeCall(sql, sql`(select first_call(${to}::timestamptz))`)}
    and opened_at >= ${from} and opened_at < ${to} ${narrowed(sql, range.only ?? {})}`

/** The first id that a call which began then may have. */
const firstCall = (sql: Sql, at: ReturnType<Sql>) =>
  sql`first_call(${at} - make_interval(secs => ${LONGEST_ARRIVAL_MS / 1_000}))`

/**
 * The range as hours of UTC and what is left at its ends: whether the times of each are summed. Where the zone's days do not begin with
 * an hour of UTC, none is.
 */
const hoursOf = (sql: Sql, { from, to, timeZone }: SummaryQuestion) => sql`
  hours as materialized (
    select since, until, ${hasWholeHours(timeZone)} and until = since + interval '1 hour' and exists (
      select from latency_summed s where s.hour = since) and not exists (select from call_late l where l.hour = since) as summed
    from (
      select greatest(hour, ${from}) as since, least(hour + interval '1 hour', ${to}) as until
      from generate_series(date_trunc('hour', ${from}::timestamptz, 'UTC'), ${to}::timestamptz, '1 hour') hour
    ) each_hour where since < until
  )`

/**
 * Of hours that are not summed, the newest hour first, the calls by their ids, as the account's index is. A key's are its own alone, and only
 * where its sums have some.
 */
const newestOf = (sql: Sql, { accountId, only }: SummaryQuestion) => sql`
  select u.* from (
    select since, until, ${firstCall(sql, sql`since`)} as first_id, first_call(until) as end_id from hours where not summed ${
      only?.keyId === undefined
        ? sql``
        : sql`and exists (select from usage_hours s where s.account_id = ${accountId}
            and s.hour = date_trunc('hour', since, 'UTC') and s.key_id = ${only.keyId} and s.calls > 0)`
    } order by since desc offset 0
  ) h cross join lateral (
    select opened_at as at, model, key_id, endpoint, status, first_token_ms from usage u
    where ${callsOf(sql, accountId)} and opened_at >= h.since and opened_at < h.until
      and ${fromCall(sql, sql`h.first_id`)} and ${beforeCall(sql, sql`h.end_id`)} ${only?.keyId === undefined ? sql`` : sql`and key_id = ${only.keyId}`}
    ${atLeastNewest(sql, FIRST_TOKENS_OF)}
  ) u limit ${FIRST_TOKENS_OF}`

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
  p50: number
  p95: number
  looked_at: number
}
