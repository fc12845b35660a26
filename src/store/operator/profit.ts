/**
 * What calls brought and what they cost the house, by the hour that they were opened in. Micro-rupiah. Read from `profit_days`,
 * whose rows are parts of days of accounts and not calls, so that three months are summed at once, and from `profit_hours` where a
 * time begins or ends within such a part, or the part is not summed yet. A sum that is larger than a JSON integer can say is told
 * as that much.
 */
import { type Micro, micro } from "../../../actors/money/micro.ts"
import type { Tokens } from "../../../actors/money/price.ts"
import type { Database, Sql } from "../database.ts"
import {
  areGrouped,
  guessCostliest,
  isShort,
  mayCost,
  readCosts,
  readCostliest,
  sumsOfModels,
} from "./profit-accounts.ts"
import { nextHour, partsOfDays, partsWithin, type ProfitPeriod, sums } from "./profit-parts.ts"
import { AddedRows, type Profit, type Row, said, summed, toProfit } from "./profit-parts.ts"

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

const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const

/** Which leak a kind of record is; what is well is none. */
const LEAK_OF = `case when kind = 'usage_missing' then 'usage_missing' when kind in ('upstream_error', 'aborted_stream') then 'failed'
  when kind = 'retry' then 'retries' when kind like 'fallback\\_%' then 'rerouted' when kind = 'search' then 'searches'
  when kind = 'billing_error' then 'voided' end`

