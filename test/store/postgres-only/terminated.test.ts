/** What only a PostgreSQL server can show: backends that are killed, statements that outlive their caller. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { DatabaseUnavailable, openDatabase } from "../../../src/store/database.ts"
import { migrate } from "../../../src/store/migrate.ts"
import { directConnection, openEmptyDatabase, openTestDatabase, type TestDatabase } from "../harness.ts"

let target: TestDatabase
beforeAll(async () => {
  target = await openTestDatabase({ connections: 8, maxAttemptMs: 1000 })
  await target.sql`create table notes (id text primary key, writes integer not null default 1)`
})
afterAll(() => target.close())

async function connectingMs(): Promise<number> {
  const began = performance.now()
  const connection = directConnection(target.url)
  await connection.sql`select 1`
  const tookMs = performance.now() - began
  await connection.end()
  return tookMs
}

/** Ends every backend of this database but the one that asks. */
const terminateAll = () =>
  target.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`

test("with every backend killed each 100 ms for 5 s, every acknowledged row is there once, and nothing hangs", async () => {
  const until = performance.now() + 5000
  const acknowledged: string[] = []
  // On a busy machine it takes longer until enough are written to tell anything.
  const goesOn = () => performance.now() < until || acknowledged.length <= 1000
  const killing = (async () => {
    while (goesOn()) {
      // Where to connect takes longer than that, nobody would ever be connected.
      await Bun.sleep(Math.max(100, 4 * (await connectingMs())))
      await terminateAll()
    }
  })()
  const writers = Array.from({ length: 8 }, async (_, writer) => {
    for (let n = 0; goesOn(); n++) {
      const id = `${writer}-${n}`
      await target.db.run((sql) => sql`insert into notes (id) values (${id}) on conflict do nothing`, {
        retry: true,
        attemptMs: 1000,
        deadlineMs: 10_000,
      })
      acknowledged.push(id)
    }
  })
  await Promise.all([...writers, killing])
  expect(acknowledged.length).toBeGreaterThan(1000)
  const rows = await target.sql<{ id: string }[]>`select id from notes order by id collate "C"`
  expect(rows.map((row) => row.id)).toEqual(acknowledged.sort())
}, 60_000)

test("a statement that was given up is ended by the server soon after, and its locks with it", async () => {
  await target.sql`insert into notes (id) values ('locked')`
  const holder = target.sql.unsafe("begin; update notes set writes = 0 where id = 'locked'")
  await holder
  const waiting = () =>
    target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  // Connected before, so that all of its time is the statement's.
  await target.db.run((sql) => sql`select 1`, { retry: true })
  const error = await target.db
    .run((sql) => sql`update notes set writes = 2 where id = 'locked'`, { deadlineMs: 200 })
    .catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(DatabaseUnavailable)
  expect(await waiting()).toHaveLength(1)
  while ((await waiting()).length > 0) await Bun.sleep(50)
  await target.sql`rollback`
  const [row] = await target.sql`select writes from notes where id = 'locked'`
  expect(row).toEqual({ writes: 1 })
}, 30_000)

test("times and bytes are read right from a server that writes them in another form", async () => {
  const name = new URL(target.url).pathname.slice(1)
  const other = [`datestyle = 'SQL, DMY'`, "bytea_output = 'escape'"]
  for (const setting of other) await target.sql.unsafe(`alter database "${name}" set ${setting}`)
  const db = openDatabase({ url: target.url, connections: 1 })
  const [row] = await db.run(
    (sql) => sql<{ at: Date; bytes: Uint8Array }[]>`
      select timestamptz '2026-11-05T03:04:05Z' as at, decode('00616200ff5c', 'hex') as bytes`,
  )
  await db.close()
  await target.sql.unsafe(`alter database "${name}" reset all`)
  expect(row?.at).toEqual(new Date("2026-11-05T03:04:05Z"))
  expect(row && Buffer.from(row.bytes).toString("hex")).toBe("00616200ff5c")
})

test("a server that ends sessions in which nothing is asked ends none of ours, and reads our texts as they are", async () => {
  const name = new URL(target.url).pathname.slice(1)
  const other = ["idle_session_timeout = 300", "standard_conforming_strings = off"]
  for (const setting of other) await target.sql.unsafe(`alter database "${name}" set ${setting}`)
  const db = openDatabase({ url: target.url, connections: 1 })
  const ask = () =>
    db.run(
      (sql) => sql<{ session: number; found: string }[]>`
        select pg_backend_pid() as session, substring('at 17' from '\\d+') as found`,
    )
  const before = await ask()
  await Bun.sleep(1_000)
  const after = await ask()
  await db.close()
  await target.sql.unsafe(`alter database "${name}" reset all`)
  expect(after).toEqual(before)
  expect(before[0]?.found).toBe("17")
})

test("a server that quotes every name it tells takes the schema, and its months are found by their names", async () => {
  await using empty = await openEmptyDatabase()
  const name = new URL(empty.url).pathname.slice(1)
  await target.sql.unsafe(`alter database "${name}" set quote_all_identifiers = on`)
  const done = await migrate(empty.url)
  expect(done.length).toBeGreaterThan(50)
  expect(await migrate(empty.url)).toEqual([])
  const db = openDatabase({ url: empty.url, connections: 1 })
  const [row] = await db.run((sql) => sql<{ name: string }[]>`select 'usage'::regclass::text as name`)
  await db.close()
  expect(row?.name).toBe("usage")
})
