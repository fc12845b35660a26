/** Whose calls cost the most: that it is told as the hours have it, whatever time is asked for, of days that are summed and others, and of what comes late. */
import { expect, test } from "bun:test"
import { integer, sample, tuple } from "fast-check"
import type { Sql } from "../../src/store/database.ts"
import {
  mayCost,
  MOST_BY_KEY,
  readCostliest,
  readCosts,
  sumProfitAccounts,
  sumsOfModels,
} from "../../src/store/operator/profit-accounts.ts"
import { type ProfitRow, readProfit, readProfitRows } from "../../src/store/operator/profit.ts"
import { sumProfitParts } from "../../src/store/operator/profit-parts.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

const HOUR_MS = 3_600_000
const DAYS = 75
/** Two months that are over, and a part of a third. */
const FIRST = Date.parse("2026-02-17T00:00:00Z")
const ACCOUNTS = 40

/** Accounts of which few call often, some in a part of the time, some without any cost and one without records. */
const hoursOf = (sql: Sql, seed: number) => sql`
  insert into profit_hours
  select '2026-02-17T00:00:00Z'::timestamptz + n * interval '1 hour', 'acc_' || lpad(a::text, 2, '0'), 'm-' || n % 3, 'p/k/' || n % 2, k,
    case when a = 39 then 0 else 1 + n % 3 end, n, a, 7, 9, n * 1000 + a, n % 5,
    case when a % 7 = 6 or a = 39 then 0 else (drawn % 50) * 900 + a % 3 end, n % 4, n % 2, n % 4, n * (n % 4)
  from generate_series(0, ${DAYS * 24 - 1}) n, generate_series(0, ${ACCOUNTS - 1}) a,
    unnest(array['ok', 'retry', 'fallback_429']) with ordinality kinds (k, kind),
    lateral (select abs(hashint8extended((n * ${ACCOUNTS} + a) * 4 + kind, ${seed}) % 2147483647) as drawn) d
  where drawn % (3 + a * a) = 0 and (a % 5 <> 3 or n / 24 between a and a + 25) and n / 24 <> 50`

const CLAIMS = [
  "the sums of profit by accounts are those of the parts of days",
  "the sums of profit by accounts and months are those of their days",
  "the sums of profit by accounts, models and months are those of the parts of days",
]
const contradicted = async (sql: Sql) => {
  const asked = claims.filter(({ name }) => CLAIMS.includes(name))
  const found = await Promise.all(asked.map(({ contradictions }) => sql.unsafe(contradictions)))
  return asked.length === CLAIMS.length ? found.flat() : ["a claim is missing"]
}

/** A round has not as many as there are. */
const sumParts = async ({ db }: Pick<TestDatabase, "db">) => {
  await sumProfitParts(db)
  await sumProfitParts(db)
}
const summed = async (target: Pick<TestDatabase, "db">) => {
  await sumParts(target)
  await sumProfitAccounts(target.db)
}

const at = (hour: number) => new Date(FIRST + hour * HOUR_MS)

interface Told {
  name: string | null
  records: number
  calls: number
  revenue: string
  cost: string
  estimated: string
  unknown: number
  absorbed: string
  under: number
  under_micro: string
}

/** As the hours have it. */
const hourly = async (sql: Sql, from: Date, to: Date) =>
  [
    ...(await sql<Told[]>`
    select account_id as name, sum(records)::int as records, coalesce(sum(records) filter (where kind = 'ok'), 0)::int as calls, sum(charge_micro)::text as revenue,
      sum(cost_micro)::text as cost, sum(estimated_micro)::text as estimated, sum(unknown)::int as unknown, sum(absorbed_micro)::text as absorbed,
      sum(under)::int as under, sum(under_micro)::text as under_micro
    from profit_hours where hour >= ${from} and hour < ${to} group by 1 having sum(records) > 0
    order by sum(cost_micro) desc, 1`),
  ].map((row) => ({ ...row }))

/** What accounts are divided into, and what is divided into accounts. */
const PARTS = [
  { groupBy: "account", splitBy: "model" },
  { groupBy: "member", splitBy: "account" },
  { groupBy: "account", splitBy: "day" },
] as const

