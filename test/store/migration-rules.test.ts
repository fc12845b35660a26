/** The rules for migrations (docs/migrations.md), held against each new one on tables that have rows. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { Sql } from "../../src/store/database.ts"
import { type Migration, migrations } from "../../src/store/migrations/index.ts"
import { rehearse, statementsOf } from "../../src/store/migration-plan.ts"
import { directConnection, openPlace, type Place } from "./harness.ts"

/** The last that was made before there were rules. */
const OLD = "0030_gathered_answers.sql"
const ROWS = 3_000
const LARGE = ["usage", "usage_hours", "transfers", "accounts", "api_keys", "balances"]

let place: Place
let connection: ReturnType<typeof directConnection>
let sql: Sql
beforeAll(async () => {
  place = await openPlace(migrations.filter(({ name }) => name <= OLD))
  connection = directConnection(place.url)
  sql = connection.sql
  await sql.unsafe(`
    insert into accounts (id, email, password_hash) select 'acc_' || n, n || '@example.test', 'x' from generate_series(1, ${ROWS}) n;
    insert into balances (account_id) select id from accounts;
    insert into api_keys (id, account_id, name, key_hash, prefix, last4)
      select 'key_' || n, 'acc_' || n, 'k', n::text::bytea, 'sk', 'last' from generate_series(1, ${ROWS}) n;
    insert into transfers (debit_account, credit_account, amount_micro, reason, idempotency_key)
      select 'acc_' || n, 'house:revenue', 1, 'charge', n from generate_series(1, ${ROWS}) n;
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
        output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
        flagged, opened_at, duration_ms)
      select 'req_' || n, 0, 'acc_' || n, 'key_' || n, 1, 'plain', 'chat', false, 'ok', 1, 1, 0, 0, 1, 0, 1, 1, 1, false,
        now() - n * interval '1 minute', 1
      from generate_series(1, ${ROWS}) n;
    update usage set member = '';
    analyze`)
})
afterAll(async () => {
  await connection.end()
  await place.remove()
})

const large = (tables: readonly string[]) => tables.filter((table) => LARGE.includes(table)).join()

/** Statements that read a large table whole, or write it, while they keep others from one. */
async function waits(migration: Migration, keeps = false): Promise<string[]> {
  const steps = await rehearse(sql, migration, keeps)
  return steps.flatMap(({ statement, locked, whole }) => {
    const [read, held] = [large(whole), large(Object.keys(locked))]
    const [first] = statement.split("\n").filter((line) => !line.startsWith("--"))
    return read !== "" && held !== "" ? [`reads ${read} with ${held} locked: ${first}`] : []
  })
}

const TAKES_AWAY =
  /\b(drop\s+(table|column|function|type|view)|rename\s+(to|column)|set\s+not\s+null|alter\s+column\s+\w+\s+(set\s+data\s+)?type)\b/i

/** What its text does not say. */
function omits(migration: Migration): string[] {
  const code = migration.sql.replaceAll(/--.*/g, "")
  const isConcurrent = /\bindex concurrently\b/i.test(code)
  return [
    ...(isConcurrent && statementsOf(migration.sql).length > 1 ? ["a statement of its own"] : []),
    ...(isConcurrent && !/\bif (not )?exists\b/i.test(code) ? ["if not exists"] : []),
    ...(TAKES_AWAY.test(code) && !/^-- Unused since \d{4}\b/m.test(migration.sql) ? ["unused since when"] : []),
  ]
}

const recent = migrations.filter(({ name }) => name > OLD)
const of = (text: string): Migration => ({ name: "9999_tried.sql", sql: text })

test.each([
  ["an index on a large table", "create index late on usage (model);", "usage with usage"],
  ["a backfill", "alter table usage add column x text;\nupdate usage set x = model;", "usage with usage"],
  [
    "a backfill from another table",
    "alter table api_keys add column x bigint;\nupdate api_keys k set x = charge_micro from usage u where u.key_id = k.id;",
    "usage,api_keys with api_keys",
  ],
  ["a default that writes each row", "alter table transfers add x float default random();", "transfers with transfers"],
  ["a constraint that is checked at once", "alter table usage add check (duration_ms >= 0);", "usage with usage"],
  ["a column that is looked through", "alter table usage alter member set not null;", "usage with usage"],
])("they refuse %s", async (_, text, reason) => {
  const [table = "", held = ""] = reason.split(" with ")
  const said = (await waits(of(text))).join("\n")
  for (const read of table.split(",")) expect(said).toMatch(new RegExp(`reads \\S*${read}\\b`))
  expect(said).toContain(`with ${held} locked`)
})

test.each([
  ["a column that goes away", "alter table usage drop column member;", "unused since when"],
  ["a new name", "alter table usage rename to records;", "unused since when"],
  ["another type", "alter table usage alter column turns type bigint;", "unused since when"],
  [
    "more than an index beside those who write",
    "create index concurrently if not exists a on usage (model);\nselect 1;",
    "a statement of its own",
  ],
  ["an index that cannot be begun anew", "create index concurrently a on usage (model);", "if not exists"],
])("they refuse %s", (_, text, omission) => {
  expect(omits(of(text))).toEqual([omission])
})

test.each([
  ["a column, with a default that is one for all", "alter table usage add column x integer not null default 7;"],
  ["a constraint that is checked for new rows alone", "alter table usage add check (duration_ms >= 0) not valid;"],
  ["an index beside those who write", "create index concurrently if not exists late on usage (model);"],
  ["an index that goes away", "drop index usage_account;"],
  ["some rows of a large table, by its key", "update accounts set language = 'en' where id = 'acc_7';"],
  ["a table, filled from a large one", "create table models_used as select distinct model from usage;"],
  ["what goes away, and since when nobody uses it", "-- Unused since 0031.\nalter table usage drop column member;"],
])("they allow %s", async (_, text) => {
  expect([...omits(of(text)), ...(await waits(of(text)))]).toEqual([])
})

test("a statement ends at a semicolon at the end of a line, outside of a body and a comment", () => {
  expect(
    statementsOf("select 1; select 2;\n-- Not here;\ndo $$\nbegin\n  perform 1;\nend $$;\nselect 3; -- so;\nselect 4"),
  ).toEqual([
    "select 1; select 2;",
    "-- Not here;\ndo $$\nbegin\n  perform 1;\nend $$;",
    "select 3; -- so;",
    "select 4",
  ])
})

test("every new migration keeps to them", async () => {
  expect(recent.length).toBeGreaterThan(0)
  for (const migration of recent) {
    expect([migration.name, omits(migration), await waits(migration, true)]).toEqual([migration.name, [], []])
  }
})
