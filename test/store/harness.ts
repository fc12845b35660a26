/** A migrated database for each test, on either kind of Postgres, so that one suite says the same of both. */
import type { Connection } from "../../src/store/connection.ts"
import { type Database, type DatabaseOptions, openDatabase, type Sql } from "../../src/store/database.ts"
import { directConnection, giveBack, onPostgres, openPlace, type Place, takePlace } from "./scratch.ts"

export { directConnection, onPostgres, openPlace, type Place, templateCopy } from "./scratch.ts"

export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly db: Database
  /** For direct queries: a connection of its own, without deadline or retry. */
  readonly sql: Sql
  close(): Promise<void>
}

interface TestOptions extends Partial<Omit<DatabaseOptions, "url">> {
  /** Connects to this one as it is, which stays whoever's it was. */
  readonly place?: Place
}

/**
 * A migrated database with nothing in it. Embedded by default; `LOKET_TEST_DATABASE=postgres` takes the server at
 * `DATABASE_URL`. Closing it gives it back, for another test.
 */
export async function openTestDatabase({ place: own, ...options }: TestOptions = {}): Promise<TestDatabase> {
  const place = own ?? (await takePlace())
  const db = openDatabase({ connections: onPostgres ? 8 : 2, ...options, url: place.url })
  const direct: Connection = directConnection(place.url)
  let closing: Promise<void> | undefined
  const close = async () => {
    await db.close()
    await direct.end()
    if (own === undefined) await giveBack(place)
  }
  const closeOnce = () => (closing ??= close())
  return { url: place.url, db, sql: direct.sql, close: closeOnce, [Symbol.asyncDispose]: closeOnce }
}

export interface EmptyDatabase extends Place, AsyncDisposable {
  /** Drops what was made in it since. */
  empty(): Promise<void>
}

/** A database without tables. */
export async function openEmptyDatabase(): Promise<EmptyDatabase> {
  const place = await openPlace([])
  const empty = async () => {
    const connection = directConnection(place.url)
    await connection.sql.unsafe("drop schema public cascade; create schema public")
    await connection.end()
  }
  return { ...place, empty, [Symbol.asyncDispose]: () => place.remove() }
}
