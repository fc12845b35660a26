/**
 * A whole database copied into another one, row by row: for moving between the embedded database and a server, whose files
 * and dumps have nothing in common. Rows travel as the text that PostgreSQL itself writes of them and reads back, so that no
 * type is converted here. The source is read at one moment; the target has all of it or nothing.
 */
import type { Connection } from "./connection.ts"
import type { Sql } from "./sql.ts"
import { lockKey } from "./session-lock.ts"

/** How many rows, and their sum: the same of two tables with the same rows in any order. */
interface Sum {
  readonly rows: bigint
  readonly sum: string
}

export interface Whole {
  readonly tables: number
  readonly rows: bigint
}

/** Two databases that cannot be made one, in a sentence. */
class NotCopied extends Error {
  override readonly name = "NotCopied"
}

const BATCH_ROWS = 1_000

/** Gateways that live, by their locks, which only a server's sessions hold: in this database, not those of one on the same server that it is a copy of. */
export async function livingProcesses(sql: Sql): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from processes p where closed_at is null and exists (
      select from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 1
        and l.database = (select oid from pg_database where datname = current_database())
        and (l.classid::bigint << 32 | l.objid::bigint) = ${lockKey(sql, sql`p.id`)})`
  return rows.map(({ id }) => id)
}

/** Whether nobody has an account here and nothing is sold: what a migrated database is at first, and one before that. */
export async function isUnused(sql: Sql): Promise<boolean> {
  const [schema] = await sql<{ there: boolean }[]>`select to_regclass('public.accounts') is not null as there`
  if (schema?.there !== true) return true
  const [row] = await sql<{ used: boolean }[]>`
    select exists (select from accounts) or exists (select from transfers) or exists (select from models)
      or exists (select from usage) as used`
  return row?.used === false
}

/** Both are migrated to the same schema, nobody writes to either, and the target is unused. Throws `NotCopied`. */
export async function copyWhole(
  source: Connection,
  target: Connection,
  copied: (what: string) => void,
): Promise<Whole> {
  const from = source.sql
  const into = target.sql
  await begin(from, "begin isolation level repeatable read, read only")
  const tables = inOrder(await references(from), await tableNames(from))
  const parents = await parentColumns(from)
  const sums = await sumsOf(from, tables, (table) => copied(`counting ${table}`))
  await begin(into, "begin")
  await sameColumns(from, into)
  // The triggers keep what is copied too, and give notice of it to nobody.
  for (const table of tables) await into.unsafe(`alter table ${quoted(table)} disable trigger user`)
  await into.unsafe(`truncate ${tables.map(quoted).join(", ")}`)
  for (const table of tables) {
    const all = sums.get(table)?.rows ?? 0n
    const parent = parents.get(table)
    await copyTable(from, into, { table, parent }, (rows) => copied(`${table}: ${rows} of ${all} rows`))
  }
  await copySequences(from, into)
  for (const table of tables) await into.unsafe(`alter table ${quoted(table)} enable trigger user`)
  await from.unsafe("rollback")
  const there = await sumsOf(into, tables, (table) => copied(`comparing ${table}`))
  for (const [table, { rows, sum }] of sums) {
    const found = there.get(table)
    if (found?.rows === rows && found.sum === sum) continue
    throw new NotCopied(`${table} has ${rows} rows, of which ${found?.rows ?? 0n} arrived, or they are not the same`)
  }
  await into.unsafe("commit")
  return { tables: tables.length, rows: [...sums.values()].reduce((all, { rows }) => all + rows, 0n) }
}

/** The text of a row depends on these; local, because the embedded database has one session for all. */
const settings = [
  ["timezone", "UTC"],
  ["datestyle", "ISO, YMD"],
  ["intervalstyle", "postgres"],
  ["bytea_output", "hex"],
  ["extra_float_digits", "1"],
  ["lc_monetary", "C"],
]

async function begin(sql: Sql, statement: string): Promise<void> {
  await sql.unsafe(statement)
  for (const [name = "", value = ""] of settings) await sql`select set_config(${name}, ${value}, true)`
}

/** A table, and not a part of one: partitions may be others there. */
const isWhole = (sql: Sql) => sql`relkind in ('r', 'p') and not relispartition`

async function tableNames(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select relname::text as name from pg_class where relnamespace = 'public'::regnamespace and ${isWhole(sql)}
      and relname <> 'schema_migrations' order by relname`
  return rows.map(({ name }) => name)
}