const hourlyPairs = async (sql: Sql, from: Date, to: Date, { groupBy, splitBy }: (typeof PARTS)[number]) => {
  const columns = {
    account: "account_id",
    model: "model",
    member: "member",
    day: "to_char(hour at time zone 'UTC', 'YYYY-MM-DD')",
  }
  const rows = await sql.unsafe<Omit<ProfitRow, "group" | "split">[]>(
    `select ${columns[groupBy]} as group, ${columns[splitBy]} as split, coalesce(sum(records) filter (where kind = 'ok'), 0)::int as calls,
      sum(charge_micro)::bigint as "revenueMicro", sum(cost_micro)::bigint as "costMicro", sum(estimated_micro)::bigint as "estimatedMicro",
      sum(unknown)::int as unknown, sum(absorbed_micro)::bigint as "absorbedMicro", sum(under)::int as under, sum(under_micro)::bigint as "underMicro"
    from profit_hours where hour >= $1 and hour < $2 group by 1, 2 having sum(records) > 0 order by sum(cost_micro) desc, 1, 2`,
    [from, to],
  )
  return rows.map(lineOf)
}

/** Each column by its name. */
const lineOf = (row: object): string =>
  Object.entries(row)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ")

/** What all hours have in them, as one number. */
const contentsOf = async (sql: Sql) => {
  const [row] = await sql<{ contents: string }[]>`
    select concat_ws(' ', count(*), sum(hash_record_extended(h, 0)), sum(hash_record_extended(h, 1))) as contents from profit_hours h`
  return row?.contents ?? ""
}

/** What the hours say of a time is asked of them once: most that is tried changes sums alone. */
const remembered = new Map<string, { costliest: Told[]; pairs: string[] }>()
const expectedOf = async (sql: Sql, contents: string, from: Date, to: Date, halves: (typeof PARTS)[number]) => {
  const key = JSON.stringify([contents, from, to, halves])
  const known = remembered.get(key)
  if (known !== undefined) return known
  const [costliest, pairs] = await Promise.all([hourly(sql, from, to), hourlyPairs(sql, from, to, halves)])
  remembered.set(key, { costliest, pairs })
  return { costliest, pairs }
}

const told = async ({ db }: TestDatabase, from: Date, to: Date, limit: number) =>
  (await readCostliest(db, { from, to }, limit))?.map((row) => ({
    name: row.name,
    records: row.records,
    calls: row.calls,
    revenue: String(row.revenue),
    cost: String(row.cost),
    estimated: String(row.estimated),
    unknown: row.unknown,
    absorbed: String(row.absorbed),
    under: row.under,
    under_micro: String(row.under_micro),
  }))

/** From and until which hour, and how many of the accounts; then some that are drawn. */
const asked: readonly (readonly [number, number, number])[] = [
  [0, DAYS * 24, 5],
  [0, DAYS * 24, 100],
  [-200, DAYS * 24 + 500, 7],
  [12 * 24, 43 * 24, 5],
  [12 * 24 - 7, 43 * 24 - 7, 5],
  [5 * 24 + 3, 44 * 24 + 19, 6],
  [20 * 24, 27 * 24, 3],
  [20 * 24 + 0.5, 27 * 24 + 0.25, 3],
  [41 * 24 + 16, 46 * 24 + 1, 4],
  [50 * 24, 54 * 24, 4],
]
const drawn = sample(
  tuple(integer({ min: -30, max: 60 * 24 }), integer({ min: 84, max: 40 * 24 }), integer({ min: 1, max: 30 })),
  { numRuns: 24, seed: 20261125 },
)
/** Of those that are drawn each look takes the next three. */
let looks = 0
const nextDrawn = () => {
  const first = (3 * looks++) % drawn.length
  return drawn.slice(first, first + 3)
}

