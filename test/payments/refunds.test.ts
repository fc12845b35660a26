/** Money back, on a real database: what an operator gives back, what a provider takes, and what is claimed for it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { micro, zero } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import { problemJson } from "../../src/http/operator/payments.ts"
import type { PaymentNotice, PaymentProvider, ProviderRefunded } from "../../src/payments/provider.ts"
import { Refunds, type RefundTerms } from "../../src/payments/refunds.ts"
import { checkClaim } from "../../src/reconciliation/reconcile.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { adjust } from "../../src/store/operator/adjustments.ts"
import { paymentViews } from "../../src/store/operator/payments.ts"
import { returnLease } from "../../src/store/leases.ts"
import { refundStore } from "../../src/store/refunds.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"

const RP = 1_000_000n
let target: TestDatabase
let books: Books
let serial = 0
/** What the provider says to a refund that it is asked for. */
let answer: () => ProviderRefunded | Failure | Promise<ProviderRefunded>
const asked: string[] = []
const amounts: bigint[] = []
const recalled: string[] = []
const heard: string[] = []
const changed: string[] = []
beforeAll(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
}, 300_000)
afterAll(() => target.close())

const provider: PaymentProvider = {
  id: "played",
  createCharge: async () => new Failure("dependency.upstream_unconfigured"),
  readNotification: async () => new Failure("auth.unauthorized"),
  async refund({ id, amountRp }) {
    asked.push(id)
    amounts.push(amountRp)
    return answer()
  },
}

const refunds = () => {
  const store = topUpStore(target.db)
  return new Refunds({
    store: refundStore(target.db),
    topUps: store,
    providers: [provider],
    needsOperator: (problem) => void heard.push(`${problem.topUpId} ${problem.kind}`),
    recall: (accountId) => void recalled.push(accountId),
    changed: (accountId) => void changed.push(accountId),
  })
}

/** A customer with one paid top-up of Rp 100,000, and fees of Rp 500 and Rp 700 on it. */
async function paid() {
  const { accountId, keyId } = await books.account(0n)
  const topUpId = `top_${++serial}`
  const breakdown = {
    balancePurchasedMicro: micro(100_000n * RP),
    serviceFeeMicro: micro(500n * RP),
    paymentFeeMicro: micro(700n * RP),
    networkFeeMicro: zero,
  }
  const store = topUpStore(target.db)
  await store.create({ id: topUpId, accountId, provider: "played", breakdown, validMinutes: 15 })
  await store.credit(topUpId, { key: `topup:played:${topUpId}`, reference: topUpId })
  const topUp = await store.find(topUpId)
  if (topUp === undefined) throw new Error("no top-up")
  return { accountId, keyId, topUpId, topUp }
}

const act = () => ({ requestId: `req_${++serial}`, operatorId: undefined, address: undefined })
const terms = (
  of: { accountId: string; topUpId: string | undefined },
  rupiah: bigint,
  more: Partial<RefundTerms> = {},
) => ({
  accountId: of.accountId,
  topUpId: of.topUpId,
  amountMicro: micro(rupiah * RP),
  reason: "a test",
  idempotencyKey: `key_${++serial}`,
  byProvider: false,
  ...more,
})
const state = async (accountId: string) => {
  const [row] = await target.sql<{ posted: bigint; leased: bigint; claim: bigint }[]>`
    select posted_micro / ${RP} as posted, leased_micro / ${RP} as leased, claim_micro / ${RP} as claim
    from balances where account_id = ${accountId}`
  return row && { posted: Number(row.posted), leased: Number(row.leased), claim: Number(row.claim) }
}
const takenBack = (
  topUpId: string,
  parts: readonly (readonly [string, bigint])[],
  {
    backRp,
    kind = "chargeback",
    refundId,
  }: { backRp?: bigint; kind?: "chargeback" | "provider_refund"; refundId?: string } = {},
): Extract<PaymentNotice, { kind: "reversed" }> => ({
  kind: "reversed",
  topUpId,
  reference: topUpId,
  amountRp: 101_200n,
  backRp,
  reversals: parts.map(([reference, amountRp]) => ({ reference, amountRp, refundId, kind, reason: "" })),
})
const spend = (accountId: string, rupiah: bigint) =>
  adjust(
    target.db,
    { accountId, amountMicro: micro(-rupiah * RP), reason: "spent", idempotencyKey: `spent_${++serial}` },
    act(),
  )
async function agree() {
  for (const claim of claims)
    expect(await checkClaim(target.sql, claim)).toMatchObject({ claim: claim.name, shown: [] })
}

/** A person pays one out by hand while the provider is asked once more, which answers so after that. */
async function overtaken(of: Awaited<ReturnType<typeof paid>>, late: ProviderRefunded, rp = 20_000n) {
  answer = () => new Failure("dependency.upstream_unavailable")
  const made = await refunds().make(terms(of, rp, { byProvider: true }), act())
  if (made instanceof Failure) throw new Error("not made")
  await target.sql`update refunds set created_at = now() - interval '4 days', next_attempt_at = now() where id = ${made.id}`
  const answered = Promise.withResolvers<ProviderRefunded>()
  const begun = Promise.withResolvers<void>()
  answer = () => {
    begun.resolve()
    return answered.promise
  }
  const polled = refunds().poll()
  await begun.promise
  const byHand = { to: "paid_out", reference: "bank 1", reason: "no answer" } as const
  expect(await refunds().change(made.id, byHand, act())).toMatchObject({ status: "paid_out", payout: "by_hand" })
  answered.resolve(late)
  await polled
  return made
}

