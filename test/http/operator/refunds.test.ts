/** Money back through the API of a live gateway, which has leased what is taken: by an operator, and by the provider. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { notification } from "../dashboard/world.ts"
import { reconcile } from "../../money/reconcile.ts"
import { caller, makeOperator } from "./operator.ts"

const RP = 1_000_000
let gateway: TestGateway
let ask: ReturnType<typeof caller>
let model: string
beforeAll(async () => {
  gateway = await startTestGateway()
  ask = caller(gateway, await makeOperator(gateway))
  model = await gateway.model({ format: "chat" })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const say = async (key: string) => {
  const body = { model, max_tokens: 50, messages: [{ role: "user", content: "hi" }] }
  const response = await gateway.post("/v1/chat/completions", key, body)
  await response.text()
  return response.status
}
const told = async (body: object) => {
  const { body: text, headers } = notification(body)
  return (await fetch(`${gateway.url}/webhooks/payments/simulated`, { method: "POST", body: text, headers })).status
}
const topUpOf = async (person: Person, amount = 50_000) => {
  const { json } = await caller(gateway, person)("/top-ups", { amount_rp: amount })
  expect(await told({ top_up_id: json.id, status: "paid", amount_rp: json.breakdown.total_micro / RP })).toBe(200)
  return { id: json.id as string, total: json.breakdown.total_micro / RP }
}
const refund = (person: Person, body: object) =>
  ask(`/operator/accounts/${person.accountId}/refunds`, {
    payout: "by_hand",
    reason: "a test",
    idempotency_key: crypto.randomUUID(),
    ...body,
  })

test("a top-up goes back, from under a gateway that has leased it, and its owner sees it", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const { key } = await gateway.key(person)
  expect(await say(key)).toBe(200)
  const { balance_micro: balance } = (await caller(gateway, person)("/account")).json
  const made = await refund(person, { top_up_id: topUp.id, amount_micro: 40_000 * RP, payout: "provider" })
  expect([made.status, made.json.status, made.json.payout]).toEqual([201, "paid_out", "provider"])
  expect((await refund(person, { top_up_id: topUp.id, amount_micro: 10_001 * RP })).status).toBe(400)
  expect((await refund(person, { top_up_id: "top_of_nobody", amount_micro: RP })).status).toBe(400)
  const mine = caller(gateway, person)
  expect((await mine("/account")).json.balance_micro).toBe(balance - 40_000 * RP)
  expect((await mine(`/top-ups/${topUp.id}`)).json).toMatchObject({
    status: "paid",
    refund_status: "partly_refunded",
    refunded_micro: 40_000 * RP,
    refunds: [{ kind: "refund", status: "paid_out", amount_micro: 40_000 * RP, reason: "a test" }],
  })
  const { entries } = (await mine("/account/statement")).json
  expect(entries.find(({ kind }: { kind: string }) => kind === "refund")).toMatchObject({
    amount_micro: -40_000 * RP,
    top_up_id: topUp.id,
    note: "a test",
  })
  await reconcile(gateway.sql, { busy: true })
})

test("a repeat under a key answers the same refund, and one that is to be paid out otherwise is refused", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const first = { top_up_id: topUp.id, amount_micro: 10_000 * RP, idempotency_key: "repeat-1" }
  const made = await refund(person, first)
  expect([made.status, made.json.status]).toEqual([201, "booked"])
  const again = await refund(person, first)
  expect([again.status, again.json.id]).toEqual([201, made.json.id])
  const other = await refund(person, { ...first, payout: "provider" })
  expect([other.status, other.json.code]).toEqual([400, "request.invalid"])
  expect(other.json.error).toStartWith("'idempotency_key' was used for another refund")
  expect((await ask("/operator/refunds")).json.data).toContainEqual(expect.objectContaining({ id: made.json.id }))
  expect((await caller(gateway, person)("/account")).json.balance_micro).toBe(40_000 * RP)
})

test("what no refund can be is refused, and leaves the money where it is", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const wrong = [
    { amount_micro: 0 },
    { amount_micro: -RP },
    { amount_micro: 0.5 },
    { amount_micro: String(RP) },
    { amount_micro: 2 ** 53 },
    { amount_micro: RP, payout: "bank" },
    { amount_micro: RP, amount_rp: 1 },
    { amount_micro: RP, reason: " " },
    { amount_micro: RP, reason: "r".repeat(501) },
    // Half of a character, which the database has not.
    { amount_micro: RP, reason: "half \ud83d" },
    { amount_micro: RP, idempotency_key: "" },
    { amount_micro: RP, idempotency_key: "a b" },
    { amount_micro: RP, idempotency_key: "k".repeat(101) },
    { amount_micro: RP, top_up_id: 7 },
  ]
  for (const body of wrong) {
    const { status, json } = await refund(person, { top_up_id: topUp.id, ...body })
    expect([body, status, json.code]).toEqual([body, 400, "request.invalid"])
  }
  expect((await caller(gateway, person)("/account")).json.balance_micro).toBe(50_000 * RP)
  const most = { reason: "r".repeat(500), idempotency_key: "Ref_1.:-".padEnd(100, "k") }
  const { status, json } = await refund(person, { top_up_id: topUp.id, amount_micro: RP, ...most })
  expect([status, json.reason]).toEqual([201, most.reason])
  const paidOut = (reference: string) => ask(`/operator/refunds/${json.id}/paid-out`, { reference, reason: "sent" })
  for (const reference of ["", "two\nlines", "r".repeat(201), "half \ud83d"])
    expect([reference, (await paidOut(reference)).status]).toEqual([reference, 400])
  expect((await paidOut("r".repeat(200))).json).toMatchObject({ status: "paid_out", reference: "r".repeat(200) })
})

test("refunds that wait are all listed, a page at a time: the one that has waited longest too", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const oldest = (await refund(person, { top_up_id: topUp.id, amount_micro: RP })).json
  await gateway.sql`
    insert into refunds (id, account_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro,
      claimed_micro, reason, status, created_at)
    select 'ref_later_' || n, ${person.accountId}, 'refund', 'later ' || n, 1, 0, 0, 0, 'a test', 'booked', now() + n * interval '1 second'
    from generate_series(1, 120) n`
  for (const path of ["/operator/refunds", `/operator/accounts/${person.accountId}/refunds`]) {
    const listed: string[] = []
    for (let cursor: string | null | undefined; cursor !== null;) {
      const { json } = await ask(`${path}?limit=50${cursor === undefined ? "" : `&cursor=${cursor}`}`)
      listed.push(...json.data.map(({ id }: { id: string }) => id))
      cursor = json.next_cursor
    }
    expect([listed.includes(oldest.id), new Set(listed).size]).toEqual([true, listed.length])
    expect(listed.length).toBeGreaterThan(120)
  }
  await gateway.sql`delete from refunds where id like 'ref\\_later%'`
})

test("a refund that the provider says nothing about may be paid out by hand after three days, counted from when it was asked for last", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const paidOut = (id: string) => ask(`/operator/refunds/${id}/paid-out`, { reference: "trf-1", reason: "it is gone" })
  // As if it had been asked for so long ago, and never answers.
  const silent = async (id: string, ago: string) =>
    await gateway.sql`
      update refunds set status = 'sending', payout = 'provider', created_at = now() - ${ago}::interval,
        next_attempt_at = now() + interval '1 hour' where id = ${id}`
  const one = (await refund(person, { top_up_id: topUp.id, amount_micro: RP })).json
  await silent(one.id, "2 days 23:59:50")
  const early = await paidOut(one.id)
  expect([early.status, early.json.error]).toEqual([
    400,
    "A refund that is 'sending' cannot become 'paid_out': the provider has 3 days to answer.",
  ])
  await silent(one.id, "3 days")
  const late = await paidOut(one.id)
  expect([late.status, late.json]).toEqual([
    200,
    expect.objectContaining({ status: "paid_out", payout: "by_hand", reference: "trf-1" }),
  ])
  // One that waited for a person, and was sent a moment ago.
  const other = (await refund(person, { top_up_id: topUp.id, amount_micro: RP })).json
  await gateway.sql`
    insert into audit_log (request_id, action, subject, after)
    values (${crypto.randomUUID()}, 'refund.sending', ${person.accountId}, ${gateway.sql.json({ refund: other.id })})`
  await silent(other.id, "9 days")
  expect((await paidOut(other.id)).status).toBe(400)
  expect((await ask(`/operator/refunds/${other.id}/cancel`, { reason: "no" })).status).toBe(400)
})

test("a refund that waits says whose it is and what it waits for, and leaves the list when it is paid out", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const byHand = (await refund(person, { top_up_id: topUp.id, amount_micro: RP })).json
  const byProvider = (await refund(person, { top_up_id: topUp.id, amount_micro: 2 * RP })).json
  await gateway.sql`update refunds set status = 'sending', next_attempt_at = now() + interval '1 hour' where id = ${byProvider.id}`
  const { email } = (await caller(gateway, person)("/account")).json
  const waiting = async (query: string) => {
    const { json } = await ask(`/operator/refunds${query}`)
    const mine = json.data.filter(({ account_id: of }: { account_id: string }) => of === person.accountId)
    return mine.map((one: { id: string; email: string }) => [one.id, one.email])
  }
  expect(await waiting("")).toEqual([
    [byProvider.id, email],
    [byHand.id, email],
  ])
  expect(await waiting("?status=booked")).toEqual([[byHand.id, email]])
  expect(await waiting("?status=sending")).toEqual([[byProvider.id, email]])
  expect((await ask("/operator/refunds?status=paid_out")).status).toBe(400)
  await gateway.sql`update refunds set problem = '412 too late' where id = ${byHand.id}`
  const of = { id: byHand.id, top_up_id: topUp.id, problem: "412 too late", paid_out_at: null }
  expect((await ask("/operator/refunds?status=booked")).json.data).toContainEqual(expect.objectContaining(of))
  const out = await ask(`/operator/refunds/${byHand.id}/paid-out`, { reference: "BCA 2", reason: "sent" })
  expect(Date.parse(out.json.paid_out_at)).toBeGreaterThan(Date.parse(byHand.created_at))
  expect(await waiting("?status=booked")).toEqual([])
  await gateway.sql`update refunds set status = 'booked' where id = ${byProvider.id}`
})

test("what is left goes back once an account is closed, to the last micro, and by hand", async () => {
  const person = await gateway.person(12_345)
  const { key } = await gateway.key(person)
  expect(await say(key)).toBe(200)
  const { balance_micro: left } = (await caller(gateway, person)("/account")).json
  expect((await refund(person, { amount_micro: left })).status).toBe(400)
  await gateway.sql`update accounts set deleted_at = now() where id = ${person.accountId}`
  expect((await refund(person, { amount_micro: left + 1 })).status).toBe(400)
  expect((await refund(person, { amount_micro: left, payout: "provider" })).status).toBe(400)
  const made = await refund(person, { amount_micro: left })
  expect([made.status, made.json.status]).toEqual([201, "booked"])
  const open = (await ask("/operator/refunds")).json.data.map(({ id }: { id: string }) => id)
  expect(open).toContain(made.json.id)
  const out = await ask(`/operator/refunds/${made.json.id}/paid-out`, { reference: "BCA 1", reason: "sent" })
  expect(out.json).toMatchObject({ status: "paid_out", reference: "BCA 1" })
  expect((await ask(`/operator/refunds/${made.json.id}/cancel`, { reason: "no" })).status).toBe(400)
  expect((await ask(`/operator/accounts/${person.accountId}`)).json).toMatchObject({ balance_micro: 0, claim_micro: 0 })
  await reconcile(gateway.sql, { busy: true })
})

test("what is paid after an account was closed is credited, told to operators once, and goes back", async () => {
  const lines: string[] = []
  await using told = await startTestGateway({ logged: (line) => void lines.push(line) })
  const asking = caller(told, await makeOperator(told))
  const notify = async (body: object) => {
    const { body: text, headers } = notification(body)
    return (await fetch(`${told.url}/webhooks/payments/simulated`, { method: "POST", body: text, headers })).status
  }
  const person = await told.person(0)
  const before = (await caller(told, person)("/top-ups", { amount_rp: 20_000 })).json
  const late = (await caller(told, person)("/top-ups", { amount_rp: 30_000 })).json
  const [paidBefore, paidLate] = [before, late].map(({ id, breakdown }) => ({
    top_up_id: id,
    status: "paid",
    amount_rp: breakdown.total_micro / RP,
  }))
  expect(await notify(paidBefore!)).toBe(200)
  await told.sql`update accounts set deleted_at = now() where id = ${person.accountId}`
  const all = await Promise.all([paidBefore!, paidLate!, paidLate!, paidLate!].map(notify))
  expect([...all, await notify(paidLate!)]).toEqual([200, 200, 200, 200, 200])
  const problems = (await asking("/operator/payment-problems")).json.data
  expect(problems).toMatchObject([
    {
      kind: "closed_account",
      provider: "simulated",
      top_up_id: late.id,
      account_id: person.accountId,
      paid: "30000 IDR",
    },
  ])
  const logged = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "payment needs an operator")
  expect(logged).toMatchObject([{ level: "error", kind: "closed_account", top_up_id: late.id }])
  expect((await asking(`/operator/accounts/${person.accountId}`)).json.balance_micro).toBe(50_000 * RP)
  const made = await asking(`/operator/accounts/${person.accountId}/refunds`, {
    top_up_id: late.id,
    amount_micro: late.breakdown.total_micro,
    payout: "provider",
    reason: "paid after closing",
    idempotency_key: "closed",
  })
  expect([made.status, made.json.status]).toEqual([201, "paid_out"])
  await reconcile(told.sql, { busy: true })
})

test("what a bank takes back after it was spent is claimed: calls get 402 until more than that has come", async () => {
  const person = await gateway.person(0)
  const topUp = await topUpOf(person)
  const { key } = await gateway.key(person)
  expect(await say(key)).toBe(200)
  const chargeback = {
    top_up_id: topUp.id,
    status: "chargeback",
    amount_rp: topUp.total,
    back_rp: topUp.total,
    reversal_id: "cb",
  }
  for (let n = 0; n < 3; n++) expect(await told(chargeback)).toBe(200)
  const mine = caller(gateway, person)
  const { balance_micro: balance, claim_micro: claim } = (await mine("/account")).json
  expect([balance, claim > 0]).toEqual([0, true])
  expect(await say(key)).toBe(402)
  const problems = (await ask("/operator/payment-problems")).json.data
  expect(problems.find(({ top_up_id: id }: { top_up_id: string }) => id === topUp.id)).toMatchObject({
    kind: "chargeback",
  })
  // A top-up settles it first; what is left of it is spent again.
  await topUpOf(person)
  const after = (await mine("/account")).json
  expect([after.balance_micro, after.claim_micro]).toEqual([50_000 * RP - claim, 0])
  while ((await say(key)) !== 200) await Bun.sleep(20)
  const { entries, claim_micro: owed } = (await mine("/account/statement")).json
  expect(owed).toBe(0)
  const moved = (kind: string) =>
    entries
      .filter((entry: { kind: string }) => entry.kind === kind)
      .reduce((sum: number, entry: { claim_micro: number }) => sum + entry.claim_micro, 0)
  expect([moved("chargeback") + moved("claim")]).toEqual([0])
  expect(-moved("claim")).toBeGreaterThanOrEqual(claim)
  await reconcile(gateway.sql, { busy: true })
})

test("fees that went back are no revenue of the overview, and come back to it when a refund is cancelled", async () => {
  await using paying = await startTestGateway({ env: { PAYMENT_SERVICE_FEE_RP: "700" } })
  const asking = caller(paying, await makeOperator(paying))
  const fees = async () => {
    const { json } = await asking("/operator/overview")
    return [json.service_fees_micro / RP, json.revenue_micro / RP]
  }
  const person = await paying.person(0)
  const { json: topUp } = await caller(paying, person)("/top-ups", { amount_rp: 50_000 })
  const { body, headers } = notification({ top_up_id: topUp.id, status: "paid", amount_rp: 50_700 })
  expect((await fetch(`${paying.url}/webhooks/payments/simulated`, { method: "POST", body, headers })).status).toBe(200)
  expect(await fees()).toEqual([700, 700])
  const back = async (amountRp: number) =>
    (
      await asking(`/operator/accounts/${person.accountId}/refunds`, {
        top_up_id: topUp.id,
        amount_micro: amountRp * RP,
        payout: "by_hand",
        reason: "a test",
        idempotency_key: crypto.randomUUID(),
      })
    ).json
  await back(50_200)
  expect(await fees()).toEqual([500, 500])
  const rest = await back(500)
  expect(await fees()).toEqual([0, 0])
  expect((await asking(`/operator/refunds/${rest.id}/cancel`, { reason: "a slip" })).status).toBe(200)
  expect(await fees()).toEqual([500, 500])
  await reconcile(paying.sql, { busy: true })
})
