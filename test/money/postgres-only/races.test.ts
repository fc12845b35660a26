/**
 * Statements that meet in the middle, which only a server with many sessions shows: what was given up here may still be
 * at work there, and is sent again beside it.
 */
import { afterEach, beforeEach, expect, test } from "bun:test"
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

/** Runs all of `work` against a locked lease, so that every statement has begun before the first one may go on. */
async function behindLock(leaseId: bigint, work: readonly (() => Promise<unknown>)[]): Promise<void> {
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`select from leases where id = ${leaseId} for update`
  const under = Promise.all(work.map((each) => each()))
  const waiting = () =>
    target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length < work.length) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  await under
}

const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make)

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

test("a lease that is closed under a waiting batch is seen to be closed", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  const holder = directConnection(target.url)
  await holder.sql`begin`
  await holder.sql`update leases set closed_at = now() where id = ${customer.lease.id}`
  await holder.sql`update balances set leased_micro = 0 where account_id = ${customer.accountId}`
  const commit = books.commit(customer.processId, { settlements: [settlement] })
  const waiting = () =>
    target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length === 0) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  await commit
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 0n })
  expect(await books.house("house:absorbed")).toBe(-200_000n)
})
