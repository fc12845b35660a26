/** Sums of profit by parts of days: that they are those of the hours, whatever time, zone and groups are asked for. */
import { afterAll, expect, test } from "bun:test"
import { type Database, openDatabase, type Sql } from "../../src/store/database.ts"
import { firstRequestId } from "../../src/http/edge.ts"
import { sumCallHours } from "../../src/store/operator/overview.ts"
import { sumProfitAccounts } from "../../src/store/operator/profit-accounts.ts"
import { type ProfitGroup, profitGroups, type ProfitRow, readMix, readProfit } from "../../src/store/operator/profit.ts"
import { countCustomers, readUnder, sumProfitParts, sums } from "../../src/store/operator/profit-parts.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { directConnection, onPostgres, openTestDatabase, type TestDatabase } from "./harness.ts"
import { openPlace } from "./scratch.ts"

const CLAIMS = [
  "the sums of profit by parts of days are those of the hours",
  "the sums of profit of the house are those of its accounts",
]
const HOUR_MS = 3_600_000
const FIRST = Date.parse("2026-03-20T00:00:00Z")

/** Ten days in which London's summer begins; each amount is another one. */
const hoursOf = (sql: Sql) => sql`
  insert into profit_hours
  select '2026-03-20T00:00:00Z'::timestamptz + n * interval '1 hour', 'acc_' || a, 'm-' || (n + a) % 2, 'p/k/' || n % 3, k,
    1 + n % 3, n, a, 7, 9, n * 1000 + a, n % 5, n * 900 + 31 * a, n, n % 2, n % 4, n * (n % 4)
  from generate_series(0, 239) n, generate_series(1, 2) a, unnest(array['ok', 'retry', 'usage_missing']) k`

const contradicted = async (sql: Sql) => {
  const asked = claims.filter(({ name }) => CLAIMS.includes(name))
  const found = await Promise.all(asked.map(({ contradictions }) => sql.unsafe(contradictions)))
  return asked.length === CLAIMS.length ? found.flat() : ["a claim is missing"]
}

const recordOf = (sql: Sql, requestId: string, openedAt: string) => sql`
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms,
    cost_micro, member)
  values (${requestId}, 0, 'acc_1', 'key_1', 1, 'm-1', 'chat', false, 'ok', 1, 1, 0, 0, 5, 0, 1, 1, 1, false, ${openedAt}, 1, 3, 'p/k/1')`

const costOf = async ({ db }: Pick<TestDatabase, "db">) => {
  const question = { timeZone: "UTC", groupBy: "model", splitBy: undefined, limit: 10 } as const
  const period = { from: new Date(FIRST), to: new Date(FIRST + 240 * HOUR_MS) }
  return String((await readProfit(db, { ...period, ...question })).total.costMicro)
}

const hourly = async (sql: Sql) => {
  const [row] = await sql<{ cost: string }[]>`select sum(cost_micro)::text as cost from profit_hours`
  return row!.cost
}

const marks = async (sql: Sql) =>
  (await sql<{ since: Date }[]>`select since from profit_late order by since`).map(({ since }) => since.toISOString())

test("of parts that are summed no hour is read, whatever is asked of them", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql)
  // So few that the planner would begin with them.
  await sql`update profit_hours set under = 0, under_micro = 0`
  await sumProfitParts(db)
  await sql`analyze profit_hours, profit_house, profit_parts`
  const period = { from: new Date(FIRST), to: new Date(FIRST + 240 * HOUR_MS) }
  for (const where of [sql`under > 0`, sql`model = 'm-1'`, sql`true`]) {
    const plan = await db.run(
      (own) =>
        own<
          Record<string, string>[]
        >`explain (analyze, timing off) select sum(cost_micro) from ${sums(own, "house", period)} where ${where}`,
    )
    const scans = plan.map((row) => row["QUERY PLAN"] ?? "").filter((line) => line.includes(" on profit_hours"))
    expect(scans).not.toBeEmpty()
    expect(scans.filter((line) => !/never executed|actual rows=0(?:\.0+)? /.test(line))).toEqual([])
    expect(scans.filter((line) => line.includes("Seq Scan"))).toEqual([])
  }
})

