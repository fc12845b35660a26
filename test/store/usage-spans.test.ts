/** Lists and sums of an account with many calls are what the records themselves say, whatever days and months are summed. */
import { expect, test } from "bun:test"
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import type { Sql } from "../../src/store/database.ts"
import { lastCalls, sumUsageSpans } from "../../src/store/usage-spans.ts"
import { type SummaryQuestion, usageSumStore } from "../../src/store/usage-sums.ts"
import { allGroups, groupName, readFirstTokens } from "../../src/store/first-tokens.ts"
import { type UsageFilter, type UsagePlace, usageStore } from "../../src/store/usage.ts"
import { openTestDatabase } from "./harness.ts"

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const LARGE = "acc_large"
const CALLS = 7_000
const NAMES = ["ok", "ok", "ok", "ok", "ok", "upstream_error", "aborted_stream"]

const seed = Math.floor(Math.random() * 2 ** 31)
let state = seed
/** A whole number from 0 on, below one. */
function draw(below: number): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
  return Math.floor((state / 0x80000000) * below)
}

/** From the day before a month that is over on, for forty days, by UTC. The month after it is over too, everywhere and for some time. */
const monthOf = new Date(Date.now() - 2 * DAY_MS)
const FIRST = Date.UTC(monthOf.getUTCFullYear(), monthOf.getUTCMonth() - 2, 1) - DAY_MS
const LENGTH = 40 * DAY_MS

function drawnCall(n: number) {
  const rare = n % 1_000
  // Of one key there are calls in the first days alone.
  const at = FIRST + draw(rare === 19 ? 3 * DAY_MS : LENGTH)
  const isMarker = n % 500 === 3
  const status = isMarker ? "fallback_429" : rare === 7 ? "usage_missing" : (NAMES[draw(NAMES.length)] ?? "ok")
  return {
    // It may have waited for almost an hour.
    request_id: newRequestId(at - draw(HOUR_MS)),
    part: isMarker ? 1 : 0,
    account_id: n % 20 === 0 ? "acc_small" : LARGE,
    key_id: rare === 11 ? "key_rare" : rare === 19 ? "key_early" : `key_${draw(3)}`,
    model: rare === 13 ? "m-rare" : `m-${draw(3)}`,
    endpoint: rare === 17 ? "responses" : draw(2) === 0 ? "chat" : "messages",
    status,
    charge_micro: status === "ok" ? draw(1_000_000) : 0,
    error_code: status === "ok" || isMarker ? null : rare === 7 ? "code.rare" : "code.often",
    run_id: rare < 3 ? `run_${rare}` : null,
    opened_at: new Date(at).toISOString(),
    cache_read_tokens: draw(2),
    // Of each model its own, and of some none.
    first_token_ms: draw(5) === 0 ? null : Math.round(10 ** (1 + draw(3_000) / 1_000)) + (rare === 13 ? 5_000 : 0),
  }
}

const insert = (sql: Sql, calls: readonly object[]) => sql`
  insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, error_code, flagged, opened_at, duration_ms,
    first_token_ms, member, run_id)
  select request_id, part, account_id, key_id, 1, model, endpoint, false, status, 10, 20, cache_read_tokens, 0, charge_micro, 0, 1, 1, 1, error_code, false,
    opened_at, 1, first_token_ms, 'a/b/c', run_id
  from json_to_recordset(${JSON.stringify(calls)}::text::json) as c (request_id text, part smallint, account_id text, key_id text, model text,
    endpoint text, status text, charge_micro bigint, error_code text, run_id text, opened_at timestamptz, cache_read_tokens bigint,
    first_token_ms integer)`

interface Plain {
  readonly request_id: string
  readonly part: number
  readonly key_id: string
  readonly model: string
  readonly endpoint: string
  readonly status: string
  readonly error_code: string | null
  readonly run_id: string | null
  readonly opened_at: Date
  readonly charge_micro: number
  readonly cache_read_tokens: number
  readonly first_token_ms: number | null
}

