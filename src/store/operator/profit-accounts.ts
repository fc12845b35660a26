/**
 * Whose calls cost the most in a time, exactly, and without reading the sums of all accounts (migrations/0110_profit_accounts.sql). Micro-rupiah.
 *
 * Each month that the time is in has its accounts in the order of what they cost. Whoever is not among the first of any of them, nor of what is not
 * summed by days, costs at most what the last ones that were looked at cost together. So those first are summed, and where as many of them as are wanted cost
 * more than that, nobody else does; otherwise more are looked at.
 */
import { largestMicro } from "../../../actors/money/micro.ts"
import type { Database, Sql } from "../database.ts"
import { nextHour, once, type ProfitPeriod, type Row, said, summed } from "./profit-parts.ts"

const patient = { deadlineMs: 15_000, attemptMs: 5_000, retry: true } as const
const HOUR_MS = 3_600_000
const SHORTEST_MS = 3.5 * 24 * HOUR_MS
/** Of such a time all sums are added up sooner. */
export const isShort = ({ from, to }: ProfitPeriod) => nextHour(to).getTime() - nextHour(from).getTime() < SHORTEST_MS
/** By how much more than as many as are guessed to be needed are looked at. */
const ATTEMPTS = [1, 4, 16]

/** Accounts that are looked for one by one in a part of a day; of more the part is read, which takes less. */
export const MOST_BY_KEY = 250

/** Days that are summed in one round; the rest comes with the next ones. */
const MOST_DAYS = 500

/** Sums days of which all parts are summed, each in a statement of its own. */
export async function sumProfitAccounts(database: Database): Promise<void> {
  for (let day = 0; day < MOST_DAYS; day++) {
    const [row] = await database.run(
      (sql) => sql<{ day: string | null }[]>`select sum_profit_accounts_1()::text as day`,
      once,
    )
    if (row?.day === null || row === undefined) return
  }
}

/** So many of the costliest accounts, in that order, with their sums; undefined where all sums have to be added up. */
export const readCostliest = (database: Database, period: ProfitPeriod, count: number) =>
  findCostliest<Row>(database, period, count, true)

export type AccountCost = Pick<Row, "name" | "cost">

/** With what each cost alone. */
export const readCosts = (database: Database, period: ProfitPeriod, count: number) =>
  findCostliest<AccountCost>(database, period, count, false)

async function findCostliest<T extends Pick<Row, "name">>(
  database: Database,
  { from, to }: ProfitPeriod,
  count: number,
  withSums: boolean,
): Promise<readonly T[] | undefined> {
  if (isShort({ from, to })) return undefined
  const hours = { from: nextHour(from), to: nextHour(to) }
  for (const more of ATTEMPTS) {
    const rows = await database.run((sql) => costliest<T>(sql, hours, { count, more, withSums }), patient)
    if (rows[0]?.enough === true) return rows.filter(({ name }) => name !== null)
  }
  return undefined
}

interface Depth {
  readonly count: number
  /** How many times more accounts of each list are looked at than it should take, which no answer depends on. */
  readonly more: number
  readonly withSums: boolean
}

const COLUMNS = ["charge_micro", "absorbed_micro", "cost_micro", "estimated_micro", "unknown", "under", "under_micro"]
const FINAL = "case when profit_is_final(kind) then records else 0 end"

/** Columns of sums as they count in a time: what a month has and the time has not is taken away. */
const signed = (columns: readonly string[], of = "") =>
  columns.map((column) => `${of}sign * ${of}${column} as ${column}`).join(", ")

/** As a condition that the planner makes no join of: it would look for each account in each part or hour by itself. */
const isAmong = (sql: Sql, accounts: ReturnType<Sql>) => sql`coalesce(account_id in (${accounts}), false)`

/** Whether all days whose sums accounts have are in those by models too: after an upgrade they are not for a while. */
export async function areGrouped(database: Database): Promise<boolean> {
  const [row] = await database.run(
    (sql) => sql<{ grouped: boolean }[]>`
      select not exists (select from profit_account_summed where not grouped) as grouped`,
    patient,
  )
  return row?.grouped === true
}

/**
 * Sums of some accounts with models, members and how many `calls` were final, which add up to those of a time: of months, of the parts of
 * days that a month has more or fewer than the time, and of hours.
 */