test("of accounts by day no more days are read than fill a page", async () => {
  await using target = await openTestDatabase()
  await hoursOf(target.sql)
  const period = { from: new Date(FIRST), to: new Date(FIRST + 240 * HOUR_MS) }
  const question = { ...period, timeZone: "UTC", groupBy: "day", splitBy: "account" } as const
  const asked = async (limit: number) => {
    let statements = 0
    const run: Database["run"] = (...of) => {
      statements++
      return target.db.run(...of)
    }
    const { rows, truncated } = await readProfit({ ...target.db, run }, { ...question, limit })
    return { rows: rows.length, truncated, statements }
  }
  // Beside that of all together, those of one day, of two, of four, and of what is left.
  expect(await asked(1)).toEqual({ rows: 1, truncated: true, statements: 2 })
  expect(await asked(2)).toEqual({ rows: 2, truncated: true, statements: 3 })
  expect(await asked(6)).toEqual({ rows: 6, truncated: true, statements: 4 })
  expect(await asked(20)).toEqual({ rows: 20, truncated: false, statements: 5 })
})

test("a part is summed when it is over, and what comes late or is taken back later is in what is told at once", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql)
  expect(await costOf(target)).toBe(await hourly(sql))
  await sumProfitParts(db)
  const [rows] = await sql<{ days: number; parts: number }[]>`
    select (select count(*)::int from profit_days) as days, (select count(*)::int from profit_parts) as parts`
  // Of 1,440 sums of hours, ten days of four parts.
  expect(rows).toEqual({ days: 840, parts: 40 })
  expect(await contradicted(sql)).toHaveLength(0)
  expect(await costOf(target)).toBe(await hourly(sql))
  await recordOf(sql, "req_late", "2026-03-21T16:20:00Z")
  expect(await marks(sql)).toEqual(["2026-03-21T16:00:00.000Z"])
  expect(await costOf(target)).toBe(await hourly(sql))
  expect(await contradicted(sql)).toHaveLength(0)
  await sumProfitParts(db)
  expect(await marks(sql)).toEqual([])
  expect(await contradicted(sql)).toHaveLength(0)
  expect(await costOf(target)).toBe(await hourly(sql))
  await sql`update usage set cost_micro = 1 where request_id = 'req_late'`
  await sql`alter table usage disable trigger usage_charge_is_kept`
  await sql`delete from usage where request_id = 'req_late'`
  expect(await marks(sql)).toEqual(["2026-03-21T16:00:00.000Z", "2026-03-21T16:00:00.000Z"])
  expect(await costOf(target)).toBe(await hourly(sql))
  await sumProfitParts(db)
  expect(await marks(sql)).toEqual([])
  await sql`update profit_days set under_micro = under_micro + 1 where since = '2026-03-21T16:00:00Z'`
  expect(await contradicted(sql)).not.toHaveLength(0)
})

test("a part that was summed while the database's clock was ahead is told as its hours are", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  const now = new Date().toISOString()
  await recordOf(sql, "req_first", now)
  const [part] = await sql<{ since: Date }[]>`select sum_profit_part_1(now() + interval '2 days') as since`
  await recordOf(sql, "req_second", now)
  const period = { from: new Date(Date.now() - 48 * HOUR_MS), to: new Date(Date.now() + 48 * HOUR_MS) }
  for (let round = 0; round < 2; round++) {
    await sumProfitParts(db)
    const { total } = await readProfit(db, {
      ...period,
      timeZone: "UTC",
      groupBy: "model",
      splitBy: undefined,
      limit: 10,
    })
    expect([total.calls, String(total.costMicro)]).toEqual([2, "6"])
    // It is summed again when it is over.
    expect(await marks(sql)).toEqual([part!.since.toISOString()])
  }
})