const times = (from: number | undefined, to: number | undefined) => ({
  from: from === undefined ? undefined : new Date(from),
  to: to === undefined ? undefined : new Date(to),
  ids: {
    from: from === undefined ? undefined : firstRequestId(from - HOUR_MS),
    to: to === undefined ? undefined : firstRequestId(to),
  },
})

const FILTERS: readonly Partial<UsageFilter>[] = [
  {},
  { model: "m-1" },
  { model: "m-rare" },
  { model: "none" },
  { keyId: "key_rare" },
  { keyId: "key_rare", model: "m-rare" },
  { endpoint: "responses" },
  { status: "usage_missing" },
  { status: "billing_error" },
  { status: "fallback_429" },
  { errorCode: "code.rare" },
  { errorCode: "code.often", model: "m-rare" },
  { runId: "run_1" },
  { model: "m-rare", ...times(FIRST + 3.3 * DAY_MS, FIRST + 29.7 * DAY_MS) },
  { status: "usage_missing", ...times(undefined, FIRST + 20.5 * HOUR_MS) },
  { keyId: "key_rare", ...times(FIRST + 20 * DAY_MS, undefined) },
]

const KEYS = ["key_0", "key_1", "key_2", "key_rare", "key_early", "key_never"]

/** When each key has called last. */
const plainLast = (rows: readonly Plain[]): string[] =>
  KEYS.flatMap((key) => {
    const calls = rows.filter((row) => row.key_id === key && row.part === 0).map((row) => row.opened_at.getTime())
    return calls.length === 0 ? [] : [`${key} ${Math.max(...calls)}`]
  }).toSorted()

const isWanted = (row: Plain, filter: Partial<UsageFilter>): boolean =>
  (filter.status?.startsWith("fallback_") === true ? row.part > 0 : row.part === 0) &&
  (filter.model === undefined || row.model === filter.model) &&
  (filter.keyId === undefined || row.key_id === filter.keyId) &&
  (filter.endpoint === undefined || row.endpoint === filter.endpoint) &&
  (filter.status === undefined || row.status === filter.status) &&
  (filter.errorCode === undefined || row.error_code === filter.errorCode) &&
  (filter.runId === undefined || row.run_id === filter.runId) &&
  (filter.from === undefined || row.opened_at >= filter.from) &&
  (filter.to === undefined || row.opened_at < filter.to)

const QUESTIONS: readonly Pick<SummaryQuestion, "groupBy" | "splitBy" | "only">[] = [
  { groupBy: "day", splitBy: "model" },
  { groupBy: "day", splitBy: undefined, only: { model: "m-rare" } },
  { groupBy: "hour", splitBy: undefined, only: { keyId: "key_rare" } },
  { groupBy: "key", splitBy: "status" },
  { groupBy: "status", splitBy: undefined, only: { endpoint: "chat" } },
  { groupBy: "day", splitBy: undefined },
  { groupBy: "day", splitBy: "key", only: { keyId: "key_1" } },
  { groupBy: "day", splitBy: "format" },
  { groupBy: "model", splitBy: undefined },
  { groupBy: "status", splitBy: undefined },
  { groupBy: "key", splitBy: undefined, only: { keyId: "key_early" } },
  { groupBy: "format", splitBy: undefined, only: { model: "m-rare", status: "ok" } },
]
const ZONES = [
  "UTC",
  "Asia/Jakarta",
  "Asia/Makassar",
  "Asia/Jayapura",
  "Asia/Kolkata",
  "Europe/Berlin",
  // Its clocks are those of UTC at both ends of a year, and not in between.
  "Europe/London",
  "America/New_York",
]
const RANGES = [
  [FIRST, FIRST + LENGTH],
  [FIRST - 50 * DAY_MS, Date.now()],
  [Date.UTC(monthOf.getUTCFullYear() - 1, 11, 1), Date.UTC(monthOf.getUTCFullYear(), 11, 1)],
  [FIRST + 2.21 * DAY_MS, FIRST + 33.9 * DAY_MS],
  [FIRST + 5 * DAY_MS + 10 * 60_000, FIRST + 5 * DAY_MS + 50 * 60_000],
] as const

