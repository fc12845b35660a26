/** Backups of a server's database: a dump by PostgreSQL's own program, with a manifest, restored into an empty database. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openBooks } from "../../reconciliation/world.ts"
import { directConnection, openPlace, type Place } from "../../store/scratch.ts"
import { loket } from "../loket.ts"

const scratch = mkdtempSync(join(tmpdir(), "loket-backup-"))
let world: Awaited<ReturnType<typeof openBooks>>
let empty: Place
beforeAll(async () => {
  world = await openBooks()
  empty = await openPlace([])
})
afterAll(async () => {
  await world.close()
  await empty.remove()
  rmSync(scratch, { recursive: true })
})

async function sums(url: string) {
  const connection = directConnection(url)
  const [row] = await connection.sql`
    select (select sum(posted_micro)::text from balances) as balances, (select count(*)::int from transfers) as transfers,
      (select array_agg(id order by id) from accounts) as accounts`
  await connection.end()
  return row
}

test("a dump is restored whole and its books agree; once, and not when it is damaged", async () => {
  const backup = join(scratch, "monday")
  const made = await loket({ DATABASE_URL: world.url }, "backup", backup)
  expect(made).toMatchObject({ code: 0, complaint: "" })
  expect(await loket({ DATABASE_URL: world.url }, "restore", backup)).toMatchObject({
    code: 1,
    complaint: expect.stringMatching(/the database has \d+ tables already: make an empty one/),
  })
  expect((await loket({ DATA_DIR: scratch }, "restore", backup)).complaint).toContain(
    "set DATABASE_URL to an empty one",
  )
  const answer = await loket({ DATABASE_URL: empty.url }, "restore", backup)
  expect(answer.said).toEndWith("all agrees")
  expect(answer.code).toBe(0)
  expect(await sums(empty.url)).toEqual(await sums(world.url))
  appendFileSync(join(backup, "database.dump"), "x")
  expect((await loket({ DATABASE_URL: empty.url }, "restore", backup)).complaint).toContain("database.dump has")
})

test("pg_dump waits for a silent server no longer than other commands do", async () => {
  const bin = join(scratch, "bin")
  mkdirSync(bin)
  const stand = join(bin, "pg_dump")
  writeFileSync(stand, '#!/bin/sh\necho "waits for $PGCONNECT_TIMEOUT" >&2\nexit 1\n', { mode: 0o700 })
  const backup = join(scratch, "silent")
  const complaint = async (more: Record<string, string>) => {
    const env = { DATABASE_URL: world.url, PATH: `${bin}:${process.env["PATH"]}`, ...more }
    const command = [process.execPath, join(import.meta.dir, "../../../src/main.ts"), "backup", backup]
    return await new Response(Bun.spawn(command, { env, stdout: "ignore", stderr: "pipe" }).stderr).text()
  }
  expect(await complaint({})).toBe("pg_dump failed:\nwaits for 15\n")
  expect(await complaint({ PGCONNECT_TIMEOUT: "60" })).toBe("pg_dump failed:\nwaits for 60\n")
})

test("a server that is away leaves no half backup, and its password is not shown", async () => {
  const backup = join(scratch, "away")
  const away = await loket({ DATABASE_URL: "postgres://root:hunter2@127.0.0.1:1/a" }, "backup", backup)
  expect(away.complaint).toStartWith("pg_dump failed:")
  expect(away.complaint).not.toContain("hunter2")
  expect(away).toMatchObject({ code: 1, said: "" })
  // An @ in it is none of the host's, as for the gateway itself.
  const odd = await loket({ DATABASE_URL: "postgres://root:hun@ter2@127.0.0.1:1/a" }, "backup", backup)
  expect(odd.complaint).toContain("127.0.0.1")
  expect(odd.complaint).not.toContain("ter2")
  const unread = await loket({ DATABASE_URL: "postgres://root:100%hunter2@127.0.0.1:1/a" }, "backup", backup)
  expect(unread.complaint).toContain("write % as %25")
  expect(unread.complaint).not.toContain("hunter2")
  expect((await loket({}, "restore", backup, "--check")).complaint).toContain("is no backup")
})

test("no word of another program's command line has a password, wherever the address has it", async () => {
  const programs = join(scratch, "programs")
  mkdirSync(programs)
  const seen = join(scratch, "seen")
  const tells = `#!/bin/sh\nfor each; do echo "$each" >> ${seen}; done\necho "in its environment: $PGPASSWORD" >> ${seen}\nexit 1\n`
  for (const name of ["pg_dump", "pg_restore"]) writeFileSync(join(programs, name), tells, { mode: 0o755 })
  // A process of its own, because where programs are is read when one starts.
  const complaintOf = async (url: string, words: readonly string[]) => {
    const env = { DATABASE_URL: url, PATH: `${programs}:${process.env["PATH"]}` }
    const main = join(import.meta.dir, "../../../src/main.ts")
    const child = Bun.spawn([process.execPath, main, ...words], { env, stdout: "ignore", stderr: "pipe" })
    return await new Response(child.stderr).text()
  }
  const backup = join(scratch, "for-another")
  expect((await loket({ DATABASE_URL: world.url }, "backup", backup)).code).toBe(0)
  const other = await openPlace([])
  try {
    for (const has of [
      (url: URL) => void (url.password = "hunter2"),
      (url: URL) => url.searchParams.set("password", "hunter2"),
    ]) {
      for (const [place, words] of [
        [world.url, ["backup", join(scratch, "not-made")]],
        [other.url, ["restore", backup]],
      ] as const) {
        const url = new URL(place)
        has(url)
        rmSync(seen, { force: true })
        expect(await complaintOf(url.href, words)).toMatch(/^pg_(?:dump|restore) failed:\n/)
        const lines = readFileSync(seen, "utf8").trim().split("\n")
        expect(lines.filter((line) => line.includes("hunter2"))).toEqual(["in its environment: hunter2"])
      }
    }
  } finally {
    await other.remove()
  }
})