interface Reference {
  readonly table: string
  readonly to: string
}

const references = (sql: Sql) => sql<Reference[]>`
  select t.relname::text as table, r.relname::text as to from pg_constraint c
  join pg_class t on t.oid = c.conrelid join pg_class r on r.oid = c.confrelid
  where c.contype = 'f' and t.oid <> r.oid and t.relnamespace = 'public'::regnamespace`

/** By the table whose rows refer to others of it: the column that does. Those that are referred to refer to none. */
async function parentColumns(sql: Sql): Promise<ReadonlyMap<string, string>> {
  const rows = await sql<{ table: string; column: string }[]>`
    select t.relname::text as table, a.attname::text as column from pg_constraint c
    join pg_class t on t.oid = c.conrelid join pg_attribute a on a.attrelid = t.oid and a.attnum = c.conkey[1]
    where c.contype = 'f' and c.confrelid = t.oid and t.relnamespace = 'public'::regnamespace`
  return new Map(rows.map(({ table, column }) => [table, column]))
}

/** What is referred to comes first. */
function inOrder(all: readonly Reference[], tables: readonly string[]): string[] {
  const left = new Set(tables)
  const ordered: string[] = []
  while (left.size > 0) {
    const next = [...left].filter((table) => !all.some((each) => each.table === table && left.has(each.to)))
    if (next.length === 0) throw new NotCopied(`these tables refer to each other: ${[...left].join(", ")}`)
    for (const table of next) left.delete(table)
    ordered.push(...next)
  }
  return ordered
}

/** A row's text names no columns. */
async function sameColumns(from: Sql, into: Sql): Promise<void> {
  const [ours, theirs] = [await columnsOf(from), await columnsOf(into)]
  for (const table of new Set([...ours.keys(), ...theirs.keys()]))
    if (ours.get(table) !== theirs.get(table)) throw new NotCopied(`${table} has other columns there: migrate both`)
}

async function columnsOf(sql: Sql): Promise<Map<string, string>> {
  const rows = await sql<{ table: string; columns: string }[]>`
    select c.relname::text as table, string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and ${isWhole(sql)} and a.attnum > 0 and not a.attisdropped
    group by c.relname`
  return new Map(rows.map((row) => [row.table, row.columns]))
}

interface Copied {
  readonly table: string
  /** Refers to another row of the table, which was perhaps written later. */
  readonly parent: string | undefined
}

async function copyTable(from: Sql, into: Sql, { table, parent }: Copied, copied: (rows: bigint) => void) {
  const name = quoted(table)
  const order = parent === undefined ? "" : ` order by ${quoted(parent)} nulls first`
  let rows = 0n
  await from.unsafe(`declare whole no scroll cursor for select t::text as row from ${name} t${order}`)
  for (;;) {
    const batch = await from.unsafe<{ row: string }[]>(`fetch ${BATCH_ROWS} from whole`)
    if (batch.length === 0) break
    await into.unsafe(
      `insert into ${name} overriding system value
        select (x).* from (select row::${name} as x from unnest($1::text[]) as row offset 0) as read`,
      [batch.map(({ row }) => row)],
    )
    copied((rows += BigInt(batch.length)))
  }
  await from.unsafe("close whole")
}

async function copySequences(from: Sql, into: Sql): Promise<void> {
  const rows = await from<{ name: string; last: string | null }[]>`
    select sequencename::text as name, last_value::text as last from pg_sequences where schemaname = 'public'`
  for (const { name, last } of rows)
    if (last !== null) await into`select setval(${quoted(name)}::regclass, ${last}::bigint)`
}

/** A sum of what is left of each row's MD5, which is the same on every machine and needs no order. */
async function sumsOf(
  sql: Sql,
  tables: readonly string[],
  counting: (table: string) => void,
): Promise<Map<string, Sum>> {
  const sums = new Map<string, Sum>()
  for (const table of tables) {
    counting(table)
    const [found] = await sql.unsafe<Sum[]>(
      `select count(*) as rows, coalesce(sum(('x' || left(md5(t::text), 15))::bit(60)::bigint::numeric), 0)::text as sum
        from ${quoted(table)} t`,
    )
    if (found !== undefined) sums.set(table, found)
  }
  return sums
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