const QUARTER_MS = HOUR_MS / 4
/** Of each zone, by the quarters of an hour: no clock is set within one. */
const clocks = new Map<string, (at: Date) => string>()

/** The hour that a zone's clocks show. */
function localHour(timeZone: string): (at: Date) => string {
  const known = clocks.get(timeZone)
  if (known !== undefined) return known
  const local = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short", timeStyle: "short" })
  const hours = new Map<number, string>()
  const clock = (at: Date) => {
    const quarter = Math.floor(at.getTime() / QUARTER_MS)
    const hour = hours.get(quarter) ?? `${local.format(at).slice(0, 13).replace(" ", "T")}:00`
    hours.set(quarter, hour)
    return hour
  }
  clocks.set(timeZone, clock)
  return clock
}

/** The rows of a question's groups. */
function plainGroups(rows: readonly Plain[], question: SummaryQuestion): Map<string, Plain[]> {
  const { groupBy, splitBy, timeZone, from, to, only = {} } = question
  const hour = localHour(timeZone)
  const name = (row: Plain, by: string | undefined) => {
    if (by === "day") return hour(row.opened_at).slice(0, 10)
    if (by === "hour") return hour(row.opened_at)
    const names: Record<string, string> = {
      model: row.model,
      key: row.key_id,
      status: row.status,
      format: row.endpoint,
    }
    return by === undefined ? undefined : names[by]
  }
  const groups = new Map<string, Plain[]>()
  for (const row of rows) {
    if (row.part !== 0 || row.opened_at < from || row.opened_at >= to || !isWanted(row, only)) continue
    const of = groupName(String(name(row, groupBy)), name(row, splitBy))
    const group = groups.get(of)
    if (group === undefined) groups.set(of, [row])
    else group.push(row)
  }
  return groups
}

const plainSums = (groups: ReadonlyMap<string, readonly Plain[]>): string[] =>
  [...groups]
    .map(([of, calls]) => {
      const sum = (value: (row: Plain) => number) => calls.reduce((all, row) => all + value(row), 0)
      return `${of} ${calls.length} ${sum((row) => row.charge_micro)} ${sum((row) => Number(row.status === "ok"))} ${sum((row) => row.cache_read_tokens)}`
    })
    .toSorted()

/** Of each group and of all, where there are any. */
function plainTimes(groups: ReadonlyMap<string, readonly Plain[]>): Map<string, readonly [number, number]> {
  return new Map(
    [...groups, [allGroups, [...groups.values()].flat()] as const].flatMap(([of, calls]) => {
      const times = calls.flatMap((row) => row.first_token_ms ?? []).toSorted((a, b) => a - b)
      const [p50, p95] = [0.5, 0.95].map((part) => times[Math.ceil(part * times.length) - 1])
      return p50 === undefined || p95 === undefined ? [] : [[of, [p50, p95]] as const]
    }),
  )
}

/** Half a step of 2^(1/16) away, and rounded. */
const isNear = (told: number, should: number): boolean => Math.abs(told - should) <= should * 0.022 + 0.5

