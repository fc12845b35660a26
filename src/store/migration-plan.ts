/**
 * What a migration will do to a database that is in use: what it locks, and for how long. Nothing is done to that database. The
 * migrations are carried out on an empty one in memory, and the times are of the rows that the real one has.
 */
import { Connection } from "./connection.ts"
import type { Sql } from "./database.ts"
import { openEmbedded } from "./embedded/open.ts"
import { concurrentIndex, makeConcurrently } from "./migrate.ts"
import { type Migration, migrations } from "./migrations/index.ts"

export interface MigrationPlan {
  readonly name: string
  /** Milliseconds, for all of it: an upper bound, for a machine with nothing else to do. */
  readonly takesMs: number
  /** Tables of which others must wait for the migration's end. */
  readonly locks: readonly PlannedLock[]
}

export interface PlannedLock {
  readonly table: string
  readonly rows: number
  /** What others cannot do meanwhile. */
  readonly keepsFrom: Locked
  readonly forMs: number
}

/** Of a statement that reads nothing whole. */
const STATEMENT_MS = 2
/** Microseconds a row: one that is read, or whose index or new version is written; and one from which others are made. */
const READ_US = 3
const MADE_US = 35

/**
 * What `migrate` would do with `pending`, the last of `wanted` (`schemaState`). Throws the `PostgresError` of a migration that
 * Postgres refuses.
 */
export async function planMigrations(
  pending: readonly Migration[],
  rows: TableRows,
  expected: readonly Migration[] = migrations,
): Promise<MigrationPlan[]> {
  const rehearsal = await openEmbedded({ dataDir: "memory" })
  try {
    return await withConnection(rehearsal.url, async (sql) => {
      // Planned for empty tables, a reading of a whole one might take an index, and not be seen.
      await sql.unsafe("set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off")
      const isPending = new Set(pending.map(({ name }) => name))
      const plans: MigrationPlan[] = []
      for (const migration of expected) {
        const steps = await rehearse(sql, migration, true)
        if (isPending.has(migration.name)) plans.push(planOf(migration, steps, rows))
      }
      return plans
    })
  } finally {
    await rehearsal.close()
  }
}

function planOf(migration: Migration, steps: readonly Step[], rows: TableRows): MigrationPlan {
  const times = steps.map((step) => stepMs(step, rows))
  const tables = new Set(steps.flatMap(({ locked }) => Object.keys(locked)))
  const locks = [...tables].map((table): PlannedLock => {
    const from = steps.findIndex(({ locked }) => locked[table] !== undefined)
    const keepsFrom = steps.some(({ locked }) => locked[table] === "read or write") ? "read or write" : "write"
    // The statement that takes the lock has it for its own time too.
    return { table, rows: rows.get(table) ?? 0, keepsFrom, forMs: sum(times.slice(from)) }
  })
  // An index that is made concurrently is read for twice.
  const readings = concurrentIndex(migration) === undefined ? 1 : 2
  return { name: migration.name, takesMs: readings * sum(times), locks }
}

function stepMs({ statement, whole }: Step, rows: TableRows): number {
  const makes = /^\s*(?:insert|update|delete|with)\b/im.test(statement)
  const read = sum(whole.map((table) => rows.get(table) ?? 0))
  return STATEMENT_MS + (read * (makes ? MADE_US : READ_US)) / 1_000
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)

type TableRows = ReadonlyMap<string, number>

/** As the server estimates them; a table that was never analysed by its size. Of partitions, their table's sum. */
export async function rowsByTable(sql: Sql): Promise<TableRows> {
  const found = await sql<{ table: string; rows: number }[]>`
    select coalesce(p.relname, c.relname) as "table",
      sum(case when c.reltuples >= 0 then c.reltuples else pg_relation_size(c.oid) / 200 end)::float8 as rows
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace group by 1`
  return new Map(found.map(({ table, rows }) => [table, rows]))
}

async function withConnection<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const connection = new Connection({ url, connectTimeoutMs: 15_000, statementTimeoutMs: 60_000 })
  try {
    return await work(connection.sql)
  } finally {
    await connection.end()
  }
}

