/** A database that was used before must be no other than a new one. */
import { expect, test } from "bun:test"
import type { Sql } from "../../src/store/database.ts"
import { readTemplate, reset, type Template } from "./reset.ts"
import { directConnection, openPlace } from "./scratch.ts"

/** Hands a database that nobody else uses to a test. */
async function withNewDatabase(work: (sql: Sql, template: Template) => Promise<void>): Promise<void> {
  const place = await openPlace()
  const connection = directConnection(place.url)
  try {
    await work(connection.sql, await readTemplate(connection.sql))
  } finally {
    await connection.end()
    await place.remove()
  }
}

test("rows, guarded rows, sequences and settings of the session are as in a new database", () =>
  withNewDatabase(async (sql, template) => {
    const before = await readTemplate(sql)
    await sql`set session_replication_role = replica`
    await sql`insert into transfers (debit_account, credit_account, amount_micro, reason, idempotency_key)
      values ('house:revenue', 'house:absorbed', 5, 'charge', 'one')`
    await sql`insert into audit_log (request_id, action, subject) values ('one', 'adjust', 'two')`
    await sql`delete from schema_migrations where name like '0001%'`
    await sql`select nextval('leases_id_seq'), nextval('leases_id_seq')`
    await sql`set search_path to pg_catalog`

    expect(await reset(sql, template)).toBe(true)
    expect(await readTemplate(sql)).toEqual(before)
    expect(await sql`show session_replication_role`).toMatchObject([{ session_replication_role: "origin" }])
  }))

test("a database whose schema was changed is refused", () =>
  withNewDatabase(async (sql, template) => {
    const changes = [
      [
        "alter table transfers disable trigger transfers_are_final",
        "alter table transfers enable trigger transfers_are_final",
      ],
      ["alter table balances set (fillfactor = 50)", "alter table balances reset (fillfactor)"],
      ["create table added (n integer)", "drop table added"],
      ["alter table usage rename to mislaid", "alter table mislaid rename to usage"],
      ["create index added on usage (model)", "drop index added"],
      ["create schema added", "drop schema added"],
    ]
    for (const [change = "", undo = ""] of changes) {
      await sql.unsafe(change)
      expect([change, await reset(sql, template)]).toEqual([change, false])
      await sql.unsafe(undo)
      expect([undo, await reset(sql, template)]).toEqual([undo, true])
    }
    await sql`alter table usage drop constraint usage_check`
    expect(await reset(sql, template)).toBe(false)
  }))
