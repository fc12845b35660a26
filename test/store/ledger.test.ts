import { afterEach, beforeEach, expect, test } from "bun:test"
import { type Opening, RowsLocked } from "../../actors/ledger.ts"
import { purseOf } from "../../src/store/breakers.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"
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
  // Whatever a test did, the books are right at its end.
  await reconcile(target.sql, { busy: true })
  await target.close()
})

const openings = () => target.sql<{ request_id: string }[]>`select request_id from openings order by 1`
/** Closes a process as its successor does. */
async function close(processId: string): Promise<void> {
  const successor = await registerProcess({
    db: target.db,
    lockOn: onPostgres ? new Servers(target.url) : undefined,
    onFenced: () => {},
  })
  await successor.closeProcess(processId)
  await successor.close()
}

test("a charge moves the balance, the lease, the key's spending and revenue once, by the same amount", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 800_000n })
  expect(await books.spent(customer.keyId)).toEqual({ daily: 200_000n, monthly: 200_000n, total: 200_000n })
  expect(await books.house("house:revenue")).toBe(200_000n)
  expect(await books.lease(customer.processId, customer.accountId)).toMatchObject({
    id: customer.lease.id,
    granted: 1_000_000n,
    settled: 200_000n,
  })
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "ok", charge: 200_000n, absorbed: 0n },
  ])
})

/** What of a key is spent by day, by month and in all, in calls: in its own periods and in the next ones. */
const spentOf = (id: string, day: number, another: number, month: number, next: number, total: number) => ({
  [`${id} daily 19`]: day,
  [`${id} daily 20`]: another,
  [`${id} monthly 31`]: month,
  [`${id} monthly 30`]: next,
  [`${id} total 1`]: total,
})

test("calls of one batch are counted each in its own periods, and by its own parent, run and ceilings", async () => {
  const customer = await books.customer(2_000_000n)
  const { accountId, keyId } = customer
  const [child, parentId] = ["key_child", "key_parent"]
  for (const [id, parent] of [
    [parentId, null],
    [child, parentId],
  ] as const) {
    await target.sql`
      insert into api_keys (id, account_id, name, key_hash, prefix, last4, parent_id)
      values (${id}, ${accountId}, 'k', ${Buffer.from(id)}, 'sk', 'last', ${parent})`
  }
  await target.sql`
    insert into runs (id, account_id, key_id, name, budget_micro, created_at, ends_at)
    values ('run_1', ${accountId}, ${keyId}, 'r', 1000000, '2026-11-20', '2026-11-21')`
  const { starts } = books.opening(customer)
  const nextDay = { ...starts, daily: Date.UTC(2026, 10, 20, 17) }
  const nextMonth = { ...starts, monthly: Date.UTC(2026, 10, 30, 17) }
  const ceilings = [purseOf(accountId), purseOf(accountId, keyId)]
  const parent = { keyId: parentId, keyHash: "", starts }
  const own: readonly Partial<Opening>[] = [
    {},
    { starts: nextDay },
    { starts: nextMonth },
    { runId: "run_1" },
    { breakers: ceilings },
    { keyId: parentId },
    { keyId: child, parent },
    { keyId: child, parent: { ...parent, starts: nextDay } },
    { keyId: child, parent: { ...parent, starts: nextMonth } },
  ]
  const settlements = own.map((terms) => {
    const settlement = books.settlement(customer)
    return { ...settlement, opening: { ...settlement.opening, ...terms } }
  })
  await books.commit(customer.processId, { settlements })
  const rows = await target.sql<{ purse: string; calls: number }[]>`
    select concat_ws(' ', key_id, period, extract(day from period_start at time zone 'UTC')) as purse, (spent_micro / 200000)::int as calls from key_spend`
  expect(Object.fromEntries(rows.map(({ purse, calls }) => [purse, calls]))).toEqual({
    ...spentOf(keyId, 4, 1, 4, 1, 5),
    ...spentOf(parentId, 3, 1, 3, 1, 4),
    [`${child} daily 19`]: 3,
    [`${child} monthly 31`]: 3,
    [`${child} total 1`]: 3,
    "run_1 total 1": 1,
    ...Object.fromEntries(ceilings.map((purse) => [`${purse} total 1`, 1])),
  })
  expect(await books.balance(accountId)).toMatchObject({ posted: 200_000n })
})

test("the same batch again, one after the other and at once, changes nothing", async () => {
  const customer = await books.customer(1_000_000n)
  const batch = {
    openings: [books.opening(customer)],
    settlements: [books.settlement(customer), books.settlement({ ...customer, markers: 2 })],
  }
  await books.commit(customer.processId, batch)
  await books.commit(customer.processId, batch)
  await Promise.all(Array.from({ length: 6 }, () => books.commit(customer.processId, batch)))
  expect(await books.balance(customer.accountId)).toEqual({ posted: 600_000n, leased: 600_000n })
  expect(await openings()).toHaveLength(1)
})

