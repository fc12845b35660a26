/** Who called on each day: that counts of days are those of the sums, whatever time and zone are asked for, and what comes late. */
import { expect, test } from "bun:test"
import type { Sql } from "../../src/store/database.ts"
import { readDays } from "../../src/store/operator/overview.ts"
import { countCustomers, readCountedDays, sumProfitParts } from "../../src/store/operator/profit-parts.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

const HOUR_MS = 3_600_000
const FIRST = Date.parse("2026-03-20T00:00:00Z")

/** Ten days of five accounts, of which some call seldom and one has a sum without a call; of the sixth day there is nothing. */
const hoursOf = (sql: Sql) => sql`
  insert into profit_hours
  select '2026-03-20T00:00:00Z'::timestamptz + n * interval '1 hour', 'acc_' || a, 'm-' || n % 2, 'p/k/1', k, case when a = 5 then 0 else 1 end,
    1, 1, 0, 0, 5, 0, 3, 0, 0, 0, 0
  from generate_series(0, 239) n, generate_series(1, 5) a, unnest(array['ok', 'retry']) k
  where n % (a * a * 3) = a and n / 24 <> 5`

const summed = async ({ db }: Pick<TestDatabase, "db">) => {
  await sumProfitParts(db)
  await countCustomers(db)
}

const contradicted = async (sql: Sql) => {
  const claim = claims.find(({ name }) => name === "the sums of customers by days are those of the parts of days")
  return await sql.unsafe(claim!.contradictions)
}

const period = (first: number, last: number, timeZone: string) => ({
  from: new Date(FIRST + first * HOUR_MS),
  to: new Date(FIRST + last * HOUR_MS),
  timeZone,
})

const firstId = (ms: number) => `req_${ms.toString(36).padStart(9, "0")}`
const told = async ({ db }: TestDatabase, of: ReturnType<typeof period>) =>
  (await readDays(db, of, firstId)).map(({ day, activeAccounts }) => ({ day, accounts: activeAccounts }))
const hourly = async ({ sql }: TestDatabase, { from, to, timeZone }: ReturnType<typeof period>) => [
  ...(await sql<{ day: string; accounts: number }[]>`
    select to_char(hour at time zone ${timeZone}, 'YYYY-MM-DD') as day, count(distinct account_id)::int as accounts
    from profit_hours where hour >= ${from} and hour < ${to} and records > 0 group by 1 order by 1`),
]
const countedOf = async ({ db }: TestDatabase, of: ReturnType<typeof period>) =>
  (await readCountedDays(db, of)).counted.length

/** With how many days each has that are counted, where anybody called. */
const asked = [
  ["UTC", 0, 240, 9],
  ["UTC", 20, 221.5, 7],
  ["UTC", -100, 500, 9],
  ["UTC", 3, 9, 0],
  ["Asia/Jakarta", 0, 240, 9],
  ["Asia/Jakarta", -7, 233, 10],
  ["Asia/Makassar", 16, 65, 2],
  ["Asia/Jayapura", 15, 39, 1],
  ["Asia/Jayapura", 16, 39, 0],
  ["Asia/Kolkata", 0, 240, 0],
  ["Europe/London", 0, 240, 0],
] as const

test("who called on each day is who is in its hours, whatever time and zone are asked for", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  const toldRightly = async () => {
    for (const [zone, first, last] of asked) {
      const of = period(first, last, zone)
      expect([zone, first, await told(target, of)]).toEqual([zone, first, await hourly(target, of)])
    }
  }
  await hoursOf(sql)
  await toldRightly()
  await summed(target)
  for (const [zone, first, last, counted] of asked)
    expect([zone, first, await countedOf(target, period(first, last, zone))]).toEqual([zone, first, counted])
  await toldRightly()
  expect(await contradicted(sql)).toHaveLength(0)
  // What is not counted yet, and what is late, is between days that are counted.
  await sql`delete from customer_days where day = '2026-03-27'`
  await sql`insert into profit_late values ('2026-03-23T15:00:00Z')`
  await toldRightly()
})

test("a day that is counted is told without its sums, and one of which something came late is counted again", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await hoursOf(sql)
  await summed(target)
  const of = period(0, 240, "UTC")
  const before = await told(target, of)
  await sql`update customer_days set accounts = accounts + 3 where zone = 0 and day = '2026-03-21'`
  expect(await told(target, of)).toEqual(before.with(1, { day: "2026-03-21", accounts: before[1]!.accounts + 3 }))
  expect(await contradicted(sql)).toHaveLength(1)
  // Of an account that had not called, in a part that nobody had called in.
  await sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
      cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms,
      cost_micro, member)
    select 'req_' || n, 0, 'acc_late', 'key_1', 1, 'm-1', 'chat', false, 'ok', 1, 1, 0, 0, 5, 0, 1, 1, 1, false, at, 1, 3, 'p/k/1'
    from (values (1, '2026-03-21T15:30:00Z'::timestamptz), (2, '2026-03-25T15:30:00Z')) calls (n, at)`
  const now = await hourly(target, of)
  expect(now).toHaveLength(before.length + 1)
  expect(await told(target, of)).toEqual(now)
  expect(await contradicted(sql)).toHaveLength(0)
  await sumProfitParts(target.db)
  expect(await told(target, of)).toEqual(now)
  expect(await countedOf(target, of)).toBe(8)
  await countCustomers(target.db)
  expect(await told(target, of)).toEqual(now)
  expect(await countedOf(target, of)).toBe(10)
  expect(await contradicted(sql)).toHaveLength(0)
})