test(`an account's lists and sums are its records', of days and months that are summed and others (seed ${seed})`, async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  const store = usageStore(db, "")
  const sums = usageSumStore(db)
  await insert(
    sql,
    Array.from({ length: CALLS }, (_, n) => drawnCall(n)),
  )

  const plainOf = async (accountId: string) =>
    await sql<Plain[]>`
      select request_id, part, key_id, model, endpoint, status, error_code, run_id, opened_at, charge_micro::int, cache_read_tokens::int, first_token_ms
      from usage where account_id = ${accountId} order by request_id desc, part desc`
  /** By their accounts. */
  const plain = async () =>
    [
      [LARGE, await plainOf(LARGE)],
      ["acc_small", await plainOf("acc_small")],
    ] as const

  const walked = async (filter: UsageFilter, limit: number): Promise<string[]> => {
    const found: string[] = []
    for (let after: UsagePlace | undefined; ;) {
      const page = await store.list(filter, { after, limit })
      found.push(...page.map(({ requestId, part }) => `${requestId} ${part}`))
      after = page.at(-1)
      if (page.length < limit) return found
    }
  }
  const listsAgree = async (records: Awaited<ReturnType<typeof plain>>) => {
    for (const [accountId, rows] of records) {
      const last = await sql<
        { key_id: string; at: Date }[]
      >`${lastCalls(sql, accountId, sql`${sql.array(KEYS)}::text[]`)}`
      expect(last.map(({ key_id, at }) => `${key_id} ${at.getTime()}`).toSorted()).toEqual(plainLast(rows))
      const one = await sql<{ at: Date }[]>`${lastCalls(sql, accountId, sql`array['key_early']`)}`
      expect(one.map(({ at }) => `key_early ${at.getTime()}`)).toEqual(
        plainLast(rows).filter((line) => line.startsWith("key_early")),
      )
      for (const filter of FILTERS) {
        const wanted = rows.filter((row) => isWanted(row, filter)).map((row) => `${row.request_id} ${row.part}`)
        const limit = wanted.length > 100 ? 500 : 1 + draw(3)
        expect([filter, limit, await walked({ accountId, ...filter }, limit)]).toEqual([filter, limit, wanted])
      }
    }
  }
  const sumsAgree = async (records: Awaited<ReturnType<typeof plain>>) => {
    for (const [accountId, rows] of records) {
      for (const timeZone of ZONES) {
        const [from, to] = RANGES[draw(RANGES.length)] ?? [0, 0]
        const range = { accountId, timeZone, from: new Date(from), to: new Date(to) }
        const question = { ...range, ...(QUESTIONS[draw(QUESTIONS.length)] ?? { groupBy: "day", splitBy: undefined }) }
        const said = (await sums.summarise(question)).map(
          (sum) =>
            `${JSON.stringify([sum.group, sum.split ?? null])} ${sum.requests} ${sum.chargeMicro} ${sum.ok} ${sum.cacheReads}`,
        )
        const asked: unknown = [question, said.toSorted()]
        const groups = plainGroups(rows, question)
        expect(asked).toEqual([question, plainSums(groups)])
        const { of, newestOnly } = await readFirstTokens(db, question)
        expect(newestOnly).toBe(false)
        const should = plainTimes(groups)
        expect([question, [...of.keys()].toSorted()]).toEqual([question, [...should.keys()].toSorted()])
        for (const [name, { p50Ms, p95Ms }] of of) {
          const [p50, p95] = should.get(name) ?? [0, 0]
          expect([question, name, p50Ms, p50, p95Ms, p95, isNear(p50Ms, p50) && isNear(p95Ms, p95)]).toEqual([
            question,
            name,
            p50Ms,
            p50,
            p95Ms,
            p95,
            true,
          ])
        }
        const total = await sums.total(range)
        const within = rows.filter((row) => row.part === 0 && row.opened_at >= range.from && row.opened_at < range.to)
        expect(total.requests).toBe(within.length)
        expect(Number(total.chargeMicro)).toBe(within.reduce((sum, row) => sum + row.charge_micro, 0))
      }
    }
  }
  const agree = async () => {
    const records = await plain()
    await listsAgree(records)
    await sumsAgree(records)
  }
  const summed = async () => {
    const rows = await sql<{ months: number; days: number; small: number }[]>`
      select count(*) filter (where is_month)::int as months, count(*) filter (where not is_month)::int as days,
        count(*) filter (where account_id <> ${LARGE})::int as small
      from usage_span_accounts`
    return rows[0]
  }
  /** As the chore does it that sums hours, of those of which something came late. */
  const sumLateHours = () => sql`
    select sum_call_hour_1(hour, first_call(hour - interval '1 hour'), first_call(hour + interval '1 hour'))
    from (select distinct hour from call_late) late`

  /** The same of hours that are over. */
  const sumHours = (from: number, to: number) => sql`
    select sum_call_hour_1(hour, first_call(hour - interval '1 hour'), first_call(hour + interval '1 hour'))
    from generate_series(${new Date(from)}::timestamptz, ${new Date(to - HOUR_MS)}::timestamptz, interval '1 hour') hour`

  await agree()
  // Times to the first token of a day are not added to it later: before its hours are summed it is not due.
  await sumUsageSpans(db)
  expect(await summed()).toEqual({ months: 0, days: 0, small: 0 })
  await sumHours(FIRST + 9 * DAY_MS, FIRST + LENGTH - DAY_MS)
  await sql`delete from latency_summed where hour = ${new Date(FIRST + 10 * DAY_MS + 15 * HOUR_MS)}`
  await sumsAgree(await plain())
  await sumUsageSpans(db)
  // Of zones that are up to nine hours ahead of UTC the first day began before.
  expect(await summed()).toEqual({ months: 0, days: 27, small: 0 })
  await sumsAgree(await plain())
  await sumHours(FIRST, FIRST + 9 * DAY_MS)
  await sumHours(FIRST + 10 * DAY_MS + 15 * HOUR_MS, FIRST + 10 * DAY_MS + 16 * HOUR_MS)
  await sumHours(FIRST + LENGTH - DAY_MS, FIRST + LENGTH)
  // Of what is left of the month there are no calls.
  await sql`
    insert into latency_summed
    select * from generate_series(${new Date(FIRST + LENGTH)}::timestamptz, date_trunc('month', now(), 'UTC') - interval '1 hour', interval '1 hour')`
  // As where many accounts are summed: one in each statement.
  await sumUsageSpans(db, 1)
  expect(await summed()).toEqual({ months: 2, days: 40, small: 0 })
  await agree()

  // What comes late, and what is taken back, in the evening of a day whose next one has begun east of UTC.
  const evening = FIRST + 10 * DAY_MS + 16.5 * HOUR_MS
  const late = {
    ...drawnCall(1),
    request_id: newRequestId(evening),
    opened_at: new Date(evening).toISOString(),
    account_id: LARGE,
    model: "m-rare",
  }
  await insert(sql, [{ ...late, part: 0, status: "ok", error_code: null, charge_micro: 77 }])
  await sql`update usage set status = 'billing_error', charge_micro = 0 where request_id in (
    select request_id from usage where account_id = ${LARGE} and status = 'ok' and part = 0 order by request_id offset 3000 limit 3)`
  await agree()
  // And a call after all others of a key that was thought to be done with.
  const again = { ...late, request_id: newRequestId(evening + 20 * DAY_MS), key_id: "key_early", part: 0, status: "ok" }
  await insert(sql, [{ ...again, error_code: null, opened_at: new Date(evening + 20 * DAY_MS).toISOString() }])
  await agree()
  await sumLateHours()
  // Its day and the next one, which it is in in the east; and the days of what was taken back.
  expect((await summed())?.days).toBeLessThanOrEqual(37)
  await agree()
  await sumUsageSpans(db)
  expect(await summed()).toEqual({ months: 2, days: 40, small: 0 })
  await agree()
}, 300_000)