test("a part is not summed before it was over for its time, and what is booked in time leaves no mark", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  const next = async (over: string) => {
    const [row] = await sql<{ since: Date | null }[]>`select sum_profit_part_1(${over}) as since`
    return row?.since?.toISOString()
  }
  await hoursOf(sql)
  expect(await next("2026-03-20T15:00:00Z")).toBe(undefined)
  expect(await next("2026-03-20T15:00:01Z")).toBe("2026-03-20T00:00:00.000Z")
  expect(await next("2026-03-20T16:00:00Z")).toBe(undefined)
  expect(await next("2026-03-20T16:00:01Z")).toBe("2026-03-20T15:00:00.000Z")
  expect(await next("2026-03-21T00:00:01Z")).toBe("2026-03-20T16:00:00.000Z")
  expect(await next("2026-03-21T00:00:01Z")).toBe("2026-03-20T17:00:00.000Z")
  expect(await next("2026-03-21T00:00:01Z")).toBe(undefined)
  await recordOf(sql, "req_now", new Date().toISOString())
  await sql`update usage set cost_micro = 1`
  expect(await marks(sql)).toEqual([])
  // An hour after a part's end, and not a moment before.
  const [late] = await sql<{ at: boolean; after: boolean }[]>`
    with part as (select profit_part(now() - interval '1 day') as since)
    select profit_is_late(profit_part(now())) as at, profit_is_late(since) as after from part`
  expect(late).toEqual({ at: false, after: true })
})

test.if(onPostgres)(
  "what is booked while its part is summed is summed again, and one process sums at a time",
  async () => {
    await using target = await openTestDatabase()
    const { sql, db } = target
    await hoursOf(sql)
    const other = directConnection(target.url)
    await other.sql.begin(async (booking) => {
      await recordOf(booking as unknown as Sql, "req_late", "2026-03-22T01:00:00Z")
      await sumProfitParts(db)
    })
    expect(await marks(sql)).toEqual(["2026-03-22T00:00:00.000Z"])
    expect(await costOf(target)).toBe(await hourly(sql))
    await other.sql.begin(async (summing) => {
      const [row] = await summing<{ since: Date }[]>`select sum_profit_part_1(now()) as since`
      expect(row?.since.toISOString()).toBe("2026-03-22T00:00:00.000Z")
      const [beside] = await sql<{ since: Date | null }[]>`select sum_profit_part_1(now()) as since`
      expect(beside?.since).toBeNull()
    })
    expect(await marks(sql)).toEqual([])
    expect(await contradicted(sql)).toHaveLength(0)
    await other.end()
  },
  300_000,
)

test.if(onPostgres)(
  "a sum that takes longer than a statement may is told, and not taken for the last one",
  async () => {
    const place = await openPlace()
    const connection = directConnection(place.url)
    for (const [name, type] of [
      ["sum_profit_part_1(over_since timestamptz)", "timestamptz"],
      ["count_customers_1()", "date"],
      ["sum_profit_accounts_1()", "date"],
      ["sum_call_hour_1(of_hour timestamptz, first_id text, end_id text)", "boolean"],
    ])
      await connection.sql.unsafe(`create or replace function ${name} returns ${type} language plpgsql as $$ begin
      if pg_try_advisory_xact_lock(hashtext('${name}')) then perform pg_sleep(30); end if;
      return null;
    end $$`)
    await connection.sql`insert into call_late (hour) values (date_trunc('hour', now()) - interval '1 day')`
    const db = openDatabase({ url: place.url, connections: 4 })
    const sumHours = sumCallHours(db, firstRequestId)
    const ends = await Promise.allSettled([sumProfitParts(db), countCustomers(db), sumProfitAccounts(db), sumHours])
    expect(ends.map(({ status }) => status)).toEqual(ends.map(() => "rejected"))
    await db.close()
    await connection.end()
    await place.remove()
  },
)

