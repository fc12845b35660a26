/**
 * Gives a test's database back the content of the migrated template, which takes milliseconds where a new one takes
 * seconds. A database whose schema a test has changed, or which has grown, is not worth it.
 */
import type { Sql } from "../../src/store/database.ts"

/** What a migrated database is, before a test has used it. */
export interface Template {
  /** A digest of tables, columns, constraints, indexes, functions, triggers and settings. */
  readonly schema: string
  /** Rows by table, as a JSON array; a table without rows is not named. */
  readonly rows: Readonly<Record<string, string>>
  /** Next values by sequence. */
  readonly sequences: Readonly<Record<string, number>>
}

const LARGE_BYTES = 32 * 1024 * 1024

export async function readTemplate(sql: Sql): Promise<Template> {
  const rows: Record<string, string> = {}
  for (const { name } of await sql<
    { name: string }[]
  >`select ${sql.unsafe(TABLE_NAME)} as name from ${sql.unsafe(TABLES)}`) {
    const [found] = await sql.unsafe<{ rows: string | null }[]>(`select json_agg(t)::text as rows from ${name} t`)
    if (found?.rows) rows[name] = found.rows
  }
  const sequences: Record<string, number> = {}
  for (const { name, next } of await sql<{ name: string; next: number }[]>`
    select format('%I.%I', schemaname, sequencename) as name, coalesce(last_value + 1, start_value)::int as next
    from pg_sequences where schemaname = 'public'`) {
    sequences[name] = next
  }
  return { schema: await schemaOf(sql), rows, sequences }
}

/** False: it cannot be made what it was; rejects where it has grown. Nobody else may be connected. */
export async function reset(sql: Sql, template: Template): Promise<boolean> {
  if ((await schemaOf(sql)) !== template.schema) return false
  await sql.unsafe("discard all")
  await sql.unsafe(`
    do $reset$
    declare
      template constant jsonb := ${literal(JSON.stringify(template.rows))};
      "table" record;
      "rows" text;
      room bigint := ${LARGE_BYTES};
    begin
      -- Some rows are guarded by triggers, which sleep meanwhile. To truncate takes a hundred times as long.
      set local session_replication_role = replica;
      for "table" in select ${TABLE_NAME} as name, pg_relation_size(oid) as bytes from ${TABLES} loop
        room := room - "table".bytes;
        if room < 0 then raise exception 'the database has grown'; end if;
        -- A table whose file is empty has no rows, and most have never had any: to ask each of them is most of the work.
        continue when "table".bytes = 0 and not template ? "table".name;
        execute format('select json_agg(t)::text from %s t', "table".name) into "rows";
        if "rows" is distinct from template ->> "table".name then
          execute format('delete from %s', "table".name);
          if template ? "table".name then
            execute format('insert into %1$s overriding system value select * from json_populate_recordset(null::%1$s, $1)', "table".name)
              using (template ->> "table".name)::json;
          end if;
        end if;
      end loop;
    end
    $reset$`)
  const sequences = literal(JSON.stringify(template.sequences))
  await sql.unsafe(`select setval(key::regclass, value::bigint, false) from json_each_text(${sequences})`)
  return true
}

const TABLE_NAME = "format('%I.%I', relnamespace::regnamespace, relname)"
const TABLES = "pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

export async function schemaOf(sql: Sql): Promise<string> {
  const [found] = await sql<{ digest: string }[]>`
    select sum(hashtextextended(line, 0))::text as digest from (
      select concat_ws(' ', 'relation', oid, relname, reloptions, relpersistence, relrowsecurity)
        from pg_class where relnamespace = 'public'::regnamespace
      union all
      select concat_ws(' ', 'column', attrelid, attname, atttypid, atttypmod, attnotnull, atthasdef)
        from pg_attribute join pg_class on pg_class.oid = attrelid
        where attnum > 0 and relkind = 'r' and relnamespace = 'public'::regnamespace
      union all
      select concat_ws(' ', 'constraint', oid, conname, convalidated) from pg_constraint where connamespace = 'public'::regnamespace
      union all
      select concat_ws(' ', 'trigger', oid, tgname, tgenabled, tgfoid) from pg_trigger where not tgisinternal
      union all
      select concat_ws(' ', 'function', oid, proname, prosrc, proconfig) from pg_proc where pronamespace = 'public'::regnamespace
      union all
      select concat_ws(' ', 'schema', nspname) from pg_namespace where nspname !~ '^pg_(toast_)?temp'
      union all
      select concat_ws(' ', 'setting', setconfig) from pg_db_role_setting
        where setdatabase = (select oid from pg_database where datname = current_database())
    ) as lines (line)`
  if (!found) throw new Error("a database without a schema")
  return found.digest
}
