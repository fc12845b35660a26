import { afterEach, beforeEach, expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { type BudgetPeriod, budgetStatements, growBudget, returnBudget } from "../../src/store/budget-leases.ts"
import { registerProcess } from "../../src/store/processes.ts"
import { Servers } from "../../src/store/servers.ts"
import { Books, voidOf } from "../money/books.ts"
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

/** A customer whose key may spend so much in all. */
async function limited(limit: bigint) {
  const customer = await books.customer(10_000_000n)
  await setLimit(customer.keyId, limit)
  const budget: BudgetPeriod = { keyId: customer.keyId, period: "total", start: 0 }
  return { ...customer, budget }
}
const setLimit = (keyId: string, limit: bigint) => target.sql`
  update api_keys set spending_limit_micro = ${limit}, spending_period = 'total' where id = ${keyId}`
async function grow(processId: string, budget: BudgetPeriod, short = 0n, known?: number) {
  const [row] = await target.sql<{ version: number }[]>`
    select version from budget_leases where key_id = ${budget.keyId} and process_id = ${processId}`
  return await growBudget(budgetStatements(target.db), processId, budget, micro(short), known ?? row?.version ?? 0)
}
const lease = (version: number, granted: bigint, settled = 0n, returned = 0n) => ({
  granted: micro(granted),
  returned: micro(returned),
  settled: micro(settled),
  version,
})

test("one process alone leases all that the limit leaves, and what it spends moves its lease", async () => {
  const { processId, budget, ...customer } = await limited(1_000_000n)
  expect(await grow(processId, budget)).toEqual({ lease: lease(1, 1_000_000n), more: false, elsewhere: micro(0n) })
  const settlement = books.settlement({ ...customer })
  await books.commit(processId, { settlements: [settlement] })
  await books.commit(processId, { settlements: [settlement] })
  expect(await grow(processId, budget)).toEqual({
    lease: lease(2, 1_000_000n, 200_000n),
    more: false,
    elsewhere: micro(0n),
  })
  await books.commit(processId, { settlements: [voidOf(settlement)] })
  expect(await grow(processId, budget)).toMatchObject({ lease: lease(3, 1_000_000n) })
})

test("what was spent before there was a lease is not there to be leased", async () => {
  const { processId, budget, ...customer } = await limited(1_000_000n)
  await books.commit(processId, { settlements: [books.settlement({ ...customer })] })
  expect(await grow(processId, budget)).toEqual({ lease: lease(1, 800_000n), more: false, elsewhere: micro(200_000n) })
})

test("processes that ask at once are leased the limit, and not more", async () => {
  const { processId, budget } = await limited(900n)
  const processes = [processId, await books.process(), await books.process(), await books.process()]
  const grown = await Promise.all(processes.map((each) => grow(each, budget, 900n)))
  expect(grown.reduce((sum, each) => sum + (each?.lease.granted ?? 0n), 0n)).toBe(900n)
  // Where others live, what is asked for and at least half of what is free is taken.
  await setLimit(budget.keyId, 1_900n)
  expect((await grow(processes[0]!, budget, 10n))?.more).toBe(true)
  const [row] = await target.sql<{ leased: bigint }[]>`select leased_micro as leased from key_spend`
  expect(row?.leased).toBe(1_400n)
})

test("what is given back is free for others, once, however often it is said", async () => {
  const { processId, budget } = await limited(1_000n)
  await grow(processId, budget, 1_000n)
  for (let times = 0; times < 3; times++) {
    expect(await returnBudget(target.db, processId, budget, micro(400n))).toEqual(lease(2 + times, 1_000n, 0n, 400n))
  }
  const other = await books.process()
  expect(await grow(other, budget, 1_000n)).toMatchObject({ lease: lease(1, 400n), more: true })
})

test("a limit that is lowered under what is leased leaves nothing, and one that is removed is in nobody's way", async () => {
  const { processId, budget } = await limited(1_000n)
  await grow(processId, budget, 1_000n)
  await setLimit(budget.keyId, 500n)
  const other = await books.process()
  expect(await grow(other, budget, 100n)).toMatchObject({ lease: lease(1, 0n) })
  await target.sql`update api_keys set spending_limit_micro = null, spending_period = null where id = ${budget.keyId}`
  expect(await grow(other, budget, 100n)).toMatchObject({ lease: lease(2, 100n) })
})

test("a process that is closed leaves its part of the budget to others, and leases no more", async () => {
  const { processId, budget, ...customer } = await limited(1_000_000n)
  await grow(processId, budget, 1_000_000n)
  await books.commit(processId, { settlements: [books.settlement({ ...customer })] })
  const successor = await registerProcess({
    db: target.db,
    lockOn: onPostgres ? new Servers(target.url) : undefined,
    onFenced: () => {},
  })
  await successor.closeProcess(processId)
  expect(await grow(processId, budget, 1n)).toBeUndefined()
  expect(await returnBudget(target.db, processId, budget, micro(1n))).toBeUndefined()
  expect(await grow(successor.id, budget, 800_000n)).toMatchObject({ lease: lease(1, 800_000n) })
  // What the fenced one still sends is nobody's spending.
  await books.commit(processId, { settlements: [books.settlement({ ...customer })] })
  expect(await books.spent(customer.keyId)).toMatchObject({ total: 200_000n })
  await successor.close()
})

test("a growth that comes after its repetition was answered grants nothing, though the limit was raised in between", async () => {
  const { processId, budget } = await limited(0n)
  expect(await grow(processId, budget, 100n)).toMatchObject({ lease: lease(1, 0n), more: false })
  await setLimit(budget.keyId, 500n)
  expect(await grow(processId, budget, 100n, 0)).toMatchObject({ lease: lease(2, 0n), more: true })
  expect(await grow(processId, budget, 100n, 1)).toMatchObject({ lease: lease(3, 0n), more: true })
  expect(await grow(processId, budget, 100n)).toMatchObject({ lease: lease(4, 500n), more: false })
  expect(await returnBudget(target.db, processId, budget, micro(300n))).toEqual(lease(5, 500n, 0n, 300n))
  expect(await grow(processId, budget, 100n, 4)).toMatchObject({ lease: lease(6, 500n, 0n, 300n), more: true })
})

test("of growths of one lease that come at once one is carried out, and all say what there is", async () => {
  const { processId, budget } = await limited(1_000n)
  await books.process()
  for (const [version, granted] of [
    [0, 500n],
    [6, 750n],
  ] as const) {
    const all = await Promise.all(Array.from({ length: 6 }, () => grow(processId, budget, 100n, version)))
    for (const each of all) expect(each).toMatchObject({ lease: { granted }, more: true })
  }
})
