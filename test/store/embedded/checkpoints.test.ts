/** The log of the embedded database is bounded, what a start reads again is little, and a power cut finds a whole database. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { readdirSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { usualTerms } from "../../../src/store/embedded/checkpoints.ts"
import type { Sql } from "../../../src/store/database.ts"
import { directConnection, templateCopy } from "../harness.ts"
import { until } from "../../eventually.ts"

const MB = 1024 * 1024

let dataDir: string
beforeEach(async () => {
  dataDir = await templateCopy()
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const logBytes = () =>
  readdirSync(join(dataDir, "pg", "pg_wal"), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    // A file may be removed while others are looked at.
    .reduce(
      (sum, { parentPath, name }) => sum + (statSync(join(parentPath, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    )

/** Bytes of the log since the last checkpoint, and where that is. */
async function since(sql: Sql): Promise<{ readonly bytes: number; readonly redo: string; readonly now: string }> {
  const [row] = await sql<{ bytes: number; redo: string; now: string }[]>`
    select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 as bytes,
      redo_lsn::text as redo, pg_current_wal_insert_lsn()::text as now from pg_control_checkpoint()`
  if (row === undefined) throw new Error("there is a row always")
  return row
}

test("a log of several hundred megabytes never takes more than a few of its files", async () => {
  const embedded = await openEmbedded({ dataDir, checkpoints: { ...usualTerms, lookMs: 50 } })
  const { sql, end } = connected(embedded.url)
  const first = await since(sql)
  let most = 0
  for (let written = 0; written < 320; written++) {
    await sql.unsafe("select pg_logical_emit_message(false, 'test', repeat('x', 1048576))")
    most = Math.max(most, logBytes())
  }
  await until(async () => (await since(sql)).bytes < usualTerms.logBytes, 20)
  expect(most).toBeLessThanOrEqual(112 * MB)
  expect((await since(sql)).redo).not.toBe(first.redo)
  await end()
  await embedded.close()
})

test("a checkpoint is due with the size, and not a little before", async () => {
  const terms = { lookMs: 20, logBytes: 4 * MB, ageMs: 3_600_000 }
  const embedded = await openEmbedded({ dataDir, checkpoints: terms })
  const { sql, end } = connected(embedded.url)
  const { redo } = await since(sql)
  await sql.unsafe(`select pg_logical_emit_message(false, 'test', repeat('x', ${3 * MB}))`)
  await Bun.sleep(500)
  expect((await since(sql)).redo).toBe(redo)
  await sql.unsafe(`select pg_logical_emit_message(false, 'test', repeat('x', ${MB + 1024}))`)
  await until(async () => (await since(sql)).redo !== redo, 20)
  await end()
  await embedded.close()
})

test("however little was written, it is checkpointed when it is old, also when nobody asks anything", async () => {
  const embedded = await openEmbedded({ dataDir, checkpoints: { ...usualTerms, lookMs: 20, ageMs: 1_500 } })
  const { sql, end } = connected(embedded.url)
  await sql`create table little (n integer)`
  await Bun.sleep(2_500)
  const { bytes, redo } = await since(sql)
  expect(bytes).toBeLessThan(1_000)
  // Nothing was written since, and a checkpoint of nothing is none.
  await Bun.sleep(100)
  expect((await since(sql)).redo).toBe(redo)
  await end()
  await embedded.close()
})

test("a stop in order leaves nothing to be read again, and SIGKILL little", async () => {
  const program = `
    import { openEmbedded } from ${JSON.stringify(join(import.meta.dir, "../../../src/store/embedded/open.ts"))}
    import { directConnection } from ${JSON.stringify(join(import.meta.dir, "../harness.ts"))}
    const { url } = await openEmbedded({ dataDir: ${JSON.stringify(dataDir)} })
    const { sql } = directConnection(url)
    await sql\`create table rows (n integer, text text)\`
    for (let n = 0; n < 120; n++) await sql\`insert into rows select \${n}, repeat('x', 1000) from generate_series(1, 500)\`
    await Bun.sleep(2_500)
    await sql\`insert into rows values (-1, 'last')\`
    const [at] = await sql\`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 as bytes from pg_control_checkpoint()\`
    console.log(at.bytes)
    await Bun.sleep(60_000)`
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" })
  const { value } = await child.stdout.getReader().read()
  child.kill("SIGKILL")
  await child.exited
  // What the next start reads again; without checkpoints it would be all of it, more than 60 MB.
  expect(Number(Buffer.from(value ?? []).toString())).toBeLessThan(usualTerms.logBytes)

  const embedded = await openEmbedded({ dataDir })
  const { sql, end } = connected(embedded.url)
  expect((await since(sql)).bytes).toBeLessThan(MB)
  expect(await sql`select count(*)::int as n from rows`).toMatchObject([{ n: 60_001 }])
  const { now } = await since(sql)
  await end()
  await embedded.close()
  const again = await openEmbedded({ dataDir })
  const second = connected(again.url)
  const [redo] = await second.sql<{ bytes: number }[]>`
    select pg_wal_lsn_diff(redo_lsn, ${now}::pg_lsn)::float8 as bytes from pg_control_checkpoint()`
  expect(redo?.bytes).toBeGreaterThanOrEqual(0)
  await second.end()
  await again.close()
})

function connected(url: string) {
  const connection = directConnection(url)
  return { sql: connection.sql, end: () => connection.end() }
}
