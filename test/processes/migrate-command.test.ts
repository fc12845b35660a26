/** `loket migrate --plan` as a person sees it. It tries migrations on a database of its own, which takes its time to begin. */
import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { migrations } from "../../src/store/migrations/index.ts"
import { openEmbedded } from "../../src/store/embedded/open.ts"
import { migrate } from "../../src/store/migrate.ts"
import { loket } from "../command/loket.ts"
import { directConnection, openEmptyDatabase } from "../store/harness.ts"

test("a plan names what would run, and changes nothing", async () => {
  await using place = await openEmptyDatabase()
  const run = (...args: string[]) => loket({ DATABASE_URL: place.url }, ...args)
  const last = migrations.at(-1)?.name ?? ""
  expect((await run("migrate")).code).toBe(0)
  const connection = directConnection(place.url)
  const taken = await connection.sql<{ sha256: string }[]>`
    delete from schema_migrations where name = ${last} returning sha256`
  const plan = await run("migrate", "--plan")
  expect(plan.said).toMatch(new RegExp(`^to be applied:\\n  ${last}: up to `))
  expect(plan.code).toBe(0)
  expect([...(await connection.sql`select from schema_migrations where name = ${last}`)]).toEqual([])
  await connection.sql`insert into schema_migrations (name, sha256) values (${last}, ${taken[0]?.sha256 ?? ""})`
  await connection.end()
  expect((await run("migrate", "--plan")).said).toBe("the schema is up to date")
})

test("without a database a plan is all of it, archives are not read, and no database is made", async () => {
  const directory = mkdtempSync(join(tmpdir(), "loket-unmade-"))
  try {
    const run = (...args: string[]) => loket({ DATA_DIR: directory }, ...args)
    const plan = await run("migrate", "--plan")
    expect(plan).toMatchObject({ code: 0, complaint: "" })
    expect(plan.said.split("\n")).toHaveLength(migrations.length + 1)
    for (const args of [["--before", "2026-08"], ["--check"]])
      expect(await run("archive", ...args)).toEqual({
        code: 1,
        said: "",
        complaint: `there is no database in ${directory}: set DATA_DIR or DATABASE_URL to where it is`,
      })
    expect(readdirSync(directory)).toEqual([])
    // What cannot be looked into, as with another user's rights, is not said to be without a database.
    const file = join(directory, "file")
    writeFileSync(file, "")
    expect(await loket({ DATA_DIR: file }, "account", "list")).toEqual({
      code: 1,
      said: "",
      complaint: `${file} cannot be looked into (ENOTDIR): run this as the gateway's user, with a directory in DATA_DIR`,
    })
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test("reading the archives brings no schema up to date", async () => {
  await using place = await openEmptyDatabase()
  const read = await loket({ DATABASE_URL: place.url }, "archive", "--check")
  expect(read).toMatchObject({ code: 1, said: "", complaint: expect.stringContaining("of another version") })
  const connection = directConnection(place.url)
  expect([...(await connection.sql`select to_regclass('schema_migrations') as there`)]).toEqual([{ there: null }])
  await connection.end()
})

test("beside a gateway of another version with an embedded database a command says so, and asks nothing of it", async () => {
  const directory = mkdtempSync(join(tmpdir(), "loket-other-version-"))
  const gateway = await openEmbedded({ dataDir: directory })
  try {
    await migrate(gateway.url)
    const run = (...args: string[]) => loket({ DATA_DIR: directory }, ...args)
    expect(await run("account", "list")).toMatchObject({ code: 0, complaint: "" })
    const connection = directConnection(gateway.url)
    // As an older gateway's, which has not made what this program asks for.
    await connection.sql`delete from schema_migrations where name = ${migrations.at(-1)?.name ?? ""}`
    await connection.end()
    const complaint = expect.stringContaining("a running gateway of another version has the embedded database")
    expect(await run("account", "list")).toEqual({ code: 1, said: "", complaint })
    expect(await run("reconcile")).toEqual({ code: 2, said: "", complaint })
  } finally {
    await gateway.close()
    rmSync(directory, { recursive: true })
  }
})
