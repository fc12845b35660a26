/**
 * The rights of the role that runs a gateway and does not own the tables: what `loket migrate --grant` gives it, and what is missing where it
 * runs.
 */
import type { Sql } from "./database.ts"

/** Tables that are only ever added to. */
const FINAL_TABLES = ["transfers", "charges", "audit_log", "documents"] as const
/** Written by migrations, by `loket archive`, and by functions that have the owner's rights. */
const READ_TABLES = [
  "schema_migrations",
  "proofs",
  "proven_accounts",
  "proven_keys",
  "proven_leases",
  "archives",
  "archive_blocks",
  "archived_keys",
  "archived_leases",
  "archived_charges",
  "charges_end",
] as const
/**
 * A record is what its call is charged (migrations/0096_records_are_charges.sql): none is removed, and of one changes what the house bears
 * of it and why. A call is taken back by a function that has the owner's rights.
 */
const USAGE_CHANGES = [
  "absorbed_micro",
  "excess_micro",
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "model",
  "price_id",
  "turns",
  "attempts",
  "cost_micro",
  "member",
] as const

/** Why a role cannot be the one that runs: it is not there, or it has rights that nobody can take from it. */
type Unfit = "unknown" | "owner"

/**
 * In the database that `sql` is of, as the owner of its tables. What the role had before is taken first. Tables that the same owner makes
 * later it may write from the moment they are there: triggers of a migration write them in the statements of processes that run already.
 * Partitions are written through their tables, whose rights are asked for.
 */
export async function grantToRunningRole(sql: Sql, role: string): Promise<Unfit | undefined> {
  const [found] = await sql<{ owns: boolean }[]>`
    select r.rolsuper or exists (
      select from pg_class c where c.relnamespace = current_schema()::regnamespace and pg_has_role(r.oid, c.relowner, 'member')
    ) as owns
    from pg_roles r where r.rolname = ${role}`
  if (found === undefined) return "unknown"
  if (found.owns) return "owner"
  const name = `"${role.replaceAll('"', '""')}"`
  const schema = "schema public"
  const partitions = await sql<{ name: string }[]>`
    select quote_ident(relname) as name from pg_class
    where relispartition and relkind = 'r' and relnamespace = current_schema()::regnamespace`
  const ofPartitions = partitions.map((each) => `revoke all on ${each.name} from ${name};`).join(" ")
  // Of several statements in one simple query all hold or none does.
  await sql.unsafe(`
    revoke all on all tables in ${schema} from ${name};
    revoke create on ${schema} from public, ${name};
    grant usage on ${schema} to ${name};
    grant select, insert, update, delete on all tables in ${schema} to ${name};
    ${ofPartitions}
    grant usage on all sequences in ${schema} to ${name};
    revoke update, delete on ${FINAL_TABLES.join(", ")}, usage from ${name};
    grant update (${USAGE_CHANGES.join(", ")}) on usage to ${name};
    revoke insert, update, delete on ${READ_TABLES.join(", ")} from ${name};
    alter default privileges in ${schema} grant select, insert, update, delete on tables to ${name};
    alter default privileges in ${schema} grant usage on sequences to ${name}`)
  return undefined
}

/** What the role of `sql` may do with one of the tables that are there. */
interface TableRights {
  readonly name: string
  /** It owns the table. */
  readonly is_ours: boolean
  readonly rights: readonly string[]
}

/** Needs no privilege. */
export const tableRights = (sql: Sql) => sql<TableRights[]>`
  select c.relname::text as name, pg_has_role(c.relowner, 'usage') as is_ours,
    array(
      select r from unnest(array['select', 'insert', 'update', 'delete']) r
      where has_table_privilege(c.oid, r)
        or c.relname = 'usage' and r = 'update' and not exists (
          select from unnest(${sql.array([...USAGE_CHANGES])}::text[]) column_name where not has_column_privilege(c.oid, column_name, r))
    ) as rights
  from pg_class c where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  order by name`

/** The tables with which a role that runs a gateway may not do what it has to. */
export const deniedOf = (tables: readonly TableRights[]): readonly string[] =>
  tables
    .filter(({ name, rights }) => neededRights(name).some((right) => !rights.includes(right)))
    .map(({ name }) => name)

const neededRights = (table: string): readonly string[] => {
  if (READ_TABLES.some((name) => name === table)) return ["select"]
  if (FINAL_TABLES.some((name) => name === table)) return ["select", "insert"]
  if (table === "usage") return ["select", "insert", "update"]
  return ["select", "insert", "update", "delete"]
}