test("how many customers a model has had since a time is what the hours say, of parts that are summed, late, and summed again", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  const now = Date.now()
  const hour = (ago: number) => new Date(Math.floor(now / HOUR_MS - ago) * HOUR_MS)
  let drawn = 77
  const draw = (below: number) => Math.floor(((drawn = (drawn * 16_807) % 2_147_483_647) / 2_147_483_647) * below)
  // Of most accounts a few calls in fifty days, some of them a part's only ones.
  const rows = Array.from({ length: 1_500 }, () => ({
    hour: hour(draw(50 * 24)).toISOString(),
    account_id: `acc_${draw(400)}`,
    model: `m-${draw(2)}`,
    kind: draw(4) === 0 ? "upstream_error" : "ok",
  }))
  await sql`
    insert into profit_hours (hour, account_id, model, member, kind, records, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
      charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro)
    select distinct hour, account_id, model, 'a/b/c', kind, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as r (hour timestamptz, account_id text, model text, kind text)`
  const agree = async () => {
    for (const ago of [0, 1, 5, 20, 24 * 7 + 3, 24 * 30, 24 * 39]) {
      const [should] = await sql<{ accounts: number }[]>`
        select count(distinct account_id)::int as accounts from profit_hours
        where model = 'm-1' and kind = 'ok' and records > 0 and hour >= ${hour(ago)}`
      // Not a whole hour: those that begin in it.
      const period = { from: new Date(hour(ago).getTime() - 60_000), to: new Date(now + 24 * HOUR_MS) }
      expect([ago, (await readMix(db, "m-1", period)).customers]).toEqual([ago, should?.accounts ?? 0])
    }
    const claim = claims.find(({ name }) => name === "the sums of customers by models are those of the hours")
    expect([...(await sql.unsafe(claim!.contradictions))]).toEqual([])
  }
  const part = async (ago: number) => {
    const [row] = await sql<{ part: Date }[]>`select profit_part(${hour(ago)}) as part`
    return row!.part
  }
  await agree()
  await sumProfitParts(db)
  const [kept] = await sql<{ rows: number }[]>`select count(*)::int as rows from model_customers`
  expect(kept?.rows).toBeGreaterThan(400)
  await agree()
  for (const [index, ago] of [30, 24 * 6 + 5, 24 * 29, 24 * 41].entries()) {
    // What a part has is taken back of some, of whom a few have called in no other, and there are others.
    const since = await part(ago)
    await sql`update profit_hours set records = 0 where hour >= ${since} and hour < profit_part_end(${since}) and ascii(right(account_id, 1)) % 2 = 0`
    await sql`
      insert into profit_hours (hour, account_id, model, member, kind, records, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
        charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro)
      values (${since}, ${`acc_new_${index}`}, 'm-1', 'a/b/c', 'ok', 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0)`
    await sql`insert into profit_late values (${since}), (${since})`
    await agree()
    if (index % 2 === 1) {
      await sumProfitParts(db)
      expect(await marks(sql)).toEqual([])
      await agree()
    }
  }
})

type Finest = Record<ProfitGroup, string> & { readonly cost: bigint; readonly records: number }

/** What each group has: its cost, and its calls. */
function addedUp(rows: readonly Finest[], groupBy: ProfitGroup, splitBy: ProfitGroup | undefined) {
  const groups = new Map<string, [string, number]>()
  for (const row of rows) {
    const key = splitBy === undefined ? row[groupBy] : `${row[groupBy]}|${row[splitBy]}`
    const [cost, records] = groups.get(key) ?? ["0", 0]
    groups.set(key, [String(BigInt(cost) + row.cost), records + row.records])
  }
  return groups
}

const byCost = (a: ProfitRow, b: ProfitRow) => Number(b.costMicro - a.costMicro)
const byName = (a: ProfitRow, b: ProfitRow) => (a.group < b.group ? -1 : Number(a.group > b.group))

