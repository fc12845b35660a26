/** What a provider tells of money that went back, beside refunds that it was asked for, or that a person paid out. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { micro, zero } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { PaymentNotice } from "../../src/payments/provider.ts"
import { Refunds } from "../../src/payments/refunds.ts"
import { refundStore } from "../../src/store/refunds.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"

const RP = 1_000_000n
let target: TestDatabase
let books: Books
let refunds: Refunds
let serial = 0
/** It never says what became of a refund that it is asked for. */
const unavailable = async () => new Failure("dependency.upstream_unavailable")
beforeAll(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
  refunds = new Refunds({
    store: refundStore(target.db),
    topUps: topUpStore(target.db),
    providers: [{ id: "played", createCharge: unavailable, readNotification: unavailable, refund: unavailable }],
    needsOperator: () => {},
    recall: () => {},
    changed: () => {},
  })
}, 300_000)
afterAll(() => target.close())

/** A customer with one paid top-up of Rp 100,000. */
async function paid() {
  const { accountId } = await books.account(0n)
  const id = `top_told_${++serial}`
  const breakdown = {
    balancePurchasedMicro: micro(100_000n * RP),
    serviceFeeMicro: zero,
    paymentFeeMicro: zero,
    networkFeeMicro: zero,
  }
  const store = topUpStore(target.db)
  await store.create({ id, accountId, provider: "played", breakdown, validMinutes: 15 })
  await store.credit(id, { key: `topup:played:${id}`, reference: id })
  const topUp = await store.find(id)
  if (topUp === undefined) throw new Error("no top-up")
  return topUp
}
const act = () => ({ requestId: `req_told_${++serial}`, operatorId: undefined, address: undefined })
const back = (topUpId: string, amountRp: bigint, more: object): Extract<PaymentNotice, { kind: "reversed" }> => ({
  kind: "reversed",
  topUpId,
  reference: topUpId,
  amountRp: 100_000n,
  backRp: amountRp,
  reversals: [{ reference: "told", refundId: undefined, amountRp, kind: "provider_refund", reason: "", ...more }],
})
async function made({ accountId, id: topUpId }: { accountId: string; id: string }, byProvider: boolean) {
  const amountMicro = micro(20_000n * RP)
  const terms = { accountId, topUpId, amountMicro, reason: "a test", idempotencyKey: `told_${++serial}`, byProvider }
  const refund = await refunds.make(terms, act())
  if (refund instanceof Failure) throw new Error(refund.message)
  return refund
}
const balanceRp = async (accountId: string) => Number((await books.balance(accountId)).posted / RP)

test("a refund whose answer was lost is what the provider tells by its name, and is not taken twice", async () => {
  const topUp = await paid()
  const { id, status } = await made(topUp, true)
  expect(status).toBe("sending")
  for (let n = 0; n < 2; n++)
    expect(await refunds.reverse(topUp, back(topUp.id, 20_000n, { refundId: id }))).toBe(false)
  expect(await refundStore(target.db).list({ topUpId: topUp.id })).toMatchObject([
    { id, status: "paid_out", payout: "provider", reference: "told" },
  ])
  expect(await balanceRp(topUp.accountId)).toBe(80_000)
})

test("what a person paid out, or is to pay out, is no part of what the provider took back without a name", async () => {
  const topUp = await paid()
  const { id } = await made(topUp, false)
  const byHand = { to: "paid_out", reference: "bank 1", reason: "sent" } as const
  expect(await refunds.change(id, byHand, act())).toMatchObject({ payout: "by_hand" })
  expect(await made(topUp, false)).toMatchObject({ status: "booked" })
  expect(await refunds.reverse(topUp, back(topUp.id, 30_000n, { isRest: true }))).toBe(true)
  expect(await balanceRp(topUp.accountId)).toBe(30_000)
})
