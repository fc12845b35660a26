/**
 * The sums of profit by parts of a day (docs/operating/costs.md): what of a time is read from them, and what from the sums of hours; and the
 * making of them. Beside them: how many accounts called on each day that is over (migrations/0097_customer_days.sql), once all its parts are summed.
 */
import { type Micro, largestMicro, micro } from "../../../actors/money/micro.ts"
import type { Database, Sql } from "../database.ts"
import { zoneOf } from "../usage-spans.ts"

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

/** The first hour that begins from a time on. */
export const nextHour = (at: Date): Date => new Date(Math.ceil(at.getTime() / HOUR_MS) * HOUR_MS)

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

/** The hours of a time that is made of whole parts, and when the part of each begins. */
function hoursWithin({ from, to }: ProfitPeriod): { readonly hours: Date[]; readonly parts: Date[] } {
  const hours: Date[] = []
  const parts: Date[] = []
  for (let hour = from.getTime(); hour < to.getTime(); hour += HOUR_MS) {
    const at = new Date(hour)
    hours.push(at)
    parts.push(new Date(beginnings(at).findLast((ms) => ms <= hour) ?? hour))
  }
  return { hours, parts }
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

/** All sums of a time that are of some kind: of parts of days where those are whole and summed, and of the hours of the others, before and after them. */
export function sums(
  sql: Sql,
  of: SumsOf,
  { from, to }: ProfitPeriod,
  parts = partsWithin({ from, to }),
  only = sql`true`,
) {
  const columns = sql`model, member, kind, records, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
    charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro`
  const until = parts.from < to ? parts.from : to
  const within = hoursWithin(parts)
  const days =
    of === "house"
      ? sql`null::text as account_id, ${columns} from profit_house`
      : sql`account_id, ${columns} from profit_days`
  // Part by part and hour by hour, by the index: the planner takes hardly any unsummed part for half of them, and would read whole tables.
  return sql`(
    select d.since as hour, account_id, ${columns}
    from (
      select p.since from profit_parts p
      where p.since >= ${parts.from} and p.since < ${parts.to} and p.since not in (select l.since from profit_late l) offset 0
    ) summed
    cross join lateral (select since, ${days} where since = summed.since and ${only} offset 0) d
    union all select h.* from unnest(${sql.array(within.hours)}::timestamptz[], ${sql.array(within.parts)}::timestamptz[]) as unsummed (at, since)
    cross join lateral (select hour, account_id, ${columns} from profit_hours where hour = unsummed.at and ${only} offset 0) h
    where unsummed.since not in (select p.since from profit_parts p where p.since not in (select l.since from profit_late l))
    union all select hour, account_id, ${columns} from profit_hours where hour >= ${from} and hour < ${until} and ${only}
    union all select hour, account_id, ${columns} from profit_hours where hour >= ${parts.to} and hour < ${to} and hour >= ${until} and ${only}
  ) as sums`
}

const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const
/** Not sent again: one that is over its time has the lock still, and the next one would find it, as if nothing were to be summed. */
export const once = { deadlineMs: 5_000 } as const
/** Parts that are summed in one round; the rest comes with the next ones. */
const MOST_PARTS = 200

/** Sums the parts of days that are over, each in a statement of its own. One that was summed by a clock that was ahead is marked, as hours are (overview.ts). */
export async function sumProfitParts(database: Database): Promise<void> {
  for (let part = 0; part < MOST_PARTS; part++) {
    const [row] = await database.run(
      (sql) => sql<{ since: Date | null }[]>`
        with ahead as (
          insert into profit_late select since from profit_parts
          where since > now() - interval '1 day' and profit_part_end(since) >= now() - interval '2 hours'
            and since not in (select since from profit_late)
        )
        select sum_profit_part_1(now() - interval '2 hours') as since`,
      once,
    )
    if (row?.since === null || row === undefined) return
  }
}

interface CountedDays {
  readonly counted: readonly { readonly day: string; readonly accounts: number }[]
  /** What is left of the time, in which accounts have to be counted; a day is in no more than one of these. */
  readonly uncounted: readonly ProfitPeriod[]
}

/** Days that are counted in one round; the rest comes with the next ones. */
const MOST_DAYS = 500

export async function readCountedDays(
  database: Database,
  { from, to, timeZone }: ProfitPeriod & { readonly timeZone: string },
): Promise<CountedDays> {
  const zone = zoneOf(timeZone)
  if (zone === undefined) return { counted: [], uncounted: [{ from, to }] }
  const days = await database.run(
    (sql) => sql<{ day: string; accounts: number; begins: Date; ends: Date }[]>`
      select to_char(day, 'YYYY-MM-DD') as day, accounts::int, begins, ends
      from customer_days, lateral (select span_begins(day, zone) as begins, span_ends(day, false, zone) as ends) times
      where zone = ${zone} and begins >= ${from} and ends <= ${to}
        and not exists (select from profit_late l where l.since >= begins and l.since < ends)
      order by begins`,
    patient,
  )
  const edges = [...days, { begins: to, ends: to }]
  const uncounted = edges.map(({ begins }, n) => ({ from: days[n - 1]?.ends ?? from, to: begins }))
  return {
    counted: days.filter(({ accounts }) => accounts > 0).map(({ day, accounts }) => ({ day, accounts })),
    uncounted: uncounted.filter((gap) => gap.from < gap.to),
  }
}

/** Counts days of which all parts are summed, each in a statement of its own. */
export async function countCustomers(database: Database): Promise<void> {
  for (let day = 0; day < MOST_DAYS; day++) {
    const [row] = await database.run(
      (sql) => sql<{ day: string | null }[]>`select count_customers_1()::text as day`,
      once,
    )
    if (row?.day === null || row === undefined) return
  }
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

// What sums of profit come back as, from whichever of the sums they are read. Micro-rupiah.

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

export interface Row {
  name: string | null
  split: string | null
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

/** The columns of a row, of what is grouped; `calls` is how many of the records are final, as SQL. */
export const summed = (sql: Sql, calls = "sum(records) filter (where profit_is_final(kind))") => sql`
  coalesce(${sql.unsafe(calls)}, 0)::int as calls, coalesce(sum(records), 0)::int as records,
  ${said(sql, sql`sum(charge_micro)`)} as revenue, ${said(sql, sql`sum(cost_micro)`)} as cost,
  ${said(sql, sql`sum(estimated_micro)`)} as estimated, coalesce(sum(unknown), 0)::int as unknown,
  ${said(sql, sql`sum(absorbed_micro)`)} as absorbed, coalesce(sum(under), 0)::int as under,
  ${said(sql, sql`sum(under_micro)`)} as under_micro`

/** As much as a JSON integer can say. */
export const said = (sql: Sql, amount: ReturnType<Sql>) =>
  sql`least(coalesce(${amount}, 0), ${String(largestMicro)}::numeric)::bigint`

/** Rows of times after each other, each name's added up. */
export class AddedRows {
  readonly #rows = new Map<string, Row>()

  get size(): number {
    return this.#rows.size
  }

  add(rows: readonly Row[]): void {
    for (const row of rows) {
      const name = JSON.stringify([row.name, row.split])
      const before = this.#rows.get(name)
      this.#rows.set(name, before === undefined ? row : added(before, row))
    }
  }

  /** The costliest first, or those of each day. */
  inOrder(isByDay: boolean): Row[] {
    const byCost = (a: Row, b: Row) => Number(a.cost < b.cost) - Number(a.cost > b.cost)
    const byNames = (a: Row, b: Row) => compare(a.name, b.name) || compare(a.split, b.split)
    const byDay = (a: Row, b: Row) => (isByDay ? compare(a.name, b.name) : 0)
    return [...this.#rows.values()].toSorted((a, b) => byDay(a, b) || byCost(a, b) || byNames(a, b))
  }
}

const compare = (a: string | null, b: string | null): number => ((a ?? "") < (b ?? "") ? -1 : Number(a !== b))

const whole = (amount: bigint): bigint => (amount < largestMicro ? amount : largestMicro)

function added(one: Row, other: Row): Row {
  return {
    name: one.name,
    split: one.split,
    calls: one.calls + other.calls,
    records: one.records + other.records,
    revenue: whole(one.revenue + other.revenue),
    cost: whole(one.cost + other.cost),
    estimated: whole(one.estimated + other.estimated),
    unknown: one.unknown + other.unknown,
    absorbed: whole(one.absorbed + other.absorbed),
    under: one.under + other.under,
    under_micro: whole(one.under_micro + other.under_micro),
  }
}

export const toProfit = (row: Row): Profit => ({
  calls: row.calls,
  revenueMicro: micro(row.revenue),
  costMicro: micro(row.cost),
  estimatedMicro: micro(row.estimated),
  unknown: row.unknown,
  absorbedMicro: micro(row.absorbed),
  under: row.under,
  underMicro: micro(row.under_micro),
})
