/**
 * What calls brought and what they cost the house, by the hour that they were opened in. Micro-rupiah. Read from `profit_days`,
 * whose rows are parts of days of accounts and not calls, so that three months are summed at once, and from `profit_hours` where a
 * time begins or ends within such a part, or the part is not summed yet. A sum that is larger than a JSON integer can say is told
 * as that much.
 */
import { largestMicro, type Micro, micro } from "../../../actors/money/micro.ts"
import type { Tokens } from "../../../actors/money/tokens.ts"
import type { Database, Sql } from "../database.ts"
import { partsOfDays, partsWithin, type ProfitPeriod, sums, type SumsOf } from "./profit-parts.ts"

export const profitGroups = ["day", "model", "member", "account"] as const
export type ProfitGroup = (typeof profitGroups)[number]

export interface ProfitQuestion extends ProfitPeriod {
  /** In which days are counted. */
  readonly timeZone: string
  readonly groupBy: ProfitGroup
  readonly splitBy: ProfitGroup | undefined
  /** How many rows at the most. */
  readonly limit: number
}

export interface Profit {
  /** Final records. */
  readonly calls: number
  /** What customers were charged. */
  readonly revenueMicro: Micro
  /** Of what is known; all that backends were asked for these calls. */
  readonly costMicro: Micro
  /** The part of the cost that was estimated. */
  readonly estimatedMicro: Micro
  /** Records whose cost is not known. */
  readonly unknown: number
  readonly absorbedMicro: Micro
  /** Calls whose price was under their cost, and by how much in all. */
  readonly under: number
  readonly underMicro: Micro
}

export interface ProfitRow extends Profit {
  /** A day (2026-11-20), or an id; of an account its address beside it. */
  readonly group: string
  readonly split: string | undefined
}

/** What brought nothing: how many records, and what they cost. */
export interface Leak {
  readonly records: number
  readonly costMicro: Micro
}
export const leaks = ["usage_missing", "failed", "retries", "rerouted", "searches", "voided"] as const

export interface ProfitSums {
  /** By day in order; by anything else the costliest first. */
  readonly rows: readonly ProfitRow[]
  /** There are more rows than were asked for. */
  readonly truncated: boolean
  readonly total: Profit
  readonly leaks: Readonly<Record<(typeof leaks)[number], Leak>>
}

/** What a model's charged calls were made of, and what they cost where that is known. */
export interface Mix {
  readonly calls: number
  /** Accounts that the calls are of. */
  readonly customers: number
  readonly tokens: Tokens
  readonly revenueMicro: Micro
  readonly costMicro: Micro
  /** Of the calls, those whose cost is not known. */
  readonly unknown: number
}

/** A model at a member where calls were sold under their cost. */
export interface Under {
  readonly model: string
  readonly member: string
  readonly calls: number
  /** How much they cost over their price. */
  readonly shortMicro: Micro
}
const MOST_UNDER = 100

const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const

/** Which leak a kind of record is; what is well is none. */
const LEAK_OF = `case when kind = 'usage_missing' then 'usage_missing' when kind in ('upstream_error', 'aborted_stream') then 'failed'
  when kind = 'retry' then 'retries' when kind like 'fallback\\_%' then 'rerouted' when kind = 'search' then 'searches'
  when kind = 'billing_error' then 'voided' end`

export async function readProfit(database: Database, question: ProfitQuestion): Promise<ProfitSums> {
  const { groupBy, limit } = question
  const rows = await database.run(
    (sql) => sql<Row[]>`
      with raw as materialized (
        select ${raw(sql, question)}, ${sql.unsafe(LEAK_OF)} as leak, sum(records) filter (where ${isFinal(sql)}) as calls,
          sum(records) as records, sum(charge_micro) as revenue, sum(cost_micro) as cost, sum(estimated_micro) as estimated,
          sum(unknown) as unknown, sum(absorbed_micro) as absorbed, sum(under) as under, sum(under_micro) as under_micro
        from ${sums(sql, sumsOf(question), question, partsOf(question))} group by 1, 2, 3
      ), hours as (
        select ${named(sql, question)}, leak, calls, records, revenue, cost, estimated, unknown, absorbed, under, under_micro
        from raw
      ), sums as (
        select 'row' as of, name, split, null::text as leak, ${summed(sql)} from hours group by name, split having sum(records) > 0
        order by ${groupBy === "day" ? sql`name, cost desc, split` : sql`cost desc, name, split`} limit ${limit + 1}
      )
      select * from sums
      union all select 'total', null, null, null, ${summed(sql)} from hours
      union all select 'leak', null, null, leak, ${summed(sql)} from hours where leak is not null group by leak`,
    patient,
  )
  const total = rows.find(({ of }) => of === "total")
  if (total === undefined) throw new Error("a sum has one row")
  const of = rows.filter((row) => row.of === "row")
  const leak = (name: string): Leak => {
    const row = rows.find((one) => one.leak === name)
    return { records: row?.records ?? 0, costMicro: micro(row?.cost ?? 0n) }
  }
  return {
    rows: of.slice(0, limit).map((row) => ({ group: row.name ?? "", split: row.split ?? undefined, ...toProfit(row) })),
    truncated: of.length > limit,
    total: toProfit(total),
    leaks: {
      usage_missing: leak("usage_missing"),
      failed: leak("failed"),
      retries: leak("retries"),
      rerouted: leak("rerouted"),
      searches: leak("searches"),
      voided: leak("voided"),
    },
  }
}