test("a day of more sums than are added up at once is read by the hour, and keeps no other from being summed", async () => {
  await using target = await openTestDatabase()
  const { sql, db } = target
  // Of an account whose id is before the other's.
  await sql`
    insert into usage_hours (account_id, hour, model, key_id, endpoint, status, calls, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
      charge_micro, cache_reads)
    select account, ${new Date(FIRST)}::timestamptz + n % 24 * interval '1 hour', 'm-1', 'key_' || n, 'chat', 'ok', 1, 1, 1, 0, 0, 1, 0
    from (values ('acc_at_the_edge', 20000), ('acc_over_it', 20001), ('acc_small', 200)) a (account, keys), generate_series(1, keys) n`
  await sql`
    insert into profit_hours (hour, account_id, model, member, kind, records, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
      charge_micro, absorbed_micro, cost_micro, estimated_micro, unknown, under, under_micro)
    select hour, account_id, 'm-1', 'a/b/c', 'ok', sum(calls), 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0 from usage_hours group by 1, 2`
  // Two seconds' work on a machine with nothing else to do; how many seconds a statement has is not what is tried here.
  const withoutDeadline = { run: async <T>(statement: (sql: Sql) => PromiseLike<T>) => await statement(sql) }
  for (let n = 0; n < 3; n++) await sumUsageSpans(withoutDeadline, 1)
  const rows = await sql<{ account_id: string; groups: number }[]>`
    select a.account_id, (select count(*)::int from usage_groups g where g.account_id = a.account_id and g.zone = 0 and not g.is_month) as groups
    from usage_span_accounts a where not is_month and since = ${new Date(FIRST)} order by 1`
  expect([...rows]).toEqual([
    { account_id: "acc_at_the_edge", groups: 20_004 },
    { account_id: "acc_small", groups: 204 },
  ])
  const range = { from: new Date(FIRST), to: new Date(FIRST + DAY_MS), timeZone: "UTC" }
  for (const [accountId, calls] of [
    ["acc_at_the_edge", 20_000],
    ["acc_over_it", 20_001],
  ] as const)
    expect((await usageSumStore(db).total({ ...range, accountId })).requests).toBe(calls)
}, 300_000)

