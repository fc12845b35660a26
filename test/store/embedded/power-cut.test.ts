/**
 * A power cut: what the disk has at a moment is copied, and started elsewhere. The disk is an image of ext4 in a file, which
 * has only what the kernel has written back. Where nothing can be mounted, there is none.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { usualTerms } from "../../../src/store/embedded/checkpoints.ts"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { directConnection, templateCopy } from "../harness.ts"

const IMAGE_MB = 256

let root: string
let mounted: string[]
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "loket-power-"))
  mounted = []
})
afterEach(() => {
  for (const path of mounted) Bun.spawnSync(["umount", "-l", path])
  rmSync(root, { recursive: true })
})

const image = () => join(root, "image")

function mount(file: string, name: string): string | undefined {
  const path = join(root, name)
  mkdirSync(path)
  if (!Bun.spawnSync(["mount", "-o", "loop", file, path]).success) return undefined
  mounted.push(path)
  return path
}

/** A new file system; undefined, and loudly so, where none can be made and mounted. */
function newDisk(): string | undefined {
  const made =
    Bun.spawnSync(["truncate", "-s", `${IMAGE_MB}M`, image()]).success &&
    Bun.which("mkfs.ext4") !== null &&
    Bun.spawnSync(["mkfs.ext4", "-q", "-F", image()]).success
  const path = made ? mount(image(), "disk") : undefined
  if (path === undefined) process.stderr.write("left out: no disk image can be made and mounted here\n")
  return path
}

/** What would be there after a power cut now. */
function cut(name: string): string {
  copyFileSync(image(), join(root, `${name}.image`))
  const path = mount(join(root, `${name}.image`), name)
  if (path === undefined) throw new Error("the copy cannot be mounted")
  return path
}

async function numbersIn(dataDir: string): Promise<number[]> {
  const embedded = await openEmbedded({ dataDir })
  const connection = directConnection(embedded.url)
  const rows = await connection.sql<{ n: number }[]>`select n from rows order by n`
  await connection.end()
  await embedded.close()
  return rows.map((row) => row.n)
}

test("a database that was just made is there after a power cut", async () => {
  const disk = newDisk()
  if (disk === undefined) return
  const embedded = await openEmbedded({ dataDir: join(disk, "data") })
  const after = cut("after")
  expect(existsSync(join(after, "data", "pg", "PG_VERSION"))).toBe(true)
  const again = await openEmbedded({ dataDir: join(after, "data") })
  const connection = directConnection(again.url)
  expect(await connection.sql`select 1 as n`).toMatchObject([{ n: 1 }])
  await connection.end()
  await again.close()
  await embedded.close()
})

test("what was acknowledged is there after a power cut, also what came after the last checkpoint", async () => {
  const disk = newDisk()
  if (disk === undefined) return
  const template = await templateCopy()
  const dataDir = join(disk, "data")
  Bun.spawnSync(["cp", "-r", template, dataDir])
  rmSync(template, { recursive: true })
  Bun.spawnSync(["sync", "-f", disk])
  const embedded = await openEmbedded({ dataDir, checkpoints: { ...usualTerms, lookMs: 20, logBytes: 1_000_000 } })
  const { sql, end } = connected(embedded.url)
  await sql`create table rows (n integer primary key, text text)`
  for (let round = 0; round < 3; round++) {
    const last = 1_000 * (round + 1)
    for (let n = 1_000 * round; n < last; n++) await sql`insert into rows values (${n}, ${"x".repeat(1_000)})`
    const due = async () => {
      const [row] = await sql<{ bytes: number }[]>`
        select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 as bytes from pg_control_checkpoint()`
      return (row?.bytes ?? 0) >= 1_000_000
    }
    while (await due()) await Bun.sleep(10)
    await sql`select pg_logical_emit_message(false, 'test', repeat('x', 1000000))`
    while (await due()) await Bun.sleep(10)
    // Not checkpointed, and so in the log alone.
    for (let n = last; n < last + 50; n++) await sql`insert into rows values (${n}, 'late')`
    const numbers = await numbersIn(join(cut(`round${round}`), "data"))
    expect(numbers).toEqual(Array.from({ length: last + 50 }, (_, n) => n))
    await sql`delete from rows where n >= ${last}`
  }
  await end()
  await embedded.close()
})

function connected(url: string) {
  const connection = directConnection(url)
  return { sql: connection.sql, end: () => connection.end() }
}
