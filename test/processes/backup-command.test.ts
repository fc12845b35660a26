/** Backups of the embedded database: taken while it is written to, checked, and begun again from. */
import { afterAll, expect, test } from "bun:test"
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { copyDatabase, openEmbedded } from "../../src/store/embedded/open.ts"
import { eventually } from "../contract/calling.ts"
import { directConnection, templateCopy } from "../store/harness.ts"
import { loket } from "../command/loket.ts"

const scratch = mkdtempSync(join(tmpdir(), "loket-backup-"))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))
let names = 0
const fresh = (): string => join(scratch, String(names++))

/** A stopped database with one row of its own. */
async function stopped(): Promise<string> {
  const dataDir = await templateCopy()
  const database = await openEmbedded({ dataDir })
  const connection = directConnection(database.url)
  await connection.sql`create table marks (n integer)`
  await connection.sql`insert into marks values (0)`
  await connection.end()
  await database.close()
  return dataDir
}

async function marksIn(dataDir: string): Promise<number[]> {
  const database = await openEmbedded({ dataDir })
  const connection = directConnection(database.url)
  const rows = await connection.sql<{ n: number }[]>`select n from marks order by n`
  await connection.end()
  await database.close()
  return rows.map(({ n }) => n)
}

/** Writes without a pause, and makes checkpoints, after which the log alone does not mend what was copied before. */
function writerTo(url: string) {
  const connection = directConnection(url)
  const ended = new AbortController()
  let acknowledged = 0
  const written = (async () => {
    await connection.sql`create table pages as select 0 as n, repeat('x', 200) as filling from generate_series(1, 2000)`
    for (let n = 1; !ended.signal.aborted; n++) {
      await connection.sql`with all_pages as (update pages set n = ${n}) insert into marks values (${n})`
      acknowledged = n
      if (n % 5 === 0) await connection.sql`checkpoint`
    }
  })()
  return {
    acknowledged: () => acknowledged,
    async end() {
      ended.abort()
      await written
      await connection.end()
    },
  }
}

/** Up to which statement all of them are there, each of them whole. */
async function lastIn(dataDir: string): Promise<number> {
  const marks = await marksIn(dataDir)
  expect(marks).toEqual(Array.from(marks, (_, n) => n))
  const database = await openEmbedded({ dataDir })
  const connection = directConnection(database.url)
  const pages = await connection.sql<
    { n: number; rows: number }[]
  >`select n, count(*)::int as rows from pages group by n`
  expect([...pages]).toEqual([{ n: marks.length - 1, rows: 2000 }])
  await connection.end()
  await database.close()
  return marks.length - 1
}

test("a slow copy of a database that is written to: what was acknowledged before is in it, and nothing by half", async () => {
  const dataDir = await stopped()
  const database = await openEmbedded({ dataDir })
  const writer = writerTo(database.url)
  await eventually(
    "not written",
    async () => writer.acknowledged(),
    (n) => n > 3,
  )
  const before = writer.acknowledged()
  const target = fresh()
  const seen: { readonly at: number; readonly acknowledged: number }[] = []
  const { pausedMs } = await copyDatabase(dataDir, join(target, "pg"), () => {
    // The writer has its turn between two files.
    Bun.sleepSync(1)
    seen.push({ at: performance.now(), acknowledged: writer.acknowledged() })
  })
  const after = writer.acknowledged()
  expect(pausedMs).toBeGreaterThan(0)
  const end = seen.at(-1)?.at ?? 0
  const alone = seen.filter(({ at }) => at > end - pausedMs / 2)
  // It looks at all of the files once more, and meanwhile nobody writes.
  const unchanged =
    seen.length - 1 - seen.findLastIndex(({ acknowledged }) => acknowledged !== seen.at(-1)?.acknowledged)
  expect(unchanged).toBeGreaterThan(100)
  expect(alone.length).toBeGreaterThan(100)
  expect(new Set(alone.map(({ acknowledged }) => acknowledged)).size).toBe(1)
  expect(after).toBeGreaterThan(before + 5)
  await eventually(
    "it does not go on",
    async () => writer.acknowledged(),
    (n) => n > after,
  )
  await writer.end()
  await database.close()
  const last = await lastIn(target)
  expect(last).toBeGreaterThanOrEqual(alone[0]?.acknowledged ?? after)
  expect(last).toBeLessThanOrEqual(after + 1)
})

test("a backup beside a gateway is restored with all that belongs to it, for this user alone", async () => {
  const dataDir = await stopped()
  mkdirSync(join(dataDir, "withdrawals"))
  writeFileSync(join(dataDir, "withdrawals", "req_1"), "withdrawn")
  const database = await openEmbedded({ dataDir })
  const backup = fresh()
  const made = await loket({ DATA_DIR: dataDir }, "backup", backup)
  expect(made).toMatchObject({ code: 0, complaint: "" })
  expect(made.said).toMatch(/^\S+: [\d.]+ MiB in [\d.]+ s; calls waited for [\d.]+ s$/)
  await database.close()

  const restored = fresh()
  const answer = await loket({ DATA_DIR: restored }, "restore", backup)
  expect(answer.said).toEndWith("all agrees")
  expect(answer.code).toBe(0)
  expect(readFileSync(join(restored, "withdrawals", "req_1"), "utf8")).toBe("withdrawn")
  expect(await marksIn(restored)).toEqual([0])
  const files = readdirSync(backup, { recursive: true, encoding: "utf8" }).map((name) => join(backup, name))
  expect([backup, ...files].filter((path) => (statSync(path).mode & 0o077) !== 0)).toEqual([])
})