test("batches that overlap book each call once", async () => {
  const customer = await books.customer(1_000_000n)
  const [a, b, c] = [books.settlement(customer), books.settlement(customer), books.settlement(customer)]
  await books.commit(customer.processId, { settlements: [a, b] })
  await books.commit(customer.processId, { settlements: [b, c] })
  await books.commit(customer.processId, { settlements: [c, a, b] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 400_000n, leased: 400_000n })
})

test("an opening stands until its settlement, whose batch may carry both", async () => {
  const customer = await books.customer()
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { openings: [settlement.opening] })
  expect((await openings()).map((row) => row.request_id)).toEqual([settlement.opening.requestId])
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await openings()).toHaveLength(0)

  const other = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [other] })
  expect(await openings()).toHaveLength(0)
})

test("an opening that is sent again after its settlement stays gone", async () => {
  const customer = await books.customer()
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { openings: [settlement.opening] })
  await books.commit(customer.processId, { settlements: [settlement] })
  await books.commit(customer.processId, { openings: [settlement.opening] })
  expect(await openings()).toHaveLength(0)
})

test("what a call cost over its charge is the house's", async () => {
  const customer = await books.customer(150_000n)
  const settlement = books.settlement({ ...customer, absorbed: 50_000n })
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 0n, leased: 0n })
  expect(await books.house("house:absorbed")).toBe(-50_000n)
  expect(await books.house("house:revenue")).toBe(200_000n)
})

test("markers are parts of their own that cost nothing", async () => {
  const customer = await books.customer()
  const settlement = books.settlement({ ...customer, markers: 2 })
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "ok", charge: 200_000n, absorbed: 0n },
    { part: 1, status: "fallback_429", charge: 0n, absorbed: 0n },
    { part: 2, status: "fallback_429", charge: 0n, absorbed: 0n },
  ])
})

test("a settlement that is voided before it was booked is never charged, not even when it comes late", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [voidOf(settlement)] })
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 1_000_000n })
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "billing_error", charge: 0n, absorbed: 0n },
  ])
})

test("a settlement that is voided after it was booked is taken back everywhere, once", async () => {
  const customer = await books.customer(1_000_000n)
  const kept = books.settlement(customer)
  const settlement = books.settlement({ ...customer, absorbed: 50_000n })
  await books.commit(customer.processId, { settlements: [settlement, kept] })
  const voided = voidOf(settlement)
  await books.commit(customer.processId, { settlements: [voided] })
  await books.commit(customer.processId, { settlements: [voided] })
  await Promise.all(Array.from({ length: 4 }, () => books.commit(customer.processId, { settlements: [voided] })))
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 800_000n })
  expect(await books.spent(customer.keyId)).toEqual({ daily: 200_000n, monthly: 200_000n, total: 200_000n })
  expect(await books.house("house:absorbed")).toBe(0n)
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "billing_error", charge: 0n, absorbed: 0n },
  ])
})

test("a void after the lease was closed gives the money back to the balance, and not to the lease", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [settlement] })
  await close(customer.processId)
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 0n })
  await books.commit(customer.processId, { settlements: [voidOf(settlement)] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 0n })
})

test("under a closed lease the house pays and not the customer", async () => {
  const customer = await books.customer(1_000_000n)
  await close(customer.processId)
  const settlement = books.settlement(customer)
  const told = await books.commit(customer.processId, { settlements: [settlement] })
  expect(told).toEqual([settlement.opening.requestId])
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 0n })
  expect(await books.spent(customer.keyId)).toEqual({})
  expect(await books.house("house:absorbed")).toBe(-200_000n)
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "billing_error", charge: 0n, absorbed: 200_000n },
  ])
  expect(await books.commit(customer.processId, { settlements: [settlement] })).toEqual(told)
  expect(books.fenced).toEqual([...told, ...told])
})

test("a call that costs nothing, and one that is taken back, are nobody's to bear under a closed lease", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await close(customer.processId)
  expect(await books.commit(customer.processId, { settlements: [voidOf(settlement)] })).toEqual([])
  expect(books.fenced).toEqual([])
})

test("what a fenced process still sends of a call that was ended for it costs the house, once", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { openings: [settlement.opening] })
  await close(customer.processId)
  for (let n = 0; n < 2; n++) await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 0n })
  expect(await books.house("house:absorbed")).toBe(-200_000n)
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "billing_error", charge: 0n, absorbed: 200_000n },
  ])
})

test("what the house bore of a rerouted call is recorded at the price of the model that answered", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  const [dearer] = await target.sql<{ id: bigint }[]>`
    insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
    values ('m', 7000, 7000, 7000, 7000, now()) returning id`
  const opening = { ...settlement.opening, priceId: dearer!.id }
  await books.commit(customer.processId, { openings: [opening] })
  await close(customer.processId)
  await books.commit(customer.processId, { settlements: [{ ...settlement, opening }] })
  const [record] = await target.sql<{ price_id: bigint; absorbed_micro: bigint }[]>`
    select price_id, absorbed_micro from usage where request_id = ${opening.requestId} and part = 0`
  expect(record).toMatchObject({ price_id: settlement.records[0].priceId, absorbed_micro: 200_000n })
})

