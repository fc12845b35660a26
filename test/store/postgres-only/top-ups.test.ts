/** A payment that is credited while its account is deleted. */
import { expect, test } from "bun:test"
import { accountStore } from "../../../src/store/accounts.ts"
import type { Database } from "../../../src/store/database.ts"
import { topUpStore } from "../../../src/store/top-ups.ts"
import { directConnection, openTestDatabase } from "../harness.ts"

test("a payment that is credited while its account's deletion commits is kept as a problem", async () => {
  await using target = await openTestDatabase()
  const { sql } = target
  await sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.com', 'x')`
  await sql`insert into balances (account_id) values ('acc_a')`
  await sql`
    insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
      network_fee_micro, qr_payload, expires_at)
    values ('top_a', 'acc_a', 'simulated', 1000000, 0, 0, 0, 'x', now() + interval '1 hour')`
  const holder = directConnection(target.url)
  await holder.sql`begin`
  const here: Database = { ...target.db, run: async (statement) => await statement(holder.sql) }
  expect(await accountStore(here).delete("acc_a")).toEqual([])
  const credited = topUpStore(target.db).credit("top_a", { key: "topup:simulated:ref", reference: "ref" })
  await Promise.race([credited, waiting(sql)])
  await holder.sql`commit`
  await holder.end()
  expect(await credited).toBe(true)
  const problems = await sql<{ kind: string }[]>`select kind from payment_problems where top_up_id = 'top_a'`
  expect(problems.map(({ kind }) => kind)).toEqual(["closed_account"])
  const balances = await sql<{ posted_micro: bigint }[]>`select posted_micro from balances`
  expect(balances.map((row) => row.posted_micro)).toEqual([1_000_000n])
})

async function waiting(sql: Awaited<ReturnType<typeof openTestDatabase>>["sql"]): Promise<void> {
  const found = () => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await found()).length === 0) await Bun.sleep(10)
}
