/**
 * Months of records: a table of usage for each, by the time that its request ids begin with. They are made three months ahead. A call
 * whose month has none is recorded in `usage_other`, and found there like any other.
 */
import type { Database } from "./database.ts"
import type { Sql } from "./sql.ts"

/** The names of those that were made now: none where another process is at it. Throws where somebody reads all months just then. */
export async function makeMonths(database: Database): Promise<readonly string[]> {
  const [row] = await database.run((sql) => sql<{ made: string[] }[]>`select make_months_1() as made`, {
    deadlineMs: 10_000,
  })
  return row?.made ?? []
}

export interface Months {
  /** How many whole months after this one have a table. */
  readonly ahead: number
  /** There are records outside of all months, or were. */
  readonly hasOthers: boolean
  /** The database's collation sorts request ids by their time; some languages' do not, as Danish, with `aa` after `z`. */
  readonly inOrder: boolean
}

/** Whoever runs a gateway may ask, who may not read a partition by itself. */
export async function monthsOf(sql: Sql): Promise<Months> {
  const [row] = await sql<Months[]>`
    select count(*) filter (where to_regclass('usage_' || to_char(m.since, 'YYYY_MM')) is not null
        or first_call(m.since at time zone 'UTC') < coalesce(b.until, ''))::int as ahead,
      pg_relation_size('usage_other') > 0 as "hasOthers", (
        select array_agg(pair order by pair) = array_agg(pair order by pair collate "C") from (
          select substr(digits, n / 36 + 1, 1) || substr(digits, n % 36 + 1, 1) as pair
          from (values ('0123456789abcdefghijklmnopqrstuvwxyz')) d (digits), generate_series(0, 36 * 36 - 1) n
        ) p
      ) as "inOrder"
    from (select date_trunc('month', now() at time zone 'UTC') + n * interval '1 month' as since from generate_series(1, 3) n) m
    left join lateral (
      select substring(pg_get_expr(relpartbound, oid) from 'TO \\(''([^'']*)''') as until from pg_class
      where oid = to_regclass('usage_before') and relispartition
    ) b on true`
  return row ?? { ahead: 0, hasOthers: false, inOrder: true }
}
