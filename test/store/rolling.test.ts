/** An older process and a newer one on one database, which has the newer one's schema. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import type { Batch } from "../../actors/ledger.ts"
import { Books, voidOf } from "../money/books.ts"
import { reconcile } from "../money/reconcile.ts"
import { ledgerStore as olderStore } from "./before/ledger.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
let books: Books
beforeEach(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
  // Where calls came before the schema, records are charges from a coming month on, when no process is left that books by itself.
  await target.sql`update charges_end set until_call = 'req_z'`
})
afterEach(async () => {
  await reconcile(target.sql, { busy: true })
  await target.close()
})

const older = (processId: string, batch: Partial<Batch>) =>
  olderStore({ database: target.db, processId, fenced: () => {} }).commit({ openings: [], settlements: [], ...batch })

test("an older process books, and what it booked is repeated, taken back and ended by a newer one", async () => {
  const customer = await books.customer(1_000_000n)
  const [kept, opened, voided] = [books.settlement(customer), books.settlement(customer), books.settlement(customer)]
  await older(customer.processId, { openings: [opened.opening], settlements: [kept, voided] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 600_000n, leased: 600_000n })
  await books.commit(customer.processId, { openings: [opened.opening], settlements: [kept, voidOf(voided)] })
  await books.commit(customer.processId, { settlements: [opened] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 600_000n, leased: 600_000n })
  expect(await target.sql`select from openings`).toHaveLength(0)
})

test("a newer process books, and what it booked is repeated, taken back and ended by an older one", async () => {
  const customer = await books.customer(1_000_000n)
  const [kept, opened, voided] = [books.settlement(customer), books.settlement(customer), books.settlement(customer)]
  await books.commit(customer.processId, { openings: [opened.opening], settlements: [kept, voided] })
  await older(customer.processId, { openings: [opened.opening], settlements: [kept, voidOf(voided)] })
  await older(customer.processId, { settlements: [opened] })
  expect(await books.balance(customer.accountId)).toEqual({ posted: 600_000n, leased: 600_000n })
  expect(await target.sql`select from openings`).toHaveLength(0)
})

test("both book on one account at once", async () => {
  const customer = await books.customer(10_000_000n)
  const calls = Array.from({ length: 20 }, () => books.settlement(customer))
  await Promise.all(
    calls.map((call, n) =>
      (n % 2 === 0 ? older : books.commit.bind(books))(customer.processId, { settlements: [call] }),
    ),
  )
  expect(await books.balance(customer.accountId)).toEqual({ posted: 6_000_000n, leased: 6_000_000n })
  expect(await books.spent(customer.keyId)).toMatchObject({ total: 4_000_000n })
})