const zones = ["UTC", "Asia/Jakarta", "Asia/Makassar", "Asia/Jayapura", "Asia/Kolkata", "Europe/London"]
/** From and until which hour after the first; some begin or end within a part of a day, or within an hour. */
const times = [
  [0, 240],
  [17, 185],
  [-7, 233],
  [16, 17],
  [3, 9],
  [14.5, 63.25],
  [15, 15],
] as const

const openSummed = async () => {
  const target = await openTestDatabase()
  const { sql, db } = target
  await hoursOf(sql)
  await sumProfitParts(db)
  await sql`delete from profit_parts where since between '2026-03-23T15:00:00Z' and '2026-03-25T15:00:00Z'`
  await sql`insert into profit_late values ('2026-03-21T17:00:00Z')`
  return target
}
/** Parts that are summed and others, for all zones: they are only read. */
let opened: ReturnType<typeof openSummed> | undefined
afterAll(async () => {
  await (await opened)?.close()
  opened = undefined
})

test.each(zones)(
  "what is told of a time is what its hours have, of parts that are summed and others (%s)",
  async (timeZone) => {
    const { sql, db } = await (opened ??= openSummed())
    for (const [first, last] of times) {
      const period = { from: new Date(FIRST + first * HOUR_MS), to: new Date(FIRST + last * HOUR_MS) }
      const within = `hour >= '${period.from.toISOString()}' and hour < '${period.to.toISOString()}'`
      const finest = await sql.unsafe<Finest[]>(`
        select to_char(hour at time zone '${timeZone}', 'YYYY-MM-DD') as day, model, member, account_id as account,
          sum(cost_micro)::bigint as cost, coalesce(sum(records) filter (where kind <> 'retry'), 0)::int as records
        from profit_hours where ${within} group by 1, 2, 3, 4`)
      for (const groupBy of profitGroups)
        for (const splitBy of [undefined, ...profitGroups]) {
          if (splitBy === groupBy) continue
          const told = await readProfit(db, { ...period, timeZone, groupBy, splitBy, limit: 1_000 })
          const expected = addedUp(finest, groupBy, splitBy)
          const got = new Map(
            told.rows.map(({ group, split, costMicro, calls }) => [
              split === undefined ? group : `${group}|${split}`,
              [String(costMicro), calls],
            ]),
          )
          expect([timeZone, first, last, groupBy, splitBy, got]).toEqual([
            timeZone,
            first,
            last,
            groupBy,
            splitBy,
            expected,
          ])
          const inOrder = told.rows.toSorted((a, b) =>
            groupBy === "day" ? byName(a, b) || byCost(a, b) : byCost(a, b),
          )
          expect(told.rows).toEqual(inOrder)
          const page = await readProfit(db, { ...period, timeZone, groupBy, splitBy, limit: 3 })
          expect(page).toEqual({ ...told, rows: told.rows.slice(0, 3), truncated: told.rows.length > 3 })
          expect(String(told.total.costMicro)).toBe(String(finest.reduce((all, { cost }) => all + cost, 0n)))
        }
      const [direct] = await sql.unsafe<{ calls: number; customers: number; input: number; under: number }[]>(`
      select coalesce(sum(records) filter (where model = 'm-1' and kind = 'ok'), 0)::int as calls,
        coalesce(sum(input_tokens) filter (where model = 'm-1' and kind = 'ok'), 0)::int as input,
        (select count(distinct account_id)::int from profit_hours
          where model = 'm-1' and kind = 'ok' and records > 0 and hour >= '${period.from.toISOString()}') as customers,
        coalesce(sum(under), 0)::int as under from profit_hours where ${within}`)
      expect(await readMix(db, "m-1", period)).toMatchObject({
        calls: direct!.calls,
        customers: direct!.customers,
        tokens: { input: direct!.input },
      })
      const under = await readUnder(db, period)
      expect(under.reduce((all, { calls }) => all + calls, 0)).toBe(direct!.under)
    }
  },
  300_000,
)
