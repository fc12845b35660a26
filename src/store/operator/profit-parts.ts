/**
 * The sums of profit by parts of a day (docs/operating/costs.md): what of a time is read from them, and what from the sums of hours; and the
 * making of them.
 */
import type { Database, Sql } from "../database.ts"

/** Hours that begin from `from` on and before `to`. */
export interface ProfitPeriod {
  readonly from: Date
  readonly to: Date
}

/** The hours of a day (UTC) at which a part of it begins, and the zones whose days are whole parts, by their hours before UTC. */
const PARTS = [0, 15, 16, 17, 24]
const WHOLE_ZONES: readonly unknown[] = ["GMT", "GMT+7", "GMT+8", "GMT+9"]
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Of the parts of a day, and of the next day. */
const beginnings = (at: Date): number[] => {
  const day = Math.floor(at.getTime() / DAY_MS) * DAY_MS
  return PARTS.map((hour) => day + hour * HOUR_MS)
}

/** The parts of days that are wholly within a time, from the first one's beginning to the last one's end. */
export function partsWithin({ from, to }: ProfitPeriod): ProfitPeriod {
  const first = beginnings(from).find((ms) => ms >= from.getTime()) ?? from.getTime()
  const last = beginnings(to).findLast((ms) => ms <= to.getTime()) ?? to.getTime()
  return { from: new Date(first), to: new Date(Math.max(first, last)) }
}

/** When each of the parts begins, of a time that is made of whole ones. */
function beginningsWithin({ from, to }: ProfitPeriod): Date[] {
  const found: Date[] = []
  for (let day = from.getTime(); day < to.getTime() + DAY_MS; day += DAY_MS)
    found.push(
      ...beginnings(new Date(day))
        .slice(0, -1)
        .map((ms) => new Date(ms))
        .filter((at) => at >= from && at < to),
    )
  return found
}

/** Those of a time whose days are told in a zone: none where days begin within a part. */
export function partsOfDays({ from, to }: ProfitPeriod, timeZone: string): ProfitPeriod {
  const zone = new Intl.DateTimeFormat("en", { timeZone, timeZoneName: "shortOffset" })
  const isWhole = (at: Date) =>
    WHOLE_ZONES.includes(zone.formatToParts(at).find(({ type }) => type === "timeZoneName")?.value)
  // No zone changes twice within the longest time that is asked for.
  return isWhole(from) && isWhole(to) ? partsWithin({ from, to }) : { from: to, to }
}

/** Whose sums are read: of each account, or of all together, which are few. */
export type SumsOf = "accounts" | "house"

/** All sums of a time: of parts of days where those are whole and summed, and of the hours of the others, before and after them. */
export function sums(sql: Sql, of: SumsOf, { from, to }: ProfitPeriod, parts = partsWithin({ from, to })) {
  const columns = sql`model, member, kind, records, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro`
  const until = parts.from < to ? parts.from : to
  const days =
    of === "house"
      ? sql`null::text as account_id, ${columns} from profit_house`
      : sql`account_id, ${columns} from profit_days`
  return sql`(
    select since as hour, ${days} d
    where since >= ${parts.from} and since < ${parts.to}
      and since in (select p.since from profit_parts p where p.since not in (select l.since from profit_late l))
    union all select hour, account_id, ${columns} from unnest(${sql.array(beginningsWithin(parts))}::timestamptz[]) as unsummed (since)
    join profit_hours on hour >= unsummed.since and hour < profit_part_end(unsummed.since)
    where unsummed.since not in (select p.since from profit_parts p where p.since not in (select l.since from profit_late l))
    union all select hour, account_id, ${columns} from profit_hours where hour >= ${from} and hour < ${until}
    union all select hour, account_id, ${columns} from profit_hours where hour >= ${parts.to} and hour < ${to} and hour >= ${until}
  ) as sums`
}

const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const
/** Parts that are summed in one round; the rest comes with the next ones. */
const MOST_PARTS = 200

/** Sums the parts of days that are over, each in a statement of its own. */
export async function sumProfitParts(database: Database): Promise<void> {
  for (let part = 0; part < MOST_PARTS; part++) {
    const [row] = await database.run(
      (sql) => sql<{ since: Date | null }[]>`select sum_profit_part_1(now() - interval '2 hours') as since`,
      patient,
    )
    if (row?.since === null || row === undefined) return
  }
}
