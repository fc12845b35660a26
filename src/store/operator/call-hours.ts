/**
 * How final records ended, and their times to the first token, by the hour: sums of hours that are over, and of the others the records themselves, so that three months
 * are read at once however many calls there were. Micro-rupiah.
 */
import type { Database, Sql } from "../database.ts"
import { LONGEST_ARRIVAL_MS } from "../usage.ts"

/** What all request ids of a millisecond begin with. */
export type FirstId = (ms: number) => string

/** Records that were opened from `from` on and before `to`. */
export interface CallPeriod {
  readonly from: Date
  readonly to: Date
}

const HOUR_MS = 3_600_000
/** Hours that are summed in one round; the rest comes with the next ones. */
const MOST_HOURS = 500
/** As far as a range of usage reaches, and a day. Older hours are read from their records. */
const REACH_DAYS = 367
const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const

/** Its whole hours, and what is left at its ends. */
function piecesOf({ from, to }: CallPeriod): readonly { readonly since: number; readonly until: number }[] {
  const pieces: { since: number; until: number }[] = []
  for (let since = from.getTime(); since < to.getTime();) {
    const until = Math.min((Math.floor(since / HOUR_MS) + 1) * HOUR_MS, to.getTime())
    pieces.push({ since, until })
    since = until
  }
  return pieces
}

/** As `records`, in a statement: rows of an hour's `since`, `status`, `error_code`, `calls`, `charged` and `absorbed`. */
export function callSums(sql: Sql, period: CallPeriod, firstId: FirstId) {
  const pieces = piecesOf(period)
  const times = (of: "since" | "until") => sql.array(pieces.map((piece) => new Date(piece[of])))
  const firstIds = pieces.map(({ since }) => firstId(since - LONGEST_ARRIVAL_MS))
  const endIds = pieces.map(({ until }) => firstId(until))
  return sql`pieces as materialized (
    select p.*, p.until = p.since + interval '1 hour' and p.since in (select hour from call_summed)
      and p.since not in (select hour from call_late) as summed
    from unnest(${times("since")}::timestamptz[], ${times("until")}::timestamptz[], ${firstIds}::text[], ${endIds}::text[])
      as p (since, until, first_id, end_id)
  ), records as (
    select hour as since, status, nullif(error_code, '') as error_code, sum(calls)::int as calls, sum(charge_micro)::bigint as charged,
      sum(absorbed_micro)::bigint as absorbed
    from call_hours where hour >= ${period.from} and hour < ${period.to} and hour in (select since from pieces where summed)
    group by 1, 2, 3
    union all
    select p.since, u.status, u.error_code, count(*)::int, sum(u.charge_micro)::bigint, sum(u.absorbed_micro)::bigint
    -- Each by its ids, however many records there are.
    from pieces p cross join lateral (
      select status, error_code, charge_micro, absorbed_micro from usage
      where request_id >= p.first_id and request_id < p.end_id and part = 0 and opened_at >= p.since and opened_at < p.until
      offset 0
    ) u
    where not p.summed group by 1, 2, 3
  )`
}

/** Sums the hours that are over, each in a statement of its own: those that changed first, then the newest. */
export async function sumCallHours(database: Database, firstId: FirstId): Promise<void> {
  for (let hour = 0; hour < MOST_HOURS; hour++) {
    const [next] = await database.run(
      (sql) => sql<{ hour: Date | null }[]>`
        select coalesce((select min(hour) from call_late where hour <= over), (
          -- Where there is no record there is no hour either.
          select max(hour) from (select date_trunc('hour', opened_at, 'UTC') as at from usage order by request_id limit 1) oldest,
            generate_series(greatest(at, date_trunc('hour', over, 'UTC') - make_interval(days => ${REACH_DAYS})), over, '1 hour') as hour
          -- Those of before there were times to the first token are summed again.
          where not exists (select from latency_summed s where s.hour = hour.hour)
        )) as hour
        from (select now() - interval '3 hours' as over) times`,
      patient,
    )
    const since = next?.hour?.getTime()
    if (since === undefined) return
    const [done] = await database.run(
      (sql) => sql<{ summed: boolean }[]>`
        select sum_call_hour_1(${new Date(since)}, ${firstId(since - LONGEST_ARRIVAL_MS)}, ${firstId(since + HOUR_MS)}) as summed`,
      patient,
    )
    if (done?.summed !== true) return
  }
}
