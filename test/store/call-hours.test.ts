/** The operators' overview: that what it says of calls is what their records say, of hours that are summed and others. */
import { expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import { archiveMonth, monthsBefore } from "../../src/store/archives.ts"
import type { Sql } from "../../src/store/database.ts"
import { sumCallHours } from "../../src/store/operator/overview.ts"
import { readOverview } from "../../src/store/operator/overview.ts"
import { readFirstTokens } from "../../src/store/first-tokens.ts"
import { openPlace, openTestDatabase, type TestDatabase } from "./harness.ts"

const HOUR_MS = 3_600_000
/** A whole hour, two days ago. */
const FIRST = Math.floor((Date.now() - 48 * HOUR_MS) / HOUR_MS) * HOUR_MS

/** Opened some minutes after it arrived. */
const call = (sql: Sql, openedAt: number, errorCode: string | null = null, part = 0) => sql`
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, error_code, flagged, opened_at, duration_ms)
  values (${newRequestId(openedAt - HOUR_MS / 10)}, ${part}, 'acc_1', 'key_1', 1, 'm', 'chat', false,
    ${errorCode === null ? "ok" : "upstream_error"}, 1, 1, 0, 0, ${errorCode === null ? 5 : 0}, 2, 1, 1, 1, ${errorCode}, false,
    ${new Date(openedAt)}, 1)`

const told = async ({ db }: TestDatabase, from: number, to: number) => {
  const sums = await readOverview(db, { from: new Date(from), to: new Date(to) }, firstRequestId)
  const { calls, byStatus, byErrorCode, chargedMicro, absorbedMicro } = sums
  return { calls, byStatus, byErrorCode, chargedMicro, absorbedMicro }
}

const recorded = async (sql: Sql, from: number, to: number) => {
  const [row] = await sql`
    with found as (select * from usage where part = 0 and opened_at >= ${new Date(from)} and opened_at < ${new Date(to)})
    select count(*)::int as calls, coalesce(sum(charge_micro), 0)::bigint as "chargedMicro", coalesce(sum(absorbed_micro), 0)::bigint as "absorbedMicro",
      coalesce((select jsonb_object_agg(status, n) from (select status, count(*) as n from found group by 1) s), '{}') as "byStatus",
      coalesce((select jsonb_object_agg(error_code, n) from (
        select error_code, count(*) as n from found where error_code is not null group by 1) e), '{}') as "byErrorCode"
    from found`
  return { ...row }
}

const summed = async (sql: Sql) =>
  (await sql<{ hour: Date }[]>`select hour from call_summed order by hour`).map(({ hour }) => hour.getTime())

test("an hour that was summed while the database's clock was ahead is told as its records are", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  const now = Date.now()
  const hour = Math.floor(now / HOUR_MS) * HOUR_MS
  await sql`select sum_call_hour_1(${new Date(hour)}, ${firstRequestId(hour - HOUR_MS)}, ${firstRequestId(hour + HOUR_MS)})`
  await call(sql, now)
  for (let round = 0; round < 2; round++) {
    await sumCallHours(db, firstRequestId)
    const said: unknown = await told(target, hour, hour + HOUR_MS)
    expect(said).toEqual(await recorded(sql, hour, hour + HOUR_MS))
    // It is summed again when it is over.
    expect((await sql<{ hour: Date }[]>`select hour from call_late`).map((row) => row.hour.getTime())).toEqual([hour])
  }
})

test("hours that are over are summed, and any time is told as its records are, with what comes late and what is taken back", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  for (let minute = 0; minute < 240; minute += 7)
    await call(sql, FIRST + minute * 60_000, minute % 3 === 0 ? `code.${minute % 2}` : null, minute === 77 ? 1 : 0)
  await call(sql, Date.now() - 60_000)
  const agree = async () => {
    for (const [from, to] of [
      [0, 4],
      [0.5, 3.5],
      [1, 2],
      [1.25, 1.5],
      [3.9, 60],
      [-5, 60],
      [2, 2],
    ] as const) {
      const [since, until] = [FIRST + from * HOUR_MS, FIRST + to * HOUR_MS]
      const said: unknown = await told(target, since, until)
      expect([from, to, said]).toEqual([from, to, await recorded(sql, since, until)])
    }
  }
  await agree()
  await sumCallHours(db, firstRequestId)
  const hours = await summed(sql)
  expect(hours.at(0)).toBe(FIRST)
  // Not those of the last three hours, of which something may still be booked.
  expect(hours.length).toBe(Math.floor((Date.now() - 3 * HOUR_MS - FIRST) / HOUR_MS) + 1)
  await agree()
  await call(sql, FIRST + 90 * 60_000, "code.late")
  await sql`update usage set charge_micro = 0, status = 'billing_error' where opened_at = ${new Date(FIRST + 7 * 60_000)}`
  await agree()
  expect(await sql`select distinct hour from call_late`).toHaveLength(2)
  await sumCallHours(db, firstRequestId)
  expect(await sql`select from call_late`).toHaveLength(0)
  await agree()
  const [sum] = await sql<
    { calls: bigint }[]
  >`select sum(calls)::bigint as calls from call_hours where error_code = 'code.late'`
  expect(sum?.calls).toBe(1n)
})

test("where there are no records nothing is summed, and what is booked in time leaves no mark", async () => {
  await using target = await openTestDatabase()
  await sumCallHours(target.db, firstRequestId)
  expect(await summed(target.sql)).toEqual([])
  await call(target.sql, Date.now())
  await target.sql`update usage set charge_micro = 0, status = 'billing_error'`
  await sumCallHours(target.db, firstRequestId)
  expect(await target.sql`select hour from call_summed union all select hour from call_late`).toHaveLength(0)
})

