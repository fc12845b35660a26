/** What Postgres will never take must not keep everybody else's money from being booked. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { Ledger, type LedgerCommand, type LedgerView, type Settlement } from "../../actors/ledger.ts"
import { DatabaseUnavailable, openDatabase } from "../../src/store/database.ts"
import { ledgerStore } from "../../src/store/ledger.ts"
import { startTestGateway } from "../gateway/harness.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"
import { Books } from "./books.ts"
import { reconcile } from "./reconcile.ts"

let target: TestDatabase
let books: Books
beforeAll(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
})
afterAll(() => target.close())

test("a settlement that can never be booked is not charged, and all others of its batch are booked", async () => {
  const rich = await books.customer(10_000_000n)
  const poor = { ...(await books.account(100_000n)), processId: rich.processId }
  const short = { ...poor, lease: await books.lease(poor.processId, poor.accountId) }
  const failures: unknown[] = []
  const ledger: Ledger = new Ledger({
    clock: systemClock,
    store: ledgerStore({ database: target.db, processId: rich.processId, fenced: () => {}, archived: () => {} }),
    self: (command: LedgerCommand) => ledger.receive(command),
    failed: (cause) => failures.push(cause),
  })
  const told: string[] = []
  const settle = (settlement: Settlement) =>
    ledger.receive({ type: "settle", settlement, reply: () => void told.push(settlement.opening.requestId) })
  const good = Array.from({ length: 20 }, () => books.settlement(rich))
  // Twice what its lease has: a bug somewhere, or somebody's hand in the database.
  const bad = books.settlement(short)
  for (const [n, settlement] of good.entries()) {
    if (n === 13) settle(bad)
    settle(settlement)
  }
  const written = Promise.withResolvers<void>()
  ledger.receive({ type: "barrier", accountId: undefined, reply: () => written.resolve() })
  await written.promise

  expect(told.sort()).toEqual(good.map((settlement) => settlement.opening.requestId).sort())
  expect(await books.balance(rich.accountId)).toMatchObject({ posted: 6_000_000n })
  expect(await books.balance(poor.accountId)).toMatchObject({ posted: 100_000n })
  expect(await books.records(bad.opening.requestId)).toEqual([
    { part: 0, status: "billing_error", charge: 0n, absorbed: 0n },
  ])
  expect(failures.length).toBeGreaterThan(1)
  ledger.receive({
    type: "view",
    accountId: undefined,
    reply: (view: LedgerView) => expect(view).toEqual({ backlog: 0, lagMs: 0 }),
  })
  await reconcile(target.sql)
})

test("counts whose price is past what can be said take what there is, and the next call is served", async () => {
  await using gateway = await startTestGateway()
  const person = await gateway.person(100_000)
  const { key } = await gateway.key(person)
  const wish = { format: "chat", context_window: null, input_micro: 1_000_000_000, output_micro: 1 } as const
  const absurd = await gateway.model({ ...wish, script: `input=${Number.MAX_SAFE_INTEGER}` })
  const model = await gateway.model({ ...wish, script: "input=1&output=1" })
  const ask = (model: string) =>
    gateway.post("/v1/chat/completions", key, { model, messages: [{ role: "user", content: "Hello" }] })
  const response = await ask(absurd)
  expect([response.status, response.headers.get("x-cost-rp")]).toEqual([200, "100000"])
  expect(await gateway.usage(person, response.headers.get("x-request-id") ?? "")).toMatchObject({
    status: "ok",
    charge_micro: 100_000_000_000,
  })
  await gateway.topUp(person, 100_000)
  expect((await ask(model)).headers.get("x-cost-rp")).toBe("1000.000001")
  await reconcile(gateway.sql)
})

test("a batch of nothing asks the store whether it is there", async () => {
  const empty = { openings: [], settlements: [] }
  const options = { processId: "prc", fenced: () => {}, archived: () => {} }
  expect(await ledgerStore({ database: target.db, ...options }).commit(empty, false)).toEqual({
    fenced: [],
    locked: [],
  })
  const away = openDatabase({ url: "postgres://nobody@127.0.0.1:1/none", connections: 1 })
  const asked = ledgerStore({ database: away, ...options }).commit(empty, false)
  expect(await asked.catch((error: unknown) => error)).toBeInstanceOf(DatabaseUnavailable)
  await away.close()
})
