/** Hours of backends: that the middles that are kept are those of the tries, and that of what changed later they are found anew. */
import { expect, test } from "bun:test"
import type { Sql } from "../../src/store/database.ts"
import { backendHistoryStore } from "../../src/store/operator/backend-history.ts"
import { openTestDatabase } from "./harness.ts"

const HOUR_MS = 3_600_000
const HOURS = 120
const since = new Date((Math.floor(Date.now() / HOUR_MS) - HOURS) * HOUR_MS)
/** Of those from `since` on. */
const endedHours = () => Math.floor((Date.now() - since.getTime()) / HOUR_MS)

/** The newest hour goes on. Some have no times, and one only requests that no backend took. */
const fill = (sql: Sql) => sql`
  insert into backend_hours
  select ${since}::timestamptz + n * interval '1 hour', 'vendor/default/m-' || m, 'm-' || m, 'prc_' || p, case when n = 7 then 0 else n % 5 + m end,
    case when n = 7 then 0 else p end, p % 2,
    case when n % 9 = 2 then '{}'::smallint[] else array[(n * m % 7)::smallint, (20 + n % 3)::smallint, 30::smallint] end,
    case when n % 9 = 2 then '{}'::bigint[] else array[(n + m)::bigint, (n * p % 11)::bigint, (m * 2)::bigint] end
  from generate_series(0, ${HOURS}) n, generate_series(1, 3) m, generate_series(1, 2) p`

/** Each time by itself, in order. */
const plainly = async (sql: Sql, member?: string) => {
  const rows = await sql<
    { hour: Date; answered: bigint; failed: bigint; rate_limited: bigint; steps: number[]; times: number[] }[]
  >`
    select hour, answered, failed, rate_limited, to_jsonb(steps) as steps, to_jsonb(step_tries) as times from backend_hours
    where ${member ?? null}::text is null or member = ${member ?? null} order by hour`
  const hours = Map.groupBy(rows, ({ hour }) => hour.getTime())
  return [...hours].flatMap(([hour, all]) => {
    const times = all
      .flatMap(({ steps, times: of }) => steps.flatMap((step, n) => Array<number>(of[n] ?? 0).fill(step)))
      .sort((a, b) => a - b)
    const sum = (of: (row: (typeof all)[number]) => bigint) => all.reduce((total, row) => total + Number(of(row)), 0)
    const tries = sum(({ answered, failed }) => answered + failed)
    const middleStep = times[Math.ceil(times.length / 2) - 1]
    return tries === 0
      ? []
      : [
          {
            hour: new Date(hour),
            tries,
            failed: sum(({ failed }) => failed),
            rateLimited: sum((row) => row.rate_limited),
            middleStep,
          },
        ]
  })
}

test("hours of backends are told as their tries were, whether their middles are kept, changed later or not there", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  const store = backendHistoryStore(db, "prc_1")
  await fill(sql)
  const kept = async () => (await sql`select from backend_middles`).length
  const toldRightly = async () => {
    expect(await store.hours(since, undefined)).toEqual(await plainly(sql))
    expect(await store.hours(since, "vendor/default/m-2")).toEqual(await plainly(sql, "vendor/default/m-2"))
  }
  await toldRightly()
  await store.keepMiddles(since)
  expect(await kept()).toBe(50)
  await toldRightly()
  // Not of the newest hour, which may end meanwhile.
  const before = endedHours()
  await store.keepMiddles(since)
  await store.keepMiddles(since)
  const all = await kept()
  expect([before, endedHours()]).toContain(all)
  await toldRightly()
  // Of an hour that another process writes late.
  const hour = Math.floor(since.getTime() / HOUR_MS) + 60
  await store.keep(
    [],
    [
      {
        hour,
        member: "vendor/default/m-1",
        model: "m-1",
        answered: 900,
        failed: 3,
        rateLimited: 1,
        steps: new Map([[90, 900]]),
      },
    ],
  )
  await toldRightly()
  await store.keepMiddles(since)
  await toldRightly()
  const [late] = await sql<
    { middle: number }[]
  >`select middle from backend_middles where hour = ${new Date(hour * HOUR_MS)}`
  expect(late?.middle).toBe(90)
  await sql`update backend_middles set middle = 77`
  expect((await store.hours(since, undefined)).filter(({ middleStep }) => middleStep === 77)).toHaveLength(all - 1)
  await store.keepMiddles(new Date(since.getTime() + 100 * HOUR_MS))
  expect([before - 100, endedHours() - 100]).toContain(await kept())
})
