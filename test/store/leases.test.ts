import { afterEach, beforeEach, expect, test } from "bun:test"
import { micro, zero } from "../../actors/money/micro.ts"
import { growLease, returnLease } from "../../src/store/leases.ts"
import { registerProcess } from "../../src/store/processes.ts"
import { Servers } from "../../src/store/servers.ts"
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
  registerProcess({ db: target.db, lockOn: onPostgres ? new Servers(target.url) : undefined, onFenced: () => {} })

test("one process alone leases all there is, and asking again changes nothing", async () => {
  const { accountId } = await books.account(1_000n)
  const processId = await books.process()
  const lease = await books.lease(processId, accountId)
  expect(lease).toMatchObject({ granted: 1_000n, settled: 0n })
  const again = await Promise.all(Array.from({ length: 8 }, () => books.lease(processId, accountId)))
  for (const each of again) expect(each).toMatchObject({ id: lease.id, granted: lease.granted })
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
    version: 2,
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
  expect(await growLease(target.db, processId, "acc_nobody", zero, 0)).toBeUndefined()
  expect(await growLease(target.db, "prc_nobody", accountId, zero, 0)).toBeUndefined()
  const successor = await register()
  await successor.closeProcess(processId)
  expect(await growLease(target.db, processId, accountId, zero, 0)).toBeUndefined()
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

test("a growth that comes after its repetition was answered grants nothing, though money came in between", async () => {
  const { accountId } = await books.account(0n)
  const processId = await books.process()
  const grow = (version: number) => growLease(target.db, processId, accountId, micro(100n), version)
  // The repetition comes first, and grants nothing.
  expect(await grow(0)).toMatchObject({ lease: { granted: 0n, version: 1 }, more: false })
  await books.credit(accountId, 500n)
  expect(await grow(0)).toMatchObject({ lease: { granted: 0n, version: 2 }, more: true })
  expect(await books.balance(accountId)).toEqual({ posted: 500n, leased: 0n })
  expect(await grow(1)).toMatchObject({ lease: { granted: 0n, version: 3 } })
  expect(await grow(3)).toMatchObject({ lease: { granted: 500n, version: 4 }, more: false })
})

test("a growth that comes after what was not needed was given back grants nothing", async () => {
  const { accountId } = await books.account(500n)
  const processId = await books.process()
  const { id, version } = await books.lease(processId, accountId)
  for (const times of [1, 2]) {
    expect(await returnLease(target.db, id, micro(200n))).toMatchObject({ returned: 200n, version: version + times })
  }
  expect(await growLease(target.db, processId, accountId, micro(100n), version)).toMatchObject({
    lease: { granted: 500n },
    more: true,
  })
  expect(await books.balance(accountId)).toEqual({ posted: 500n, leased: 300n })
})

test("of growths of one lease that come at once one is carried out, and all say what there is", async () => {
  const { accountId } = await books.account(1_000n)
  const processId = await books.process()
  // With a neighbour a growth leaves something that another could take.
  await books.process()
  for (const granted of [500n, 750n]) {
    const { version } = await lastVersion(accountId)
    const all = await Promise.all(
      Array.from({ length: 6 }, () => growLease(target.db, processId, accountId, micro(100n), version)),
    )
    for (const each of all) expect(each).toMatchObject({ lease: { granted }, more: true })
    expect(await books.balance(accountId)).toEqual({ posted: 1_000n, leased: granted })
  }
})

async function lastVersion(accountId: string): Promise<{ version: number }> {
  const [row] = await target.sql<{ version: number }[]>`select version from leases where account_id = ${accountId}`
  return row ?? { version: 0 }
}
