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
import { openEmbedded } from "../../src/store/embedded/open.ts"
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

test("beside a database that is written to: what was acknowledged before is in it, and nothing by half", async () => {
  const dataDir = await stopped()
  mkdirSync(join(dataDir, "withdrawals"))
  writeFileSync(join(dataDir, "withdrawals", "req_1"), "withdrawn")
  const database = await openEmbedded({ dataDir })
  const writer = directConnection(database.url)
  let acknowledged = 0
  const ended = new AbortController()
  const written = (async () => {
    for (let n = 1; !ended.signal.aborted; n++) {
      // Large enough for other files than the log to change.
      await writer.sql`insert into marks select ${n} from generate_series(1, 50)`
      acknowledged = n
    }
  })()
  await Bun.sleep(300)
  const before = acknowledged
  const backup = fresh()
  const made = await loket({ DATA_DIR: dataDir }, "backup", backup)
  expect(made).toMatchObject({ code: 0, complaint: "" })
  expect(made.said).toMatch(/^\S+: [\d.]+ MiB in [\d.]+ s; calls waited for [\d.]+ s$/)
  const atTheEnd = acknowledged
  await Bun.sleep(100)
  expect(acknowledged).toBeGreaterThan(atTheEnd)
  ended.abort()
  await written
  await writer.end()
  await database.close()

  const restored = fresh()
  const answer = await loket({ DATA_DIR: restored }, "restore", backup)
  expect(answer).toMatchObject({ code: 0, complaint: "" })
  expect(answer.said).toEndWith("all agrees")
  expect(readFileSync(join(restored, "withdrawals", "req_1"), "utf8")).toBe("withdrawn")
  const marks = await marksIn(restored)
  const last = marks.at(-1) ?? 0
  expect(before).toBeGreaterThan(0)
  expect(last).toBeGreaterThanOrEqual(before)
  expect(last).toBeLessThanOrEqual(atTheEnd + 1)
  expect(marks).toEqual([0, ...Array.from({ length: last * 50 }, (_, at) => Math.floor(at / 50) + 1)])
  const files = readdirSync(backup, { recursive: true, encoding: "utf8" }).map((name) => join(backup, name))
  expect([backup, ...files].filter((path) => (statSync(path).mode & 0o077) !== 0)).toEqual([])
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
