/** Looks for budgets on a server: with tables that nobody has gathered statistics of, and two of them that overlap. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { alertStore } from "../../../src/store/alerts.ts"
import { directConnection, openTestDatabase, type TestDatabase } from "../harness.ts"

let target: TestDatabase
beforeEach(async () => {
  target = await openTestDatabase()
})
afterEach(() => target.close())

/** Accounts with a webhook each, and keys of them with a budget that is nearly spent: the last account has what is over. */
async function watched(accounts: number, keys: number): Promise<void> {
  const { sql } = target
  await sql`
    insert into accounts (id, email, password_hash)
    select 'acc_' || n, n || '@example.com', 'x' from generate_series(1, ${accounts}::int) n`
  await sql`insert into webhooks (account_id, url, secret) select id, 'https://example.com/', 's' from accounts`
  await sql`
    insert into api_keys (id, account_id, name, key_hash, prefix, last4, spending_limit_micro, spending_period)
    select 'key_' || n, 'acc_' || least(n, ${accounts}::int), 'Kunci', sha256(n::text::bytea), 'p', 'l', 1000, 'total'
    from generate_series(1, ${keys}::int) n`
  await sql`
    insert into key_spend (key_id, period, period_start, spent_micro) select id, 'total', 'epoch', 900 from api_keys`
}
const look = () => alertStore(target.db, true).findBudgets()
const told = async () =>
  (await target.sql<{ data: { percent: number } }[]>`select data from outbox order by created_at`).map(
    ({ data }) => data.percent,
  )

test("budgets of many accounts and keys are found where no statistics were gathered", async () => {
  const tables = ["accounts", "webhooks", "api_keys", "key_spend", "budget_alerts", "outbox"]
  const gathers = (how: string) =>
    Promise.all(
      tables.map((table) =>
        target.sql.unsafe(`alter table ${table} ${how} (autovacuum_enabled${how === "set" ? " = off" : ""})`),
      ),
    )
  await gathers("set")
  try {
    await watched(2_000, 9_000)
    await look()
    expect(await told()).toHaveLength(9_000)
  } finally {
    await gathers("reset")
  }
})

test("what a later look of another process has told is not told again after an earlier one that was slow", async () => {
  await watched(1, 1)
  await target.sql`update key_spend set spent_micro = 0`
  await target.sql`insert into budget_alerts (key_id, period, period_start, reached, rose) select key_id, period, period_start, 0, false from key_spend`
  await target.sql`update key_spend set spent_micro = 600`
  const other = directConnection(target.url)
  await other.sql`begin`
  await other.sql`update key_spend set spent_micro = 900`
  // As the other's look writes it down with what it tells.
  await other.sql`update budget_alerts set reached = 80, rose = true`
  const slow = look()
  while ((await waiting()).length === 0) await Bun.sleep(10)
  await other.sql`commit`
  await other.end()
  await slow
  await look()
  expect(await told()).toEqual([])
  await target.sql`update key_spend set spent_micro = 1000`
  await look()
  expect(await told()).toEqual([100])
})

const waiting = () =>
  target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
