/**
 * Databases of the tests, on either kind of Postgres. Each is a copy of a template that is made once per version of the
 * migrations it has. One that a test has finished with is kept for the next test of the same process, which gets it emptied:
 * that takes milliseconds where a copy takes seconds. What a process leaves behind, another removes later.
 */
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import { Connection } from "../../src/store/connection.ts"
import type { Sql } from "../../src/store/database.ts"
import { DataDirectoryInUse, lockDataDirectory } from "../../src/store/embedded/database-files.ts"
import { openEmbedded } from "../../src/store/embedded/open.ts"
import { migrate } from "../../src/store/migrate.ts"
import { type Migration, migrations } from "../../src/store/migrations/index.ts"
import { readTemplate, reset, type Template } from "./reset.ts"

export const onPostgres = Bun.env.LOKET_TEST_DATABASE === "postgres"
const serverUrl = Bun.env.DATABASE_URL ?? "postgres://root@127.0.0.1:5432/postgres"

const pglite = await Bun.file(join(import.meta.dir, "../../node_modules/@electric-sql/pglite/package.json")).text()

/** Names what a template is made of: a change of any makes another one. Migrations make tables of the months around today. */
const fingerprintOf = (wanted: readonly Migration[]): string =>
  new Bun.CryptoHasher("sha256")
    .update(pglite)
    .update(new Date().toISOString().slice(0, "2026-11".length))
    .update(wanted.map(({ name, sql }) => `${name}\0${sql}\0`).join(""))
    .digest("hex")
    .slice(0, 16)

/**
 * A canary changes the product while it is loaded, migrations too. What is made of a changed one is of no use to anybody else,
 * so it is kept where what this process leaves behind is removed.
 */
const isChanged = Bun.env["LOKET_CANARY"] !== undefined

/** An address to test against, and how to be rid of what is there. */
export interface Place {
  readonly url: string
  remove(): Promise<void>
}

/** A database with these migrations, of which a test may do anything; it is removed afterwards. */
export const openPlace = async (wanted: readonly Migration[] = migrations): Promise<Place> =>
  onPostgres ? await serverDatabase(wanted) : await embeddedDatabase(wanted)

export function directConnection(url: string): Connection {
  return new Connection({ url, connectTimeoutMs: 10_000, statementTimeoutMs: 0 })
}

// ---- Databases between two tests ------------------------------------------------------------------------------------

const MAX_IDLE = 2
const idle: Place[] = []
/** Of a migrated database that nobody has used. */
let template: Promise<Template> | undefined

/** A migrated database as good as new. */
export async function takePlace(): Promise<Place> {
  for (let used = idle.pop(); used !== undefined; used = idle.pop()) {
    const place = onPostgres ? await renamed(used) : used
    if (await renewed(place)) return place
    await place.remove()
  }
  const place = await openPlace()
  await (template ??= withConnection(place.url, readTemplate))
  return place
}

export async function giveBack(place: Place): Promise<void> {
  if (idle.length < MAX_IDLE) idle.push(place)
  else await place.remove()
}

async function renewed({ url }: Place): Promise<boolean> {
  if (template === undefined || !(await isLeftAlone(url))) return false
  const found = await template
  return await withConnection(url, (sql) => reset(sql, found)).catch(() => false)
}

/** Under another name, by which nobody who was here before finds it again. */
async function renamed({ url }: Place): Promise<Place> {
  const name = databaseName()
  await isLeftAlone(url)
  await administer((sql) => sql.unsafe(`alter database ${new URL(url).pathname.slice(1)} rename to ${name}`))
  return serverPlace(name)
}

/** Whether nobody is connected any more. On a server whoever is left is disconnected. */
async function isLeftAlone(url: string): Promise<boolean> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const left = onPostgres ? await withConnection(url, disconnectOthers) : embeddedClients(url)
    if (left === 0) return true
    await Bun.sleep(20)
  }
  return false
}