export async function readProfit(database: Database, question: ProfitQuestion): Promise<ProfitSums> {
  const [page, totals] = await Promise.all([readProfitRows(database, question), readTotals(database, question)])
  const total = totals.find(({ name }) => name === "total")
  if (total === undefined) throw new Error("a sum has one row")
  const leak = (of: string): Leak => {
    const row = totals.find(({ name }) => name === of)
    return { records: row?.records ?? 0, costMicro: micro(row?.cost ?? 0n) }
  }
  return {
    ...page,
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

/** Without what all calls came to together. */
export async function readProfitRows(
  database: Database,
  question: ProfitQuestion,
): Promise<Pick<ProfitSums, "rows" | "truncated">> {
  const { groupBy, splitBy, limit } = question
  const isDayByDay = groupBy === "day" && splitBy === "account"
  const rows = isDayByDay ? await readDayByDay(database, question) : await readRows(database, question)
  return {
    rows: rows.slice(0, limit).map((row) => ({
      group: row.name ?? "",
      split: splitBy === undefined ? undefined : (row.split ?? undefined),
      ...toProfit(row),
    })),
    truncated: rows.length > limit,
  }
}

/** Of all calls together, and of each leak, by its name. */
async function readTotals(database: Database, period: ProfitPeriod): Promise<readonly Row[]> {
  return await database.run(
    (sql) => sql<Row[]>`
      select case when grouping(leak) = 1 then 'total' else leak end as name, null::text as split, ${summed(sql)}
      from (select *, ${sql.unsafe(LEAK_OF)} as leak from ${sums(sql, "house", period)}) kinds
      group by grouping sets ((), (leak))`,
    patient,
  )
}

/** Rows whose accounts are found first: of more of them, a file's, all are summed, because to read them twice would take longer. */
const MOST_CHOSEN = 500
/** What is summed of all accounts in one statement: a second for some 100,000 of them. */
const SLICE_MS = 16 * 24 * 3_600_000

/**
 * One row more than the limit, where there are as many. Which accounts they are of is found by their costs first, and only theirs are summed: all
 * sums of all accounts would not fit into the memory that the server has for them.
 */
async function readRows(database: Database, question: ProfitQuestion): Promise<readonly Row[]> {
  const { groupBy, splitBy, limit } = question
  const isOfAccounts = groupBy === "account" || splitBy === "account"
  if (isOfAccounts && limit > MOST_CHOSEN) return await readAllAccounts(database, question)
  const found =
    groupBy === "account" && splitBy === undefined
      ? await readCostliest(database, question, limit + 1)
      : await readCostliestParts(database, question)
  if (found !== undefined) return found
  return await database.run((sql) => {
    const [order, parts] = [inOrder(sql, question), partsOf(question)]
    if (!isOfAccounts) return sql<Row[]>`${rowsOf(sql, question, sums(sql, "house", question, parts))} ${order}`
    const chosen = sql`account_id in (select ${groupBy === "account" ? sql`one` : sql`other`} from costliest)`
    // What is the same in each row is not grouped by: the server would compare it in each.
    const groups = splitBy === undefined ? sql`1` : sql`1, 2`
    return sql<Row[]>`
      with costliest as materialized (
        select ${grouped(sql, question)}, sum(cost_micro) as cost from ${sums(sql, "accounts", question, parts)}
        group by ${groups} having bool_or(records > 0) ${order}
      )
      ${rowsOf(sql, question, sums(sql, "accounts", question, parts, chosen))} join (select one, other from costliest) rows using (one, other) ${order}`
  }, patient)
}

/** However many accounts there are, no statement takes longer than its time: so many days after each other, added up here. */
async function readAllAccounts(database: Database, question: ProfitQuestion): Promise<readonly Row[]> {
  const { from, to, groupBy, limit } = question
  const rows = new AddedRows()
  for (let since = from.getTime(); since < to.getTime() && rows.size <= limit; since += SLICE_MS) {
    const slice = { ...question, from: new Date(since), to: new Date(Math.min(since + SLICE_MS, to.getTime())) }
    rows.add(
      await database.run(
        (sql) => sql<Row[]>`${rowsOf(sql, question, sums(sql, "accounts", slice, partsOf(slice)))} limit ${limit + 1}`,
        patient,
      ),
    )
  }
  return rows.inOrder(groupBy === "day").slice(0, limit + 1)
}

/** By how many times more accounts than rows are looked at for what accounts are divided into. */
const MORE_ACCOUNTS = [2, 8]

/**
 * The costliest models, members or days of accounts. None costs more than its account does: where as many as are wanted cost more than the last of the
 * costliest accounts, none is of another account. Undefined where all sums have to be added up.
 */
async function readCostliestParts(database: Database, question: ProfitQuestion): Promise<readonly Row[] | undefined> {
  const { groupBy, splitBy, limit } = question
  if ((groupBy === "account") === (splitBy === "account") || groupBy === "day" || isShort(question)) return undefined
  const isByMonths = splitBy !== "day" && (await areGrouped(database))
  const read = async (ids: readonly string[]): Promise<readonly Row[]> => {
    if (ids.length === 0) return []
    return await database.run((sql) => {
      const chosen = sql`account_id = any (${sql.array([...ids])}::text[])`
      const of = isByMonths
        ? rowsOf(sql, question, sumsOfModels(sql, question, ids), "sum(calls)")
        : rowsOf(sql, question, sums(sql, "accounts", question, partsOf(question), chosen))
      return sql<Row[]>`${of} ${inOrder(sql, question)}`
    }, patient)
  }
  // Of a few all is read; of the others what may be among the costliest then.
  const guessed = isByMonths ? guessCostliest(database, question, Math.ceil(limit / 2)) : Promise.resolve([])
  const first = guessed.then(read)
  const column = groupBy === "model" || splitBy === "model" ? "model" : "member"
  for (const more of MORE_ACCOUNTS) {
    const count = more * (limit + 1)
    const [few, ofFew, accounts] = await Promise.all([guessed, first, readCosts(database, question, count)])
    if (accounts === undefined) return undefined
    const known = new Set(few)
    const others = accounts.filter(({ name }) => !known.has(name ?? ""))
    const likely = await mayCost(database, question, { accounts: others, least: ofFew[limit]?.cost, column })
    const added = new AddedRows()
    added.add(ofFew)
    added.add(await read(likely))
    const rows = added.inOrder(false).slice(0, limit + 1)
    const [least, last] = [rows[limit]?.cost, accounts.at(-1)?.cost]
    if (accounts.length < count || (least !== undefined && last !== undefined && least > last)) return rows
  }
  return undefined
}

const partsOf = (question: ProfitQuestion) =>
  question.groupBy === "day" || question.splitBy === "day"
    ? partsOfDays(question, question.timeZone)
    : partsWithin(question)

const inOrder = (sql: Sql, { groupBy, limit }: ProfitQuestion) =>
  sql`order by ${groupBy === "day" ? sql`one, cost desc, other` : sql`cost desc, one, other`} limit ${limit + 1}`

const rowsOf = (sql: Sql, question: ProfitQuestion, of: ReturnType<typeof sums>, calls?: string) => sql`
  select ${named(sql, question)}, summed.* from (
    select one, other, ${summed(sql, calls)} from (select ${grouped(sql, question)}, sums.* from ${of}) each_sum
    group by 1, 2 having sum(records) > 0
  ) summed`

/** The same in the order of days, of no more days than fill it: of each all accounts are read. */
async function readDayByDay(database: Database, question: ProfitQuestion): Promise<readonly Row[]> {
  const { from, to, timeZone, limit } = question
  const rows: Row[] = []
  let since = from.getTime()
  for (let days = 1; since < to.getTime() && rows.length <= limit; days *= 2) {
    const day = Temporal.Instant.fromEpochMilliseconds(since).toZonedDateTimeISO(timeZone).startOfDay()
    const until = Math.min(day.add({ days }).startOfDay().epochMilliseconds, to.getTime())
    const period = { from: new Date(since), to: new Date(until) }
    rows.push(...(await readRows(database, { ...question, ...period, limit: limit - rows.length })))
    since = until
  }
  return rows
}

/** Of all its customers' charged calls of a period that is not over: whoever has called since it began has called in it. */
export async function readMix(database: Database, model: string, period: ProfitPeriod): Promise<Mix> {
  const [row] = await database.run(
    (sql) => sql<MixRow[]>`
      select coalesce(sum(records), 0)::int as calls, model_customers_1(${model}, ${nextHour(period.from)})::int as customers,
        ${said(sql, sql`sum(input_tokens)`)} as input, ${said(sql, sql`sum(output_tokens)`)} as output,
        ${said(sql, sql`sum(cache_read_tokens)`)} as cache_read, ${said(sql, sql`sum(cache_write_tokens)`)} as cache_write,
        ${said(sql, sql`sum(charge_micro)`)} as revenue, ${said(sql, sql`sum(cost_micro)`)} as cost, coalesce(sum(unknown), 0)::int as unknown
      from ${sums(sql, "house", period, undefined, sql`model = ${model} and kind = 'ok'`)}`,
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

const columns = { model: "model", member: "member", account: "account_id" } as const

function grouped(sql: Sql, { groupBy, splitBy, timeZone }: ProfitQuestion) {
  const column = (group: ProfitGroup) =>
    group === "day" ? sql`(hour at time zone ${timeZone})::date` : sql(columns[group])
  return sql`${column(groupBy)} as one, ${splitBy === undefined ? sql`''::text` : column(splitBy)} as other`
}

/** A day is written when what it has is summed: there are few days, and many rows of each. */
function named(sql: Sql, { groupBy, splitBy }: ProfitQuestion) {
  const day = (column: ReturnType<Sql>) => sql`to_char(${column}, 'YYYY-MM-DD')`
  return sql`${groupBy === "day" ? day(sql`one`) : sql`one`} as name, ${splitBy === "day" ? day(sql`other`) : sql`other`} as split`
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