/** Of all its customers' charged calls of a period. */
export async function readMix(database: Database, model: string, period: ProfitPeriod): Promise<Mix> {
  const [row] = await database.run(
    (sql) => sql<MixRow[]>`
      select coalesce(sum(records), 0)::int as calls,
        count(distinct account_id) filter (where records > 0)::int as customers, ${said(sql, sql`sum(input_tokens)`)} as input,
        ${said(sql, sql`sum(output_tokens)`)} as output, ${said(sql, sql`sum(cache_read_tokens)`)} as cache_read,
        ${said(sql, sql`sum(cache_write_tokens)`)} as cache_write, ${said(sql, sql`sum(charge_micro)`)} as revenue,
        ${said(sql, sql`sum(cost_micro)`)} as cost, coalesce(sum(unknown), 0)::int as unknown
      from ${sums(sql, "accounts", period)} where model = ${model} and kind = 'ok'`,
    patient,
  )
  if (row === undefined) throw new Error("a sum has one row")
  const { input, output, cache_read: cacheRead, cache_write: cacheWrite } = row
  return {
    calls: row.calls,
    customers: row.customers,
    tokens: {
      input: Number(input),
      output: Number(output),
      cacheRead: Number(cacheRead),
      cacheWrite: Number(cacheWrite),
    },
    revenueMicro: micro(row.revenue),
    costMicro: micro(row.cost),
    unknown: row.unknown,
  }
}

/** Whose price is under its cost, the worst first. */
export async function readUnder(database: Database, period: ProfitPeriod): Promise<readonly Under[]> {
  return await database.run(
    (sql) => sql<Under[]>`
      select model, member, sum(under)::int as calls, ${said(sql, sql`sum(under_micro)`)} as "shortMicro"
      from ${sums(sql, "house", period)} where under > 0
      group by 1, 2 order by 4 desc, 1, 2 limit ${MOST_UNDER}`,
    patient,
  )
}

/** The addresses of accounts, by their ids. */
export async function readEmails(database: Database, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  if (ids.length === 0) return new Map()
  const rows = await database.run(
    (sql) => sql<{ id: string; email: string }[]>`select id, email from accounts where id = any (${[...ids]}::text[])`,
    patient,
  )
  return new Map(rows.map(({ id, email }) => [id, email]))
}

const sumsOf = ({ groupBy, splitBy }: ProfitQuestion): SumsOf =>
  groupBy === "account" || splitBy === "account" ? "accounts" : "house"

const partsOf = (question: ProfitQuestion): ProfitPeriod =>
  question.groupBy === "day" || question.splitBy === "day"
    ? partsOfDays(question, question.timeZone)
    : partsWithin(question)

/** A call has one final record; its other parts are markers, searches and tries. */
const isFinal = (sql: Sql) => sql`kind not in ('retry', 'search') and kind not like 'fallback\\_%'`

const columns = { model: "model", member: "member", account: "account_id" } as const

function raw(sql: Sql, { groupBy, splitBy, timeZone }: ProfitQuestion) {
  const column = (group: ProfitGroup) =>
    group === "day" ? sql`(hour at time zone ${timeZone})::date` : sql(columns[group])
  return sql`${column(groupBy)} as one, ${splitBy === undefined ? sql`null::text` : column(splitBy)} as other`
}

/** A day is written when what it has is summed: there are few days, and many rows of each. */
function named(sql: Sql, { groupBy, splitBy }: ProfitQuestion) {
  const day = (column: ReturnType<Sql>) => sql`to_char(${column}, 'YYYY-MM-DD')`
  return sql`${groupBy === "day" ? day(sql`one`) : sql`one`} as name, ${splitBy === "day" ? day(sql`other`) : sql`other`} as split`
}

const summed = (sql: Sql) => sql`
  coalesce(sum(calls), 0)::int as calls, coalesce(sum(records), 0)::int as records, ${said(sql, sql`sum(revenue)`)} as revenue,
  ${said(sql, sql`sum(cost)`)} as cost, ${said(sql, sql`sum(estimated)`)} as estimated, coalesce(sum(unknown), 0)::int as unknown,
  ${said(sql, sql`sum(absorbed)`)} as absorbed, coalesce(sum(under), 0)::int as under,
  ${said(sql, sql`sum(under_micro)`)} as under_micro`

const said = (sql: Sql, amount: ReturnType<Sql>) =>
  sql`least(coalesce(${amount}, 0), ${String(largestMicro)}::numeric)::bigint`

const toProfit = (row: Row): Profit => ({
  calls: row.calls,
  revenueMicro: micro(row.revenue),
  costMicro: micro(row.cost),
  estimatedMicro: micro(row.estimated),
  unknown: row.unknown,
  absorbedMicro: micro(row.absorbed),
  under: row.under,
  underMicro: micro(row.under_micro),
})

interface Row {
  of: "row" | "total" | "leak"
  name: string | null
  split: string | null
  leak: string | null
  calls: number
  records: number
  revenue: bigint
  cost: bigint
  estimated: bigint
  unknown: number
  absorbed: bigint
  under: number
  under_micro: bigint
}
interface MixRow {
  calls: number
  customers: number
  input: bigint
  output: bigint
  cache_read: bigint
  cache_write: bigint
  revenue: bigint
  cost: bigint
  unknown: number
}
