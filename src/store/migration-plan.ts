/**
 * What a migration will do to a database that is in use: what it locks, and for how long. Nothing is done to that database. The
 * migrations are carried out on an empty one in memory, and the times are of the rows that the real one has.
 */
import { Connection } from "./connection.ts"
import type { Sql } from "./database.ts"
import { openEmbedded } from "./embedded/open.ts"
import { concurrentIndex } from "./migrate.ts"
import { type Migration, migrations } from "./migrations/index.ts"
import { type Locked, rehearse, type Step } from "./rehearsal.ts"

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
  wanted: readonly Migration[] = migrations,
): Promise<MigrationPlan[]> {
  const rehearsal = await openEmbedded({ dataDir: "memory" })
  try {
    return await withConnection(rehearsal.url, async (sql) => {
      // Planned for empty tables, a reading of a whole one might take an index, and not be seen.
      await sql.unsafe("set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off")
      const isPending = new Set(pending.map(({ name }) => name))
      const plans: MigrationPlan[] = []
      for (const migration of wanted) {
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

export type TableRows = ReadonlyMap<string, number>

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
