/**
 * Brings a database's schema up to date, while older processes go on serving.
 * Each migration is one transaction together with its row in `schema_migrations`, so a process that dies leaves it applied or not.
 * An index that is made concurrently is what no transaction can hold, and is begun anew. Any number of processes may start at
 * once: they queue on one lock.
 */
import postgres from "postgres"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Database, RowsHeld, type Sql, openDatabase } from "./database.ts"
import { type Migration, migrations } from "./migrations/index.ts"
import type { Servers } from "./servers.ts"

/** The database's history is not this program's: an applied migration was edited, or is unknown here. */
export class SchemaMismatch extends Error {
  override readonly name = "SchemaMismatch"
}

/** The schema is another role's, and not the one that this program needs. */
class SchemaNotOurs extends Error {
  override readonly name = "SchemaNotOurs"
}

/** An index on a large table takes its time; the other statements of a start-up do not. */
const MIGRATION_MS = 600_000
const REACH_MS = 15_000
const REACHED = { deadlineMs: REACH_MS, attemptMs: 5_000, retry: true } as const
const INSUFFICIENT_PRIVILEGE = "42501"
/**
 * Whoever waits for a table's lock makes all others wait behind it. So a migration waits no longer than this, lets them pass,
 * and begins again.
 */
const LOCK_TIMEOUT_MS = 1_000
const AGAIN_MS = 500

/** Any number will do that nothing else in the database uses. */
const takeLock = "select pg_advisory_xact_lock(hashtextextended('loket:migrations', 0));"
const limitLockWaits = `select set_config('lock_timeout', '${LOCK_TIMEOUT_MS}', true);`
/** Another one, since who waits for it must not do so inside a statement: the making of an index waits for all statements to end. */
const INDEX_LOCK = "hashtextextended('loket:index', 0)"

/**
 * Applies what is missing, in order, and returns the names of what it applied. Throws `SchemaMismatch`,
 * `DatabaseUnavailable`, or the `PostgresError` of a migration that Postgres refused.
 */