export function sumsOfModels(sql: Sql, { from, to }: ProfitPeriod, ids: readonly string[]) {
  const columnsOf = (calls: string) =>
    sql.unsafe(`account_id, model, member, sign * ${calls} as calls, ${signed(["records", ...COLUMNS])}`)
  const all = sql`${sql.array([...ids])}::text[]`
  const chosen = sql`account_id = any (${all})`
  const inPart = ids.length > MOST_BY_KEY ? isAmong(sql, sql`select unnest(${all})`) : chosen
  return sql`(
    with pieces as materialized (
      select * from profit_account_pieces_1(${nextHour(from)}, ${nextHour(to)})
    ), parts as materialized (
      select at as since, 1 as sign from pieces where kind = 'part'
      union all
      select s.since, p.sign from pieces p
      join profit_parts s on s.since >= span_begins(p.first_day, 0) and s.since < span_ends(p.until_day - 1, false, 0) where p.kind = 'days'
    ), hours as materialized (
      select at, sign from pieces where kind = 'hour'
    ), months as materialized (
      select first_day as month, sign from pieces where kind = 'month' and sign = 1
    )
    select ${columnsOf("calls")} from months cross join lateral (
      select m.* from profit_account_models m where m.month = months.month and ${chosen} offset 0
    ) m
    union all
    select ${columnsOf(FINAL)} from parts cross join lateral (
      select d.* from profit_days d where d.since = parts.since and ${inPart} offset 0
    ) d
    union all
    select ${columnsOf(FINAL)} from hours cross join lateral (
      select h.* from profit_hours h where h.hour = hours.at and ${inPart} offset 0
    ) h
  ) as sums`
}

/** So many that may be among the costliest, by the months alone that a time is mostly made of; none where there is no such month. */
export async function guessCostliest(
  database: Database,
  { from, to }: ProfitPeriod,
  count: number,
): Promise<readonly string[]> {
  const rows = await database.run(
    (sql) => sql<{ name: string }[]>`
      select account_id as name from profit_account_pieces_1(${nextHour(from)}, ${nextHour(to)}) p cross join lateral (
        select account_id, cost_micro from profit_account_months where month = p.first_day
        order by cost_micro desc, account_id limit ${2 * count} offset 0
      ) m
      where p.kind = 'month' and p.sign = 1 group by 1 order by sum(cost_micro) desc, 1 limit ${count}`,
    patient,
  )
  return rows.map(({ name }) => name)
}

interface Asked {
  readonly accounts: readonly AccountCost[]
  /** Undefined: any. */
  readonly least: bigint | undefined
  readonly column: "model" | "member"
}

/**
 * Of some accounts those of which a model or member may cost as much: its months alone are read, and all that the account costs
 * beside its months is taken for its own. Where a time is less than its months nothing is known of any.
 */
export async function mayCost(
  database: Database,
  { from, to }: ProfitPeriod,
  { accounts, least, column }: Asked,
): Promise<readonly string[]> {
  if (least === undefined) return accounts.flatMap(({ name }) => name ?? [])
  const asked = accounts.filter(({ cost }) => cost >= least)
  if (asked.length === 0) return []
  const rows = await database.run((sql) => {
    const ids = sql`${sql.array(asked.map(({ name }) => name ?? ""))}::text[]`
    return sql<{ name: string }[]>`
      with pieces as materialized (
        select * from profit_account_pieces_1(${nextHour(from)}, ${nextHour(to)})
      ), months as materialized (
        select first_day as month from pieces where kind = 'month' and sign = 1
      ), parts as materialized (
        select account_id, sum(cost_micro) as cost from months cross join lateral (
          select account_id, ${sql(column)} as part, cost_micro from profit_account_models m
          where m.month = months.month and account_id = any (${ids}) offset 0
        ) m group by account_id, part
      ), known as materialized (
        select account_id, max(cost) as most, sum(cost) as cost from parts group by 1
      )
      select a.account_id as name
      from unnest(${ids}, ${sql.array(asked.map(({ cost }) => String(cost)))}::bigint[]) as a (account_id, cost)
      left join known k on k.account_id = a.account_id
      where a.cost >= ${String(largestMicro)}::bigint or exists (select from pieces where sign = -1)
        or coalesce(k.most, 0) + greatest(a.cost - coalesce(k.cost, 0), 0) >= ${String(least)}::bigint`
  }, patient)
  return rows.map(({ name }) => name)
}

