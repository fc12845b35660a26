/**
 * The sums of usage by days and months (migrations/0091_usage_spans.sql and 0113_usage_groups.sql), which accounts with many calls have: what of a time is
 * read from them, in which hours calls of a kind are, the making of them, and what questions about calls may be narrowed to. And the conditions by which
 * the calls of one account are found.
 */
import type { UsageStatus } from "../../actors/ledger.ts"
import type { Fragment } from "postgres"
import type { Database } from "./database.ts"
import type { Sql } from "./sql.ts"

/** How many statements sum in one round; the rest comes with the next ones. */
const MOST_STATEMENTS = 500
/** How many accounts one of them sums, so that it is over long before it is given up. */
const ACCOUNTS = 20
/** Not sent again: one that is over its time has the lock that the next one would have to have, and is begun again by the next round. */
const oneAttempt = { deadlineMs: 5_000 } as const

/**
 * Zones whose days are summed, and the hours by which they are ahead of UTC. Their clocks never change: one offset holds for any time,
 * which the offsets at its two ends do not prove of another zone.
 */
const ZONES: ReadonlyMap<string, number> = new Map([
  ["UTC", 0],
  ["Asia/Jakarta", 7],
  ["Asia/Pontianak", 7],
  ["Asia/Makassar", 8],
  ["Asia/Jayapura", 9],
])

/** The hours by which a zone's clocks are ahead of UTC, where its days are summed. */
export const zoneOf = (timeZone: string): number | undefined => ZONES.get(timeZone)

/** What a day or a month of an account is summed by alone in `usage_groups`: all of it, or one of these. */
export type Grouping = "all" | "model" | "key" | "format" | "status"

export interface SpanQuestion {
  readonly accountId: string
  /** Hours ahead of UTC; undefined where no day may be read whole. */
  readonly zone: number | undefined
  readonly withMonths: boolean
  /** Hours: the first one, and the one after the last. */
  readonly first: Date | ReturnType<Sql>
  readonly last: Date | ReturnType<Sql>
  readonly only: UsageNarrowing
  /** All that is told apart, `only` among it; undefined where that is more than one thing. */
  readonly grouping: Grouping | undefined
}

const TOLD_APART = { model: "model", keyId: "key", endpoint: "format", status: "status" } as const

/** The one thing that groups and a narrowing tell apart, `all` where they tell nothing apart; undefined of more than one. */
export function groupingOf(groups: readonly Grouping[], only: UsageNarrowing): Grouping | undefined {
  const narrowings = Object.entries(TOLD_APART).flatMap(([field, by]) =>
    only[field as keyof UsageNarrowing] === undefined ? [] : [by],
  )
  const [first = "all", ...others] = new Set<Grouping>([...groups, ...narrowings])
  return others.length === 0 ? first : undefined
}

/** A time as the days and months whose sums stand, with `day`, and what is between them, without. */
export const piecesOf = (sql: Sql, { accountId, zone, first, last, withMonths }: SpanQuestion) =>
  sql`select * from usage_pieces_1(${accountId}, ${zone ?? 0}, ${first}, ${last}, ${withMonths})`

/** Rows of `usage_groups` of `pieces`, with `at` and what they are of as records have it. */
export function groupsOf(sql: Sql, { accountId, zone, only }: SpanQuestion, grouping: Grouping) {
  const name = only.model ?? only.keyId ?? only.endpoint ?? only.status
  const column = (of: Grouping) => (of === grouping ? sql`u.name` : sql`null::text`)
  return sql`
    select p.since as at, ${column("model")} as model, ${column("key")} as key_id, ${column("format")} as endpoint, ${column("status")} as status, u.*
    from pieces p cross join lateral (
      select calls, ok, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, cache_reads, steps, step_calls, p50, p95, name
      from usage_groups u
      where account_id = ${accountId} and zone = ${zone ?? 0} and is_month = p.is_month and since = p.day and grouped_by = ${grouping}
        ${name === undefined ? sql`` : sql`and u.name = ${name}`} offset 0
    ) u where p.day is not null`
}

/** Sums `u` of whole hours of a time: rows of `at`, what they are of, and their sums; of days and months where those stand. */
export function sumsOfHours(sql: Sql, question: SpanQuestion) {
  const { accountId, zone, first, last, only, grouping } = question
  const sums = sql`u.input_tokens, u.output_tokens, u.cache_read_tokens, u.cache_write_tokens, u.charge_micro, u.cache_reads`
  const columns = sql`u.model, u.key_id, u.endpoint, u.status, u.calls, case u.status when 'ok' then u.calls else 0 end as ok, ${sums}`
  if (zone === undefined)
    return sql`
      select hour as at, ${columns} from usage_hours u
      where account_id = ${accountId} and hour >= ${first} and hour < ${last} ${narrowed(sql, only)}`
  const days =
    grouping === undefined
      ? sql`
        select p.since as at, ${columns} from pieces p cross join lateral (
          select * from usage_spans u where account_id = ${accountId} and zone = ${zone} and is_month = p.is_month and since = p.day
            ${narrowed(sql, only)} offset 0
        ) u where p.day is not null`
      : sql`select at, model, key_id, endpoint, status, calls, ok, ${sums} from (${groupsOf(sql, question, grouping)}) u`
  // Each piece by its index, whatever the planner thinks that there are of them.
  return sql`
    with pieces as materialized (${piecesOf(sql, question)})
    ${days}
    union all
    select hour, ${columns} from pieces p cross join lateral (
      select * from usage_hours u where account_id = ${accountId} and hour >= p.since and hour < p.until ${narrowed(sql, only)} offset 0
    ) u where p.day is null`
}

