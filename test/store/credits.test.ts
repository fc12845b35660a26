/** Of the transfers of years an account's own are found by an index, also by a plan that was made before anybody knew whose. */
import { expect, test } from "bun:test"
import type { Database } from "../../src/store/database.ts"
import { movementStore } from "../../src/store/movements.ts"
import { accountViews } from "../../src/store/operator/accounts.ts"
import { personalExport } from "../../src/store/personal-export.ts"
import { openTestDatabase } from "./harness.ts"

test("an account's transfers are found without reading those of others", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql.unsafe(`
    insert into accounts (id, email, password_hash) values ('acc_1', '1@example.test', 'x');
    insert into balances (account_id, posted_micro) values ('acc_1', 50);
    insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      select n, case when n % 100 = 0 then 'house:cash_clearing' else 'acc_' || n end,
        case when n % 100 = 0 then 'acc_1' else 'house:revenue' end, 1, case when n % 100 = 0 then 'top_up' else 'charge' end
      from generate_series(2, 5000) n;
    analyze transfers`)
  // One connection, so that what it has read can be counted.
  const database = { run: (statement) => Promise.resolve(statement(sql)) } as Database
  await sql.unsafe("begin")
  await sql.unsafe("set local plan_cache_mode = force_generic_plan")
  const readWhole = async () => {
    const [row] = await sql<
      { times: bigint }[]
    >`select seq_scan as times from pg_stat_xact_user_tables where relname = 'transfers'`
    return row?.times
  }
  const before = await readWhole()
  const rows = await accountViews(database).transfers("acc_1", { before: undefined, limit: 100 })
  expect(rows).toHaveLength(50)
  const next = await accountViews(database).transfers("acc_1", { before: rows[9]?.place, limit: 100 })
  expect(next.map(({ id }) => id)).toEqual(rows.slice(10).map(({ id }) => id))
  const range = { accountId: "acc_1", from: new Date(0), to: new Date(Date.now() + 1_000) }
  expect((await movementStore(database).within(range)).list).toHaveLength(50)
  let told = ""
  for await (const piece of personalExport(database, "acc_1")) told += piece
  expect((JSON.parse(told) as { movements: unknown[] }).movements).toHaveLength(50)
  expect(await readWhole()).toBe(before)
  await sql.unsafe("rollback")
})