const toldRightly = async (target: TestDatabase) => {
  const answered = { exactly: 0, beside: 0 }
  const contents = await contentsOf(target.sql)
  for (const [first, last, limit] of [
    ...asked,
    ...nextDrawn().map(([first, hours, limit]) => [first, first + hours, limit] as const),
  ]) {
    const [from, to] = [at(first), at(last)]
    const halves = PARTS[(first + limit) % PARTS.length] ?? PARTS[0]
    const { costliest, pairs } = await expectedOf(target.sql, contents, from, to, halves)
    const rows = await told(target, from, to, limit)
    if (rows === undefined) answered.beside++
    else {
      answered.exactly++
      expect([first, last, limit, rows]).toEqual([first, last, limit, costliest.slice(0, limit)])
    }
    const question = { from, to, timeZone: "UTC", groupBy: "account", splitBy: undefined, limit } as const
    const profit = await readProfit(target.db, question)
    expect(profit.rows.map(({ group, costMicro }) => [group, String(costMicro)])).toEqual(
      costliest.slice(0, limit).map(({ name, cost }) => [name ?? "", cost]),
    )
    expect(profit.truncated).toBe(costliest.length > limit)
    expect(String(profit.total.costMicro)).toBe(String(costliest.reduce((sum, { cost }) => sum + BigInt(cost), 0n)))
    // What all calls came to is the same, whatever they are divided into: it is asked for once.
    const parts = await readProfitRows(target.db, { ...question, ...halves })
    expect([halves, first, last, parts.rows.map(lineOf)]).toEqual([halves, first, last, pairs.slice(0, limit)])
    expect(parts.truncated).toBe(pairs.length > limit)
    // A file's: all accounts, of some days after each other.
    const whole = await readProfitRows(target.db, { ...question, limit: 1_000 })
    expect([first, last, whole.rows.map((row) => Object.values(row).map(String))]).toEqual([
      first,
      last,
      costliest.map((row) =>
        [
          row.name,
          undefined,
          row.calls,
          row.revenue,
          row.cost,
          row.estimated,
          row.unknown,
          row.absorbed,
          row.under,
          row.under_micro,
        ].map(String),
      ),
    ])
    const divided = await readProfitRows(target.db, { ...question, ...halves, limit: 100_000 })
    expect([first, last, divided.rows.map(lineOf)]).toEqual([first, last, pairs])
  }
  return answered
}

test("who costs the most is who does in the hours, whatever of the time is summed", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await hoursOf(sql, 1)
  await toldRightly(target)
  await sumParts(target)
  await toldRightly(target)
  await sumProfitAccounts(target.db)
  expect(await contradicted(sql)).toEqual([])
  const { exactly } = await toldRightly(target)
  expect(exactly).toBeGreaterThan(11)
  // In the sums of a month, and not standing; of what is late, in a month that is over and in the last; and of days that are not summed yet.
  await sql`update profit_account_summed set stands = false where day in ('2026-02-20', '2026-03-05', '2026-03-06', '2026-03-31')`
  await sql`insert into profit_late values ('2026-03-23T15:00:00Z'), ('2026-04-02T17:00:00Z'), ('2026-04-02T17:00:00Z')`
  expect(await contradicted(sql)).toEqual([])
  // What does not stand is not read: it may be wrong.
  await sql`update profit_account_days set cost_micro = cost_micro + 1000000, records = records + 1 where day = '2026-03-06'`
  await sql`
      update profit_account_months m set cost_micro = cost_micro + 1000000, records = records + 1
      where month = '2026-03-01' and exists (select from profit_account_days d where d.account_id = m.account_id and d.day = '2026-03-06')`
  await toldRightly(target)
  await summed(target)
  expect(await contradicted(sql)).toEqual([])
  await toldRightly(target)
}, 300_000)

test("days that were summed before there were sums by models get them, and are told from parts until then", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql, 6)
  await summed(target)
  await sql`delete from profit_account_models`
  await sql`update profit_account_summed set grouped = false`
  await toldRightly(target)
  expect(await contradicted(sql)).toEqual([])
  // What is late by then is in them once.
  await recordOf(sql, "req_a", "acc_38", "2026-03-02T02:10:00Z")
  await summed(target)
  expect(await contradicted(sql)).toEqual([])
  const [left] = await sql<
    { days: number }[]
  >`select count(*)::int as days from profit_account_summed where not grouped`
  expect(left?.days).toBe(0)
  await toldRightly(target)
  const [from, to] = [at(10 * 24), at(70 * 24)]
  const question = { from, to, timeZone: "UTC", groupBy: "account", splitBy: "model", limit: 5 } as const
  const { rows } = await readProfit(db, question)
  expect(rows).toHaveLength(5)
  // A whole month is read from nothing else.
  await sql`update profit_days set cost_micro = 0 where since >= '2026-03-01' and since < '2026-04-01'`
  expect((await readProfit(db, question)).rows).toEqual(rows)
  await sql`update profit_account_models set charge_micro = charge_micro + 1 where month = '2026-03-01'`
  expect((await readProfit(db, question)).rows).not.toEqual(rows)
}, 300_000)

