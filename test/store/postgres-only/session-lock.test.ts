/** A living process keeps its lock whatever happens to its connections, and one that has lost its place is told so. */
import { afterEach, beforeEach, expect, spyOn, test } from "bun:test"
import { type RegisteredProcess, registerProcess } from "../../../src/store/processes.ts"
import { processSigns } from "../../../src/store/session-lock.ts"
import { Servers } from "../../../src/store/servers.ts"
import { type FaultProxy, openFaultProxy } from "../fault-proxy.ts"
import { openTestDatabase, type TestDatabase } from "../harness.ts"
import { until } from "../../eventually.ts"

let target: TestDatabase
let proxy: FaultProxy
let own: RegisteredProcess
let other: RegisteredProcess
let fenced: Promise<void>
/** How often the other one was told that its lock is lost. */
let losses: number

beforeEach(async () => {
  target = await openTestDatabase()
  proxy = await openFaultProxy(target.url)
  own = await registerProcess({ db: target.db, lockOn: new Servers(target.url), onFenced: () => {} })
  const { promise, resolve } = Promise.withResolvers<void>()
  fenced = promise
  // Its lock alone goes through the proxy.
  losses = 0
  other = await registerProcess({
    db: target.db,
    lockOn: new Servers(proxy.url),
    onFenced: () => resolve(),
    onLost: () => losses++,
  })
})
afterEach(async () => {
  await other.close()
  await own.close()
  await proxy.close()
  await target.close()
})

const locks = async () =>
  (
    await target.sql`select from pg_locks where locktype = 'advisory' and granted
  and database = (select oid from pg_database where datname = current_database())`
  ).length

/** The processes that every gateway's metrics tell of as living. */
const locked = async () =>
  (await processSigns(target.db)).filter(({ lockHeld }) => lockHeld).map(({ processId }) => processId)

test("a living process is neither reported dead nor closed, however often others look", async () => {
  expect(await own.deadProcesses()).toEqual([])
  expect(await other.deadProcesses()).toEqual([])
  expect(await own.closeProcess(other.id)).toEqual({ leases: 0, openings: 0 })
  const open = await target.sql`select from processes where closed_at is null`
  expect(open).toHaveLength(2)
})

test("a process whose connections are gone is dead", async () => {
  expect((await locked()).toSorted()).toEqual([own.id, other.id].toSorted())
  proxy.refuse()
  proxy.cut()
  await until(async () => (await own.deadProcesses()).includes(other.id))
  expect(await locked()).toEqual([own.id])
  // However often it is sought again in vain.
  await Bun.sleep(500)
  expect(losses).toBe(1)
})

test("a lock that was lost is taken again, and for seven seconds its owner judges nobody: others may have lost theirs too", async () => {
  await target.sql`insert into processes (id) values ('prc_dead')`
  expect(await other.deadProcesses()).toEqual(["prc_dead"])
  proxy.cut()
  await until(async () => losses === 1)
  const before = performance.now()
  await until(async () => (await locks()) === 2)
  expect(await own.deadProcesses()).toEqual(["prc_dead"])
  expect(losses).toBe(1)
  expect(await judgedAfter(before + 6_900 - performance.now())).toEqual([])
  expect(await judgedAfter(7_000)).toEqual(["prc_dead"])
})

/** Whom the other one takes for dead, so many milliseconds from now by its own clock. */
async function judgedAfter(ms: number): Promise<readonly string[]> {
  const now = performance.now.bind(performance)
  using _ = spyOn(performance, "now").mockImplementation(() => now() + ms)
  return await other.deadProcesses()
}

test("whoever has lost its lock judges nobody until it is taken again, however long that takes", async () => {
  await target.sql`insert into processes (id) values ('prc_dead')`
  proxy.freeze()
  proxy.cut()
  await until(async () => losses === 1)
  expect(await judgedAfter(60_000)).toEqual([])
  proxy.thaw()
  await until(async () => (await locks()) === 2)
})

test("whoever has lost its lock and does not know it yet judges nobody either", async () => {
  await target.sql`insert into processes (id) values ('prc_dead')`
  expect(await other.deadProcesses()).toEqual(["prc_dead"])
  proxy.freeze()
  await target.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid in (select pid from pg_locks where locktype = 'advisory')`
  await until(async () => !(await locked()).includes(other.id))
  // It hears nothing.
  expect(losses).toBe(0)
  expect(await other.deadProcesses()).toEqual([])
  proxy.thaw()
  proxy.cut()
  await until(async () => (await locks()) === 2)
})

test("whoever loses its lock for a moment is not taken for dead", async () => {
  proxy.refuse()
  proxy.cut()
  await until(async () => !(await locked()).includes(other.id))
  const dead = own.deadProcesses()
  await Bun.sleep(100)
  proxy.accept()
  expect(await dead).toEqual([])
  expect(await locked()).toContain(other.id)
})

test("a lock is not lost where somebody holds the table of processes for longer than a look may take", async () => {
  await target.sql.unsafe("begin; lock table processes in access exclusive mode")
  await Bun.sleep(7_500)
  await target.sql.unsafe("commit")
  expect(losses).toBe(0)
  expect((await locked()).toSorted()).toEqual([own.id, other.id].toSorted())
}, 20_000)

test("a process that was closed while its connections were gone is told, and stays without the lock", async () => {
  proxy.refuse()
  proxy.cut()
  await until(async () => (await own.deadProcesses()).includes(other.id))
  await own.closeProcess(other.id)
  proxy.accept()
  await fenced
  await until(async () => (await locks()) === 1)
})

test("every lock is free once a server has ended all sessions, and the living take theirs again", async () => {
  await target.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`
  await until(async () => (await locks()) === 2)
  const open = await target.sql`select from processes where closed_at is null`
  expect(open).toHaveLength(2)
})

test("what a dead process still has under way when it is closed is waited for, and closed with the rest", async () => {
  await target.sql`insert into processes (id) values ('prc_dead')`
  await target.sql`insert into accounts (id, email, password_hash) values ('acc_a', 'a@example.test', 'x')`
  await target.sql`insert into balances (account_id, posted_micro) values ('acc_a', 1000)`
  // As a statement of the dead process that the server had not finished: it locks the process's row, then leases.
  await target.sql.unsafe("begin; select from processes where id = 'prc_dead' for share")
  const closing = own.closeProcess("prc_dead")
  await until(async () => (await target.sql`select from pg_locks where not granted`).length > 0)
  await target.sql.unsafe(`
    update balances set leased_micro = 1000;
    insert into leases (account_id, process_id, granted_micro) values ('acc_a', 'prc_dead', 1000);
    commit`)
  expect(await closing).toEqual({ leases: 1, openings: 0 })
  const [balance] = await target.sql`select leased_micro from balances`
  expect(balance).toEqual({ leased_micro: 0n })
})
