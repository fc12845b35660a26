/**
 * Sums of usage as its owner reads them. Whole hours are read from `usage_hours`, what is left of a range at its ends from the
 * records themselves, so that a range is exact to the millisecond. Micro-rupiah.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Tokens } from "../../actors/money/price.ts"
import type { Database, Sql } from "./database.ts"
import {
  beforeCall,
  callsOf,
  fromCall,
  groupingOf,
  narrowed,
  type SpanQuestion,
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

export interface UsageError {
  readonly code: string
  readonly requests: number
  readonly lastAt: Date
}

export interface UsageSumStore {
  /** At most so many rows, where it is said. */
  summarise(question: SummaryQuestion, most?: number): Promise<readonly UsageSum[]>
  /** Of all the range's calls. */
  total(range: ZonedRange): Promise<UsageTotal>
  /** What went wrong, the most frequent first. */
  errors(range: UsageRange): Promise<readonly UsageError[]>
}

const once = { deadlineMs: 5_000, retry: true } as const
const HOUR_MS = 60 * 60 * 1000

export function usageSumStore(database: Database): UsageSumStore {
  return {
    async summarise(question, most) {
      const keptSince = await readKeptSince(database)
      const rows = await database.run(
        (sql) => sql<SumRow[]>`
          select ${named(sql, question)}, ${summed(sql)}
          from (${partsOf(sql, question, keptSince, question.groupBy, question.splitBy)}) parts
          group by 1, 2 having sum(calls) > 0 order by 1, 2 limit ${most ?? null}::bigint`,
        once,
      )
      return rows.map((row) => ({ group: row.name, split: row.split ?? undefined, ...toTotal(row) }))
    },

    async total(range) {
      const keptSince = await readKeptSince(database)
      const [row] = await database.run(
        (sql) => sql<TotalRow[]>`select ${summed(sql)} from (${partsOf(sql, range, keptSince)}) parts`,
        once,
      )
      if (row === undefined) throw new Error("a sum has one row")
      return toTotal(row)
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

/** Whole hours of a range, of which days and months are read that are summed. */
export interface WholeHours extends SpanQuestion {
  readonly first: Date
  readonly last: Date
}

/** Undefined where the range has none. */
export function wholeHoursOf(range: ZonedRange, groupBy?: UsageGroup, splitBy?: UsageSplit): WholeHours | undefined {
  const { accountId, from, to, timeZone, only = {} } = range
  const first = new Date(Math.ceil(from.getTime() / HOUR_MS) * HOUR_MS)
  const last = new Date(Math.floor(to.getTime() / HOUR_MS) * HOUR_MS)
  if (first >= last || !readsWholeHours(timeZone, groupBy)) return undefined
  // Where days are not told apart those of any zone are.
  const zone = groupBy === "hour" ? undefined : (zoneOf(timeZone) ?? (groupBy === "day" ? undefined : 0))
  const groups = [groupBy, splitBy].flatMap((group) =>
    group === undefined || group === "day" || group === "hour" ? [] : [group],
  )
  return { accountId, zone, withMonths: groupBy !== "day", first, last, only, grouping: groupingOf(groups, only) }
}

/** The range's whole hours, and its ends; all of it where days or hours are told apart that do not begin with an hour of UTC. */
function partsOf(sql: Sql, range: ZonedRange, keptSince: Date, groupBy?: UsageGroup, splitBy?: UsageSplit) {
  const { from, to } = range
  const whole = wholeHoursOf(range, groupBy, splitBy)
  if (whole === undefined) return endsOf(sql, range, from, to, keptSince)
  const { first, last } = whole
  return sql`
    ${sumsOfHours(sql, whole)}
    ${from < first ? sql`union all ${endsOf(sql, range, from, first, keptSince)}` : sql``}
    ${last < to ? sql`union all ${endsOf(sql, range, last, to, keptSince)}` : sql``}`
}

/** Of what is archived each hour is read that begins in the time, of the rest the records. */
function endsOf(sql: Sql, range: UsageRange, from: Date, to: Date, keptSince: Date) {
  if (from >= keptSince) return recordsOf(sql, range, from, to)
  const last = to < keptSince ? to : keptSince
  const { accountId, only = {} } = range
  const hours = { accountId, only, zone: undefined, withMonths: false, first: from, last, grouping: undefined }
  return sql`${recordsOf(sql, range, last, to)} union all ${sumsOfHours(sql, hours)}`
}

/** Found by their ids, as the account's index is. */
const recordsOf = (sql: Sql, range: UsageRange, from: Date, to: Date) => sql`
  select opened_at as at, model, key_id, endpoint, status, 1 as calls, case status when 'ok' then 1 else 0 end as ok, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, charge_micro, (cache_read_tokens > 0)::integer as cache_reads
  from usage u where ${callsOf(sql, range.accountId)}
    and ${fromCall(sql, sql`(select ${firstCallSince(sql, sql`${from}::timestamptz`)})`)} and ${beforeCall(sql, sql`(select first_call(${to}::timestamptz))`)}
    and opened_at >= ${from} and opened_at < ${to} ${narrowed(sql, range.only ?? {})}`

/** From when on all records are here. Those of the last archived calls may begin within the next month's first hour. */
async function readKeptSince(database: Database): Promise<Date> {
  const [row] = await database.run(
    (sql) => sql<{ since: Date | null }[]>`select max(until_at) + interval '1 hour' as since from archives`,
    once,
  )
  return row?.since ?? new Date(0)
}

/** The first id that a call which began then may have. */
export const firstCallSince = (sql: Sql, at: ReturnType<Sql>) =>
  sql`first_call(${at} - make_interval(secs => ${LONGEST_ARRIVAL_MS / 1_000}))`

/** Whether hours of UTC may be read as they are: where no zone's days or hours are told apart, its clocks do not matter. */
export const readsWholeHours = (timeZone: string, groupBy: UsageGroup | undefined): boolean =>
  (groupBy !== "day" && groupBy !== "hour") || hasWholeHours(timeZone)

/** Where clocks are never half an hour off UTC's, not in winter and not in summer. */
function hasWholeHours(timeZone: string): boolean {
  return ["2026-01-01T00:00Z", "2026-07-01T00:00Z"].every((instant) => {
    const { offsetNanoseconds } = Temporal.Instant.from(instant).toZonedDateTimeISO(timeZone)
    return offsetNanoseconds % (HOUR_MS * 1_000_000) === 0
  })
}

export const named = (sql: Sql, { groupBy, splitBy, timeZone }: SummaryQuestion) => {
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
  coalesce(sum(calls), 0)::int as requests, coalesce(sum(ok), 0)::int as ok,
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