export async function migrate(url: string | Servers, expected: readonly Migration[] = migrations): Promise<string[]> {
  // An index that is made concurrently waits for whoever is at work, and for the other processes that migrate.
  const db = openDatabase({ url, connections: 1, maxAttemptMs: MIGRATION_MS, lockWaitMs: 0 })
  let isRead = false
  try {
    const { pending, foreign } = await db.run((sql) => schemaState(sql, expected), REACHED)
    isRead = true
    // A role that may not change the schema need not, where nothing is to be changed.
    if (pending.length === 0 && foreign.length === 0) return []
    // Several statements in one simple query are one transaction, and the lock is held to its end.
    await db.run(
      (sql) =>
        sql.unsafe(`${takeLock} create table if not exists schema_migrations (
          name text primary key, sha256 text not null, applied_at timestamptz not null default now())`),
      REACHED,
    )
    const done: string[] = []
    for (const migration of expected) {
      const before = await applied(db)
      check(before, expected)
      if (before.has(migration.name)) continue
      if (await apply(db, migration)) done.push(migration.name)
    }
    check(await applied(db), expected)
    return done
  } catch (error) {
    if (!(error instanceof postgres.PostgresError) || error.code !== INSUFFICIENT_PRIVILEGE) throw error
    // A restored dump and a moved database have their tables, and no role's rights to them.
    const why = isRead
      ? `the schema is to be changed, and this role may not (${error.message}): run \`loket migrate\` as the owner of the tables`
      : `this role may not read the tables (${error.message}): run \`loket migrate --grant <role>\` as their owner`
    throw new SchemaNotOurs(why, { cause: error })
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
  /** Of `foreign`, where all of it is known here: what was changed after it was applied. */
  readonly edited: readonly string[]
}

export const EDITED_REMEDY =
  "run the program that applied it, or put the file back as it was and make the change in a new migration"
const wasEdited = (names: string) =>
  `Migration ${names} was changed after it was applied to this database: ${EDITED_REMEDY}`

/** Why this program does not work on a schema; undefined where it does. */
export function refusalOf({ foreign, edited }: Pick<SchemaState, "foreign" | "edited">): string | undefined {
  if (foreign.length === 0) return undefined
  if (edited.length > 0) return wasEdited(edited.join(", "))
  return `the schema is of another version (${foreign.join(", ")}): run that version, or a newer one`
}

export async function schemaState(sql: Sql, expected: readonly Migration[] = migrations): Promise<SchemaState> {
  const [found] = await sql<{ there: boolean }[]>`select to_regclass('schema_migrations') is not null as there`
  const rows =
    found?.there === true
      ? await sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations order by name`
      : []
  const known = checksums(expected)
  const there = new Set(rows.map(({ name }) => name))
  const foreign = rows.filter((row) => known.get(row.name)?.includes(row.sha256) !== true).map(({ name }) => name)
  return {
    pending: expected.filter(({ name }) => !there.has(name)),
    foreign,
    edited: foreign.every((name) => known.has(name)) ? foreign : [],
  }
}

/** Whether it was applied here; false when another process was quicker. */
async function apply(db: Database, migration: Migration): Promise<boolean> {
  const begunAt = systemClock.monotonic()
  for (;;) {
    try {
      const index = concurrentIndex(migration)
      return index === undefined ? await applyAtOnce(db, migration) : await applyConcurrently(db, migration, index)
    } catch (error) {
      if (!(error instanceof RowsHeld) || systemClock.monotonic() - begunAt > MIGRATION_MS) throw error
      await Bun.sleep(AGAIN_MS)
    }
  }
}

async function applyAtOnce(db: Database, migration: Migration): Promise<boolean> {
  try {
    // The row comes first: whoever waited for the lock in vain fails on it, and its transaction with it.
    await db.run((sql) => sql.unsafe(`${takeLock} ${limitLockWaits} ${record(migration)};\n${migration.sql}`), {
      deadlineMs: MIGRATION_MS,
    })
    return true
  } catch (error) {
    if (error instanceof postgres.PostgresError && error.constraint_name === "schema_migrations_pkey") return false
    throw error
  }
}

/** The index that a migration makes or drops beside those who write; undefined for one that is a transaction. */
export const concurrentIndex = ({ sql }: Migration): string | undefined =>
  /^\s*(?:create|drop)\b.*\bindex concurrently (?:if (?:not )?exists )?(\w+)/im.exec(sql)?.[1]

/** An index whose making was broken off stays, takes writes, and serves nobody. */
const isBroken = (index: string) =>
  `select indisvalid from pg_index where indexrelid = to_regclass('${index}') and not indisvalid`

async function applyConcurrently(db: Database, migration: Migration, index: string): Promise<boolean> {
  const wait = { deadlineMs: MIGRATION_MS }
  const lock = async () => (await db.run((sql) => sql.unsafe(`select pg_try_advisory_lock(${INDEX_LOCK}) as taken`)))[0]
  while ((await lock())?.["taken"] !== true) {
    if ((await applied(db)).has(migration.name)) return false
    await Bun.sleep(AGAIN_MS)
  }
  try {
    if ((await applied(db)).has(migration.name)) return false
    await makeConcurrently((statement) => db.run((sql) => sql.unsafe(statement), wait), migration, index)
    // In the embedded database all have the one session's lock, and take turns by the statement.
    const recorded = await db.run((sql) => sql.unsafe(`${record(migration)} on conflict do nothing returning name`))
    return recorded.length > 0
  } finally {
    await db.run((sql) => sql.unsafe(`select pg_advisory_unlock(${INDEX_LOCK})`)).catch(() => {})
  }
}

type Row = Readonly<Record<string, unknown>>

/**
 * Makes or drops the index of a migration. Postgres makes none concurrently on a table with partitions: there its own comes first, which
 * holds for partitions that are made from then on, and then one for each partition.
 */
export async function makeConcurrently(
  run: (statement: string) => Promise<readonly Row[]>,
  { sql }: Migration,
  index: string,
): Promise<void> {
  const [, unique = "", table = "", rest = ""] =
    /\bcreate (unique )?index concurrently if not exists \w+ on (\w+)\b([^;]*)/i.exec(sql) ?? []
  const make = async (name: string, statement: string) => {
    if ((await run(isBroken(name))).length > 0) await run(`drop index concurrently ${name}`)
    await run(statement)
  }
  if (table === "" || (await run(isPartitioned(table))).length === 0) return await make(index, sql)
  await run(`${limitLockWaits} create ${unique}index if not exists ${index} on only ${table} ${rest}`)
  for (const row of await run(partitionsWithout(index, table))) {
    const partition = String(row["name"])
    const name = `${partition}_${index}`
    await make(name, `create ${unique}index concurrently if not exists ${name} on ${partition} ${rest}`)
    await run(`${limitLockWaits} alter index ${index} attach partition ${name}`)
  }
}

const isPartitioned = (table: string) => `select from pg_class where oid = to_regclass('${table}') and relkind = 'p'`

const partitionsWithout = (index: string, table: string) => `
  select i.inhrelid::regclass::text as name from pg_inherits i where i.inhparent = '${table}'::regclass and not exists (
    select from pg_inherits n join pg_index x on x.indexrelid = n.inhrelid
    where n.inhparent = '${index}'::regclass and x.indrelid = i.inhrelid)
  order by 1`

const record = ({ name, sql }: Migration): string =>
  `insert into schema_migrations (name, sha256) values ('${name}', '${sha256(sql)}')`

async function applied(db: Database): Promise<Map<string, string>> {
  const rows = await db.run(
    (sql) => sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations`,
    REACHED,
  )
  return new Map(rows.map((row) => [row.name, row.sha256]))
}

function check(before: ReadonlyMap<string, string>, expected: readonly Migration[]): void {
  const known = checksums(expected)
  for (const [name, sum] of before) {
    const ours = known.get(name)
    if (ours === undefined)
      throw new SchemaMismatch(`The database has migration ${name}, which this version does not know`)
    if (!ours.includes(sum)) throw new SchemaMismatch(wasEdited(name))
  }
}

const checksums = (expected: readonly Migration[]): ReadonlyMap<string, readonly string[]> =>
  new Map(expected.map(({ name, sql, formerly = [] }) => [name, [sha256(sql), ...formerly]]))

const sha256 = (text: string): string => new Bun.CryptoHasher("sha256").update(text).digest("hex")
