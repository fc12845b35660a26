/** Migrations beside processes that serve: nobody waits for long, and nothing that is written meanwhile is missed. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { systemClock } from "../../../actors/kernel/clock.ts"
import { migrate } from "../../../src/store/migrate.ts"
import { type Migration, migrations } from "../../../src/store/migrations/index.ts"
import { directConnection, type EmptyDatabase, openEmptyDatabase } from "../harness.ts"

let place: EmptyDatabase
let one: ReturnType<typeof directConnection>
let other: ReturnType<typeof directConnection>
beforeEach(async () => {
  place = await openEmptyDatabase()
  one = directConnection(place.url)
  other = directConnection(place.url)
})
afterEach(async () => {
  await one.end()
  await other.end()
  await place.remove()
})

const first: Migration = { name: "0001_first.sql", sql: "create table calls (n integer);" }

test("one that waits for a table lets those behind it pass, and is carried out when the table is free", async () => {
  await migrate(place.url, [first])
  await one.sql.unsafe("begin; select * from calls")
  const migrating = migrate(place.url, [
    first,
    { name: "0002_second.sql", sql: "alter table calls add column m text;" },
  ])
  const waits: number[] = []
  for (const until = performance.now() + 4_000; performance.now() < until;) {
    const before = performance.now()
    await other.sql`insert into calls values (1)`
    waits.push(performance.now() - before)
    await Bun.sleep(20)
  }
  // It has been waited behind, for no longer than its own patience, and more than once.
  expect(waits.filter((ms) => ms > 300).length).toBeGreaterThan(1)
  expect(Math.max(...waits)).toBeLessThan(2_500)
  await one.sql.unsafe("commit")
  expect(await migrating).toEqual(["0002_second.sql"])
  expect(await other.sql`select m from calls limit 1`).toHaveLength(1)
}, 30_000)

test("an index is made beside those who write, once, by whichever process begins it", async () => {
  await migrate(place.url, [first])
  const index = { name: "0002_index.sql", sql: "create index concurrently if not exists calls_n on calls (n);" }
  // It waits for this transaction, and nobody waits for it.
  await one.sql.unsafe("begin; insert into calls values (1)")
  const migrating = Promise.all([1, 2, 3].map(() => migrate(place.url, [first, index])))
  await Bun.sleep(500)
  const before = systemClock.running()
  await other.sql`insert into calls values (2)`
  expect(systemClock.running() - before).toBeLessThan(1_000)
  await one.sql.unsafe("commit")
  expect((await migrating).flat()).toEqual(["0002_index.sql"])
  const valid = await other.sql`select indisvalid from pg_index where indexrelid = 'calls_n'::regclass`
  expect([...valid]).toEqual([{ indisvalid: true }])
}, 30_000)

const record = (id: string, hour: number, model = "plain") =>
  other.sql.unsafe(`
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged,
    opened_at, duration_ms)
  values ('${id}', 0, 'acc_1', 'key_1', 1, '${model}', 'chat', false, 'ok', 10, 5, 1, 0, 700, 0, 1, 1, 1, false,
    '2026-01-01 0${hour}:30+00', 1)`)
const sumsOf = (table: string) =>
  other.sql.unsafe(`
  select hour, model, status, sum(calls)::int as calls, sum(charge_micro)::int as charge_micro from ${table}
  where calls > 0 group by 1, 2, 3 order by 1, 2, 3`)

test("0010 counts each record once, whatever is written, changed or removed while it sums", async () => {
  const at = migrations.findIndex(({ name }) => name === "0010_usage_hours.sql")
  await migrate(place.url, migrations.slice(0, at))
  const [sums = "", locked = ""] = (migrations[at]?.sql ?? "").split(/(?=^lock table)/m)
  expect(locked).toStartWith("lock table usage")
  const ofRecords = `(select date_trunc('hour', opened_at, 'UTC') as hour, model, status, 1 as calls, charge_micro
    from usage where part = 0) u`
  for (const hour of [1, 2, 3]) await record(`req_old${hour}`, hour)
  for (const removes of [false, true]) {
    await one.sql.unsafe("begin")
    await one.sql.unsafe(sums)
    await record(`req_new${removes}`, 2)
    await record(`req_other${removes}`, 4, "other")
    await other.sql`update usage set status = 'billing_error', charge_micro = 0 where request_id = 'req_old1'`
    if (removes) await other.sql`delete from usage where request_id = 'req_old3'`
    await one.sql.unsafe(locked)
    const waiting = record(`req_late${removes}`, 3)
    // Whoever comes now waits for the end, and is counted by the trigger.
    expect(await Promise.race([waiting.then(() => "written"), Bun.sleep(200)])).toBeUndefined()
    await one.sql.unsafe("commit")
    await waiting
    const kept = [...(await sumsOf("usage_hours"))]
    expect(kept.length).toBeGreaterThan(3)
    expect(kept).toEqual([...(await sumsOf(ofRecords))])
    await one.sql.unsafe(`drop table usage_hours; drop function add_usage_hours, correct_usage_hours cascade`)
  }
})
