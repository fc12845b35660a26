/**
 * Statements that meet in the middle, which only a server with many sessions shows: what was given up here may still be
 * at work there, and is sent again beside it.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { Actor, type Runtime } from "../../../actors/kernel/actor.ts"
import { systemClock } from "../../../actors/kernel/clock.ts"
import { InlineScheduler } from "../../../actors/kernel/turns.ts"
import { Ledger, type LedgerCommand } from "../../../actors/ledger.ts"
import { micro } from "../../../actors/money/micro.ts"
import { LedgerActor } from "../../../src/gateway/actors.ts"
import { withdrawKept } from "../../../src/gateway/settle.ts"
import { accountStore } from "../../../src/store/accounts.ts"
import { type Database, openDatabase } from "../../../src/store/database.ts"
import { growLease } from "../../../src/store/leases.ts"
import { ledgerStore } from "../../../src/store/ledger.ts"
import { directConnection, openTestDatabase, type TestDatabase } from "../../store/harness.ts"
import { Books, voidOf } from "../books.ts"
import { reconcile } from "../reconcile.ts"

let target: TestDatabase
let books: Books
beforeEach(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
})
afterEach(async () => {
  await reconcile(target.sql, { busy: true })
  await target.close()
})

/** Holds an account's balance from when it resolves until it is released. */
async function holding(accountId: string): Promise<{ release(): Promise<void> }> {
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from balances where account_id = ${accountId} for update`
  return {
    async release() {
      await holder.sql`commit`
      await holder.end()
    },
  }
}

/** Runs all of `work` against a locked lease, so that every statement has begun before the first one may go on. */
async function behindLock(leaseId: bigint, work: readonly (() => Promise<unknown>)[]): Promise<void> {
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from leases where id = ${leaseId} for update`
  const under = Promise.all(work.map((each) => each()))
  await waitingForLocks(work.length)
  await holder.sql`commit`
  await holder.end()
  await under
}

const waiting = () =>
  target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`

async function waitingForLocks(count: number): Promise<void> {
  while ((await waiting()).length < count) await Bun.sleep(10)
}

const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make)

test("a statement that would open a lease, and one that enlarges it, wait for each other in one order", async () => {
  const { accountId } = await books.account(1_000n)
  const processId = await books.process()
  // With a neighbour the first one leaves something that another could take.
  await books.process()
  // However long each lock is held here.
  const patient = openDatabase({ url: target.url, connections: 3, lockWaitMs: 0, patience: () => 10 })
  const once: Database = { ...patient, run: (statement) => patient.run(statement, { retry: false }) }
  const grow = () => growLease(once, processId, accountId, micro(100n), 0)
  const first = await holding(accountId)
  const answers = [grow()]
  await waitingForLocks(1)
  const taking = holding(accountId)
  await waitingForLocks(2)
  // It has begun before the lease is there, and comes to the balance after it is.
  answers.push(grow())
  await waitingForLocks(3)
  await first.release()
  const second = await taking
  answers.push(grow())
  await waitingForLocks(2)
  await second.release()
  const opened = { lease: { granted: 500n }, more: true }
  expect(await Promise.all(answers)).toMatchObject([opened, opened, opened])
  expect(await books.balance(accountId)).toEqual({ posted: 1_000n, leased: 500n })
  await patient.close()
})

test("a batch that is sent again while its first sending is still at work is booked once", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await behindLock(
    customer.lease.id,
    times(3, () => () => books.commit(customer.processId, { settlements: [settlement] })),
  )
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 800_000n })
})

test("a void that is sent again while its first sending is still at work gives the money back once", async () => {
  const customer = await books.customer(1_000_000n)
  const kept = books.settlement(customer)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [kept, settlement] })
  await behindLock(
    customer.lease.id,
    times(3, () => () => books.commit(customer.processId, { settlements: [voidOf(settlement)] })),
  )
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 800_000n })
  expect(await books.spent(customer.keyId)).toMatchObject({ total: 200_000n })
})

test("a settlement and its void that meet leave nothing charged", async () => {
  for (let round = 0; round < 5; round++) {
    const customer = await books.customer(1_000_000n)
    const settlement = books.settlement(customer)
    await behindLock(customer.lease.id, [
      () => books.commit(customer.processId, { settlements: [settlement] }),
      () => books.commit(customer.processId, { settlements: [voidOf(settlement)] }),
    ])
    // The ledger sends the void again until it is known to be durable.
    await books.commit(customer.processId, { settlements: [voidOf(settlement)] })
    expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 1_000_000n })
  }
})

test("a charge whose statement is still at work when its process has died is taken back by the next process", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  const next = await books.process()
  const ledger = ledgerOf(next)
  const forgotten: string[] = []
  const withdrawals = {
    kept: async () => [settlement],
    keep: async () => {},
    forget: (requestId: string) => void forgotten.push(requestId),
  }
  await behindLock(customer.lease.id, [
    () => books.commit(customer.processId, { settlements: [settlement] }),
    async () => {
      // It waits behind the charge, which it therefore does not see the first time.
      await waitingForLocks(1)
      await withdrawKept({ ledger: new LedgerActor(ledger, 5_000) }, withdrawals)
    },
  ])
  await ledger.stop()
  expect(forgotten).toEqual([settlement.opening.requestId])
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 1_000_000n })
})

const unexpected = (_: string, cause: unknown) => {
  throw cause
}

/** The ledger of a process, as a gateway starts it. */
function ledgerOf(processId: string): Actor<LedgerCommand> {
  const store = ledgerStore({ database: target.db, processId, fenced: () => {}, archived: () => {} })
  const runtime: Runtime = {
    clock: systemClock,
    random: Math.random,
    scheduler: new InlineScheduler(),
    fatal: unexpected,
    crashed: unexpected,
  }
  return new Actor<LedgerCommand>(runtime, {
    name: "ledger",
    mailboxLimit: 100,
    start: (self) => new Ledger({ clock: systemClock, store, self: (command) => self.tell(command), failed: () => {} }),
    supervise: () => "stop",
  })
}

test("a lease that is closed under a waiting batch is seen to be closed", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`update leases set closed_at = now() where id = ${customer.lease.id}`
  await holder.sql`update balances set leased_micro = 0 where account_id = ${customer.accountId}`
  const commit = books.commit(customer.processId, { settlements: [settlement] })
  await waitingForLocks(1)
  await holder.sql`commit`
  await holder.end()
  await commit
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 0n })
  expect(await books.house("house:absorbed")).toBe(-200_000n)
})

const newId = () => `acc_${crypto.randomUUID()}`

test("a sign-up that was given up and ends beside its second sending is that account's, and not another's", async () => {
  const account = { id: newId(), email: `p${crypto.randomUUID()}@example.com`, passwordHash: "x" }
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`insert into accounts (id, email, password_hash) values (${account.id}, ${account.email}, 'x')`
  await holder.sql`insert into balances (account_id) values (${account.id})`
  const from = { address: "203.0.113.1", userAgent: "a test" }
  const more = {
    emailUnproved: false,
    sessionHash: crypto.getRandomValues(new Uint8Array(32)),
    network: "203.0.113.0",
    from,
  }
  const create = (other: object) => accountStore(target.db).create({ ...account, ...more, ...other })
  const [again, taken] = [create({}), create({ id: newId() })]
  await waitingForLocks(2)
  await holder.sql`commit`
  await holder.end()
  expect(await again).toMatchObject({ id: account.id, email: account.email })
  expect(await taken).toBeUndefined()
})
