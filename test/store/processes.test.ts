import { afterEach, beforeEach, expect, test } from "bun:test"
import { type RegisteredProcess, registerProcess } from "../../src/store/processes.ts"
import { Servers } from "../../src/store/servers.ts"
import { onPostgres, openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
let own: RegisteredProcess

beforeEach(async () => {
  target = await openTestDatabase()
  own = await register()
})
afterEach(async () => {
  await own.close()
  await target.close()
})

const register = (onFenced: () => void = () => {}) =>
  registerProcess({ db: target.db, lockOn: onPostgres ? new Servers(target.url) : undefined, onFenced })

/** A process that died: its row is there, and nobody has its lock. */
async function deadProcess(id: string): Promise<string> {
  await target.sql`insert into processes (id) values (${id})`
  return id
}

async function account(id: string, postedMicro: bigint, leasedMicro: bigint): Promise<void> {
  await target.sql`insert into accounts (id, email, password_hash) values (${id}, ${`${id}@example.test`}, 'x')`
  await target.sql`insert into balances (account_id, posted_micro, leased_micro) values (${id}, ${postedMicro}, ${leasedMicro})`
}

async function lease(
  processId: string,
  accountId: string,
  grantedMicro: bigint,
  settledMicro: bigint,
): Promise<bigint> {
  const [row] = await target.sql<{ id: bigint }[]>`
    insert into leases (account_id, process_id, granted_micro, settled_micro)
    values (${accountId}, ${processId}, ${grantedMicro}, ${settledMicro}) returning id`
  return row!.id
}

async function opening(requestId: string, processId: string, leaseId: bigint, openedAt = new Date()): Promise<void> {
  await target.sql`
    insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro,
      price_id, opened_at)
    values (${requestId}, ${processId}, 'acc_a', 'key_a', ${leaseId}, 'the-model', 'messages', true, 500, 7, ${openedAt})`
}

const leased = async () =>
  Object.fromEntries(
    (
      await target.sql<{ account_id: string; leased_micro: bigint }[]>`select account_id, leased_micro from balances`
    ).map((row) => [row.account_id, row.leased_micro]),
  )

test("closing a dead process gives back what each of its leases has left, and no more the second time", async () => {
  const dead = await deadProcess("prc_dead")
  await account("acc_a", 10_000n, 3000n)
  await account("acc_b", 10_000n, 2000n)
  await lease(dead, "acc_a", 1000n, 400n)
  await lease(dead, "acc_b", 2000n, 0n)
  // Another living process's part of the same balance.
  await lease(own.id, "acc_a", 2400n, 0n)

  expect(await own.closeProcess(dead)).toEqual({ leases: 2, openings: 0 })
  expect(await leased()).toEqual({ acc_a: 2400n, acc_b: 0n })
  expect(await own.closeProcess(dead)).toEqual({ leases: 0, openings: 0 })
  expect(await leased()).toEqual({ acc_a: 2400n, acc_b: 0n })

  const open = await target.sql`select process_id from leases where closed_at is null`
  expect([...open]).toEqual([{ process_id: own.id }])
  const [fenced] = await target.sql`select closed_at is not null as closed from processes where id = ${dead}`
  expect(fenced).toEqual({ closed: true })
})

test("each call that a dead process left open gets one final record, at no charge and flagged", async () => {
  const dead = await deadProcess("prc_dead")
  await account("acc_a", 10_000n, 1000n)
  const leaseId = await lease(dead, "acc_a", 1000n, 0n)
  const openedAt = new Date(Date.now() - 2000)
  await opening("req_open", dead, leaseId, openedAt)
  await opening("req_ancient", dead, leaseId, new Date("1970-01-01T00:00:00Z"))
  const ownLease = await lease(own.id, "acc_a", 0n, 0n)
  await opening("req_of_a_living_one", own.id, ownLease)

  expect(await own.closeProcess(dead)).toEqual({ leases: 1, openings: 2 })
  expect(await own.closeProcess(dead)).toEqual({ leases: 0, openings: 0 })

  const records = await target.sql`select * from usage order by request_id desc`
  expect(records.map((record) => record.request_id)).toEqual(["req_open", "req_ancient"])
  const { duration_ms: durationMs, ...record } = records[0]!
  expect(record).toEqual({
    request_id: "req_open",
    part: 0,
    account_id: "acc_a",
    key_id: "key_a",
    lease_id: leaseId,
    model: "the-model",
    endpoint: "messages",
    streamed: true,
    status: "billing_error",
    input_tokens: 0n,
    output_tokens: 0n,
    cache_read_tokens: 0n,
    cache_write_tokens: 0n,
    charge_micro: 0n,
    absorbed_micro: 0n,
    excess_micro: 0n,
    price_id: 7n,
    turns: 1,
    attempts: 0,
    error_code: "internal.error",
    flagged: true,
    opened_at: openedAt,
    first_token_ms: null,
    cost_micro: null,
    member: null,
    run_id: null,
  })
  expect(durationMs).toBeGreaterThanOrEqual(2000)
  expect(records[1]).toMatchObject({ duration_ms: 2 ** 31 - 1 })
  const left = await target.sql`select request_id from openings`
  expect([...left]).toEqual([{ request_id: "req_of_a_living_one" }])
})

test("a call that was settled before its process died keeps its record", async () => {
  const dead = await deadProcess("prc_dead")
  await account("acc_a", 10_000n, 1000n)
  const leaseId = await lease(dead, "acc_a", 1000n, 250n)
  await opening("req_settled", dead, leaseId)
  await target.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      flagged, opened_at, duration_ms)
    values ('req_settled', 0, 'acc_a', 'key_a', ${leaseId}, 'the-model', 'messages', true, 'ok', 10, 20, 0, 0, 250, 0, 7, 1,
      1, false, now(), 5)`
  expect(await own.closeProcess(dead)).toEqual({ leases: 1, openings: 0 })
  const records = await target.sql`select status, charge_micro from usage`
  expect([...records]).toEqual([{ status: "ok", charge_micro: 250n }])
  expect(await target.sql`select from openings`).toHaveLength(0)
  expect(await leased()).toEqual({ acc_a: 250n })
})

test("several that close the same process at once give back once and record once", async () => {
  const dead = await deadProcess("prc_dead")
  await account("acc_a", 10_000n, 1000n)
  const leaseId = await lease(dead, "acc_a", 1000n, 0n)
  for (let n = 0; n < 20; n++) await opening(`req_${n}`, dead, leaseId)
  const others = await Promise.all([register(), register()])
  await Promise.all([own, ...others].map((each) => each.closeProcess(dead)))
  await own.closeProcess(dead)
  expect(await leased()).toEqual({ acc_a: 0n })
  expect(await target.sql`select from usage`).toHaveLength(20)
  expect(await target.sql`select from openings`).toHaveLength(0)
  for (const other of others) await other.close()
})

test("the dead are the others that are not closed, or left something behind after they were", async () => {
  await deadProcess("prc_dead")
  await target.sql`insert into processes (id, closed_at) values ('prc_closed', now()), ('prc_overtaken', now())`
  await account("acc_a", 10_000n, 0n)
  await opening("req_late", "prc_overtaken", 1n)
  expect((await own.deadProcesses()).toSorted()).toEqual(["prc_dead", "prc_overtaken"])
  for (const id of await own.deadProcesses()) await own.closeProcess(id)
  expect(await own.deadProcesses()).toEqual([])
  expect(await target.sql`select from usage where request_id = 'req_late'`).toHaveLength(1)
})

test("a process that leaves gives its own leases back", async () => {
  const leaving = await register()
  await account("acc_a", 10_000n, 1000n)
  await lease(leaving.id, "acc_a", 1000n, 300n)
  await leaving.close()
  expect(await leased()).toEqual({ acc_a: 300n })
  expect(await own.deadProcesses()).toEqual([])
})

test("processes that take calls have one share each, in the order in which they began; the others have none", async () => {
  const young = await register()
  expect([await own.share(), await young.share()]).toEqual([undefined, undefined])
  await own.serve()
  expect([await own.share(), await young.share()]).toEqual([{ index: 0, count: 1 }, undefined])
  // The embedded database's clock has whole milliseconds, and of one of them neither began before the other.
  await Bun.sleep(2)
  await young.serve()
  // Serving already.
  await own.serve()
  expect([await own.share(), await young.share()]).toEqual([
    { index: 0, count: 2 },
    { index: 1, count: 2 },
  ])
  await own.drain()
  expect([await own.share(), await young.share()]).toEqual([undefined, { index: 0, count: 1 }])
  await young.close()
  expect(await young.share()).toBeUndefined()
})

test("a dead process has its share until it is closed", async () => {
  await own.serve()
  await deadProcess("prc_dead")
  await target.sql`update processes set serving_since = now() where id = 'prc_dead'`
  expect(await own.share()).toEqual({ index: 0, count: 2 })
  await own.closeProcess("prc_dead")
  expect(await own.share()).toEqual({ index: 0, count: 1 })
})
