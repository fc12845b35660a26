/** What `migrate --plan` says of a database; the rehearsal has an embedded one in memory, whatever the real one is. */
import { expect, test } from "bun:test"
import { migrate, schemaState } from "../../../src/store/migrate.ts"
import { type PlannedLock, planMigrations, rowsByTable } from "../../../src/store/migration-plan.ts"
import type { Migration } from "../../../src/store/migrations/index.ts"
import { directConnection, openEmptyDatabase } from "../harness.ts"

const ROWS = 3_000
const old: Migration = {
  name: "0001_tables.sql",
  sql: `create table calls (n integer primary key, model text);
insert into calls select n, 'plain' from generate_series(1, ${ROWS}) n;
create table people (n integer primary key, name text);
insert into people select n, 'x' from generate_series(1, 1000) n;`,
}
const late: readonly Migration[] = [
  {
    name: "0002_many.sql",
    sql: `alter table people add column age integer;
alter table calls add column day date;
update calls set day = now();
create index people_name on people (name);`,
  },
  { name: "0003_beside.sql", sql: "create index concurrently if not exists calls_model on calls (model);" },
]

test("it says what is locked, and for how long by the rows that there are, and changes nothing", async () => {
  await using place = await openEmptyDatabase()
  await migrate(place.url, [old])
  const connection = directConnection(place.url)
  await connection.sql`analyze`
  const { pending } = await schemaState(connection.sql, [old, ...late])
  const [many, beside, ...more] = await planMigrations(pending, await rowsByTable(connection.sql), [old, ...late])
  expect(more).toEqual([])
  expect(many?.name).toBe("0002_many.sql")
  // The write of every row is under the lock of both tables, and so is the index.
  expect(many?.locks.map(({ table, rows, keepsFrom }) => [table, rows, keepsFrom]).sort()).toEqual([
    ["calls", ROWS, "read or write"],
    ["people", 1_000, "read or write"],
  ])
  const ms = (table: string) => many?.locks.find((lock: PlannedLock) => lock.table === table)?.forMs ?? 0
  expect(ms("people")).toBe(many?.takesMs ?? 0)
  expect(ms("calls")).toBeWithin(105, ms("people"))
  expect(ms("people")).toBeLessThan(130)
  expect(beside?.name).toBe("0003_beside.sql")
  expect(beside?.locks).toEqual([])
  expect(beside?.takesMs).toBeWithin(18, 30)
  const columns = await connection.sql`select from information_schema.columns where column_name in ('day', 'age')`
  expect(columns).toHaveLength(0)
  await connection.end()
})
