import { afterAll, afterEach, beforeAll, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { migrate, SchemaMismatch } from "../../src/store/migrate.ts"
import { type Migration, migrations } from "../../src/store/migrations/index.ts"
import { directConnection, type EmptyDatabase, openEmptyDatabase } from "./harness.ts"

async function rows(url: string, query: string): Promise<unknown[]> {
  const connection = directConnection(url)
  try {
    return [...(await connection.sql.unsafe(query))]
  } finally {
    await connection.end()
  }
}

/** One for all tests, without tables at the beginning of each. */
let place: EmptyDatabase
let url: string
beforeAll(async () => {
  place = await openEmptyDatabase()
  url = place.url
})
afterAll(() => place.remove())
afterEach(() => place.empty())

const small: readonly Migration[] = [
  { name: "0001_first.sql", sql: "create table first (n integer);\ninsert into first values (1);" },
  { name: "0002_second.sql", sql: "insert into first values (2);" },
]

test("every migration file is in the list, in the order of its name", () => {
  const folder = join(import.meta.dir, "../../src/store/migrations")
  const files = readdirSync(folder).filter((name) => name.endsWith(".sql"))
  expect(migrations.map(({ name }) => name)).toEqual(files.sort())
})

test("the migrations make a schema from nothing, and change nothing the second time", async () => {
  expect(await migrate(url)).toEqual(migrations.map(({ name }) => name))
  expect(await migrate(url)).toEqual([])
  expect(await rows(url, "select count(*)::int as n from schema_migrations")).toEqual([{ n: migrations.length }])
})

test("processes that start together apply each migration once between them", async () => {
  const applied = await Promise.all([1, 2, 3, 4].map(() => migrate(url, small)))
  expect(applied.flat().sort()).toEqual(small.map(({ name }) => name))
  expect(await rows(url, "select n from first order by n")).toEqual([{ n: 1 }, { n: 2 }])
})

test("a new migration is applied to a database that has the earlier ones", async () => {
  expect(await migrate(url, small.slice(0, 1))).toEqual(["0001_first.sql"])
  expect(await migrate(url, small)).toEqual(["0002_second.sql"])
})

test("a migration that fails leaves nothing behind, and can be mended", async () => {
  const broken = { name: "0002_second.sql", sql: "insert into first values (2); select 1 / 0;" }
  const error = await migrate(url, [...small.slice(0, 1), broken]).catch((thrown: unknown) => thrown)
  expect(String(error)).toContain("division by zero")
  expect(await rows(url, "select n from first order by n")).toEqual([{ n: 1 }])
  expect(await migrate(url, small)).toEqual(["0002_second.sql"])
  expect(await rows(url, "select n from first order by n")).toEqual([{ n: 1 }, { n: 2 }])
})

test("an applied migration that was edited stops the start, and says which one", async () => {
  await migrate(url, small)
  const edited = small.map((each) => (each.name === "0001_first.sql" ? { ...each, sql: `${each.sql}\n` } : each))
  const error = await migrate(url, edited).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(SchemaMismatch)
  expect(String(error)).toContain("0001_first.sql")
})

test("a text that came to the same in an earlier release is known", async () => {
  const [first = small[0]!, ...others] = small
  await migrate(url, small)
  const sha256 = new Bun.CryptoHasher("sha256").update(first.sql).digest("hex")
  const edited = { ...first, sql: `${first.sql} -- faster`, formerly: [sha256] }
  expect(await migrate(url, [edited, ...others])).toEqual([])
})

test("an index whose making was broken off is made anew", async () => {
  const index = { name: "0003_index.sql", sql: "create unique index concurrently if not exists first_n on first (n);" }
  await migrate(url, small)
  await rows(url, "insert into first values (1)")
  expect(String(await migrate(url, [...small, index]).catch((thrown: unknown) => thrown))).toContain("first_n")
  const isValid = () => rows(url, "select indisvalid from pg_index where indexrelid = to_regclass('first_n')")
  expect(await isValid()).toEqual([{ indisvalid: false }])
  await rows(url, "delete from first where ctid in (select max(ctid) from first where n = 1)")
  expect(await migrate(url, [...small, index])).toEqual(["0003_index.sql"])
  expect(await isValid()).toEqual([{ indisvalid: true }])
  expect(await migrate(url, [...small, index])).toEqual([])
})

test("an index on a table with partitions is made beside those who write on each, and on those that come later", async () => {
  const parted = {
    name: "0003_parted.sql",
    sql: `create table parted (n integer) partition by range (n);
      create table parted_1 partition of parted for values from (0) to (10);
      create table parted_2 partition of parted for values from (10) to (20);
      insert into parted values (1), (2), (11), (11);`,
  }
  const index = {
    name: "0004_index.sql",
    sql: "-- Of all.\ncreate unique index concurrently if not exists parted_n on parted (n) where n > 0;",
  }
  await migrate(url, [...small, parted])
  // Two rows of the second one are in its way.
  expect(String(await migrate(url, [...small, parted, index]).catch((thrown: unknown) => thrown))).toContain(
    "parted_2_parted_n",
  )
  await rows(url, "delete from parted_2 where ctid in (select max(ctid) from parted_2)")
  await rows(url, "create table parted_3 partition of parted for values from (20) to (30)")
  expect(await migrate(url, [...small, parted, index])).toEqual(["0004_index.sql"])
  await rows(url, "create table parted_4 partition of parted for values from (30) to (40)")
  expect(
    await rows(
      url,
      `select c.relname as "table", i.indisvalid as valid from pg_index i join pg_class c on c.oid = i.indrelid
        where c.relname like 'parted%' order by 1`,
    ),
  ).toEqual(["parted", "parted_1", "parted_2", "parted_3", "parted_4"].map((table) => ({ table, valid: true })))
  expect(String(await rows(url, "insert into parted values (2)").catch((thrown: unknown) => thrown))).toContain(
    "parted_1",
  )
  expect(await migrate(url, [...small, parted, index])).toEqual([])
})

test("a database from a later version is not touched by an earlier one", async () => {
  await migrate(url, small)
  const error = await migrate(url, small.slice(0, 1)).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(SchemaMismatch)
})
