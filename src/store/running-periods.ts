/**
 * The day and the month of a key that run on over a change of its account's time zone (decisions §13.5). They are written with
 * the change, so every process and every start reads the same.
 */
import { type CalendarPeriod, carriedOver, type RunningPeriod, type RunningPeriods } from "../../actors/period.ts"
import type { Database, Sql } from "./database.ts"

/** As JSON has it: milliseconds since the epoch. */
export interface RunningRow extends RunningPeriod {
  readonly period: CalendarPeriod
}

/** All of key `k`, for the list of a select; null when there are none. */
export const runningPeriods = (sql: Sql) => sql`(
  select jsonb_agg(jsonb_build_object('period', r.period, 'start', (extract(epoch from r.started_at) * 1000)::bigint,
    'ownEnd', (extract(epoch from r.own_end) * 1000)::bigint, 'end', (extract(epoch from r.ends_at) * 1000)::bigint))
  from running_periods r where r.key_id = k.id)`

export const runningOf = (rows: readonly RunningRow[] | null): RunningPeriods =>
  Object.fromEntries((rows ?? []).map((row) => [row.period, row]))

/** What an account's keys have running once its zone is another; `from` is the zone that was read with it. */
export interface CarriedOver {
  readonly from: string
  readonly periods: readonly (RunningRow & { readonly keyId: string })[]
}

const periods = ["daily", "monthly"] as const

/** Undefined when there is no such account. */
export async function carryOver(
  database: Database,
  accountId: string,
  to: string,
  nowMs: number,
): Promise<CarriedOver | undefined> {
  const rows = await database.run(
    (sql) => sql<{ time_zone: string; id: string | null; running: readonly RunningRow[] | null }[]>`
      select a.time_zone, k.id, ${runningPeriods(sql)} as running
      from accounts a left join api_keys k on k.account_id = a.id and k.revoked_at is null
      where a.id = ${accountId} and a.deleted_at is null`,
    { deadlineMs: 5_000, retry: true },
  )
  const from = rows[0]?.time_zone
  if (from === undefined) return undefined
  if (from === to) return { from, periods: [] }
  return {
    from,
    periods: rows.flatMap(({ id: keyId, running }) =>
      keyId === null
        ? []
        : periods.map((period) => ({
            keyId,
            period,
            ...carriedOver(nowMs, period, from, to, runningOf(running)[period]),
          })),
    ),
  }
}
