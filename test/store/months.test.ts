/** Records in months: where a call's is, what happens without its month, and a database that was there before there were months. */
import { expect, test } from "bun:test"
import catalogue from "../../seeds/catalogue.json" with { type: "json" }
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import { openDatabase, type Sql } from "../../src/store/database.ts"
import { migrate } from "../../src/store/migrate.ts"
import { migrations } from "../../src/store/migrations/index.ts"
import { makeMonths, monthsOf } from "../../src/store/retention.ts"
import { Books, voidOf } from "../money/books.ts"
import { reconcile } from "../money/reconcile.ts"
import { directConnection, openPlace, openTestDatabase, type TestDatabase } from "./harness.ts"

const now = new Date()
/** The first moment of a month in UTC, by how many months it is from this one. */
const monthMs = (n: number): number => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + n)
const tableOf = (n: number): string => `usage_${new Date(monthMs(n)).toISOString().slice(0, 7).replace("-", "_")}`
/** Ids of the first and of the last millisecond of a month. */
const firstOf = (n: number): string => `${firstRequestId(monthMs(n))}aaaaaaaaaaaaaaaaaa`
const lastOf = (n: number): string => `${firstRequestId(monthMs(n + 1) - 1)}zzzzzzzzzzzzzzzzzz`

const tablesOf = async (sql: Sql, ids: readonly string[]): Promise<readonly (string | undefined)[]> => {
  const rows = await sql<{ id: string; table: string }[]>`
    select request_id as id, tableoid::regclass::text as "table" from usage where request_id = any (${sql.array([...ids])}::text[])`
  return ids.map((id) => rows.find((row) => row.id === id)?.table)
}

const everywhere = (definition: string): string => definition.replace(" ON ONLY ", " ON ")

const until = (name: string) => migrations.filter((each) => each.name <= name)

/** Tables of records that a question looks into. */
async function looksInto(sql: Sql, condition: string): Promise<readonly string[]> {
  const plan = await sql.unsafe<{ "QUERY PLAN": string }[]>(`explain select charge_micro from usage where ${condition}`)
  const found = plan.flatMap((row) => /(?<!Bitmap Index Scan )\bon (usage_\w+)/.exec(row["QUERY PLAN"])?.[1] ?? [])
  return [...new Set(found)].sort()
}

test("a month is from its first millisecond in UTC to its last, and a question by id looks into it alone", async () => {
  await using target = await openTestDatabase()
  const books = await Books.open(target)
  const customer = await books.customer(2_000_000n)
  const ids = [lastOf(-1), firstOf(0), lastOf(0), firstOf(1), lastOf(3), firstOf(4)]
  const calls = ids.map((id) => books.settlement({ ...customer, id }))
  await books.commit(customer.processId, { settlements: calls })
  const [one = "", two = "", four = ""] = [0, 1, 3].map(tableOf)
  expect(await tablesOf(target.sql, ids)).toEqual(["usage_before", one, one, two, four, "usage_other"])
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 800_000n })
  expect(await looksInto(target.sql, `request_id = '${firstOf(1)}'`)).toEqual([two])
  expect(await looksInto(target.sql, `request_id >= '${firstOf(0)}' and request_id < '${lastOf(0)}'`)).toEqual([one])
  await reconcile(target.sql)
})

test("a call whose month has no table is charged and found, and goes on being where it is when its month would be made", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  for (const n of [2, 3]) await sql.unsafe(`drop table ${tableOf(n)}`)
  const books = await Books.open(target)
  const customer = await books.customer()
  const [homeless, later] = [firstOf(2), lastOf(2)].map((id) => books.settlement({ ...customer, id }))
  await books.commit(customer.processId, { settlements: [homeless!] })
  expect(await tablesOf(sql, [firstOf(2)])).toEqual(["usage_other"])
  expect(await monthsOf(sql)).toEqual({ ahead: 1, hasOthers: true, inOrder: true })

  expect(await makeMonths(target.db)).toEqual([tableOf(3)])
  expect(await makeMonths(target.db)).toEqual([])
  await books.commit(customer.processId, { settlements: [voidOf(homeless!), later!] })
  expect(await tablesOf(sql, [firstOf(2), lastOf(2)])).toEqual(["usage_other", "usage_other"])
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 800_000n })
  await reconcile(sql)
})