const exact = (every: readonly number[]) => {
  const sorted = every.toSorted((a, b) => a - b)
  return [0.5, 0.95].map((share) => sorted[Math.ceil(share * sorted.length) - 1] ?? 0)
}

test("times to the first token are told of a whole range from the sums of its hours, within 2.2 %", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  const timed = async (openedAt: number, ms: number | null, key = "key_1") => {
    await sql`
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
        cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms, first_token_ms)
      values (${newRequestId(openedAt - 1_000)}, 0, 'acc_1', ${key}, 1, 'm', 'chat', false, 'ok', 1, 1, 0, 0, 5, 0, 1, 1, 1, false,
        ${new Date(openedAt)}, 1, ${ms})`
  }
  await sql`insert into accounts (id, email, password_hash) values ('acc_1', 'a@example.test', 'x')`
  for (const key of ["key_1", "key_2"])
    await sql`insert into api_keys (id, account_id, name, key_hash, prefix, last4) values (${key}, 'acc_1', 'k', ${Buffer.from(key)}, 'sk', 'last')`
  // Each hour is slower than the one before it: 100 times from 1 ms on.
  const times: number[] = []
  for (let n = 0; n < 100; n++) {
    const ms = Math.round(1.1 ** n)
    times.push(ms)
    await timed(FIRST + n * 100_000, ms, n % 2 === 0 ? "key_1" : "key_2")
  }
  await timed(FIRST, null)
  const ask = (only: { keyId?: string } = {}, timeZone = "Asia/Jakarta", groupBy: "key" | "day" = "key") =>
    readFirstTokens(db, {
      accountId: "acc_1",
      from: new Date(FIRST - 30 * 24 * HOUR_MS),
      to: new Date(),
      only,
      timeZone,
      groupBy,
      splitBy: undefined,
    })
  const percentiles = async (...asked: Parameters<typeof ask>) => {
    const { of, newestOnly } = await ask(...asked)
    expect(newestOnly).toBe(false)
    return Object.fromEntries([...of].map(([name, { p50Ms, p95Ms }]) => [name, [p50Ms, p95Ms]]))
  }
  const of = (parity: number) => times.filter((_, n) => n % 2 === parity)
  const wanted = () => ({ all: exact(times), '["key_1",null]': exact(of(0)), '["key_2",null]': exact(of(1)) })
  const isNear = async (...asked: Parameters<typeof ask>) => {
    const told = await percentiles(...asked)
    for (const [name, values] of Object.entries(told)) {
      for (const [place, value] of values.entries()) {
        const should = (wanted() as Record<string, number[]>)[name]?.[place] ?? 0
        expect([
          name,
          place,
          value,
          should,
          Math.abs(value / should - 1) < 0.0225 || Math.abs(value - should) <= 1,
        ]).toEqual([name, place, value, should, true])
      }
    }
    return told
  }
  // Not summed yet: as they are recorded.
  expect(await percentiles()).toEqual(wanted())
  await sumCallHours(db, firstRequestId)
  const [{ calls = 0n } = {}] = await sql<{ calls?: bigint }[]>`
    select sum(c)::bigint as calls from latency_hours, unnest(calls) c`
  expect(calls).toBe(100n)
  expect(Object.keys(await isNear()).length).toBe(3)
  const narrow = await percentiles({ keyId: "key_2" })
  expect([Object.keys(narrow).length, narrow["all"]]).toEqual([2, narrow['["key_2",null]']])
  // Days of half an hour are not whole hours.
  expect((await percentiles({}, "Asia/Kolkata", "day"))["all"]).toEqual(exact(times))
  // Where sums stand no record is read: they are gone.
  await sql`alter table usage disable trigger user`
  await sql`delete from usage`
  await sql`alter table usage enable trigger user`
  expect(Object.keys(await isNear()).length).toBe(3)
  expect(Object.keys(await isNear({}, "Asia/Kolkata")).length).toBe(3)
})

test("what was not summed, or has changed since, is summed before its records are archived", async () => {
  const place = await openPlace()
  const directory = mkdtempSync(join(tmpdir(), "loket-archived-hours-"))
  try {
    await using target = await openTestDatabase({ place })
    const { sql, db } = target
    for (let minute = 0; minute < 240; minute += 7)
      await call(sql, FIRST + minute * 60_000, minute % 3 === 0 ? "code.1" : null)
    await sql`update usage set first_token_ms = 100`
    await sumCallHours(db, firstRequestId)
    // Of an hour that was summed and has changed, of one that was never summed, and of those that stay as they are.
    await sql`update usage set charge_micro = 0, status = 'billing_error' where opened_at = ${new Date(FIRST + 7 * 60_000)}`
    const unsummed = [new Date(FIRST + 2 * HOUR_MS)]
    for (const table of ["call_hours", "call_summed", "latency_hours", "latency_summed"])
      await sql.unsafe(`delete from ${table} where hour = any($1)`, [sql.array(unsummed)])
    const range = [FIRST - HOUR_MS, FIRST + 5 * HOUR_MS] as const
    const before = await recorded(sql, ...range)
    for (const month of await monthsBefore(sql, "req_zzzzzzzzz"))
      await archiveMonth(sql, month, { directory, step: () => {} })
    expect((await recorded(sql, ...range))["calls"]).toBe(0)
    for (let round = 0; round < 2; round++) {
      const said: unknown = await told(target, ...range)
      expect(said).toEqual(before)
      const [{ calls = 0n } = {}] = await sql<{ calls?: bigint }[]>`
        select sum(c)::bigint as calls from latency_hours, unnest(calls) c`
      expect(calls).toBe(35n)
      // Nothing of it is summed again, from records that are gone.
      await sumCallHours(db, firstRequestId)
    }
  } finally {
    rmSync(directory, { recursive: true })
    await place.remove()
  }
})