async function disconnectOthers(sql: Sql): Promise<number> {
  const others = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`
  return others.length
}

/** As Linux counts them; elsewhere none are seen. */
function embeddedClients(url: string): number {
  const socket = join(new URL(url).searchParams.get("host") ?? "", ".s.PGSQL.5432")
  const CONNECTED = "03"
  const sockets = existsSync("/proc/net/unix") ? readFileSync("/proc/net/unix", "utf8").split("\n") : []
  return sockets.filter((line) => line.endsWith(` ${socket}`) && line.split(/\s+/)[5] === CONNECTED).length
}

async function withConnection<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const connection = directConnection(url)
  try {
    return await work(connection.sql)
  } finally {
    await connection.end()
  }
}

// ---- The embedded database ------------------------------------------------------------------------------------------

/** A data directory that is a copy of the migrated template, not opened yet. */
export async function templateCopy(wanted: readonly Migration[] = migrations): Promise<string> {
  const directory = scratchDirectory()
  cpSync(await embeddedTemplate(wanted), directory, { recursive: true })
  return directory
}

async function embeddedDatabase(wanted: readonly Migration[]): Promise<Place> {
  const dataDir = await templateCopy(wanted)
  const embedded = await openEmbedded({ dataDir })
  return {
    url: embedded.url,
    remove: async () => {
      await embedded.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** In memory where there is room, because a disk is what most of the time would go into. */
const scratchRoot = roomIn("/dev/shm") > 2 * 1024 ** 3 ? "/dev/shm" : tmpdir()

function roomIn(directory: string): number {
  if (!existsSync(directory)) return 0
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

const scratchPrefix = (pid: number | string) => `loket-scratch-${pid}-`
let swept = false

/** Named after this process. */
function scratchDirectory(): string {
  if (!swept) {
    swept = true
    for (const name of readdirSync(scratchRoot)) {
      const pid = /^loket-scratch-(\d+)-/.exec(name)?.[1]
      if (pid !== undefined && !isAlive(pid)) rmSync(join(scratchRoot, name), { recursive: true, force: true })
    }
  }
  return mkdtempSync(join(scratchRoot, scratchPrefix(process.pid)))
}

function isAlive(pid: string): boolean {
  try {
    return process.kill(Number(pid), 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH"
  }
}

/** Of a changed product, by what they are made of. */
const changedTemplates = new Map<string, Promise<string>>()

function changedTemplate(name: string, make: () => Promise<string>): Promise<string> {
  const made = changedTemplates.get(name) ?? make()
  changedTemplates.set(name, made)
  return made
}

async function embeddedTemplate(wanted: readonly Migration[]): Promise<string> {
  const cache = join(import.meta.dir, "../../node_modules/.cache/loket")
  const name = `database-${fingerprintOf(wanted)}`
  const made = join(cache, name)
  if (existsSync(made)) return made
  if (isChanged) return await changedTemplate(name, () => makeTemplate(scratchDirectory(), wanted))
  // One process makes it; the others wait for it here.
  using _lock = await locked(join(cache, `${name}-lock`))
  if (existsSync(made)) return made
  // Made aside and renamed into place, so that nobody meets a half-made one.
  renameSync(await makeTemplate(mkdtempSync(join(cache, "unfinished-")), wanted), made)
  removeOld(cache)
  return made
}

async function locked(directory: string): Promise<Disposable> {
  for (;;) {
    try {
      return lockDataDirectory(directory)
    } catch (error) {
      if (!(error instanceof DataDirectoryInUse)) throw error
      await Bun.sleep(100)
    }
  }
}

async function makeTemplate(dataDir: string, wanted: readonly Migration[]): Promise<string> {
  const embedded = await openEmbedded({ dataDir })
  await migrate(embedded.url, wanted)
  await embedded.close()
  return dataDir
}

/** Other versions' templates, and what was never finished: up to 40 MB each. One that is needed after all is made again. */
function removeOld(cache: string): void {
  const aDayAgo = Date.now() - 24 * 60 * 60 * 1_000
  for (const name of readdirSync(cache)) {
    const path = join(cache, name)
    const stat = statSync(path, { throwIfNoEntry: false })
    if (stat !== undefined && stat.mtimeMs < aDayAgo) rmSync(path, { recursive: true, force: true })
  }
}

// ---- A server -------------------------------------------------------------------------------------------------------

/** Of this machine and this process. */
const databasePrefix = (pid: number | string) => `loket_test_${Bun.hash(hostname()).toString(36)}_${pid}_`

/** A copy of a template. */
async function serverDatabase(wanted: readonly Migration[]): Promise<Place> {
  if (!swept) {
    swept = true
    await administer(dropAbandoned)
  }
  const source = wanted.length === 0 ? "template1" : await serverTemplate(wanted)
  const name = databaseName()
  await administer((sql) => sql.unsafe(`create database ${name} template ${source}`))
  return serverPlace(name)
}

const databaseName = (): string => databasePrefix(process.pid) + crypto.randomUUID().slice(0, 8)

const serverPlace = (name: string): Place => ({
  url: urlOf(name),
  remove: () => administer((sql) => sql.unsafe(`drop database if exists ${name} with (force)`)),
})

async function dropAbandoned(sql: Sql): Promise<void> {
  const owner = new RegExp(`^${databasePrefix("(\\d+)")}`)
  for (const { name } of await sql<{ name: string }[]>`select datname as name from pg_database`) {
    const pid = owner.exec(name)?.[1]
    if (pid !== undefined && !isAlive(pid)) await sql.unsafe(`drop database if exists ${name} with (force)`)
  }
}

async function serverTemplate(wanted: readonly Migration[]): Promise<string> {
  const name = `loket_template_${fingerprintOf(wanted)}`
  let there = false
  await administer(async (sql) => {
    // One process makes it; the others wait for it here.
    await sql`select pg_advisory_lock(hashtextextended(${name}, 0))`
    there = (await sql`select from pg_database where datname = ${name}`).length > 0
    if (there || isChanged) return
    const aside = `${name}_unfinished`
    await sql.unsafe(`drop database if exists ${aside} with (force)`)
    await makeServerTemplate(sql, aside, wanted)
    await sql.unsafe(`alter database ${aside} rename to ${name}`)
    there = true
  })
  return there ? name : await changedTemplate(name, () => ownServerTemplate(wanted))
}

async function makeServerTemplate(sql: Sql, name: string, wanted: readonly Migration[]): Promise<void> {
  await sql.unsafe(`create database ${name}`)
  await migrate(urlOf(name), wanted)
}

async function ownServerTemplate(wanted: readonly Migration[]): Promise<string> {
  const name = databaseName()
  await administer((sql) => makeServerTemplate(sql, name, wanted))
  return name
}

async function administer(work: (sql: Sql) => PromiseLike<unknown>): Promise<void> {
  const connection = directConnection(serverUrl)
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        await work(connection.sql)
        return
      } catch (error) {
        // A template in use by another copy at this moment.
        if (!(error instanceof postgres.PostgresError) || error.code !== "55006" || attempt === 20) throw error
        await Bun.sleep(50 * attempt)
      }
    }
  } finally {
    await connection.end()
  }
}

function urlOf(database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  return url.href
}