test("a call that is kept to be taken back when a backup begins is in it, and so is one that comes while it is made", async () => {
  const dataDir = await stopped()
  const kept = join(dataDir, "withdrawals")
  mkdirSync(kept)
  writeFileSync(join(kept, "before.json"), "before")
  const backup = fresh()
  const copying = setInterval(() => {
    if (!existsSync(join(`${backup}.unfinished`, "pg")) || existsSync(join(kept, "meanwhile.json"))) return
    // A gateway takes back the one, and has to keep the other.
    rmSync(join(kept, "before.json"))
    writeFileSync(join(kept, "meanwhile.json"), "meanwhile")
  }, 1)
  expect(await loket({ DATA_DIR: dataDir }, "backup", backup)).toMatchObject({ code: 0, complaint: "" })
  clearInterval(copying)
  expect(readdirSync(kept)).toEqual(["meanwhile.json"])
  expect(readdirSync(join(backup, "withdrawals")).sort()).toEqual(["before.json", "meanwhile.json"])
})

test("of a stopped database, also through an archive that keeps no empty directories", async () => {
  const dataDir = await stopped()
  const backup = fresh()
  expect((await loket({ DATA_DIR: dataDir }, "backup", backup)).said).not.toContain("waited")
  const prune = Bun.spawnSync(["find", backup, "-type", "d", "-empty", "-delete"])
  expect(prune.exitCode).toBe(0)
  const restored = fresh()
  expect((await loket({ DATA_DIR: restored }, "restore", backup)).code).toBe(0)
  expect(await marksIn(restored)).toEqual([0])
})

test("a backup in which anything is damaged is refused, with what it is, and nothing is restored", async () => {
  const backup = fresh()
  expect((await loket({ DATA_DIR: await stopped() }, "backup", backup)).code).toBe(0)
  expect((await loket({}, "restore", backup, "--check")).said).toStartWith("whole: ")
  const control = join(backup, "pg/global/pg_control")
  const version = join(backup, "pg/PG_VERSION")
  const right = readFileSync(control)
  const damages: readonly (readonly [() => void, string])[] = [
    [
      () =>
        writeFileSync(
          control,
          right.map((byte, at) => (at === 100 ? byte ^ 1 : byte)),
        ),
      "pg/global/pg_control is not what it was",
    ],
    [
      () => (writeFileSync(control, right), appendFileSync(control, "x")),
      `pg/global/pg_control has ${right.length + 1} bytes, and had ${right.length}`,
    ],
    [() => (writeFileSync(control, right), rmSync(version)), "pg/PG_VERSION is missing"],
    [() => writeFileSync(join(backup, "pg/more"), ""), "pg/more was not in it"],
  ]
  const target = fresh()
  for (const [damage, named] of damages) {
    damage()
    const refused = await loket({ DATA_DIR: target }, "restore", backup)
    expect(refused).toMatchObject({ code: 1, said: "", complaint: expect.stringContaining(named) })
    expect(existsSync(target)).toBe(false)
  }
  writeFileSync(join(backup, "manifest.json"), "{}")
  expect((await loket({}, "restore", backup, "--check")).complaint).toContain("damaged, or of a newer version")
})

test("nothing that is there is overwritten, and what cannot be is said", async () => {
  const dataDir = await stopped()
  const backup = fresh()
  expect((await loket({ DATA_DIR: dataDir }, "backup", backup)).code).toBe(0)
  const refusals: readonly (readonly [Readonly<Record<string, string>>, readonly string[], string])[] = [
    [{ DATA_DIR: dataDir }, ["backup", backup], "is there already"],
    [{ DATA_DIR: dataDir }, ["restore", backup], "is there already: set DATA_DIR to another directory"],
    [{ DATA_DIR: fresh() }, ["backup", fresh()], "there is no database in"],
    [{ DATA_DIR: fresh() }, ["restore", scratch], "is no backup"],
    [{ DATABASE_URL: "postgres://a@127.0.0.1:1/a" }, ["restore", backup], "`loket move --to` the server"],
  ]
  for (const [env, args, complaint] of refusals)
    expect(await loket(env, ...args)).toMatchObject({
      code: 1,
      said: "",
      complaint: expect.stringContaining(complaint),
    })
  expect(await marksIn(dataDir)).toEqual([0])
  expect(readdirSync(scratch).filter((name) => name.endsWith(".unfinished"))).toEqual([])
})

test("a backup that this user cannot read is not said to be none", async () => {
  const backup = fresh()
  mkdirSync(backup)
  expect((await loket({}, "restore", backup, "--check")).complaint).toContain("is no backup: it has no manifest.json")
  // Not even the superuser reads a directory as a file.
  mkdirSync(join(backup, "manifest.json"))
  const { code, complaint } = await loket({}, "restore", backup, "--check")
  expect(code).toBe(1)
  expect(complaint).toBe(`${join(backup, "manifest.json")} cannot be read (EISDIR): run this as the user who made it`)
})