test("where nothing has a cost the accounts are in the order of their ids", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await hoursOf(sql, 2)
  await sql`update profit_hours set cost_micro = 0`
  await summed(target)
  const { exactly, beside } = await toldRightly(target)
  expect([exactly > 12, beside]).toEqual([true, 0])
})

test("of accounts no sums are read by models of days that are summed", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql, 3)
  await summed(target)
  await sql`update profit_days set cost_micro = cost_micro * 2`
  await sql`update profit_hours set cost_micro = cost_micro * 3`
  const [from, to] = [at(10 * 24), at(70 * 24)]
  const before = await told(target, from, to, 5)
  await sql`update profit_account_days set cost_micro = 0`
  await sql`update profit_account_months set cost_micro = 0`
  expect(await told(target, from, to, 5)).not.toEqual(before)
  expect((await told(target, from, to, 5))?.every(({ cost }) => cost === "0")).toBe(true)
  await sql`delete from profit_account_summed`
  expect(await readCostliest(db, { from, to }, 5)).not.toBeEmpty()
  expect((await told(target, from, to, 5))?.every(({ cost }) => cost !== "0")).toBe(true)
})

test("sums by models of some accounts are the same, however many are asked for beside them", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql, 4)
  await summed(target)
  const [from, to] = [at(10 * 24 - 3), at(70 * 24 + 5)]
  const ids = Array.from({ length: 15 }, (_, n) => `acc_${String(2 * n).padStart(2, "0")}`)
  const sumsOf = async (asked: readonly string[]) => {
    const rows = await db.run(
      (run) => run<{ account_id: string; sums: string }[]>`
        select account_id, concat_ws(' ', model, member, sum(calls), sum(records), sum(charge_micro), sum(cost_micro), sum(unknown)) as sums
        from ${sumsOfModels(run, { from, to }, asked)} group by account_id, model, member order by 1, 2`,
    )
    return rows.map((row) => ({ ...row }))
  }
  const few = await sumsOf(ids)
  expect(new Set(few.map(({ account_id }) => account_id)).size).toBe(ids.length)
  const strangers = Array.from({ length: MOST_BY_KEY - ids.length + 1 }, (_, n) => `acc_nobody_${n}`)
  // Prepared once, and then planned without knowing which accounts are asked for.
  for (let n = 0; n < 7; n++) expect(await sumsOf([...ids, ...strangers])).toEqual(few)
  expect(await sumsOf([...ids, ...strangers.slice(1)])).toEqual(few)
  const hourly = await sql<{ cost: string }[]>`
    select sum(cost_micro)::text as cost from profit_hours where hour >= ${from} and hour < ${to} and account_id = any (${sql.array(ids)}::text[])`
  const cost = few.reduce((sum, { sums }) => sum + BigInt(sums.split(" ")[5] ?? ""), 0n)
  expect(String(cost)).toBe(hourly[0]?.cost ?? "")
})

test("of accounts that cost enough together those are left out of which no model does, by what their months tell, and no other", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql, 7)
  await summed(target)
  const leftOut: number[] = []
  for (const [first, last] of [
    [0, DAYS * 24],
    [12 * 24, 43 * 24],
    [8 * 24 - 7, 50 * 24 + 5],
    // Days of its months are not in it, so that nothing is known.
    [14 * 24, 41 * 24],
  ] as const) {
    const period = { from: at(first), to: at(last) }
    const accounts = (await readCosts(db, period, 100)) ?? []
    const models = await sql<{ account: string; cost: bigint }[]>`
      select account_id as account, sum(cost_micro)::bigint as cost from profit_hours
      where hour >= ${period.from} and hour < ${period.to} group by account_id, model having sum(records) > 0 order by 2 desc`
    let left = 0
    for (let n = 0; n < models.length; n += 6) {
      const least = models[n]?.cost ?? 0n
      const enough = accounts.filter(({ cost }) => cost >= least).map(({ name }) => name ?? "")
      const may = await mayCost(db, period, { accounts, least, column: "model" })
      const does = new Set(models.filter(({ cost }) => cost >= least).map(({ account }) => account))
      expect([...does].filter((account) => !may.includes(account))).toEqual([])
      expect(may.filter((account) => !enough.includes(account))).toEqual([])
      left += enough.length - may.length
    }
    leftOut.push(left)
    const all = accounts.map(({ name }) => name ?? "")
    expect(await mayCost(db, period, { accounts, least: undefined, column: "model" })).toEqual(all)
  }
  expect([leftOut.slice(0, 3).every((count) => count > 0), leftOut[3]]).toEqual([true, 0])
})

