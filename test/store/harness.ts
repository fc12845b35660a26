/**
 * A migrated database of its own for each test, on either kind of Postgres, so that one suite says the same of both.
 * Embedded by default; `LOKET_TEST_DATABASE=postgres` takes the server at `DATABASE_URL`. Both start from a template
 * that is made once per version of the migrations, because making a database takes seconds and copying one does not.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import { Connection } from "../../src/store/connection.ts"
import { type Database, type DatabaseOptions, openDatabase, type Sql } from "../../src/store/database.ts"
import { openEmbedded } from "../../src/store/embedded/open.ts"
import { migrate } from "../../src/store/migrate.ts"
import { migrations } from "../../src/store/migrations/index.ts"

export const onPostgres = Bun.env.LOKET_TEST_DATABASE === "postgres"
const serverUrl = Bun.env.DATABASE_URL ?? "postgres://root@127.0.0.1:5432/postgres"

/** Names what a template is made of: a change of either makes another one. */
const fingerprint = new Bun.CryptoHasher("sha256")
  .update(await Bun.file(join(import.meta.dir, "../../node_modules/@electric-sql/pglite/package.json")).text())
  .update(migrations.map(({ name, sql }) => `${name}\0${sql}\0`).join(""))
  .digest("hex")
  .slice(0, 16)

export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly db: Database
  /** For direct queries: a connection of its own, without deadline or retry. */
  readonly sql: Sql
  close(): Promise<void>
}

/** A fresh, migrated database. Closing it deletes it. */
export async function openTestDatabase(options: Partial<Omit<DatabaseOptions, "url">> = {}): Promise<TestDatabase> {
  const place = onPostgres ? await scratchDatabase(true) : await scratchDirectory()
  const db = openDatabase({ connections: 8, ...options, url: place.url })
  const direct = directConnection(place.url)
  let closing: Promise<void> | undefined
  const close = async () => {
    await db.close()
    await direct.end()
    await place.remove()
  }
  const closeOnce = () => (closing ??= close())
  return { url: place.url, db, sql: direct.sql, close: closeOnce, [Symbol.asyncDispose]: closeOnce }
}

/** An address to test against, and how to be rid of what is there. */
export interface Place {
  readonly url: string
  remove(): Promise<void>
}

/** A database with nothing in it. */
export async function openEmptyDatabase(): Promise<Place & AsyncDisposable> {
  const place = onPostgres ? await scratchDatabase(false) : await scratchDirectory()
  if (!onPostgres) {
    const connection = directConnection(place.url)
    await connection.sql.unsafe("drop schema public cascade; create schema public")
    await connection.end()
  }
  return { ...place, [Symbol.asyncDispose]: () => place.remove() }
}

export function directConnection(url: string): Connection {
  return new Connection({ url, connectTimeoutMs: 10_000, statementTimeoutMs: 0 })
}

/** A data directory that is a copy of the migrated template, not opened yet. */
export async function templateCopy(): Promise<string> {
  const template = await embeddedTemplate()
  const dataDir = mkdtempSync(join(tmpdir(), "loket-test-"))
  cpSync(template, dataDir, { recursive: true })
  return dataDir
}

async function scratchDirectory(): Promise<Place> {
  const dataDir = await templateCopy()
  const embedded = await openEmbedded({ dataDir })
  return {
    url: embedded.url,
    remove: async () => {
      await embedded.close()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** Made aside and renamed into place, so that test processes that start together do not meet a half-made one. */
async function embeddedTemplate(): Promise<string> {
  const cache = join(import.meta.dir, "../../node_modules/.cache/loket")
  const template = join(cache, `database-${fingerprint}`)
  if (existsSync(template)) return template
  mkdirSync(cache, { recursive: true })
  const aside = mkdtempSync(join(cache, "unfinished-"))
  const embedded = await openEmbedded({ dataDir: aside })
  await migrate(embedded.url)
  await embedded.close()
  try {
    renameSync(aside, template)
  } catch (error) {
    rmSync(aside, { recursive: true, force: true })
    if (!existsSync(template)) throw error
  }
  return template
}

/** A database of the test server: a copy of the migrated template, or an empty one. */
async function scratchDatabase(migrated: boolean): Promise<Place> {
  const template = migrated ? await serverTemplate() : "template1"
  const name = `loket_test_${crypto.randomUUID().replaceAll("-", "")}`
  await administer((sql) => sql.unsafe(`create database ${name} template ${template}`))
  return {
    url: urlOf(name),
    remove: () => administer((sql) => sql.unsafe(`drop database if exists ${name} with (force)`)),
  }
}

async function serverTemplate(): Promise<string> {
  const name = `loket_template_${fingerprint}`
  await administer(async (sql) => {
    // One process makes it; the others wait for it here.
    await sql`select pg_advisory_lock(hashtextextended(${name}, 0))`
    const existing = await sql`select from pg_database where datname = ${name}`
    if (existing.length > 0) return
    const aside = `${name}_unfinished`
    await sql.unsafe(`drop database if exists ${aside} with (force)`)
    await sql.unsafe(`create database ${aside}`)
    await migrate(urlOf(aside))
    await sql.unsafe(`alter database ${aside} rename to ${name}`)
  })
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