/** What one statement of a migration does to the tables that were there before it. */
interface Step {
  readonly statement: string
  /** Tables that were there before the migration, and what others cannot do with them from here to its end. */
  readonly locked: Readonly<Record<string, Locked>>
  /** Tables, there before, of which this statement reads or writes every row: a scan, a rewriting, an index. */
  readonly whole: readonly string[]
}

type Locked = "write" | "read or write"

/** A table by its number, which it keeps under another name. */
interface Seen {
  /** A partition is looked at under its table's name. */
  readonly name: string
  readonly locked: Locked | null
  /** How often it was read whole, and the file that holds it. */
  readonly touched: string
  /** To make one is to read the table; one that goes away is not read. */
  readonly indexes: readonly number[]
}
type Look = ReadonlyMap<number, Seen>

/**
 * Runs a migration statement by statement, and sees what each locks and which tables it reads whole: on a database of one's own, since for
 * that the locks are really taken. Applies it without a row in `schema_migrations`, and takes it back where `keeps` is false and it is a transaction.
 * `sql` has one connection. Throws the `PostgresError` of a statement that Postgres refused.
 */
export async function rehearse(sql: Sql, migration: Migration, keeps: boolean): Promise<Step[]> {
  const index = concurrentIndex(migration)
  if (index !== undefined) {
    const before = await look(sql)
    await makeConcurrently((statement) => sql.unsafe(statement), migration, index)
    const after = await look(sql)
    return [{ statement: migration.sql, locked: {}, whole: changed(before, after, before) }]
  }
  await sql.unsafe("begin")
  try {
    const steps: Step[] = []
    const first = await look(sql)
    let before = first
    for (const statement of statementsOf(migration.sql)) {
      await sql.unsafe(statement)
      const after = await look(sql)
      const locked = Object.fromEntries(
        [...after].flatMap(([table, { locked: how }]) => {
          const name = first.get(table)?.name
          return name === undefined || how === null ? [] : [[name, how]]
        }),
      )
      steps.push({ statement, locked, whole: changed(before, after, first) })
      before = after
    }
    await sql.unsafe(keeps ? "commit" : "rollback")
    return steps
  } catch (error) {
    await sql.unsafe("rollback")
    throw error
  }
}

/** Named as they were at first. */
const changed = (before: Look, after: Look, first: Look): string[] => {
  const names = [...after].flatMap(([table, { touched, indexes }]) => {
    const [name, was] = [first.get(table)?.name, before.get(table)]
    const isRead = was?.touched !== touched || indexes.some((index) => !was.indexes.includes(index))
    return name !== undefined && isRead ? [name] : []
  })
  return [...new Set(names)]
}

/** What the session has locked and scanned since its transaction began. */
async function look(sql: Sql): Promise<Look> {
  const rows = await sql<(Seen & { id: number })[]>`
    select c.oid::int as id, coalesce(p.relname, c.relname) as name,
      (select case when bool_or(mode = 'AccessExclusiveLock') then 'read or write' else 'write' end from pg_locks l
        where l.relation = c.oid and l.pid = pg_backend_pid() and l.granted
          and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        having count(*) > 0) as locked,
      concat_ws(' ', s.seq_scan, 2 * s.idx_tup_fetch / greatest(c.reltuples, 1)::bigint, c.relfilenode) as touched,
      array(select indexrelid::int from pg_index where indrelid = c.oid) as indexes
    from pg_class c left join pg_stat_xact_user_tables s on s.relid = c.oid
      left join pg_inherits i on i.inhrelid = c.oid left join pg_class p on p.oid = i.inhparent
    where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
    -- What is locked of a table more than of its partitions comes last.
    order by c.relkind = 'p', c.oid`
  return new Map(rows.map(({ id, ...seen }) => [id, seen]))
}

/** A statement ends with a semicolon at the end of a line, outside of `$$`. */
export function statementsOf(text: string): string[] {
  const statements: string[] = []
  let statement = ""
  let isQuoted = false
  for (const line of text.split("\n")) {
    statement += `${line}\n`
    const [code = ""] = line.split(/(?<=;)\s*--|^\s*--/)
    if (code.split("$$").length % 2 === 0) isQuoted = !isQuoted
    if (isQuoted || !code.trimEnd().endsWith(";")) continue
    statements.push(statement.trim())
    statement = ""
  }
  if (/^\s*[^\s-]/m.test(statement)) statements.push(statement.trim())
  return statements
}
