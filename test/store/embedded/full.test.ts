/** The embedded database on a disk that runs full. Where nothing can be mounted, there is no small disk to fill. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { cpSync } from "node:fs"
import { join } from "node:path"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { type Disk, mountDisk } from "../../crash/torture/disk.ts"
import { directConnection, templateCopy } from "../harness.ts"

let disk: Disk | undefined
let dataDir: string
beforeEach(async () => {
  disk = mountDisk(128)
  if (disk === undefined) return
  dataDir = join(disk.path, "data")
  cpSync(await templateCopy(), dataDir, { recursive: true })
})
afterEach(() => disk?.[Symbol.dispose]())

/** A megabyte of the log, and nothing else. */
const LOGGED = "select pg_logical_emit_message(false, 'test', repeat('x', 1000000))"

const withDisk = (work: (disk: Disk) => Promise<void>) => async () => {
  if (disk === undefined) process.stderr.write("left out: nothing can be mounted here\n")
  else await work(disk)
}

test(
  "a table that cannot grow is an error of its statement, and all is well when there is room again",
  withDisk(async (small) => {
    const embedded = await openEmbedded({ dataDir })
    const { sql, end } = connected(embedded.url)
    await sql`create table rows (n integer, text text)`
    small.fill()
    const written: number[] = []
    const filling = async () => {
      for (let n = 0; ; n++) {
        await sql`insert into rows values (${n}, ${"x".repeat(2_000)})`
        written.push(n)
      }
    }
    const error = await filling().catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: "53100" })
    small.free()
    await sql`insert into rows values (${-1}, 'after')`
    const rows = await sql<{ n: number }[]>`select n from rows order by n`
    expect(rows.map((row) => row.n)).toEqual([-1, ...written])
    await end()
    await embedded.close()
  }),
  60_000,
)

test(
  "a checkpoint that has no room is put off and told of, and made when there is room again",
  withDisk(async (small) => {
    const { promise: refused, resolve } = Promise.withResolvers<string>()
    const exits: Error[] = []
    const embedded = await openEmbedded({
      dataDir,
      checkpoints: { lookMs: 20, logBytes: 1_000_000, ageMs: 3_600_000 },
      onNoCheckpoint: resolve,
      onExit: (error) => exits.push(error),
    })
    const { sql, end } = connected(embedded.url)
    await sql`create table rows (n integer)`
    await sql`insert into rows values (0)`
    const redo = async () =>
      (await sql<{ redo: string }[]>`select redo_lsn::text as redo from pg_control_checkpoint()`)[0]
    const before = await redo()
    small.fill()
    // Room for this is in the file of the log that there is.
    await sql.unsafe(LOGGED)
    expect(await refused).toContain("there is no room on the disk of")
    await sql`insert into rows values (1)`
    small.free()
    await sql`insert into rows values (2)`
    while ((await redo())?.redo === before?.redo) await Bun.sleep(50)
    expect(exits).toEqual([])
    await end()
    await embedded.close()
  }),
  60_000,
)

test(
  "a log that cannot grow ends the database, and the next start has all that was acknowledged",
  withDisk(async (small) => {
    const { promise: exited, resolve } = Promise.withResolvers<Error>()
    const embedded = await openEmbedded({ dataDir, onExit: resolve })
    const { sql } = connected(embedded.url)
    await sql`create table rows (n integer)`
    await sql`insert into rows values (1)`
    small.fill()
    void (async () => {
      for (;;) await sql.unsafe(LOGGED)
    })().catch(() => {})
    expect(await exited).toMatchObject({ message: expect.stringMatching(/PANIC.*No space left on device/) })
    await embedded.close()

    small.free()
    const again = await openEmbedded({ dataDir })
    const second = connected(again.url)
    expect(await second.sql`select n from rows`).toMatchObject([{ n: 1 }])
    await second.end()
    await again.close()
  }),
  60_000,
)

function connected(url: string) {
  const connection = directConnection(url)
  return { sql: connection.sql, end: () => connection.end() }
}
