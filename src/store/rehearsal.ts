/**
 * Runs a migration statement by statement, and sees what each locks and which tables it reads whole: on a database of one's own,
 * since for that the locks are really taken.
 */
import type { Sql } from "./database.ts"
import { concurrentIndex } from "./migrate.ts"
import type { Migration } from "./migrations/index.ts"

export interface Step {
  readonly statement: string
  /** Tables that were there before the migration, and what others cannot do with them from here to its end. */
  readonly locked: Readonly<Record<string, Locked>>
  /** Tables, there before, of which this statement reads or writes every row: a scan, a rewriting, an index. */
  readonly whole: readonly string[]
}

export type Locked = "write" | "read or write"

/** A table by its number, which it keeps under another name. */
interface Seen {
  /** A partition is looked at under its table's name. */
  readonly name: string
  readonly locked: Locked | null
  /** How often it was read whole, the file that holds it, and its indexes. */
  readonly touched: string
}
type Look = ReadonlyMap<number, Seen>

/**
 * Applies the migration, without a row in `schema_migrations`, and takes it back where `keeps` is false and it is a transaction.
 * `sql` has one connection. Throws the `PostgresError` of a statement that Postgres refused.
 */
export async function rehearse(sql: Sql, migration: Migration, keeps: boolean): Promise<Step[]> {
  if (concurrentIndex(migration) !== undefined) {
    const before = await look(sql)
    await sql.unsafe(migration.sql)
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
  const names = [...after].flatMap(([table, { touched }]) => {
    const name = first.get(table)?.name
    return name !== undefined && before.get(table)?.touched !== touched ? [name] : []
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
      concat_ws(' ', s.seq_scan, 2 * s.idx_tup_fetch / greatest(c.reltuples, 1)::bigint, c.relfilenode,
        (select string_agg(indexrelid::text, ',' order by indexrelid) from pg_index where indrelid = c.oid)) as touched
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