function costliest<T>(sql: Sql, { from, to }: ProfitPeriod, { count, more, withSums }: Depth) {
  /** What no day's sums have, of parts that are summed and of hours. */
  const beside = (columns: ReturnType<Sql>, only = sql`true`, of = sql`true`) => sql`
    select d.* from pieces p cross join lateral (
      select account_id, ${columns} from profit_days where since = p.at and ${of} offset 0
    ) d where p.kind = 'part' and ${only}
    union all
    select d.* from pieces p cross join lateral (
      select account_id, ${columns} from profit_hours where hour = p.at and ${of} offset 0
    ) d where p.kind = 'hour' and ${only}`
  const isOf = (accounts: ReturnType<Sql>) => isAmong(sql, sql`select account_id from ${accounts}`)
  /** Of each account `a` by itself, by its key, however many months and days there are. */
  const ofMonths = sql`months p cross join lateral (
    select p.sign, m.* from profit_account_months m where p.sign = 1 and m.month = p.first_day and m.account_id = a.account_id offset 0
  ) k`
  const ofDays = sql`days p cross join lateral (
    select p.sign, d.* from profit_account_days d where d.account_id = a.account_id and d.day >= p.first_day and d.day < p.until_day offset 0
  ) k`
  const ofTime = sql.unsafe(signed(["calls", "records", ...COLUMNS], "k."))
  const exactly = (accounts: ReturnType<Sql>) => sql`
    select a.account_id, a.beside + m.cost + d.cost as cost, a.beside_records + m.records + d.records > 0 as called
    from ${accounts} a cross join lateral (
      select coalesce(sum(k.sign * k.cost_micro), 0) as cost, coalesce(sum(k.sign * k.records), 0) as records from ${ofMonths}
    ) m cross join lateral (
      select coalesce(sum(k.sign * k.cost_micro), 0) as cost, coalesce(sum(k.sign * k.records), 0) as records from ${ofDays}
    ) d`
  return sql<(T & { enough: boolean })[]>`
    with pieces as materialized (
      select * from profit_account_pieces_1(${from}, ${to})
    ), months as materialized (
      select first_day, sign from pieces where kind = 'month'
    ), days as materialized (
      select first_day, until_day, sign from pieces where kind = 'days'
    ), depth as materialized (
      -- The more of its months is not in the time, the more accounts may be before those that are wanted.
      select (${more * count * 1.2} * power(greatest(
        extract(epoch from count(*) * interval '1 day') / extract(epoch from ${to}::timestamptz - ${from}::timestamptz), 1), 1.5))::bigint as depth
      from months p join profit_account_summed s on s.day >= p.first_day and s.day < p.first_day + interval '1 month'
    ), beside as materialized (
      select account_id, sum(cost_micro) as cost, sum(records) as records from (${beside(sql`cost_micro, records`, sql`not p.within`)}) each_sum group by 1
    ), listed as materialized (
      select p.first_day as month, l.* from months p cross join lateral (
        select account_id, cost_micro as cost, row_number() over (order by cost_micro desc, account_id) as place
        from profit_account_months where month = p.first_day
        order by cost_micro desc, account_id limit (select depth from depth) offset 0
      ) l
      union all
      select null, account_id, cost, row_number() over (order by cost desc, account_id)
      from (select * from beside order by cost desc, account_id limit (select depth from depth)) l
    ), lasts as materialized (
      select month, cost, account_id from listed where place = (select depth from depth)
    ), others as materialized (
      -- What anybody who was not looked at costs at the most, and after whose id everybody is who costs as much.
      select coalesce(sum(cost), 0) as cost, coalesce(sum(cost) filter (where month is not null), 0) as of_months, min(account_id) as account_id from lasts
    ), seen as materialized (
      select l.account_id, coalesce(sum(l.cost - coalesce(e.cost, 0)) filter (where l.month is not null), 0) as over
      from listed l left join lasts e on e.month = l.month group by 1
    ), edges as materialized (
      -- What the bounds have already, of whole days.
      select account_id, sum(cost_micro) as cost, sum(records) as records
      from (${beside(sql`cost_micro, records`, sql`p.within`, isOf(sql`seen`))}) each_sum group by 1
    ), bounds as materialized (
      select s.account_id, o.of_months + coalesce(b.cost, 0) + s.over as bound,
        coalesce(b.cost, 0) + coalesce(e.cost, 0) as beside, coalesce(b.records, 0) + coalesce(e.records, 0) as beside_records
      from seen s cross join others o left join beside b on b.account_id = s.account_id left join edges e on e.account_id = s.account_id
    ), likeliest as materialized (
      select * from bounds order by bound desc, account_id limit ${count}
    ), first as materialized (
      ${exactly(sql`likeliest`)}
    ), least as materialized (
      select min(cost) as cost from first having count(*) = ${count}
    ), answer as materialized (
      select account_id, cost from (
        select * from first
        union all
        ${exactly(sql`(
          select * from bounds where account_id not in (select account_id from likeliest) and bound >= coalesce((select cost from least), 0)
        )`)}
      ) chosen
      where called order by cost desc, account_id limit ${count}
    ), rows as materialized (
      select account_id as name, null::text as split, ${summed(sql, "sum(calls)")}
      from (
        select a.account_id, k.* from answer a cross join lateral (
          select ${ofTime} from ${ofMonths} union all select ${ofTime} from ${ofDays}
        ) k
        union all
        select account_id, ${sql.unsafe([FINAL, "records", ...COLUMNS].join(", "))}
        from (${beside(sql`${sql.unsafe(["kind", "records", ...COLUMNS].join(", "))}`, sql`true`, isOf(sql`answer`))}) each_sum
      ) each_sum
      group by 1
    ), judged as materialized (
      select o.account_id is null or coalesce((
        select t.cost > o.cost or t.cost = o.cost and t.account_id <= o.account_id from answer t order by t.cost desc, t.account_id limit 1 offset ${count - 1}
      ), false) as enough
      from others o
    )
    select j.enough, ${withSums ? sql`r.*` : sql`t.account_id as name, ${said(sql, sql`t.cost`)} as cost`}
    from judged j left join answer t on true ${withSums ? sql`left join rows r on r.name = t.account_id` : sql``}
    order by t.cost desc, t.account_id`
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