test("a booked charge that is sent again after its lease was closed stays as it was booked", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [settlement] })
  await close(customer.processId)
  expect(await books.commit(customer.processId, { settlements: [settlement] })).toEqual([])
  expect(await books.balance(customer.accountId)).toEqual({ posted: 800_000n, leased: 0n })
  expect(await books.house("house:absorbed")).toBe(0n)
})

test("a voided settlement costs nobody anything when it comes again under a closed lease", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [settlement] })
  await books.commit(customer.processId, { settlements: [voidOf(settlement)] })
  await close(customer.processId)
  await books.commit(customer.processId, { settlements: [voidOf(settlement)] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 1_000_000n, leased: 0n })
  expect(await books.house("house:revenue")).toBe(0n)
})

test("what the house bore of a fenced process and had taken back is not borne again when the settlement comes late", async () => {
  const customer = await books.customer(1_000_000n)
  const settlement = books.settlement(customer)
  await close(customer.processId)
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.house("house:absorbed")).toBe(-200_000n)
  await books.commit(customer.processId, { settlements: [voidOf(settlement)] })
  await books.commit(customer.processId, { settlements: [settlement] })
  expect(await books.house("house:absorbed")).toBe(0n)
  expect(await books.records(settlement.opening.requestId)).toEqual([
    { part: 0, status: "billing_error", charge: 0n, absorbed: 0n },
  ])
})

test("a batch of a thousand settlements on a hundred accounts is booked whole", async () => {
  const processId = await books.process()
  const accounts = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const account = await books.account(10_000_000n)
      return { ...account, lease: await books.lease(processId, account.accountId) }
    }),
  )
  const settlements = Array.from({ length: 1_000 }, (_, n) =>
    books.settlement({ ...accounts[n % 100]!, tokens: { input: n, output: n % 7, cacheRead: n, cacheWrite: n % 3 } }),
  )
  const openings = Array.from({ length: 1_000 }, (_, n) => books.opening(accounts[n % 100]!))
  await books.commit(processId, { openings, settlements })
  await books.commit(processId, { openings, settlements })
  const charged = settlements.reduce((sum, settlement) => sum + settlement.records[0].charge, 0n)
  expect(await books.house("house:revenue")).toBe(charged)
  expect(await target.sql`select from openings`).toHaveLength(1_000)
})

test("two processes that book on the same accounts at once lose nothing and overspend nothing", async () => {
  const processes = [await books.process(), await books.process()]
  const accounts = await Promise.all(Array.from({ length: 8 }, () => books.account(2_000_000n)))
  // Each account is leased half by the one, and half, which came later, by the other.
  const leases = await Promise.all(
    accounts.map(async (account) => {
      const first = await books.lease(processes[0]!, account.accountId, 2_000_000n)
      await books.credit(account.accountId, 2_000_000n)
      return [first, await books.lease(processes[1]!, account.accountId, 2_000_000n)] as const
    }),
  )
  const batchOf = (side: 0 | 1) => ({
    settlements: accounts
      .flatMap((account, n) => [account, account].map((each) => books.settlement({ ...each, lease: leases[n]![side] })))
      // One of them in the opposite order.
      .sort(() => (side === 0 ? 0 : -1)),
  })
  /** Who waits in a circle is let go, and sends the same again. */
  const booked = async (side: 0 | 1): Promise<unknown> => {
    const batch = batchOf(side)
    for (;;) {
      const error = await books.commit(processes[side]!, batch).catch((thrown: unknown) => thrown)
      if (!(error instanceof RowsLocked || error instanceof DatabaseUnavailable)) return error
    }
  }
  const outcomes = await Promise.all(Array.from({ length: 5 }, () => [booked(0), booked(1)]).flat())
  expect(outcomes.filter((outcome) => outcome instanceof Error)).toEqual([])
  for (const { accountId, keyId } of accounts) {
    expect(await books.balance(accountId)).toEqual({ posted: 0n, leased: 0n })
    expect(await books.spent(keyId)).toMatchObject({ total: 4_000_000n })
  }
})

test("a settlement over its lease is refused whole, and nothing of its batch stays", async () => {
  const poor = await books.customer(100_000n)
  const rich = { ...(await books.account(1_000_000n)), processId: poor.processId }
  const lease = await books.lease(rich.processId, rich.accountId)
  const settlements = [books.settlement({ ...rich, lease }), books.settlement(poor)]
  expect(await books.commit(poor.processId, { settlements }).catch((error: Error) => error.message)).toMatch(/check/)
  expect(await books.balance(rich.accountId)).toEqual({ posted: 1_000_000n, leased: 1_000_000n })
})
