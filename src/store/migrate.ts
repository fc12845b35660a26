/**
 * Brings a database's schema up to date. Each migration is one transaction together with its row in `schema_migrations`,
 * so a process that dies leaves it applied or not. Any number of processes may start at once: they queue on one lock.
 */
import postgres from "postgres"
import { openDatabase, type Database, type Sql } from "./database.ts"
import { migrations, type Migration } from "./migrations/index.ts"
import type { Servers } from "./servers.ts"

/** The database's history is not this program's: an applied migration was edited, or is unknown here. */
export class SchemaMismatch extends Error {
  override readonly name = "SchemaMismatch"
}

/** An index on a large table takes its time; the other statements of a start-up do not. */
const MIGRATION_MS = 600_000
const REACH_MS = 15_000

/** Any number will do that nothing else in the database uses. */
const takeLock = "select pg_advisory_xact_lock(hashtextextended('loket:migrations', 0));"

/**
 * Applies what is missing, in order, and returns the names of what it applied. Throws `SchemaMismatch`,
 * `DatabaseUnavailable`, or the `PostgresError` of a migration that Postgres refused.
 */
export async function migrate(url: string | Servers, wanted: readonly Migration[] = migrations): Promise<string[]> {
  const db = openDatabase({ url, connections: 1, maxAttemptMs: MIGRATION_MS })
  try {
    // Several statements in one simple query are one transaction, and the lock is held to its end.
    await db.run(
      (sql) =>
        sql.unsafe(`${takeLock} create table if not exists schema_migrations (
          name text primary key, sha256 text not null, applied_at timestamptz not null default now())`),
      { deadlineMs: REACH_MS, attemptMs: 5000, retry: true },
    )
    const done: string[] = []
    for (const migration of wanted) {
      const before = await applied(db)
      check(before, wanted)
      if (before.has(migration.name)) continue
      if (await apply(db, migration)) done.push(migration.name)
    }
    check(await applied(db), wanted)
    return done
  } finally {
    await db.close()
  }
}

/** How a database's schema stands to this program's; changes nothing. */
interface SchemaState {
  /** What `migrate` would apply, in order. */
  readonly pending: readonly Migration[]
  /** Applied, but unknown here or another one here. */
  readonly foreign: readonly string[]
}

export async function schemaState(sql: Sql, wanted: readonly Migration[] = migrations): Promise<SchemaState> {
  const [found] = await sql<{ there: boolean }[]>`select to_regclass('schema_migrations') is not null as there`
  const rows =
    found?.there === true
      ? await sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations order by name`
      : []
  const known = new Map(wanted.map(({ name, sql: text }) => [name, sha256(text)]))
  const there = new Set(rows.map(({ name }) => name))
  return {
    pending: wanted.filter(({ name }) => !there.has(name)),
    foreign: rows.filter((row) => known.get(row.name) !== row.sha256).map(({ name }) => name),
  }
}

/** Whether it was applied here; false when another process was quicker. */
async function apply(db: Database, { name, sql: text }: Migration): Promise<boolean> {
  try {
    // The row comes first: whoever waited for the lock in vain fails on it, and its transaction with it.
    await db.run(
      (sql) =>
        sql.unsafe(
          `${takeLock} insert into schema_migrations (name, sha256) values ('${name}', '${sha256(text)}');\n${text}`,
        ),
      { deadlineMs: MIGRATION_MS },
    )
    return true
  } catch (error) {
    if (error instanceof postgres.PostgresError && error.constraint_name === "schema_migrations_pkey") return false
    throw error
  }
}

async function applied(db: Database): Promise<Map<string, string>> {
  const rows = await db.run(
    (sql) => sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations`,
    {
      deadlineMs: REACH_MS,
      attemptMs: 5000,
      retry: true,
    },
  )
  return new Map(rows.map((row) => [row.name, row.sha256]))
}

function check(before: ReadonlyMap<string, string>, wanted: readonly Migration[]): void {
  const known = new Map(wanted.map(({ name, sql }) => [name, sha256(sql)]))
  for (const [name, sum] of before) {
    const ours = known.get(name)
    if (ours === undefined)
      throw new SchemaMismatch(`The database has migration ${name}, which this version does not know`)
    if (ours !== sum) throw new SchemaMismatch(`Migration ${name} was changed after it was applied to this database`)
  }
}

const sha256 = (text: string): string => new Bun.CryptoHasher("sha256").update(text).digest("hex")
