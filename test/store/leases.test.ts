import { afterEach, beforeEach, expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { growLease } from "../../src/store/leases.ts"
import { registerProcess } from "../../src/store/processes.ts"
import { Books } from "../money/books.ts"
import { reconcile } from "../money/reconcile.ts"
import { onPostgres, openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
let books: Books
beforeEach(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
})
afterEach(async () => {
  await reconcile(target.sql)
  await target.close()
})

const register = () =>
  registerProcess({ db: target.db, lockUrl: onPostgres ? target.url : undefined, onFenced: () => {} })

test("one process alone leases all there is, and asking again changes nothing", async () => {
  const { accountId } = await books.account(1_000n)
  const processId = await books.process()
  const lease = await books.lease(processId, accountId)
  expect(lease).toMatchObject({ granted: 1_000n, settled: 0n })
  const again = await Promise.all(Array.from({ length: 8 }, () => books.lease(processId, accountId)))
  for (const each of again) expect(each).toEqual(lease)
  expect(await books.balance(accountId)).toEqual({ posted: 1_000n, leased: 1_000n })
})

test("a lease grows by what is credited, and says what it has settled in all", async () => {
  const customer = await books.customer(1_000_000n)
  await books.commit(customer.processId, { settlements: [books.settlement(customer)] })
  await books.credit(customer.accountId, 50_000n)
  expect(await books.lease(customer.processId, customer.accountId)).toEqual({
    id: customer.lease.id,
    granted: micro(1_050_000n),
    returned: micro(0n),
    settled: micro(200_000n),
  })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 850_000n, leased: 850_000n })
})

test("an account without money has a lease on nothing", async () => {
  const { accountId } = await books.account(0n)
  expect(await books.lease(await books.process(), accountId)).toMatchObject({ granted: 0n, settled: 0n })
})

test("processes that ask at once share what there is, and none of it twice", async () => {
  const { accountId } = await books.account(900n)
  const processes = await Promise.all(Array.from({ length: 5 }, () => books.process()))
  const ask = () => Promise.all(processes.map((processId) => books.lease(processId, accountId, 900n)))
  const first = await ask()
  expect(first.reduce((sum, lease) => sum + lease.granted, 0n)).toBe(900n)
  await books.credit(accountId, 100n)
  const second = await ask()
  expect(second.reduce((sum, lease) => sum + lease.granted, 0n)).toBe(1_000n)
})

test("nothing is leased to a process that was closed, nor on an account that is not there", async () => {
  const { accountId } = await books.account(1_000n)
  const processId = await books.process()
  expect(await growLease(target.db, processId, "acc_nobody")).toBeUndefined()
  expect(await growLease(target.db, "prc_nobody", accountId)).toBeUndefined()
  const successor = await register()
  await successor.closeProcess(processId)
  expect(await growLease(target.db, processId, accountId)).toBeUndefined()
  await successor.close()
})

test("a successor leases what the dead process left, under a higher epoch", async () => {
  const customer = await books.customer(1_000_000n)
  await books.commit(customer.processId, { settlements: [books.settlement(customer)] })
  const successor = await register()
  expect(await books.lease(successor.id, customer.accountId)).toMatchObject({ granted: 0n })
  await successor.closeProcess(customer.processId)
  const lease = await books.lease(successor.id, customer.accountId)
  expect(lease).toMatchObject({ granted: 800_000n, settled: 0n })
  expect(lease.id).toBeGreaterThan(customer.lease.id)
  await successor.close()
})
