/** Accounts with a claim that still have something leased, among all others. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import type { Database } from "../../../src/store/database.ts"
import { refundStore } from "../../../src/store/refunds.ts"
import { openTestDatabase, type TestDatabase } from "../harness.ts"

let target: TestDatabase
beforeEach(async () => {
  target = await openTestDatabase()
})
afterEach(() => target.close())

async function accounts(claims: number, others: number): Promise<void> {
  const { sql } = target
  await sql`
    insert into accounts (id, email, password_hash)
    select 'acc_' || n, n || '@example.com', 'x' from generate_series(1, ${claims + others}::int) n`
  await sql`
    insert into balances (account_id, posted_micro, leased_micro, claim_micro)
    select 'acc_' || n, 1000, 1000, case when n <= ${claims}::int then 500 else 0 end
    from generate_series(1, ${claims + others}::int) n`
}

test.each([false, true])("claims are found without reading all balances (with statistics: %p)", async (gathered) => {
  await accounts(3, 20_000)
  if (gathered) await target.sql`analyze balances`
  await target.sql`begin`
  const here: Database = { ...target.db, run: async (statement) => await statement(target.sql) }
  expect(await refundStore(here).claimed()).toHaveLength(3)
  const [read] = await target.sql`
    select seq_tup_read::int as whole from pg_stat_xact_user_tables where relname = 'balances'`
  await target.sql`commit`
  expect(read).toEqual({ whole: 0 })
})

test("of more accounts with a claim than are looked at together none is left out for ever", async () => {
  await accounts(150, 0)
  const seen = new Set<string>()
  for (let looks = 0; looks < 40; looks++)
    for (const { accountId } of await refundStore(target.db).claimed()) seen.add(accountId)
  expect(seen.size).toBe(150)
})