test("where nobody has called, no day is due", async () => {
  await using database = await openTestDatabase()
  await sumUsageSpans(database.db)
  expect([...(await database.sql`select * from usage_spans_summed`)]).toEqual([])
})

test("the bounds of a question about calls are computed once, and not for each call", async () => {
  await using database = await openTestDatabase()
  const { sql, db } = database
  const calls = Array.from({ length: 300 }, (_, n) => ({
    ...drawnCall(n),
    request_id: newRequestId(FIRST + n),
    part: 0,
    account_id: LARGE,
    opened_at: new Date(FIRST + n).toISOString(),
  }))
  await insert(sql, calls)
  await sql.unsafe(`
    create sequence computed;
    alter function first_call(timestamptz) rename to first_call_itself;
    create function first_call(since timestamptz) returns text language plpgsql stable as $$
    begin
      perform nextval('computed');
      return first_call_itself(since);
    end $$`)
  // Where days do not begin with an hour of UTC all calls are read, and so are those of hours that nobody has summed.
  const range = {
    accountId: LARGE,
    from: new Date(FIRST - HOUR_MS),
    to: new Date(FIRST + HOUR_MS),
    timeZone: "Asia/Kolkata",
  }
  const question: SummaryQuestion = { ...range, groupBy: "model", splitBy: undefined }
  expect((await usageSumStore(db).total(range)).requests).toBe(calls.length)
  expect((await usageSumStore(db).summarise(question)).length).toBeGreaterThan(0)
  await readFirstTokens(db, question)
  // Of a year too, of which only an hour has calls.
  const year = { ...question, from: new Date(FIRST - 200 * DAY_MS), to: new Date(), timeZone: "UTC" }
  expect((await readFirstTokens(db, year)).of.size).toBeGreaterThan(0)
  expect(await sql`select * from (${lastCalls(sql, LARGE, sql`array['key_0', 'key_1']`)}) l`).not.toHaveLength(0)
  const [computed] = await sql<{ last_value: bigint }[]>`select last_value from computed`
  expect(Number(computed?.last_value)).toBeLessThan(50)
})