const recordOf = (sql: Sql, requestId: string, accountId: string, openedAt: string) => sql`
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms,
    cost_micro, member)
  values (${requestId}, 0, ${accountId}, 'key_1', 1, 'm-1', 'chat', false, 'ok', 1, 1, 0, 0, 5, 0, 1, 1, 1, false, ${openedAt}, 1, 300000, 'p/k/1')`

test("what comes late or is taken back is told at once, and is in the sums of the day and of the month after that", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await hoursOf(sql, 4)
  await summed(target)
  const days = await sql<{ day: string }[]>`select day::text from profit_account_summed where stands`
  const standing = async () => (await sql`select from profit_account_summed where stands`).length
  expect(days).toHaveLength(DAYS)
  // Of an account that never called, of one that calls seldom in a part that nobody called in, and in a month that is over.
  await recordOf(sql, "req_a", "acc_new", "2026-04-07T15:30:00Z")
  await recordOf(sql, "req_b", "acc_38", "2026-04-08T15:30:00Z")
  await recordOf(sql, "req_c", "acc_38", "2026-03-02T02:10:00Z")
  await toldRightly(target)
  expect((await told(target, at(0), at(DAYS * 24), 50))?.some(({ name }) => name === "acc_new")).toBe(true)
  expect(await standing()).toBe(DAYS)
  expect(await contradicted(sql)).toEqual([])
  await sumProfitParts(target.db)
  expect(await standing()).toBe(DAYS - 3)
  await toldRightly(target)
  expect(await contradicted(sql)).toEqual([])
  await sumProfitAccounts(target.db)
  expect(await standing()).toBe(DAYS)
  await toldRightly(target)
  expect(await contradicted(sql)).toEqual([])
  await sql`update usage set cost_micro = 1 where request_id = 'req_c'`
  await toldRightly(target)
  await summed(target)
  await toldRightly(target)
  expect(await contradicted(sql)).toEqual([])
  await sql`update profit_account_days set under = under + 1 where day = '2026-04-07' and account_id = 'acc_new'`
  expect(await contradicted(sql)).toHaveLength(2)
})

test("a part that is late before its turn is not summed before those before it, and no day without all of its parts", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql, 5)
  const sumPart = async (over: string) =>
    (await sql<{ since: Date | null }[]>`select sum_profit_part_1(${over}) as since`)[0]?.since?.toISOString()
  expect(await sumPart("2026-02-17T15:00:01Z")).toBe("2026-02-17T00:00:00.000Z")
  await recordOf(sql, "req_a", "acc_01", "2026-02-19T15:30:00Z")
  expect(await sumPart("2026-03-01T00:00:00Z")).toBe("2026-02-17T15:00:00.000Z")
  await sumParts(target)
  expect((await sql`select from profit_late`).length).toBe(0)
  const [left] = await sql<{ parts: number }[]>`
    select count(*)::int as parts from (select distinct profit_part(hour) as part from profit_hours) p where part not in (select since from profit_parts)`
  expect(left?.parts).toBe(0)
  // As before this release parts could be left out.
  await sql`delete from profit_parts where since = '2026-03-03T17:00:00Z'`
  await sql`delete from profit_days where since = '2026-03-03T17:00:00Z'`
  await sumProfitAccounts(db)
  const days = await sql<
    { day: string }[]
  >`select day::text from generate_series(date '2026-02-17', date '2026-05-02', interval '1 day') d (day)
    where day not in (select day from profit_account_summed)`
  expect(days.map(({ day }) => day.slice(0, 10))).toEqual(["2026-03-03"])
  await toldRightly(target)
})