describe("an operator's refund", () => {
  test("takes a part of a top-up once for each key, and the rest to the last rupiah, but no more", async () => {
    const of = await paid()
    const first = terms(of, 40_000n)
    const made = await refunds().make(first, act())
    expect(made).toMatchObject({ status: "booked", balanceMicro: 40_000n * RP, claimedMicro: 0n })
    expect(await refunds().make(first, act())).toEqual(made)
    // A key is of one account.
    const other = await paid()
    const theirs = { ...terms(other, 1_000n), idempotencyKey: first.idempotencyKey }
    expect(await refunds().make(theirs, act())).toMatchObject({ accountId: other.accountId, status: "booked" })
    expect(await refunds().make({ ...first, amountMicro: micro(1n) }, act())).toMatchObject({ code: "request.invalid" })
    // The fees go back last, and are the house's; the customer's balance has the rest of what was bought.
    expect(await refunds().make(terms(of, 61_201n), act())).toMatchObject({ code: "request.invalid" })
    expect(await refunds().make(terms(of, 61_200n), act())).toMatchObject({
      balanceMicro: 60_000n * RP,
      feesMicro: 1_200n * RP,
    })
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    expect(await refunds().make(terms(of, 1n), act())).toMatchObject({ code: "request.invalid" })
    const audited = await target.sql`
      select before ->> 'balance_micro' as had, after ->> 'balance_micro' as has, after ->> 'amount_micro' as amount from audit_log
      where subject = ${of.accountId} and action = 'account.refunded' order by id`
    // Of the last only what was bought leaves the balance.
    expect([...audited]).toEqual([
      { had: "100000000000", has: "60000000000", amount: "40000000000" },
      { had: "60000000000", has: "0", amount: "61200000000" },
    ])
    await agree()
  })

  test("is listed a page at a time, the newest first, also where several were made at one moment", async () => {
    const of = await paid()
    for (let n = 0; n < 4; n++) await refunds().make(terms(of, 1_000n), act())
    await target.sql`update refunds set created_at = '2026-11-01' where account_id = ${of.accountId}`
    const ids = (await target.sql`select id from refunds where account_id = ${of.accountId} order by id desc`).map(
      ({ id }) => id,
    )
    const store = refundStore(target.db)
    const listed: string[] = []
    for (let after: string | undefined; listed.length < 4; after = listed.at(-1)) {
      const page = await store.list({ accountId: of.accountId }, { after, limit: 2 })
      expect(page).toHaveLength(2)
      listed.push(...page.map(({ id }) => id))
    }
    expect(listed).toEqual(ids)
    expect((await store.list({ topUpId: of.topUpId })).map(({ id }) => id)).toEqual(ids)
  })

  test("under a key that was used for another payout is refused, and not taken for the one before", async () => {
    const of = await paid()
    const used = expect.objectContaining({ message: "'idempotency_key' was used for another refund of this account." })
    const byHand = terms(of, 40_000n)
    const made = await refunds().make(byHand, act())
    answer = () => new Failure("dependency.upstream_unavailable")
    asked.length = 0
    expect(await refunds().make({ ...byHand, byProvider: true }, act())).toEqual(used)
    const others = [{ amountMicro: micro(1n) }, { topUpId: undefined }, { reason: "another" }]
    for (const other of others) expect(await refunds().make({ ...byHand, ...other }, act())).toEqual(used)
    // Also one that could not be made for another reason: what stands in the way is that it was made.
    expect(await refunds().make({ ...byHand, byProvider: true, topUpId: "top_none" }, act())).toEqual(used)
    expect(asked).toEqual([])
    const sent = terms(of, 20_000n, { byProvider: true })
    const sending = await refunds().make(sent, act())
    expect(sending).toMatchObject({ status: "sending" })
    expect(await refunds().make({ ...sent, byProvider: false }, act())).toEqual(used)
    expect(await refunds().make(sent, act())).toEqual(sending)
    // The repeat is still the same when the refund has gone another way since.
    if (made instanceof Failure) throw new Error("not made")
    answer = () => ({ kind: "paid-out", reference: "79" })
    const sentAfterAll = await refunds().change(made.id, { to: "sending", reason: "by the provider after all" }, act())
    expect(sentAfterAll).toMatchObject({ status: "paid_out", payout: "provider" })
    expect(await refunds().make(byHand, act())).toMatchObject({ id: made.id, status: "paid_out", payout: "provider" })
    expect(await state(of.accountId)).toEqual({ posted: 40_000, leased: 0, claim: 0 })
    await agree()
  })

  test("asked for twice at once under one key, by hand and by the provider, is one of them", async () => {
    const of = await paid()
    answer = () => ({ kind: "paid-out", reference: "80" })
    const one = terms(of, 10_000n)
    const both = await Promise.all([one, { ...one, byProvider: true }].map((asking) => refunds().make(asking, act())))
    expect(both.filter((made) => made instanceof Failure)).toHaveLength(1)
    expect(await state(of.accountId)).toEqual({ posted: 90_000, leased: 0, claim: 0 })
    await agree()
  })

  test("takes nothing that is spent or in use, and calls back what is not in use", async () => {
    const of = await paid()
    const processId = await books.process()
    const lease = await books.lease(processId, of.accountId, 100_000n * RP)
    const short = await refunds().make(terms(of, 1n), act())
    expect(short).toMatchObject({ code: "request.invalid" })
    expect(recalled).toContain(of.accountId)
    const making = refunds().make(terms(of, 30_000n), act())
    await Bun.sleep(150)
    await returnLease(target.db, lease.id, micro(30_000n * RP))
    expect(await making).toMatchObject({ status: "booked" })
    expect(await state(of.accountId)).toEqual({ posted: 70_000, leased: 70_000, claim: 0 })
    await agree()
  })

  test("is written down as paid out by hand, or given back, and neither after the other", async () => {
    const of = await paid()
    changed.length = 0
    const [one, two] = await Promise.all([
      refunds().make(terms(of, 10_000n), act()),
      refunds().make(terms(of, 20_000n), act()),
    ])
    expect(changed.splice(0)).toEqual([of.accountId, of.accountId])
    if (one instanceof Failure || two instanceof Failure) throw new Error("not made")
    const out = { to: "paid_out", reference: "BCA 123", reason: "sent" } as const
    expect(await refunds().change(one.id, out, act())).toMatchObject({
      status: "paid_out",
      reference: "BCA 123",
      payout: "by_hand",
    })
    expect(await refunds().change(one.id, out, act())).toMatchObject({ status: "paid_out" })
    expect(await refunds().change(one.id, { ...out, reference: "BCA 124" }, act())).toMatchObject({
      code: "request.invalid",
    })
    expect(await refunds().change(one.id, { to: "cancelled", reason: "no" }, act())).toMatchObject({
      code: "request.invalid",
    })
    changed.length = 0
    expect(await refunds().change(two.id, { to: "cancelled", reason: "no" }, act())).toMatchObject({
      status: "cancelled",
    })
    expect(changed).toEqual([of.accountId])
    expect(await refunds().change(two.id, out, act())).toMatchObject({ code: "request.invalid" })
    expect(await state(of.accountId)).toEqual({ posted: 90_000, leased: 0, claim: 0 })
    expect(await refunds().make(terms(of, 90_000n), act())).toMatchObject({ status: "booked" })
    await agree()
  })

  test("that the provider pays out is asked for under one name until it answers, and is paid once", async () => {
    const of = await paid()
    asked.length = 0
    // The process dies after it has booked, or does not hear the answer: to the books it is the same.
    answer = () => new Failure("dependency.upstream_unavailable")
    const made = await refunds().make(terms(of, 25_000n, { byProvider: true }), act())
    expect(made).toMatchObject({ status: "sending" })
    if (made instanceof Failure) throw new Error("not made")
    // A slow machine may poll refunds of the tests before as well.
    const timesAsked = () => asked.filter((id) => id === made.id).length
    // While nobody knows, nobody else may pay it out or give it back.
    for (const change of [
      { to: "cancelled", reason: "x" },
      { to: "paid_out", reference: "x", reason: "x" },
    ] as const)
      expect(await refunds().change(made.id, change, act())).toMatchObject({ code: "request.invalid" })
    await refunds().poll()
    expect(timesAsked()).toBe(1)
    // The database's clock was ahead, and is set back.
    await target.sql`update refunds set next_attempt_at = now() + interval '1 day' where id = ${made.id}`
    await refunds().poll()
    expect(timesAsked()).toBe(2)
    await target.sql`update refunds set next_attempt_at = now() where id = ${made.id}`
    answer = () => ({ kind: "paid-out", reference: "77" })
    changed.length = 0
    await Promise.all([refunds().poll(), refunds().poll()])
    expect(changed).toEqual([of.accountId])
    expect(timesAsked()).toBe(3)
    expect(await refundStore(target.db).find(made.id)).toMatchObject({ status: "paid_out", reference: "77" })
    // The provider tells of it as well: it is ours, and moves nothing.
    const told = takenBack(of.topUpId, [["77", 25_000n]], {
      backRp: 25_000n,
      kind: "provider_refund",
      refundId: made.id,
    })
    expect(await refunds().reverse(of.topUp, told)).toBe(false)
    expect(await state(of.accountId)).toEqual({ posted: 75_000, leased: 0, claim: 0 })
    await agree()
  })

  test("is asked about by one process at a time, the longest waiting first, after half of its age or an hour", async () => {
    const of = await paid()
    const store = refundStore(target.db)
    answer = () => new Failure("dependency.upstream_unavailable")
    await target.sql`update refunds set next_attempt_at = now() + interval '30 minutes' where status = 'sending'`
    const made: string[] = []
    for (let n = 0; n < 12; n++) {
      const refund = await refunds().make(terms(of, 1_000n, { byProvider: true }), act())
      if (refund instanceof Failure) throw new Error("not made")
      made.unshift(refund.id)
    }
    const [young] = await target.sql`
      select bool_and(next_attempt_at >= created_at + interval '15 seconds') as ok from refunds where id in ${target.sql(made)}`
    expect(young).toEqual({ ok: true })
    for (const [n, id] of made.entries())
      await target.sql`
        update refunds set created_at = now() - interval '4 days', next_attempt_at = now() - make_interval(mins => ${20 - n}) where id = ${id}`
    const due = async () => (await store.claimDue()).map(({ id }) => id).toSorted()
    expect(await due()).toEqual(made.slice(0, 10).toSorted())
    expect(await due()).toEqual(made.slice(10).toSorted())
    // An hour is no clock that was set back.
    expect(await due()).toEqual([])
    const [old] = await target.sql`
      select bool_and(next_attempt_at between now() + interval '55 minutes' and now() + interval '1 hour') as ok
      from refunds where id in ${target.sql(made)}`
    expect(old).toEqual({ ok: true })
    const [id = ""] = made
    expect(await store.claim(id)).toBeFalse()
    await target.sql`update refunds set next_attempt_at = now() where id = ${id}`
    expect([await store.claim(id), await store.claim(id)]).toEqual([true, false])
    await store.ended(id, { reference: "out" })
    await target.sql`update refunds set next_attempt_at = now() where id = ${id}`
    expect(await store.claim(id)).toBeFalse()
  })

  test("that is over is not asked of the provider, and one that waits for a person is", async () => {
    const of = await paid()
    const store = refundStore(target.db)
    const sent = { to: "sending", reason: "by the provider after all" } as const
    const ends = [
      { to: "paid_out", reference: "bank 1", reason: "x" } as const,
      { to: "cancelled", reason: "x" } as const,
    ]
    answer = () => new Failure("dependency.upstream_unavailable")
    asked.length = 0
    for (const end of ends) {
      const made = await refunds().make(terms(of, 1_000n), act())
      if (made instanceof Failure) throw new Error("not made")
      expect(await refunds().change(made.id, end, act())).toMatchObject({ status: end.to })
      expect(await refunds().change(made.id, sent, act())).toMatchObject({ code: "request.invalid" })
      expect(await store.find(made.id)).toMatchObject({ status: end.to })
    }
    expect(asked).toEqual([])
    const waits = await refunds().make(terms(of, 1_000n), act())
    if (waits instanceof Failure) throw new Error("not made")
    expect(await refunds().change(waits.id, sent, act())).toMatchObject({ status: "sending", payout: "provider" })
    expect(asked).toEqual([waits.id])
    await agree()
  })

  test("whose statement is sent again is booked once, and said to be", async () => {
    const of = await paid()
    const store = refundStore(target.db)
    const refund = { id: `ref_again_${serial}`, ...terms(of, 1_000n) }
    const made = [await store.book(refund, act()), await store.book(refund, act())]
    expect(made.map(({ outcome, refundId }) => [outcome, refundId])).toEqual([
      ["booked", refund.id],
      ["booked", refund.id],
    ])
    expect(await state(of.accountId)).toEqual({ posted: 99_000, leased: 0, claim: 0 })
  })

  test("that a person was to pay out is the provider's where that says so", async () => {
    const of = await paid()
    const made = await refunds().make(terms(of, 20_000n), act())
    if (made instanceof Failure) throw new Error("not made")
    const told = { backRp: 20_000n, kind: "provider_refund", refundId: made.id } as const
    expect(await refunds().reverse(of.topUp, takenBack(of.topUpId, [["7", 20_000n]], told))).toBe(false)
    const found = await refundStore(target.db).find(made.id)
    expect(found).toMatchObject({ status: "paid_out", payout: "provider", reference: "7" })
    expect(await state(of.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    await agree()
  })

  test("that the provider pays out is asked for with the fees that go back, in whole rupiah alone", async () => {
    const of = await paid()
    answer = () => ({ kind: "paid-out", reference: `out_${serial}` })
    amounts.length = 0
    expect(await refunds().make(terms(of, 101_000n, { byProvider: true }), act())).toMatchObject({
      status: "paid_out",
      feesMicro: 1_000n * RP,
    })
    expect(amounts).toEqual([101_000n])
    const part = { amountMicro: micro(RP / 2n) }
    const refused = { code: "request.invalid" }
    expect(await refunds().make(terms(of, 0n, { ...part, byProvider: true }), act())).toMatchObject(refused)
    const byHand = await refunds().make(terms(of, 0n, part), act())
    if (byHand instanceof Failure) throw new Error("not made")
    const sent = { to: "sending", reason: "by the provider after all" } as const
    expect(await refunds().change(byHand.id, sent, act())).toMatchObject(refused)
    expect(amounts).toEqual([101_000n])
    await agree()
  })

  test("that a person paid out while the provider was asked, which then refused, stays as it is", async () => {
    const of = await paid()
    const { id } = await overtaken(of, { kind: "refused", why: "412 too late" })
    expect(await refundStore(target.db).find(id)).toMatchObject({
      status: "paid_out",
      payout: "by_hand",
      problem: undefined,
    })
    expect(await state(of.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    await agree()
  })

  test("that a person paid out while the provider was asked, and did so too, went back twice", async () => {
    const of = await paid()
    const made = await overtaken(of, { kind: "paid-out", reference: "out_late" })
    expect(await state(of.accountId)).toEqual({ posted: 60_000, leased: 0, claim: 0 })
    // As its notification says, which comes besides.
    const told = takenBack(of.topUpId, [["out_late", 20_000n]], {
      backRp: 20_000n,
      kind: "provider_refund",
      refundId: made.id,
    })
    expect(await refunds().reverse(of.topUp, told)).toBe(false)
    expect(await state(of.accountId)).toEqual({ posted: 60_000, leased: 0, claim: 0 })
    // Of all that was paid, fees and all, nothing is left to take a second time: that is an operator's.
    const other = await paid()
    await overtaken(other, { kind: "paid-out", reference: "out_later" }, 101_200n)
    expect(await overOf(other)).toEqual([{ over: 101_200, note: null, resolved: false }])
    await agree()
  })

  test("that the provider refuses is a person's to pay out or to give back", async () => {
    const of = await paid()
    answer = () => ({ kind: "refused", why: "412 too late" })
    const made = await refunds().make(terms(of, 25_000n, { byProvider: true }), act())
    expect(made).toMatchObject({ status: "booked", problem: "412 too late" })
    if (made instanceof Failure) throw new Error("not made")
    // Asked once more, it is open again until the provider says the same.
    answer = () => new Failure("dependency.upstream_unavailable")
    asked.length = 0
    const sending = await refunds().change(made.id, { to: "sending", reason: "once more" }, act())
    expect(sending).toMatchObject({ status: "sending", problem: undefined })
    await refunds().poll()
    expect(asked).toEqual([made.id])
    answer = () => ({ kind: "refused", why: "412 too late" })
    await target.sql`update refunds set next_attempt_at = now() where id = ${made.id}`
    await refunds().poll()
    expect(await refunds().change(made.id, { to: "cancelled", reason: "no" }, act())).toMatchObject({
      status: "cancelled",
    })
    // It went out all the same, after all: the money is gone, and the books say so once.
    const told = takenBack(of.topUpId, [["78", 25_000n]], {
      backRp: 25_000n,
      kind: "provider_refund",
      refundId: made.id,
    })
    // Its reason is the provider's text, of any length and with any character.
    const reversals = told.reversals.map((each) => ({ ...each, reason: `a\u0000b${"c".repeat(300)}` }))
    const reverse = () => refunds().reverse(of.topUp, { ...told, reversals })
    changed.length = 0
    expect([await reverse(), await reverse()]).toEqual([true, false])
    expect(changed).toEqual([of.accountId])
    const [booked] = await refundStore(target.db).list({ topUpId: of.topUpId })
    expect(booked?.reason).toBe(`ab${"c".repeat(198)}`)
    expect(await state(of.accountId)).toEqual({ posted: 75_000, leased: 0, claim: 0 })
    await agree()
  })
})

const sent = async (of: { accountId: string; topUpId: string }) => {
  const made = await refunds().make(terms(of, 20_000n, { byProvider: true }), act())
  if (made instanceof Failure) throw new Error("not made")
  return made
}
const toldAs = (of: { topUpId: string }, name: string, rp: bigint, refundId?: string) =>
  takenBack(of.topUpId, [[name, rp]], { kind: "provider_refund", ...(refundId !== undefined && { refundId }) })
    .reversals

describe("what the provider tells by the name of a refund that it was asked for", () => {
  test("is that refund, also where it had said that it would not", async () => {
    const of = await paid()
    answer = () => ({ kind: "refused", why: "412 not now" })
    const made = await sent(of)
    const notice = takenBack(of.topUpId, [["90", 20_000n]], { kind: "provider_refund", refundId: made.id })
    expect(await refunds().reverse(of.topUp, notice)).toBe(false)
    expect(await refundStore(target.db).find(made.id)).toMatchObject({
      status: "paid_out",
      payout: "provider",
      reference: "90",
      problem: undefined,
    })
    expect(await state(of.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    await agree()
  })

  test("is another one's where that refund is of another top-up", async () => {
    const [of, other] = [await paid(), await paid()]
    answer = () => ({ kind: "paid-out", reference: `out_${serial}` })
    const made = await sent(other)
    const notice = takenBack(of.topUpId, [["91", 20_000n]], { kind: "provider_refund", refundId: made.id })
    expect(await refunds().reverse(of.topUp, notice)).toBe(true)
    expect(await state(of.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    expect(await state(other.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    await agree()
  })

  test("is no part of the sum that it took unasked, under whatever names that is told", async () => {
    const of = await paid()
    answer = () => ({ kind: "paid-out", reference: "92" })
    const ours = toldAs(of, "92", 20_000n, (await sent(of)).id)
    for (const name of ["93", "its other name"]) {
      const notice = {
        ...takenBack(of.topUpId, [], { backRp: 30_000n }),
        reversals: [...ours, ...toldAs(of, name, 10_000n)],
      }
      await refunds().reverse(of.topUp, notice)
      expect(await state(of.accountId)).toEqual({ posted: 70_000, leased: 0, claim: 0 })
    }
    await agree()
  })

  test("leaves the rest that has no name as it is", async () => {
    const of = await paid()
    answer = () => ({ kind: "paid-out", reference: "94" })
    const ours = toldAs(of, "94", 20_000n, (await sent(of)).id)
    const unnamed = rest(of, 10_000n, "provider_refund").reversals
    const notice = { ...takenBack(of.topUpId, [], { backRp: 30_000n }), reversals: [...ours, ...unnamed] }
    for (let n = 0; n < 2; n++) await refunds().reverse(of.topUp, notice)
    expect(await state(of.accountId)).toEqual({ posted: 70_000, leased: 0, claim: 0 })
    await agree()
  })
})

describe("what the provider takes back", () => {
  test("is booked once for each, in any order and together no more than was paid", async () => {
    const of = await paid()
    const first = takenBack(of.topUpId, [["1", 30_000n]], { backRp: 30_000n })
    const both = takenBack(
      of.topUpId,
      [
        ["2", 50_000n],
        ["1", 30_000n],
      ],
      { backRp: 80_000n },
    )
    for (const told of [both, first, both, first]) await refunds().reverse(of.topUp, told)
    expect(await state(of.accountId)).toEqual({ posted: 20_000, leased: 0, claim: 0 })
    await Promise.all(
      ["3", "4", "5"].map((name) => refunds().reverse(of.topUp, takenBack(of.topUpId, [[name, 20_000n]]))),
    )
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    const [sum] = await target.sql<{ back: bigint; problems: bigint }[]>`
      select (sum(balance_micro + service_fee_micro + payment_fee_micro) / ${RP})::bigint as back,
        (select count(*) from payment_problems where top_up_id = ${of.topUpId} and kind = 'over_refunded') as problems
      from refunds where top_up_id = ${of.topUpId}`
    // One of the last three was booked in full, one for what was left, and what was over is told, once.
    expect(sum).toEqual({ back: 101_200n, problems: 2n })
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["5", 20_000n]]))
    const told = heard.filter((problem) => problem.startsWith(`${of.topUpId} `)).toSorted()
    const kinds = [
      "chargeback",
      "chargeback",
      "chargeback",
      "chargeback",
      "chargeback",
      "over_refunded",
      "over_refunded",
    ]
    expect(told).toEqual(kinds.map((kind) => `${of.topUpId} ${kind}`))
    await agree()
  })

  test("is an operator's to book where all of it was over what is left, also once a refund that waited is cancelled", async () => {
    const of = await paid()
    const made = await refunds().make(terms(of, 101_200n), act())
    if (made instanceof Failure) throw new Error("not made")
    const told = takenBack(of.topUpId, [["1", 101_200n]])
    expect(await refunds().reverse(of.topUp, told)).toBe(false)
    expect(await problemsOf(of)).toEqual(["chargeback", "over_refunded"])
    // Kept by the version before, which did not say by how much. As its operators were told: the refund is cancelled, and what is over taken by an adjustment.
    await target.sql`update payment_problems set over_micro = null where top_up_id = ${of.topUpId}`
    await refunds().change(made.id, { to: "cancelled", reason: "charged back" }, act())
    expect(await spend(of.accountId, 100_000n)).toMatchObject({ outcome: "adjusted" })
    expect(await refunds().reverse(of.topUp, told)).toBe(false)
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    await agree()
  })

  test("and was over what is left is booked in the moment in which a refund that waited is cancelled, once", async () => {
    const of = await paid()
    const [first, second] = [
      await refunds().make(terms(of, 30_000n), act()),
      await refunds().make(terms(of, 21_200n), act()),
    ]
    if (first instanceof Failure || second instanceof Failure) throw new Error("not made")
    const told = takenBack(of.topUpId, [["1", 101_200n]], { backRp: 101_200n })
    expect(await refunds().reverse(of.topUp, told)).toBe(true)
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    expect(await overOf(of)).toEqual([{ over: 51_200, note: null, resolved: false }])
    const problems = await paymentViews(target.db).problems({ all: false, before: undefined, limit: 2 })
    const over = problems.map(problemJson).map(({ kind, over_micro: micros }) => [kind, micros])
    expect(over).toContainEqual(["over_refunded", 51_200_000_000])
    expect(over).toContainEqual(["chargeback", undefined])
    const change = (id: string) => refunds().change(id, { to: "cancelled", reason: "charged back" }, act())
    await Promise.all([change(first.id), change(first.id)])
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    expect(await overOf(of)).toEqual([{ over: 21_200, note: null, resolved: false }])
    expect(await refunds().reverse(of.topUp, told)).toBe(false)
    await change(second.id)
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    expect(await overOf(of)).toEqual([{ over: 0, note: `booked when ${second.id} was cancelled`, resolved: true }])
    for (let n = 0; n < 2; n++) expect(await refunds().reverse(of.topUp, told)).toBe(false)
    const rows = await refundStore(target.db).list({ topUpId: of.topUpId })
    expect(rows.filter(({ status }) => status === "paid_out").map(({ kind, reference }) => [kind, reference])).toEqual(
      Array.from({ length: 3 }, () => ["chargeback", "1"]),
    )
    expect(
      rows
        .filter(({ status }) => status === "paid_out")
        .reduce((sum, row) => sum + row.balanceMicro + row.feesMicro, 0n),
    ).toBe(101_200n * RP)
    await agree()
  })

  test("and was over what is left, told under two names, is booked once", async () => {
    const of = await paid()
    const made = [await refunds().make(terms(of, 50_000n), act()), await refunds().make(terms(of, 51_200n), act())]
    await refunds().reverse(of.topUp, rest(of, 50_000n, "chargeback"))
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["9", 50_000n]], { backRp: 50_000n }))
    expect(await overOf(of)).toHaveLength(2)
    for (const one of made) {
      if (one instanceof Failure) throw new Error("not made")
      await refunds().change(one.id, { to: "cancelled", reason: "charged back" }, act())
    }
    expect(await state(of.accountId)).toEqual({ posted: 50_000, leased: 0, claim: 0 })
    expect(await overOf(of)).toMatchObject([
      { over: 0, resolved: true },
      { over: 0, resolved: true },
    ])
    await agree()
  })

  test("and was over what is left, and all of it, is what it was told as; what an operator has resolved is not booked besides", async () => {
    const [open, resolved] = [await paid(), await paid()]
    for (const of of [open, resolved]) {
      const made = await refunds().make(terms(of, 101_200n), act())
      if (made instanceof Failure) throw new Error("not made")
      const told = takenBack(of.topUpId, [["1", 40_000n]], { kind: "provider_refund" })
      expect(await refunds().reverse(of.topUp, told)).toBe(false)
      if (of === resolved)
        await target.sql`update payment_problems set resolved_at = now(), note = 'seen to' where top_up_id = ${of.topUpId}`
      await refunds().change(made.id, { to: "cancelled", reason: "a test" }, act())
      expect(await refunds().reverse(of.topUp, told)).toBe(false)
    }
    expect(await state(open.accountId)).toEqual({ posted: 60_000, leased: 0, claim: 0 })
    expect(await state(resolved.accountId)).toEqual({ posted: 100_000, leased: 0, claim: 0 })
    expect((await refundStore(target.db).list({ topUpId: open.topUpId }))[0]).toMatchObject({
      kind: "provider_refund",
      status: "paid_out",
    })
    expect(await overOf(resolved)).toEqual([{ over: 40_000, note: "seen to", resolved: true }])
    await agree()
  })

  test("and was over what is left settles no claim with what is given back: it is claimed", async () => {
    const of = await paid()
    const made = await refunds().make(terms(of, 60_000n), act())
    if (made instanceof Failure) throw new Error("not made")
    await spend(of.accountId, 30_000n)
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["1", 101_200n]]))
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 30_000 })
    await refunds().change(made.id, { to: "cancelled", reason: "charged back" }, act())
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 30_000 })
    await agree()
  })

  test("is a chargeback or none as it was booked, whatever it is told as later", async () => {
    const of = await paid()
    heard.length = 0
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["1", 1_000n]], { kind: "provider_refund" }))
    const parts = [
      ["1", 1_000n],
      ["2", 2_000n],
    ] as const
    await refunds().reverse(of.topUp, takenBack(of.topUpId, parts))
    expect(heard).toEqual([`${of.topUpId} chargeback`])
    const told = await target.sql`select reference from payment_problems where top_up_id = ${of.topUpId}`
    expect([...told]).toEqual([{ reference: `${of.topUpId}:2` }])
  })

  test("comes to no more than its own sum, when its parts are told under two names", async () => {
    const of = await paid()
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["upto-30000", 30_000n]], { backRp: 30_000n }))
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["9", 30_000n]], { backRp: 30_000n }))
    await refunds().reverse(
      of.topUp,
      takenBack(
        of.topUpId,
        [
          ["9", 30_000n],
          ["10", 5_000n],
        ],
        { backRp: 35_000n },
      ),
    )
    expect(await state(of.accountId)).toEqual({ posted: 65_000, leased: 0, claim: 0 })
    await agree()
  })

  test("and is spent already is a claim, which whatever comes next settles first", async () => {
    const of = await paid()
    await spend(of.accountId, 90_000n)
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["1", 101_200n]]))
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 90_000 })
    await agree()
    const given = {
      accountId: of.accountId,
      amountMicro: micro(50_000n * RP),
      reason: "a gift",
      idempotencyKey: "gift",
    }
    expect(await adjust(target.db, given, act())).toEqual({ outcome: "adjusted", balanceMicro: zero })
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 40_000 })
    expect(await spend(of.accountId, 1n)).toMatchObject({ outcome: "refused" })
    const more = await adjust(target.db, { ...given, idempotencyKey: "gift 2" }, act())
    expect(more).toEqual({ outcome: "adjusted", balanceMicro: micro(10_000n * RP) })
    expect(await state(of.accountId)).toEqual({ posted: 10_000, leased: 0, claim: 0 })
    await agree()
  })

  test("and is leased is called back, and no process leases any more while there is a claim", async () => {
    const of = await paid()
    const processId = await books.process()
    const lease = await books.lease(processId, of.accountId, 100_000n * RP)
    recalled.length = 0
    heard.length = 0
    await refunds().reverse(of.topUp, takenBack(of.topUpId, [["1", 60_000n]]))
    // Told when it is booked, and not kept by a look before that.
    expect(heard).toEqual([`${of.topUpId} chargeback`])
    // In use when it was booked: nobody gave it back within a second.
    expect(await state(of.accountId)).toEqual({ posted: 100_000, leased: 100_000, claim: 60_000 })
    expect(recalled.length).toBeGreaterThan(1)
    // Nobody is asked for what is not owed, nor for what is not leased.
    const [owesNothing, hasNothing] = [await paid(), await paid()]
    await books.lease(processId, owesNothing.accountId, 1_000n * RP)
    await spend(hasNothing.accountId, 100_000n)
    await refunds().reverse(hasNothing.topUp, takenBack(hasNothing.topUpId, [["1", 60_000n]]))
    expect(await state(hasNothing.accountId)).toEqual({ posted: 0, leased: 0, claim: 60_000 })
    recalled.length = 0
    await refunds().poll()
    expect(recalled).toEqual([of.accountId])
    await returnLease(target.db, lease.id, micro(35_000n * RP))
    expect(await state(of.accountId)).toEqual({ posted: 65_000, leased: 65_000, claim: 25_000 })
    const grown = await books.lease(processId, of.accountId, 10_000n * RP)
    expect(grown.granted).toBe(micro(100_000n * RP))
    await agree()
    await returnLease(target.db, lease.id, micro(100_000n * RP))
    expect(await state(of.accountId)).toEqual({ posted: 40_000, leased: 0, claim: 0 })
    await agree()
  })
})

