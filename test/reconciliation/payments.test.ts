/** Top-ups held against their provider: Midtrans as its documentation describes it, played by a server on loopback. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { micro, zero } from "../../actors/money/micro.ts"
import { noFees, TopUps } from "../../src/payments/top-ups.ts"
import { midtransProvider } from "../../src/payments/midtrans.ts"
import { simulatedProvider } from "../../src/payments/provider.ts"
import { Refunds } from "../../src/payments/refunds.ts"
import { comparePayments } from "../../src/reconciliation/payments.ts"
import { paymentViews } from "../../src/store/operator/payments.ts"
import { paymentProblemStore } from "../../src/store/payment-problems.ts"
import { refundStore } from "../../src/store/refunds.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { Books } from "../money/books.ts"
import { reconcile } from "../money/reconcile.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"

const unknown = { status_code: "404", status_message: "Transaction doesn't exist." }
const found = (orderId: string, fields: object = {}) => ({
  status_code: "200",
  order_id: orderId,
  gross_amount: "10000.00",
  currency: "IDR",
  transaction_status: "settlement",
  ...fields,
})

let target: TestDatabase
let books: Books
let midtrans: ReturnType<typeof Bun.serve>
/** What Midtrans has, by order id; an order that is not here it does not know. */
let payments: Map<string, object>
let asked: string[]
/** Whether it answers the question of this number. */
let answers: (question: number) => boolean
/** What happens meanwhile. */
let meanwhile: (orderId: string) => Promise<void>
beforeEach(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
  payments = new Map()
  asked = []
  answers = () => true
  meanwhile = async () => {}
  midtrans = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const orderId = new URL(request.url).pathname.split("/")[2] ?? ""
      const question = asked.push(orderId)
      await meanwhile(orderId)
      if (!answers(question)) return new Response("bad gateway", { status: 502 })
      return Response.json(payments.get(orderId) ?? unknown)
    },
  })
})
afterEach(async () => {
  await midtrans.stop(true)
  await target.close()
})

let serial = 0
/** A top-up of Rp 10,000 whose code has expired. */
async function topUp({ credited = false, provider = "midtrans", minutes = -1 } = {}) {
  const { accountId } = await books.account(0n)
  const id = `top_${++serial}`
  const store = topUpStore(target.db)
  const breakdown = {
    balancePurchasedMicro: micro(10_000_000_000n),
    serviceFeeMicro: zero,
    paymentFeeMicro: zero,
    networkFeeMicro: zero,
  }
  await store.create({ id, accountId, provider, breakdown, validMinutes: minutes })
  if (credited) await credit(id, provider)
  return { id, accountId }
}

const credit = (id: string, provider = "midtrans") =>
  topUpStore(target.db).credit(id, { key: `topup:${provider}:${id}`, reference: id })

async function compare(days = 7) {
  const provider = midtransProvider({ serverKey: "a key", baseUrl: midtrans.url.origin })
  const providers = [provider, simulatedProvider({ secret: "a secret" })]
  const store = topUpStore(target.db)
  const problems = paymentProblemStore(target.db)
  const refunds = new Refunds({
    store: refundStore(target.db),
    topUps: store,
    providers,
    needsOperator: () => {},
    recall: () => {},
    changed: () => {},
  })
  const topUps = new TopUps({
    store,
    problems,
    provider,
    providers,
    fees: noFees,
    credited: () => {},
    needsOperator: () => {},
    refunds,
  })
  const parts = { store, providers, topUps, refunds, days, now: Date.now, pauseMs: 0 }
  const finding = await comparePayments(parts, new AbortController().signal)
  // Whatever it does leaves the books in order.
  await reconcile(target.sql)
  return finding
}

test("what is paid there and credited here agrees, and so does what is neither", async () => {
  const paid = await topUp({ credited: true })
  const expired = await topUp()
  const never = await topUp()
  payments.set(paid.id, found(paid.id))
  payments.set(expired.id, found(expired.id, { status_code: "407", transaction_status: "expire" }))
  expect(await compare()).toMatchObject({ compared: 3, notCompared: 0, differences: 0, accounts: [] })
  expect(asked.sort()).toEqual([paid.id, expired.id, never.id].sort())
})

test("what is paid there and not credited here is credited at once and told, and nobody is to be frozen for it", async () => {
  const lost = await topUp()
  payments.set(lost.id, found(lost.id))
  const finding = await compare()
  expect(finding).toMatchObject({ compared: 1, differences: 1, accounts: [] })
  expect(finding.shown).toEqual([
    {
      accountId: lost.accountId,
      mended: true,
      figures: {
        top_up_id: lost.id,
        provider: "midtrans",
        status: "expired",
        due_micro: "10000000000",
        provider_says: "paid",
        paid_micro: "10000000000",
      },
    },
  ])
  expect((await books.balance(lost.accountId)).posted).toBe(10_000_000_000n)
  expect(await compare()).toMatchObject({ compared: 1, differences: 0 })
  expect((await books.balance(lost.accountId)).posted).toBe(10_000_000_000n)
})

