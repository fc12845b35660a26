/** What is no whole database is refused with a sentence that helps, is not touched, and starts when it is put right. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { openEmbedded } from "../../../src/store/embedded/open.ts"
import { directConnection, templateCopy } from "../harness.ts"

let dataDir: string
beforeEach(async () => {
  dataDir = await templateCopy()
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const file = (path: string) => join(dataDir, "pg", path)
const firstLog = () => file(join("pg_wal", readdirSync(file("pg_wal")).toSorted()[0]!))

async function withRows<T>(work: (sql: ReturnType<typeof directConnection>["sql"]) => PromiseLike<T>): Promise<T> {
  const embedded = await openEmbedded({ dataDir })
  const connection = directConnection(embedded.url)
  const result = await work(connection.sql)
  await connection.end()
  await embedded.close()
  return result
}

/** Names, sizes and times of change of all files. */
const looks = () =>
  readdirSync(join(dataDir, "pg"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => `${path} ${statSync(path).size} ${statSync(path).mtimeMs}`)
    .toSorted()

const damages: readonly {
  readonly name: string
  readonly says: RegExp
  readonly path: string
  readonly damage: () => void
}[] = [
  {
    name: "without its version",
    says: /PG_VERSION is missing/,
    path: "PG_VERSION",
    damage: () => rmSync(file("PG_VERSION")),
  },
  {
    name: "with an empty version",
    says: /PG_VERSION holds no version/,
    path: "PG_VERSION",
    damage: () => truncateSync(file("PG_VERSION")),
  },
  {
    name: "without its control file",
    says: /global\/pg_control is missing/,
    path: "global",
    damage: () => rmSync(file("global/pg_control")),
  },
  {
    name: "with a control file of zeros",
    says: /global\/pg_control is empty or cut short/,
    path: "global",
    damage: () => writeFileSync(file("global/pg_control"), Buffer.alloc(8192)),
  },
  {
    name: "with a control file that lacks its last byte",
    says: /global\/pg_control is empty or cut short/,
    path: "global",
    damage: () => truncateSync(file("global/pg_control"), 8191),
  },
]

for (const { name, says, path, damage } of damages) {
  test(`a database ${name} is refused, not touched, and whole again with its file`, async () => {
    await withRows((sql) => sql`create table kept as select 42 as n`)
    const aside = `${dataDir}-aside`
    cpSync(file(path), aside, { recursive: true })
    damage()
    const before = looks()
    for (let turn = 0; turn < 2; turn++) {
      const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
      expect(String(error)).toMatch(says)
      expect(String(error)).toContain(join(dataDir, "pg"))
      expect(String(error)).toMatch(/restore a backup.*another DATA_DIR/)
      expect(looks()).toEqual(before)
    }
    cpSync(aside, file(path), { recursive: true })
    rmSync(aside, { recursive: true })
    expect(await withRows((sql) => sql<{ n: number }[]>`select n from kept`)).toMatchObject([{ n: 42 }])
  })
}

test("an empty directory is no proof that nothing was there, and is refused until it is removed", async () => {
  rmSync(join(dataDir, "pg"), { recursive: true })
  mkdirSync(join(dataDir, "pg"))
  const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  expect(String(error)).toMatch(/the directory is empty/)
  expect(readdirSync(join(dataDir, "pg"))).toEqual([])
  rmSync(join(dataDir, "pg"), { recursive: true })
  await (await openEmbedded({ dataDir })).close()
})

test("a file where the database should be is refused", async () => {
  rmSync(join(dataDir, "pg"), { recursive: true })
  writeFileSync(join(dataDir, "pg"), "18\n")
  const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  expect(String(error)).toMatch(/it is no directory/)
})

test("what Postgres itself cannot start is told in Postgres' words, with the directory and what to do", async () => {
  const log = firstLog()
  const aside = `${dataDir}-log`
  renameSync(log, aside)
  const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  const said = error instanceof Error ? error.message : ""
  expect(said).toStartWith(`The embedded database in ${join(dataDir, "pg")} does not start: `)
  expect(said).toMatch(/PANIC: .*could not locate a valid checkpoint record/)
  expect(said).toMatch(/restore a backup.*another DATA_DIR/)
  // Neither sources of PGlite nor a stack.
  expect(said.split("\n").length).toBe(1)
  expect(said.length).toBeLessThan(800)
  renameSync(aside, log)
  await (await openEmbedded({ dataDir })).close()
})

const unstartable: readonly { readonly name: string; readonly says: RegExp; readonly damage: () => void }[] = [
  { name: "settings", says: /start: .*postgresql\.conf/, damage: () => rmSync(file("postgresql.conf")) },
  {
    name: "map of files",
    says: /start: FATAL: could not open file "global\/pg_filenode.map"/,
    damage: () => rmSync(file("global/pg_filenode.map")),
  },
  { name: "tables", says: /start: FATAL: /, damage: () => rmSync(file("base"), { recursive: true }) },
]

for (const { name, says, damage } of unstartable) {
  test(`a database without its ${name} is refused in one line that says what is missing and what to do`, async () => {
    damage()
    const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
    const said = error instanceof Error ? error.message : ""
    expect(said).toMatch(says)
    expect(said).toMatch(/restore a backup.*another DATA_DIR/)
    expect(said).not.toContain("/pglite/")
    expect(said.split("\n").length).toBe(1)
    expect(said.length).toBeLessThan(500)
  })
}

test("a lock file that is none is explained, and left alone", async () => {
  writeFileSync(join(dataDir, "lock"), "not a lock, and longer than the header of one ".repeat(10))
  const error = await openEmbedded({ dataDir }).catch((thrown: unknown) => thrown)
  expect(String(error)).toContain(join(dataDir, "lock"))
  expect(String(error)).toMatch(/remove it if no Loket process uses/)
  expect(readFileSync(join(dataDir, "lock"), "utf8")).toStartWith("not a lock")
  rmSync(join(dataDir, "lock"))
  await (await openEmbedded({ dataDir })).close()
})
