/**
 * Times to the first token as an account's owner reads them: the percentiles of each group of a question. Read from their sums by days and months
 * (`usage_groups`) and hours (`latency_hours`), and of hours that are not summed yet from the records. Milliseconds.
 */
import type { Database, Sql } from "./database.ts"
import {
  firstCallSince,
  readsWholeHours,
  named,
  type SummaryQuestion,
  type WholeHours,
  wholeHoursOf,
} from "./usage-sums.ts"
import {
  atLeastNewest,
  beforeCall,
  callsOf,
  fromCall,
  groupingOf,
  groupsOf,
  narrowed,
  piecesOf,
} from "./usage-spans.ts"

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

/** Names a group in the figures. */
export const groupName = (group: string, split: string | undefined): string => JSON.stringify([group, split ?? null])
/** Of all groups together. */
export const allGroups = "all"

/** A year of an account that calls all the time has millions of steps. */
const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const
/** Of hours whose times are not summed the records are read, which takes time. */
export const FIRST_TOKENS_OF = 25_000

/** Of sums within 2.2 %; of hours that are not summed, of the newest `FIRST_TOKENS_OF` calls themselves (of the key's, if it is narrowed to one). */
export async function readFirstTokens(database: Database, question: SummaryQuestion): Promise<FirstTokenFigures> {
  const { accountId, groupBy, splitBy, only = {} } = question
  const whole = wholeHoursOf(question, groupBy, splitBy)
  const grouping = whole?.zone === undefined ? undefined : whole.grouping
  const rows = await database.run((sql) => {
    const none = sql``
    const spans = whole === undefined || grouping === undefined ? undefined : groupsOf(sql, whole, grouping)
    // A day that is summed is a group, whose percentiles are there: of it the times are counted for all groups together alone.
    const [days, parts] = groupBy === "day" ? [spans, undefined] : [undefined, spans]
    const wholeDays = whole && days && groupsOf(sql, whole, groupingOf([], only) ?? "all")
    return sql<FirstTokenRow[]>`
      with ${hoursOf(sql, question, spans && whole)}, newest as materialized (${newestOf(sql, question)}), times as (
        select ${named(sql, question)}, first_token_ms as ms, 1::bigint as calls
        from newest u where first_token_ms is not null ${narrowed(sql, only)}
        union all
        select name, split, latency_of_step(step), sum(h.calls)::bigint
        from (
          -- The names of an hour are made once, and not for each of its steps.
          select ${named(sql, question)}, steps, calls
          from (
            select h.hour as at, h.model, h.key_id, h.endpoint, h.status, h.steps, h.calls from gaps g cross join lateral (
              select * from latency_hours u where account_id = ${accountId} and hour >= g.since and hour < g.until ${narrowed(sql, only)} offset 0
            ) h
            -- No condition to join by: without statistics the planner would look at all hours for each row.
            where (h.hour in (select since from hours where summed)) is true
            ${parts === undefined ? none : sql`union all select at, model, key_id, endpoint, status, steps, step_calls from (${parts}) s`}
          ) u offset 0
        ) r cross join unnest(r.steps, r.calls) h (step, calls) group by name, split, step
      ), counted as (
        select name, split, grouping(name) as is_all, ms, sum(calls) as calls from times
        group by grouping sets ((name, split, ms), (ms))
        ${
          wholeDays === undefined
            ? none
            : sql`union all select null, null, 1, latency_of_step(step), sum(h.calls)
              from (${wholeDays}) s cross join unnest(s.steps, s.step_calls) h (step, calls) group by step`
        }
      ), ranked as (
        select name, split, is_all, ms, sum(calls) over (partition by is_all, name, split order by ms) as up_to,
          sum(calls) over (partition by is_all, name, split) as of
        from counted
      )
      select name, split, min(ms) filter (where up_to >= 0.5 * of) as p50, min(ms) filter (where up_to >= 0.95 * of) as p95,
        (select count(*) from newest)::int as looked_at
      from ranked group by is_all, name, split
      ${
        days === undefined
          ? none
          : sql`union all select ${named(sql, question)}, latency_of_step(p50), latency_of_step(p95), 0 from (${days}) s where p50 is not null`
      }`
  }, patient)
  // The row of all has no name.
  const of = new Map(
    rows.map(({ name, split, p50, p95 }) => [
      name === null ? allGroups : groupName(name, split ?? undefined),
      { p50Ms: p50, p95Ms: p95 },
    ]),
  )
  return { of, newestOnly: rows.some(({ looked_at: count }) => count === FIRST_TOKENS_OF) }
}

/**
 * The gaps between the days and months that are read whole, as hours of UTC and what is left at the range's ends, from the account's first call to its
 * last one: whether the times of each are summed. Where days or hours are told apart that do not begin with an hour of UTC, none is.
 */
const hoursOf = (
  sql: Sql,
  { accountId, from, to, timeZone, groupBy }: SummaryQuestion,
  whole: WholeHours | undefined,
) => sql`
  ${
    whole === undefined
      ? sql`gaps as materialized (select ${from}::timestamptz as since, ${to}::timestamptz as until)`
      : sql`pieces as materialized (${piecesOf(sql, whole)}), gaps as materialized (
        select since, until from pieces where day is null
        union all
        select * from (values (${from}::timestamptz, ${whole.first}::timestamptz), (${whole.last}, ${to})) ends (since, until) where since < until
      )`
  }, hours as materialized (
    select since, until, ${readsWholeHours(timeZone, groupBy)} and until = since + interval '1 hour' and exists (
      select from latency_summed s where s.hour = since) and not exists (select from call_late l where l.hour = since) as summed
    from (
      select greatest(hour, g.since) as since, least(hour + interval '1 hour', g.until) as until
      from gaps g join (
        select (select min(hour) from usage_hours where account_id = ${accountId}) as first, (select max(hour) from usage_hours where account_id = ${accountId}) as last
      ) has on has.first is not null
      cross join lateral generate_series(greatest(date_trunc('hour', g.since, 'UTC'), has.first), least(g.until, has.last), '1 hour') hour
    ) each_hour where since < until
  )`

/**
 * Of hours that are not summed, the newest hour first, the calls by their ids, as the account's index is. Only of hours that have such calls by their sums,
 * which are in one table. A key's are its own alone.
 */
const newestOf = (sql: Sql, { accountId, only }: SummaryQuestion) => sql`
  select u.* from (
    select since, until, ${firstCallSince(sql, sql`since`)} as first_id, first_call(until) as end_id from hours
    where not summed and (
      select true from usage_hours u
      where u.account_id = ${accountId} and u.hour = date_trunc('hour', since, 'UTC') and u.calls > 0 ${narrowed(sql, only ?? {})} limit 1
    )
    order by since desc offset 0
  ) h cross join lateral (
    select opened_at as at, model, key_id, endpoint, status, first_token_ms from usage u
    where ${callsOf(sql, accountId)} and opened_at >= h.since and opened_at < h.until
      and ${fromCall(sql, sql`h.first_id`)} and ${beforeCall(sql, sql`h.end_id`)} ${only?.keyId === undefined ? sql`` : sql`and key_id = ${only.keyId}`}
    ${atLeastNewest(sql, FIRST_TOKENS_OF)}
  ) u limit ${FIRST_TOKENS_OF}`

interface FirstTokenRow {
  name: string | null
  split: string | null
  p50: number
  p95: number
  looked_at: number
}