test("what went back there is booked, once; what is credited here and not known there differs", async () => {
  const paid = await topUp({ credited: true })
  const refunded = await topUp({ credited: true })
  const forged = await topUp({ credited: true })
  payments.set(paid.id, found(paid.id))
  payments.set(refunded.id, found(refunded.id, { transaction_status: "refund" }))
  const { differences, accounts, shown } = await compare()
  expect(differences).toBe(2)
  expect([...accounts]).toEqual([forged.accountId])
  const said = Object.fromEntries(
    shown.map(({ figures, mended }) => [figures["top_up_id"], [figures["provider_says"], mended]]),
  )
  expect(said).toEqual({ [refunded.id]: ["reversed", true], [forged.id]: ["unknown", false] })
  expect((await books.balance(refunded.accountId)).posted).toBe(0n)
  expect((await compare()).differences).toBe(1)
})

test("what is credited while its provider is asked agrees", async () => {
  const late = await topUp()
  payments.set(late.id, found(late.id))
  meanwhile = async (id) => void (await credit(id))
  expect(await compare()).toMatchObject({ compared: 1, differences: 0 })
})

test("what went back of another amount than was credited differs, and is not booked", async () => {
  const paid = await topUp({ credited: true })
  payments.set(paid.id, found(paid.id, { gross_amount: "9000.00", transaction_status: "refund" }))
  expect(await compare()).toMatchObject({ differences: 1, accounts: [paid.accountId], shown: [{ mended: false }] })
  expect((await books.balance(paid.accountId)).posted).toBe(10_000_000_000n)
})

test("another amount differs, credited here or not, and nothing is credited for it", async () => {
  const credited = await topUp({ credited: true })
  const open = await topUp()
  const foreign = await topUp()
  for (const { id } of [credited, open]) payments.set(id, found(id, { gross_amount: "9000.00" }))
  payments.set(foreign.id, found(foreign.id, { currency: "USD" }))
  const { differences, accounts, shown } = await compare()
  expect(differences).toBe(3)
  expect([...accounts].sort()).toEqual([credited.accountId, open.accountId, foreign.accountId].sort())
  expect(shown.map(({ mended }) => mended)).toEqual([false, false, false])
  expect((await books.balance(open.accountId)).posted).toBe(0n)
})

test("another amount that an operator has seen to differs no more, and one that comes later does", async () => {
  const other = await topUp()
  payments.set(other.id, found(other.id, { gross_amount: "9000.00" }))
  expect(await compare()).toMatchObject({ differences: 1, accounts: [other.accountId] })
  const [kept] = await target.sql<{ id: bigint }[]>`select id from payment_problems where top_up_id = ${other.id}`
  const act = { requestId: `req_${++serial}`, operatorId: undefined, address: undefined }
  await paymentViews(target.db).resolve(kept?.id ?? 0n, "given by hand", act)
  expect(await compare()).toMatchObject({ compared: 1, differences: 0, accounts: [] })
  payments.set(other.id, found(other.id, { gross_amount: "8000.00" }))
  expect(await compare()).toMatchObject({ differences: 1, accounts: [other.accountId] })
})

test("a provider that does not answer is asked three times, and nothing was compared", async () => {
  for (let one = 0; one < 5; one++) await topUp({ credited: true })
  answers = () => false
  expect(await compare()).toMatchObject({ compared: 0, notCompared: 5, differences: 0, accounts: [] })
  expect(asked).toHaveLength(3)
})

test("a provider that leaves two questions in a row unanswered is asked on", async () => {
  for (let one = 0; one < 7; one++) {
    const { id } = await topUp({ credited: true })
    payments.set(id, found(id))
  }
  answers = (question) => question % 3 === 0
  expect(await compare()).toMatchObject({ compared: 2, notCompared: 5, differences: 0 })
  expect(asked).toHaveLength(7)
})

test("a provider that knows none of several is taken for another merchant's, and nothing was compared", async () => {
  for (let one = 0; one < 5; one++) await topUp({ credited: true })
  expect(await compare()).toMatchObject({ compared: 0, notCompared: 5, differences: 0, accounts: [] })
})

test("one alone that is not known there differs", async () => {
  const forged = await topUp({ credited: true })
  expect(await compare()).toMatchObject({ compared: 1, differences: 1, accounts: [forged.accountId] })
})

test("the simulated provider keeps no list, so nothing of it was compared, however many there are", async () => {
  const { accountId } = await topUp({ credited: true, provider: "simulated" })
  await target.sql`
    insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
      network_fee_micro, qr_payload, expires_at)
    select 'top_more_' || n, ${accountId}, 'simulated', 1000000, 0, 0, 0, 'x', now() from generate_series(1, 1000) n`
  expect(await compare()).toMatchObject({ compared: 0, notCompared: 1_001, differences: 0 })
})

test("a code that can still be paid is not asked about, nor what is older than the days asked for", async () => {
  const payable = await topUp({ minutes: 15 })
  payments.set(payable.id, found(payable.id))
  const old = await topUp({ credited: true })
  await target.sql`update top_ups set created_at = now() - interval '8 days' where id = ${old.id}`
  expect(await compare()).toMatchObject({ compared: 0, notCompared: 0, differences: 0 })
  expect(await compare(0)).toMatchObject({ compared: 0 })
  expect(asked).toEqual([])
})