test("a database with records keeps them, books through the migration, and has months from its bound on", async () => {
  const place = await openPlace(until("0072_no_index_of_revenue.sql"))
  const db = openDatabase({ url: place.url, connections: 2 })
  const direct = directConnection(place.url)
  const { sql } = direct
  const close = () => db.close()
  const target: TestDatabase = { url: place.url, db, sql, close, [Symbol.asyncDispose]: close }
  try {
    const indexes = () => sql<{ definition: string }[]>`
      select pg_get_indexdef(indexrelid) as definition from pg_index where indrelid = 'usage'::regclass order by 1`
    const triggers = () => sql<{ definition: string }[]>`
      select pg_get_triggerdef(oid) as definition from pg_trigger where tgrelid = 'usage'::regclass and not tgisinternal order by 1`
    const [indexesBefore, triggersBefore] = [await indexes(), await triggers()]
    const books = await Books.open(target)
    const customer = await books.customer(2_000_000n)
    // The calls are of a session that has planned its statements on the table that was there.
    const calls = [-40, -1, 0, 1].map((n) => books.settlement({ ...customer, id: firstOf(n) }))
    await books.commit(customer.processId, { settlements: calls.slice(0, 3) })
    await migrate(place.url, until("0073_bound_of_usage.sql"))
    await books.commit(customer.processId, { settlements: [calls[3]!] })
    await migrate(place.url, until("0075_months_of_usage.sql"))
    await books.commit(customer.processId, { settlements: [voidOf(calls[0]!), voidOf(calls[3]!), calls[1]!] })
    const later = [2, 3].map((n) => books.settlement({ ...customer, id: firstOf(n) }))
    await books.commit(customer.processId, { settlements: later })

    const ids = [-40, -1, 0, 1, 2, 3].map(firstOf)
    const before = "usage_before"
    expect(await tablesOf(sql, ids)).toEqual([before, before, before, before, before, tableOf(3)])
    expect(await books.balance(customer.accountId)).toEqual({ posted: 1_200_000n, leased: 1_200_000n })
    expect((await indexes()).map((each) => everywhere(each.definition))).toEqual(
      indexesBefore.map((each) => each.definition),
    )
    expect(await triggers()).toEqual(triggersBefore)
    expect(await sql`select from pg_index where not indisvalid`).toHaveLength(0)
    await migrate(place.url)
    await reconcile(sql)
  } finally {
    await db.close()
    await direct.end()
    await place.remove()
  }
})

const RECORDS = 20_000
const ACCOUNTS = 256

test("a call of accounts that call in no order leaves at most 400 bytes, its entries in indexes included", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  const ids = Array.from({ length: RECORDS }, (_, n) => newRequestId(monthMs(1) + n * 150))
  const models = catalogue.models.map(({ model }) => model)
  // One by one, as they come, with ids of full length; without the triggers, whose sums are not counted.
  await sql.begin(async (one) => {
    await one`set local session_replication_role = replica`
    await one.unsafe(`
      create function pg_temp.fill(ids text[], models text[]) returns void language plpgsql as $$
      begin
        for n in 1 .. cardinality(ids) loop
          insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
            cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, first_token_ms,
            duration_ms, cost_micro, member)
          select ids[n], 0, rpad('acc_' || (hashint4(n) & ${ACCOUNTS - 1}), 25, 'x'), rpad('key_', 25, 'x'), 1, model, 'messages', true, 'ok', 1200, 300,
            0, 0, 12345678, 0, 1, 1, 1, false, now(), 400, 2000, 2345678, 'first/' || model
          from (select models[n % cardinality(models) + 1] as model) m;
        end loop;
      end $$`)
    await one`select pg_temp.fill(${one.array(ids)}::text[], ${one.array(models)}::text[])`
  })
  // Without the pages that an index has while it is empty.
  const [size] = await sql<{ bytes: number }[]>`
    select (pg_relation_size(${tableOf(1)}::regclass) + sum(pg_relation_size(indexrelid)))::float8 / ${RECORDS} as bytes
    from pg_index where indrelid = ${tableOf(1)}::regclass and pg_relation_size(indexrelid) > 16384`
  expect(size?.bytes).toBeGreaterThan(300)
  expect(size?.bytes).toBeLessThanOrEqual(400)
})