const rest = (of: { topUpId: string }, rp: bigint, kind: "chargeback" | "provider_refund") => {
  const told = takenBack(of.topUpId, [[`upto-${rp}`, rp]], { backRp: rp, kind })
  return { ...told, reversals: told.reversals.map((each) => ({ ...each, isRest: true as const })) }
}
const paidOut = async () => {
  const of = await paid()
  answer = () => ({ kind: "paid-out", reference: `out_${serial}` })
  expect(await refunds().make(terms(of, 20_000n, { byProvider: true }), act())).toMatchObject({ status: "paid_out" })
  return of
}
const overOf = async ({ topUpId }: { topUpId: string }) => {
  const rows = await target.sql<{ over: number; note: string | null; resolved: boolean }[]>`
    select (over_micro / ${RP})::int as over, note, resolved_at is not null as resolved from payment_problems
    where top_up_id = ${topUpId} and kind = 'over_refunded'`
  return [...rows]
}
const problemsOf = async ({ topUpId }: { topUpId: string }) =>
  (await target.sql`select kind from payment_problems where top_up_id = ${topUpId} order by kind`).map(
    ({ kind }) => kind,
  )

describe("what the provider tells by its sum alone, of a top-up of which it has paid out a refund", () => {
  test("is that refund, and nothing is taken again", async () => {
    const of = await paidOut()
    expect(await refunds().reverse(of.topUp, rest(of, 20_000n, "provider_refund"))).toBe(false)
    expect(await state(of.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    expect(await problemsOf(of)).toEqual([])
    await agree()
  })

  test("is that refund also while nobody knows whether it was paid out", async () => {
    const of = await paid()
    answer = () => new Failure("dependency.upstream_unavailable")
    const made = await refunds().make(terms(of, 20_000n, { byProvider: true }), act())
    expect(await refunds().reverse(of.topUp, rest(of, 20_000n, "provider_refund"))).toBe(false)
    expect(await state(of.accountId)).toEqual({ posted: 80_000, leased: 0, claim: 0 })
    if (made instanceof Failure) throw new Error("not made")
    await target.sql`update refunds set status = 'booked' where id = ${made.id}`
    await agree()
  })

  test("is no part of that refund beyond the rest without a name: what it names besides is taken", async () => {
    const of = await paidOut()
    const named = takenBack(of.topUpId, [["95", 10_000n]], { kind: "provider_refund" }).reversals
    const unnamed = rest(of, 5_000n, "provider_refund").reversals
    const notice = { ...takenBack(of.topUpId, [], { backRp: 15_000n }), reversals: [...named, ...unnamed] }
    for (let n = 0; n < 2; n++) await refunds().reverse(of.topUp, notice)
    expect(await state(of.accountId)).toEqual({ posted: 70_000, leased: 0, claim: 0 })
    await agree()
  })

  test("is a chargeback beside a refund that nobody knows to be paid out", async () => {
    const of = await paid()
    answer = () => new Failure("dependency.upstream_unavailable")
    const made = await refunds().make(terms(of, 20_000n, { byProvider: true }), act())
    await refunds().reverse(of.topUp, rest(of, 30_000n, "chargeback"))
    expect(await state(of.accountId)).toEqual({ posted: 50_000, leased: 0, claim: 0 })
    if (made instanceof Failure) throw new Error("not made")
    await target.sql`update refunds set status = 'booked' where id = ${made.id}`
    await agree()
  })

  test("is a chargeback of what is over the refund, and a whole one of what is left", async () => {
    const of = await paidOut()
    for (let n = 0; n < 2; n++) await refunds().reverse(of.topUp, rest(of, 30_000n, "chargeback"))
    expect(await state(of.accountId)).toEqual({ posted: 70_000, leased: 0, claim: 0 })
    for (let n = 0; n < 2; n++) await refunds().reverse(of.topUp, rest(of, 101_200n, "chargeback"))
    expect(await state(of.accountId)).toEqual({ posted: 0, leased: 0, claim: 0 })
    const [sum] =
      await target.sql`select (sum(balance_micro + service_fee_micro + payment_fee_micro) / ${RP})::int as back
      from refunds where top_up_id = ${of.topUpId}`
    expect(sum?.back).toBe(101_200)
    expect(await problemsOf(of)).toEqual(["chargeback", "chargeback"])
    await agree()
  })
})

test("whatever comes in whatever order, the books agree and the sums are those of a plain account", async () => {
  const part = fc.record({
    do: fc.constantFrom("refund", "back", "spend", "give", "cancel", "again"),
    rp: fc.integer({ min: 1, max: 60_000 }),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(part, { minLength: 3, maxLength: 12 }), async (course) => {
      const of = await paid()
      // The model: what is owed to the customer, below zero where it is a claim; and what of the payment is still there.
      let worth = 100_000n
      let left = 101_200n
      let leftOfBalance = 100_000n
      const booked: { id: string; balance: bigint; all: bigint }[] = []
      let last: Extract<PaymentNotice, { kind: "reversed" }> | undefined
      // What of each reversal was over what was left.
      let overs: bigint[] = []
      const takeBack = (amount: bigint): bigint => {
        const all = amount < left ? amount : left
        const balance = all < leftOfBalance ? all : leftOfBalance
        worth -= balance
        leftOfBalance -= balance
        left -= all
        return amount - all
      }
      for (const { do: what, rp } of course) {
        const amount = BigInt(rp)
        if (what === "refund") {
          const made = await refunds().make(terms(of, amount), act())
          const balance = amount < leftOfBalance ? amount : leftOfBalance
          const may = amount <= left && balance <= (worth > 0n ? worth : 0n)
          expect(made instanceof Failure).toBe(!may)
          if (made instanceof Failure) continue
          booked.push({ id: made.id, balance, all: amount })
          worth -= balance
          leftOfBalance -= balance
          left -= amount
        } else if (what === "back") {
          last = takenBack(of.topUpId, [[`back_${++serial}`, amount]])
          await refunds().reverse(of.topUp, last)
          overs.push(takeBack(amount))
        } else if (what === "spend") {
          if ((await spend(of.accountId, amount)).outcome === "adjusted") worth -= amount
        } else if (what === "give") {
          await books.credit(of.accountId, amount * RP)
          worth += amount
        } else if (what === "cancel") {
          const one = booked.pop()
          if (one === undefined) continue
          await refunds().change(one.id, { to: "cancelled", reason: "x" }, act())
          worth += one.balance
          leftOfBalance += one.balance
          left += one.all
          overs = overs.map(takeBack)
        } else if (last !== undefined) {
          await refunds().reverse(of.topUp, last)
        }
        const expected = worth >= 0n ? { posted: Number(worth), claim: 0 } : { posted: 0, claim: -Number(worth) }
        expect(await state(of.accountId)).toEqual({ ...expected, leased: 0 })
      }
    }),
    { numRuns: 12 },
  )
  await agree()
}, 300_000)
