/** Rows that another session has locked: what waits for them, and for how long. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { systemClock } from "../../../actors/kernel/clock.ts"
import type { Connection } from "../../../src/store/connection.ts"
import { RowsHeld } from "../../../src/store/database.ts"
import { registerProcess } from "../../../src/store/processes.ts"
import { Servers } from "../../../src/store/servers.ts"
import { directConnection, openTestDatabase, type TestDatabase } from "../harness.ts"

const CONNECTIONS = 2
let target: TestDatabase
let holder: Connection
beforeEach(async () => {
  target = await openTestDatabase({ connections: CONNECTIONS })
  holder = directConnection(target.url)
  for (const id of ["acc_a", "acc_b"]) {
    await target.sql`insert into accounts (id, email, password_hash) values (${id}, ${`${id}@example.test`}, 'x')`
    await target.sql`insert into balances (account_id, posted_micro, leased_micro) values (${id}, 10000, 1000)`
  }
})
afterEach(async () => {
  await holder.end()
  await target.close()
})

async function lock(statement: string): Promise<void> {
  await holder.sql`begin`
  await holder.sql.unsafe(statement)
}

const write = (sql: TestDatabase["sql"]) => sql`update accounts set password_hash = 'y' where id = 'acc_a'`

const sessions = () =>
  target.db.run((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`).then(([row]) => row?.pid)

test.each([true, false])(
  "a statement that waits for a locked row fails after 1.5 s and keeps its connection (idempotent: %p)",
  async (retry) => {
    const before = await sessions()
    await lock("select from accounts where id = 'acc_a' for update")
    const [since, ran] = [performance.now(), systemClock.running()]
    const error = await target.db.run(write, { retry }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RowsHeld)
    expect(performance.now() - since).toBeGreaterThan(1_400)
    expect(systemClock.running() - ran).toBeLessThan(2_500)
    expect(await sessions()).toBe(before)
    const waiting = await target.sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    expect(waiting).toHaveLength(0)
    await holder.sql`rollback`
    await target.db.run(write, { retry })
  },
  30_000,
)

test("more waiters for a locked row than there are connections leave room for who does not need it", async () => {
  await lock("select from accounts where id = 'acc_a' for update")
  const held = Array.from({ length: CONNECTIONS }, () => target.db.run(write).catch((thrown: unknown) => thrown))
  await Bun.sleep(50)
  const since = systemClock.running()
  await target.db.run((sql) => sql`select 1`)
  expect(systemClock.running() - since).toBeLessThan(2_500)
  for (const error of await Promise.all(held)) expect(error).toBeInstanceOf(RowsHeld)
}, 30_000)

/** What one customer's rows may be locked in, and what another customer has again meanwhile. */
const locks = {
  "its balance": "select from balances where account_id = 'acc_a' for update",
  "its leases": "select from leases where account_id = 'acc_a' for update",
  "its keys' spending": "select from key_spend where key_id = 'key_a' for update",
  "its keys' budgets": "select from budget_leases where key_id = 'key_a' for update",
  "its openings": "select from openings where account_id = 'acc_a' for update",
}

test.each(Object.entries(locks))(
  "a dead process is closed but for the customer who has %s locked, and for that one when the lock is gone",
  async (_, statement) => {
    const servers = new Servers(target.url)
    const own = await registerProcess({ db: target.db, lockOn: servers, onFenced: () => {} })
    await target.sql`insert into processes (id) values ('prc_dead')`
    for (const name of ["a", "b"]) {
      const [account, key] = [`acc_${name}`, `key_${name}`]
      const [lease] = await target.sql<{ id: bigint }[]>`
        insert into leases (account_id, process_id, granted_micro, settled_micro) values (${account}, 'prc_dead', 1000, 0)
        returning id`
      await target.sql`
        insert into api_keys (id, account_id, name, key_hash, prefix, last4)
        values (${key}, ${account}, 'k', ${Buffer.from(key)}, 'sk', 'last')`
      await target.sql`
        insert into key_spend (key_id, period, period_start, spent_micro, leased_micro)
        values (${key}, 'total', 'epoch', 0, 500)`
      await target.sql`
        insert into budget_leases (key_id, period, period_start, process_id, granted_micro)
        values (${key}, 'total', 'epoch', 'prc_dead', 500)`
      await target.sql`
        insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro,
          price_id, opened_at)
        values (${`req_${name}`}, 'prc_dead', ${account}, ${key}, ${lease!.id}, 'the-model', 'chat', false, 500, 7, now())`
    }
    /** What is still the dead one's. */
    const left = async () => {
      const [row] = await target.sql<{ a: number; b: number }[]>`
        with left_over (name) as (
          select account_id from leases where closed_at is null and process_id = 'prc_dead'
          union all select key_id from budget_leases where process_id = 'prc_dead'
          union all select account_id from openings where process_id = 'prc_dead'
          union all select account_id from balances where leased_micro > 0
          union all select key_id from key_spend where leased_micro > 0
        )
        select count(*) filter (where name like '%a')::int as a, count(*) filter (where name like '%b')::int as b from left_over`
      return row
    }
    expect(await left()).toEqual({ a: 5, b: 5 })
    await lock(statement)
    await own.closeProcess("prc_dead")
    const meanwhile = await left()
    expect(meanwhile?.b).toBe(0)
    expect(meanwhile?.a).toBeGreaterThan(0)
    expect(await own.deadProcesses()).toEqual(["prc_dead"])
    await holder.sql`rollback`
    await own.closeProcess("prc_dead")
    expect(await left()).toEqual({ a: 0, b: 0 })
    expect(await own.deadProcesses()).toEqual([])
    expect(await target.sql`select from usage where request_id like 'req_%'`).toHaveLength(2)
    await own.close()
    await servers.close()
  },
  30_000,
)