export interface HoursQuestion extends UsageNarrowing {
  readonly accountId: string
  /** Times, and for `before` what all calls that are wanted arrived before. */
  readonly from?: Date | undefined
  readonly to?: Date | undefined
  readonly before: Date | undefined
  readonly limit: number
}

/**
 * Hours that have calls of a kind, with the ids that their calls may have, `first_id` and `end_id`: so many of the newest hours that the newest calls that are
 * wanted are in them.
 */
export function hoursWithCalls(sql: Sql, question: HoursQuestion) {
  const { accountId, model, keyId, endpoint, status, from, to, before, limit } = question
  const end = Math.min(to?.getTime() ?? Number.POSITIVE_INFINITY, before?.getTime() ?? Number.POSITIVE_INFINITY)
  // Of hours that an end is in, or that are after it, some calls may not be wanted, and so they are not counted.
  const counted = Number.isFinite(end) ? sql`date_trunc('hour', ${new Date(end)}::timestamptz, 'UTC')` : sql`'infinity'`
  const after = Number.isFinite(end)
    ? sql`date_trunc('hour', ${new Date(end)}::timestamptz, 'UTC') + interval '2 hours'`
    : sql`'infinity'`
  const since = from === undefined ? sql`'-infinity'` : sql`date_trunc('hour', ${from}::timestamptz, 'UTC')`
  return sql`
    select hour, first_call(hour - interval '1 hour') as first_id, first_call(hour + interval '1 hour') as end_id
    from (
      select distinct hour from hours_with_calls_1(${accountId}, ${model ?? null}, ${keyId ?? null}, ${endpoint ?? null}, ${status ?? null},
        ${since}, ${counted}, ${after}, ${limit}) hour offset 0
    ) h`
}

/**
 * When keys of an account have called last, as rows of `key_id` and `at`; none of those of which no record is here. `keys` is an array. All of an hour is
 * read for a key: which of its calls began last their ids say only roughly.
 */
export const lastCalls = (sql: Sql, accountId: string, keys: ReturnType<Sql>) => sql`
  with hours as materialized (
    select key_id, hour from last_hours_of_keys_1(${accountId}, ${keys}, '-infinity', 'infinity', true)
  )
  select u.key_id, max(u.opened_at) as at
  from (
    select hour, array_agg(key_id) as keys, first_call(hour - interval '1 hour') as first_id, first_call(hour + interval '1 hour') as end_id
    from hours group by 1 offset 0
  ) h cross join lateral (
    select key_id, opened_at from usage u
    where ${callsOf(sql, accountId)} and ${fromCall(sql, sql`h.first_id`)} and ${beforeCall(sql, sql`h.end_id`)} and opened_at >= h.hour and opened_at < h.hour + interval '1 hour'
      and key_id = any (h.keys) offset 0
  ) u group by 1`

/** Sums the days and months that are over, a few accounts in each statement. */
export async function sumUsageSpans(database: Pick<Database, "run">, accounts = ACCOUNTS): Promise<void> {
  let last: { readonly since: string | null; readonly account: string } = { since: null, account: "" }
  for (let n = 0; n < MOST_STATEMENTS; n++) {
    const [row] = await database.run(
      (sql) => sql<{ since: string; account: string }[]>`
        select since::text, account from sum_usage_span_1(now() - interval '3 hours', ${last.since}::date, ${last.account}, ${accounts})`,
      oneAttempt,
    )
    if (row === undefined) return
    last = row
  }
}

/** What questions about calls may be narrowed to. Each of it may be left out. */
export interface UsageNarrowing {
  readonly model?: string | undefined
  readonly keyId?: string | undefined
  readonly endpoint?: string | undefined
  readonly status?: UsageStatus | undefined
}

/** A condition to add to others, on records or on their sums, which are called `u` either way. */
export const narrowed = (sql: Sql, { model, keyId, endpoint, status }: UsageNarrowing) => sql`
  ${model === undefined ? sql`` : sql`and u.model = ${model}`}
  ${keyId === undefined ? sql`` : sql`and u.key_id = ${keyId}`}
  ${endpoint === undefined ? sql`` : sql`and u.endpoint = ${endpoint}`}
  ${status === undefined ? sql`` : sql`and u.status = ${status}`}`

// The calls of one account, by the index `usage_calls` (migrations/0100_calls_of_accounts.sql). Its entries are the hash of the account's id and the
// nine characters of the request id that are its time, so that an entry is 28 bytes and not 72. Postgres takes an index of expressions only where
// a statement has them: they stand here alone. All conditions are on rows of `usage` that are called `u`.

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
 * does not tell apart. Who reads them sorts them by their ids. Their number is a query, which the planner cannot see through: it takes few rows to be
 * wanted, and reads them in the index's order. Told of 2,000 it would rather sort all, since it takes an account to have hardly any.
 */
export const atLeastNewest = (sql: Sql, count: number): Fragment => sql`
  order by ${time(sql)} desc fetch first ((select ${count}::bigint)) rows with ties`
export const atLeastOldest = (sql: Sql, count: number): Fragment => sql`
  order by ${time(sql)} fetch first ((select ${count}::bigint)) rows with ties`

const time = (sql: Sql): Fragment => sql`substr(u.request_id, 5, 9)`

/** When a call arrived, to the millisecond; undefined of what is no request id. */
export function arrivalOf(requestId: string): Date | undefined {
  const [, digits] = /^req_([0-9a-z]{9})/.exec(requestId) ?? []
  return digits === undefined ? undefined : new Date(Number.parseInt(digits, 36))
}
