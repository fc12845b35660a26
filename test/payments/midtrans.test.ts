/** Midtrans as its documentation describes it, played by a server on loopback. */
import { afterAll, beforeAll, beforeEach, describe, expect, spyOn, test } from "bun:test"
import { midtransProvider } from "../../src/payments/midtrans.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"

const SERVER_KEY = "SB-Mid-server-of-the-tests"
const asked: { method: string; path: string; authorization: string | null; body: unknown }[] = []
let answer: (path: string) => Response
let midtrans: ReturnType<typeof Bun.serve>
let world: World

const settled = (orderId: string, fields: object = {}) => ({
  status_code: "200",
  transaction_id: "513f1f01-c9da-474c-9fc9-d5c64364b709",
  order_id: orderId,
  gross_amount: "50000.00",
  currency: "IDR",
  payment_type: "qris",
  transaction_status: "settlement",
  fraud_status: "accept",
  ...fields,
})
const orderOf = (path: string) => path.split("/")[2] ?? ""

beforeAll(async () => {
  midtrans = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const text = await request.text()
      const body = text === "" ? undefined : JSON.parse(text)
      asked.push({ method: request.method, path: pathname, authorization: request.headers.get("authorization"), body })
      if (pathname !== "/v2/charge") return answer(pathname)
      return Response.json({
        status_code: "201",
        status_message: "QRIS transaction is created",
        order_id: body.transaction_details.order_id,
        gross_amount: `${body.transaction_details.gross_amount}.00`,
        currency: "IDR",
        transaction_status: "pending",
        qr_string: `00020101021226620014COM.GO-JEK.WWW-${body.transaction_details.order_id}`,
      })
    },
  })
  world = await openWorld({ provider: midtransProvider({ serverKey: SERVER_KEY, baseUrl: midtrans.url.origin }) })
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await midtrans.stop(true)
})
beforeEach(() => {
  asked.length = 0
  answer = (path) => Response.json(settled(orderOf(path)))
})

async function opened() {
  const person = await world.signUp()
  const { json } = await world.call("POST", "/top-ups", { token: person.token, body: { amount_rp: 50_000 } })
  return { ...person, topUp: json }
}
const balance = async (token: string) => (await world.call("GET", "/account", { token })).json.balance_micro

function notification(orderId: string, fields: Record<string, string> = {}, key = SERVER_KEY) {
  const told = { ...settled(orderId), ...fields }
  const signature = new Bun.CryptoHasher("sha512")
    .update(told.order_id + told.status_code + told.gross_amount + key)
    .digest("hex")
  return { ...told, signature_key: fields["signature_key"] ?? signature }
}
const notify = (body: unknown) => world.call("POST", "/webhooks/payments/midtrans", { body })

/** Answers nothing until it is given up. */
const hangs = (_: string, { signal }: RequestInit) =>
  new Promise<Response>((_, reject) => signal?.addEventListener("abort", () => reject(new Error("timeout"))))

describe("a charge", () => {
  test("asks for a QRIS code of the total that is payable for fifteen minutes", async () => {
    const { topUp } = await opened()
    expect(asked).toEqual([
      {
        method: "POST",
        path: "/v2/charge",
        authorization: `Basic ${btoa(`${SERVER_KEY}:`)}`,
        body: {
          payment_type: "qris",
          transaction_details: { order_id: topUp.id, gross_amount: 50_000 },
          qris: { acquirer: "gopay" },
          custom_expiry: { expiry_duration: 15, unit: "minute" },
        },
      },
    ])
    expect(topUp.qr.payload).toBe(`00020101021226620014COM.GO-JEK.WWW-${topUp.id}`)
  })

  test("over the limit of one QRIS payment is refused, and at the limit is not", async () => {
    const { token } = await world.signUp()
    const { status, json } = await world.call("POST", "/top-ups", { token, body: { amount_rp: 10_000_001 } })
    expect([status, json.code]).toEqual([400, "request.invalid"])
    expect((await world.call("POST", "/top-ups", { token, body: { amount_rp: 10_000_000 } })).status).toBe(201)
  })

  test("that hangs at Midtrans is a failure of the provider after ten seconds", async () => {
    const limit = new AbortController()
    using limits = spyOn(AbortSignal, "timeout").mockReturnValue(limit.signal)
    const provider = midtransProvider({ serverKey: SERVER_KEY, baseUrl: "https://api.example", fetch: hangs })
    const charged = provider.createCharge({ topUpId: "top_x", amountRp: 10_000n, validMinutes: 15 })
    limit.abort()
    expect(await charged).toMatchObject({ code: "dependency.upstream_unavailable" })
    expect(limits.mock.calls).toEqual([[10_000]])
  })

  test("that Midtrans refuses, or that nobody answers, is a failure of the provider", async () => {
    const charge = { topUpId: "top_x", amountRp: 10_000n, validMinutes: 15 }
    const answers = [
      async () => Response.json({ status_code: "406", status_message: "Duplicate order ID" }),
      async () => Response.json({ status_code: "201" }),
      async () => new Response("<html>", { status: 502 }),
      () => Promise.reject(new Error("connection refused")),
    ]
    for (const each of answers) {
      const provider = midtransProvider({ serverKey: SERVER_KEY, baseUrl: "https://api.example", fetch: each })
      expect(await provider.createCharge(charge)).toMatchObject({ code: "dependency.upstream_unavailable" })
    }
  })
})

describe("a notification", () => {
  test("of a settlement that Midtrans confirms is credited once", async () => {
    const { token, topUp } = await opened()
    asked.length = 0
    for (let n = 0; n < 2; n++) expect((await notify(notification(topUp.id))).status).toBe(200)
    expect(asked[0]).toMatchObject({
      method: "GET",
      path: `/v2/${topUp.id}/status`,
      authorization: `Basic ${btoa(`${SERVER_KEY}:`)}`,
    })
    expect(await balance(token)).toBe(50_000_000_000)
    const shown = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(shown.json).toMatchObject({ status: "paid", provider: "midtrans", reference: topUp.id })
    const [row] =
      await world.sql`select idempotency_key from transfers where credit_account = ${topUp.id} or idempotency_key like ${`%${topUp.id}`}`
    expect(row?.idempotency_key).toBe(`topup:midtrans:${topUp.id}`)
  })

  const uncredited: [string, object][] = [
    ["pending", {}],
    ["expire", {}],
    ["cancel", {}],
    ["deny", {}],
    ["refund", {}],
    ["settlement", { status_code: "201" }],
  ]
  test.each(uncredited)("is taken, but not credited, when the status is %s %j", async (state, fields) => {
    const { token, topUp } = await opened()
    answer = (path) => Response.json(settled(orderOf(path), { transaction_status: state, ...fields }))
    expect((await notify(notification(topUp.id))).status).toBe(200)
    expect(await balance(token)).toBe(0)
  })

  const wrong: [string, (id: string) => unknown, number, string][] = [
    ["signed with another key", (id) => notification(id, {}, "another key"), 401, "auth.unauthorized"],
    ["without a signature", (id) => settled(id), 401, "auth.unauthorized"],
    ["signed for another amount", (id) => ({ ...notification(id), gross_amount: "1.00" }), 401, "auth.unauthorized"],
    ["that is no JSON", () => "{", 400, "request.invalid"],
    ["that is no object", () => [], 400, "request.invalid_request"],
    ["of an order that leads elsewhere", () => notification("../../v1/admin"), 404, "resource.not_found"],
    ["of an order that is not ours", () => notification("order-101"), 404, "resource.not_found"],
  ]
  test.each(wrong)("is refused when %s", async (_, body, status, code) => {
    const { token, topUp } = await opened()
    asked.length = 0
    const said = await notify(body(topUp.id))
    expect([said.status, said.json.code]).toEqual([status, code])
    expect(await balance(token)).toBe(0)
    // Nothing but an order's own status is asked for with the operator's key.
    expect(asked.filter(({ path }) => path !== "/v2/order-101/status")).toEqual([])
  })

  const mismatched: [string, object][] = [
    ["another order", { order_id: "top_another" }],
    ["another amount", { gross_amount: "50001.00" }],
    ["another currency", { currency: "USD" }],
    ["an amount with a fraction", { gross_amount: "50000.50" }],
  ]
  test.each(mismatched)("is refused when Midtrans itself names %s", async (_, fields) => {
    const { token, topUp } = await opened()
    answer = (path) => Response.json(settled(orderOf(path), fields))
    const said = await notify(notification(topUp.id))
    expect([said.status, said.json.code]).toEqual([400, "request.invalid"])
    expect(await balance(token)).toBe(0)
    const kept = await world.sql`select kind, provider from payment_problems where top_up_id = ${topUp.id}`
    expect([...kept]).toEqual([{ kind: "mismatch", provider: "midtrans" }])
  })

  test("of a settled payment of another amount than the top-up's is refused", async () => {
    const { token, topUp } = await opened()
    answer = (path) => Response.json(settled(orderOf(path), { gross_amount: "49999.00" }))
    const said = await notify(notification(topUp.id, { gross_amount: "49999.00" }))
    expect([said.status, said.json.code]).toEqual([400, "request.invalid"])
    expect(await balance(token)).toBe(0)
  })

  test("is to be told again when Midtrans cannot be asked", async () => {
    const { token, topUp } = await opened()
    answer = () => new Response("down", { status: 500 })
    const said = await notify(notification(topUp.id))
    expect([said.status, said.json.retryable]).toEqual([502, true])
    expect(await balance(token)).toBe(0)
  })

  test.each([undefined, ""])("is refused when the server key is %j", async (serverKey) => {
    const provider = midtransProvider({ serverKey, baseUrl: midtrans.url.origin })
    const body = Buffer.from(JSON.stringify(notification("top_x", {}, serverKey ?? "undefined")))
    expect(await provider.readNotification(body, new Headers())).toMatchObject({ code: "auth.unauthorized" })
    asked.length = 0
    const outcomes = [
      provider.createCharge({ topUpId: "top_x", amountRp: 10_000n, validMinutes: 15 }),
      provider.readStatus?.("top_x"),
      provider.refund?.(asking),
    ]
    for (const outcome of outcomes) expect(await outcome).toMatchObject({ code: "dependency.upstream_unconfigured" })
    expect(asked).toEqual([])
  })
})

const refunded = (fields: object) => (path: string) => Response.json(settled(orderOf(path), fields))
const entry = (id: number, amount: number, fields: object = {}) => ({
  refund_chargeback_id: id,
  refund_chargeback_uuid: `0ed1b1b9-8529-4a59-ba65-7a3c08ba6cb${id}`,
  refund_amount: `${amount}.00`,
  created_at: "2026-11-22 15:57:18",
  reason: "a reason",
  refund_key: `reference${id}`,
  ...fields,
})
const paid = async () => {
  const person = await opened()
  expect((await notify(notification(person.topUp.id))).status).toBe(200)
  return person
}

const asking = { id: "ref_x", topUpId: "top_x", amountRp: 5_000n, reason: "a reason" }
const provider = () => midtransProvider({ serverKey: SERVER_KEY, baseUrl: midtrans.url.origin })
const down = () => new Response("down", { status: 500 })
/** Refunds that Midtrans has made, by their key. */
const playing = (made: object[], post: () => object) => (path: string) =>
  Response.json(path.endsWith("/refund") ? post() : settled("top_x", { refunds: made }))

describe("money that Midtrans took back", () => {
  test("in part, and then whole, is booked as its parts, however often and in whatever order it is told", async () => {
    const { token, topUp } = await paid()
    const told = async () =>
      expect((await notify(notification(topUp.id, { transaction_status: "refund" }))).status).toBe(200)
    // Whoever wrote the reason is not trusted: a text column takes no NUL.
    const first = entry(1, 20_000, { reason: "a \u0000 reason" })
    answer = refunded({ transaction_status: "partial_refund", refund_amount: "20000.00", refunds: [first] })
    for (let n = 0; n < 2; n++) await told()
    expect(await balance(token)).toBe(30_000_000_000)
    const part = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(part.json).toMatchObject({
      status: "paid",
      refund_status: "partly_refunded",
      refunded_micro: 20_000_000_000,
    })
    answer = refunded({
      transaction_status: "refund",
      refund_amount: "50000.00",
      refunds: [entry(2, 30_000, { refund_chargeback_id: "2" }), entry(1, 20_000)],
    })
    await Promise.all([told(), told()])
    expect(await balance(token)).toBe(0)
    const whole = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(whole.json).toMatchObject({ refund_status: "refunded", refunded_micro: 50_000_000_000 })
    expect(
      whole.json.refunds.map(({ kind, reference }: { kind: string; reference: string }) => [kind, reference]),
    ).toEqual([
      ["provider_refund", "2"],
      ["provider_refund", "1"],
    ])
  })

  test("is booked whatever characters its names have, a NUL too, once for each", async () => {
    const { token, topUp } = await paid()
    const names = ["a\u0000", "a", "\u0000a", "\u0000"]
    const fields = { transaction_status: "partial_refund", refund_amount: "20000.00" }
    answer = refunded({ ...fields, refunds: names.map((id) => entry(1, 5_000, { refund_chargeback_id: id })) })
    for (let n = 0; n < 2; n++)
      expect((await notify(notification(topUp.id, { transaction_status: "partial_refund" }))).status).toBe(200)
    expect(await balance(token)).toBe(30_000_000_000)
  })

  test("is its list, and beside it a rest only where the list does not come to all", async () => {
    const refunds = [entry(1, 20_000), entry(2, 5_000)]
    const listed = [
      { reference: "1", refundId: "reference1", amountRp: 20_000n, reason: "a reason", kind: "provider_refund" },
      { reference: "2", refundId: "reference2", amountRp: 5_000n, reason: "a reason", kind: "provider_refund" },
    ]
    const rest = { reference: "upto-30000", refundId: undefined, amountRp: 5_000n, reason: "", kind: "provider_refund" }
    for (const [all, reversals] of [
      ["25000.00", listed],
      [undefined, listed],
      ["30000.00", [...listed, { ...rest, isRest: true }]],
    ] as const) {
      answer = refunded({ transaction_status: "partial_refund", refund_amount: all, refunds })
      const backRp = all === "30000.00" ? 30_000n : 25_000n
      expect(await provider().readStatus?.("top_x")).toMatchObject({ kind: "reversed", backRp, reversals })
    }
  })

  test("by a chargeback without a list is booked as far as it goes, and shown as disputed and to the operator", async () => {
    const { token, topUp } = await paid()
    answer = refunded({ transaction_status: "partial_chargeback", refund_amount: "10000.00" })
    for (let n = 0; n < 2; n++) await notify(notification(topUp.id))
    expect(await balance(token)).toBe(40_000_000_000)
    answer = refunded({ transaction_status: "chargeback" })
    for (let n = 0; n < 2; n++) await notify(notification(topUp.id))
    expect(await balance(token)).toBe(0)
    const shown = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(shown.json).toMatchObject({ refund_status: "disputed", refunded_micro: 50_000_000_000 })
    const kept = await world.sql`select kind, paid from payment_problems where top_up_id = ${topUp.id} order by paid`
    expect([...kept]).toEqual([
      { kind: "chargeback", paid: "10000 IDR" },
      { kind: "chargeback", paid: "50000 IDR" },
    ])
  })

  const lists: [string, object][] = [
    ["without a sum", { refunds: [entry(1, 20_000)] }],
    ["with the sum of what went back before", { refund_amount: "20000.00", refunds: [entry(1, 20_000)] }],
    ["with its own sum", { refund_amount: "30000.00", refunds: [entry(2, 30_000)] }],
    ["with all of both", { refund_amount: "50000.00", refunds: [entry(1, 20_000), entry(2, 30_000)] }],
    ["without anything", {}],
  ]
  test.each(lists)("by a chargeback of what a refund has left, told %s, is the rest, once", async (_, fields) => {
    const { id, token, topUp } = await paid()
    answer = refunded({ transaction_status: "partial_refund", refund_amount: "20000.00", refunds: [entry(1, 20_000)] })
    await notify(notification(topUp.id))
    expect(await balance(token)).toBe(30_000_000_000)
    answer = refunded({ transaction_status: "chargeback", ...fields })
    await Promise.all([notify(notification(topUp.id)), notify(notification(topUp.id))])
    await notify(notification(topUp.id))
    const { json } = await world.call("GET", "/account", { token })
    expect([json.balance_micro, json.claim_micro]).toEqual([0, 0])
    const shown = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(shown.json).toMatchObject({ refund_status: "disputed", refunded_micro: 50_000_000_000 })
    const amounts = await world.sql`
      select kind, (balance_micro / 1000000)::int as rp from refunds where top_up_id = ${topUp.id} order by created_at`
    expect([...amounts]).toEqual([
      { kind: "provider_refund", rp: 20_000 },
      { kind: "chargeback", rp: 30_000 },
    ])
    // The refund before it is no chargeback that an operator has to see to.
    const kept = await world.sql`select kind, reference from payment_problems where top_up_id = ${topUp.id}`
    expect(kept.filter(({ reference }) => reference === `${topUp.id}:1`)).toEqual([])
    expect(kept.map(({ kind }) => kind)).toContain("chargeback")
    const transfers =
      await world.sql`select coalesce(sum(case when debit_account = ${id} then -amount_micro else amount_micro end), 0)::bigint as sum
      from transfers where ${id} in (debit_account, credit_account)`
    expect(transfers[0]?.sum).toBe(0n)
  })

  test("of two top-ups by chargebacks of one name and sum is told to the operator of each", async () => {
    answer = refunded({ transaction_status: "chargeback" })
    for (const { topUp } of [await opened(), await opened()]) {
      for (let n = 0; n < 2; n++) expect((await notify(notification(topUp.id))).status).toBe(200)
      const kept = await world.sql`select kind, paid from payment_problems where top_up_id = ${topUp.id}`
      expect([...kept]).toEqual([{ kind: "chargeback", paid: "50000 IDR" }])
    }
  })

  test("before its payment was told is credited and taken back", async () => {
    const { token, topUp } = await opened()
    answer = refunded({ transaction_status: "refund", refund_amount: "50000.00", refunds: [entry(1, 50_000)] })
    expect((await notify(notification(topUp.id))).status).toBe(200)
    expect(await balance(token)).toBe(0)
    const shown = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(shown.json).toMatchObject({ status: "paid", refund_status: "refunded" })
  })

  test.each([
    ["an amount that is none", { refund_amount: "much", refunds: [] }],
    ["a part that is none", { refund_amount: "5000.00", refunds: [{ ...entry(1, 1), refund_amount: "-5000.00" }] }],
    ["no amount at all", {}],
  ])("with %s is not booked, and an operator sees it", async (_, fields) => {
    const { token, topUp } = await paid()
    answer = refunded({ transaction_status: "partial_refund", ...fields })
    expect((await notify(notification(topUp.id))).status).toBe(400)
    expect(await balance(token)).toBe(50_000_000_000)
    const kept = await world.sql`select kind from payment_problems where top_up_id = ${topUp.id}`
    expect([...kept]).toEqual([{ kind: "mismatch" }])
  })

  describe("because it was asked to", () => {
    test("is asked for under the refund's id, in whole rupiah", async () => {
      answer = playing([], () => ({ status_code: "200", refund_chargeback_id: 7, refund_key: "ref_x" }))
      expect(await provider().refund?.(asking)).toEqual({ kind: "paid-out", reference: "7" })
      expect(asked.at(-1)).toMatchObject({
        method: "POST",
        path: "/v2/top_x/refund",
        body: { refund_key: "ref_x", amount: 5_000, reason: "a reason" },
      })
      // Taken, and to be named later.
      answer = playing([], () => ({ status_code: "201" }))
      expect(await provider().refund?.(asking)).toEqual({ kind: "paid-out", reference: "ref_x" })
    })

    test("is not asked for again where an earlier attempt has arrived", async () => {
      answer = playing([entry(9, 5_000, { refund_key: "ref_x" })], () => ({ status_code: "200" }))
      expect(await provider().refund?.(asking)).toEqual({ kind: "paid-out", reference: "9" })
      expect(asked.map(({ method }) => method)).toEqual(["GET"])
    })

    test("is refused only where Midtrans says so, and has not made it meanwhile", async () => {
      const made: object[] = []
      answer = playing(made, () => ({ status_code: "412", status_message: "Merchant cannot modify the status" }))
      expect(await provider().refund?.(asking)).toEqual({
        kind: "refused",
        why: "412 Merchant cannot modify the status",
      })
      answer = playing(made, () => (made.push(entry(3, 5_000, { refund_key: "ref_x" })), { status_code: "412" }))
      expect(await provider().refund?.(asking)).toEqual({ kind: "paid-out", reference: "3" })
    })

    test.each(["500", "503", "408", "429", "what"])("is not known after a %s", async (code) => {
      answer = playing([], () => ({ status_code: code }))
      expect(await provider().refund?.(asking)).toMatchObject({ code: "dependency.upstream_unavailable" })
    })

    test("is not asked for while what was made before is not known, and not known after no answer", async () => {
      const unavailable = { code: "dependency.upstream_unavailable" }
      answer = down
      expect(await provider().refund?.(asking)).toMatchObject(unavailable)
      expect(asked.map(({ method }) => method)).toEqual(["GET"])
      const refused = playing([], () => ({ status_code: "412" }))
      answer = (path) => (path.endsWith("/refund") ? down() : refused(path))
      expect(await provider().refund?.(asking)).toMatchObject(unavailable)
      // Refused, and then nobody says whether an earlier attempt was made.
      let looks = 0
      answer = (path) => (path.endsWith("/refund") || ++looks === 1 ? refused(path) : down())
      expect(await provider().refund?.(asking)).toMatchObject(unavailable)
    })
  })
})

const check = (token: string, id: string) => world.call("POST", `/top-ups/${id}/check`, { token })
const pending = (path: string) =>
  Response.json(settled(orderOf(path), { status_code: "201", transaction_status: "pending" }))

describe("asking", () => {
  test("credits what Midtrans has as settled, though nobody has notified", async () => {
    const { token, topUp } = await opened()
    const { status, json } = await check(token, topUp.id)
    expect([status, json.status, json.reference]).toEqual([200, "paid", topUp.id])
    expect((await notify(notification(topUp.id))).status).toBe(200)
    expect(await balance(token)).toBe(50_000_000_000)
  })

  const unpaid: [string, (path: string) => Response][] = [
    ["that is pending", pending],
    [
      "that has expired",
      (path) => Response.json({ ...settled(orderOf(path)), status_code: "407", transaction_status: "expire" }),
    ],
    [
      "that Midtrans does not know",
      () => Response.json({ status_code: "404", status_message: "Transaction doesn't exist." }, { status: 404 }),
    ],
  ]
  test.each(unpaid)("credits nothing for one %s", async (_, said) => {
    const { token, topUp } = await opened()
    answer = said
    const { status, json } = await check(token, topUp.id)
    expect([status, json.status]).toEqual([200, "pending"])
    expect(await balance(token)).toBe(0)
  })

  test("is not repeated within two seconds, however often it is wished", async () => {
    const { token, topUp } = await opened()
    answer = pending
    asked.length = 0
    await check(token, topUp.id)
    // The asking is put off by more than a slow machine needs for what follows.
    await world.sql`update top_ups set checked_at = now() + interval '5 minutes' where id = ${topUp.id}`
    await Promise.all(Array.from({ length: 10 }, () => check(token, topUp.id)))
    expect(asked).toHaveLength(1)
    await world.sql`update top_ups set checked_at = now() - interval '2001 milliseconds' where id = ${topUp.id}`
    await check(token, topUp.id)
    expect(asked).toHaveLength(2)
  })

  test("tells when Midtrans does not answer, and when it has another amount", async () => {
    const { token, topUp } = await opened()
    answer = () => new Response("down", { status: 500 })
    expect((await check(token, topUp.id)).json.code).toBe("dependency.upstream_unavailable")
    await world.sql`update top_ups set checked_at = null where id = ${topUp.id}`
    answer = (path) => Response.json(settled(orderOf(path), { gross_amount: "49999.00" }))
    expect((await check(token, topUp.id)).json.code).toBe("request.invalid")
    expect(await balance(token)).toBe(0)
    const kept = await world.sql`select kind, paid from payment_problems where top_up_id = ${topUp.id}`
    expect([...kept]).toEqual([{ kind: "wrong_amount", paid: "49999 IDR" }])
  })
})

/** As if so much time had gone by since it was opened. */
const age = (id: string, interval: string) => world.sql`
  update top_ups set created_at = now() - ${interval}::interval, next_check_at = now(),
    expires_at = now() - ${interval}::interval + interval '15 minutes' where id = ${id}`
const nextIn = async (id: string) => {
  const [row] = await world.sql`
    select round(extract(epoch from next_check_at - checked_at))::int as s from top_ups where id = ${id}`
  return row?.s
}
const alone = async () => {
  await world.sql`update top_ups set next_check_at = null`
  return await opened()
}

test.each(["../../v1/admin", "", "top_x?x"])("an order %j leads nowhere", async (topUpId) => {
  const nowhere = { code: "resource.not_found" }
  expect(await provider().readStatus?.(topUpId)).toMatchObject(nowhere)
  expect(await provider().refund?.({ ...asking, topUpId })).toMatchObject(nowhere)
  expect(asked).toEqual([])
})

describe("polling", () => {
  test("asks nothing about a top-up that was just opened", async () => {
    await alone()
    asked.length = 0
    await world.topUps.poll()
    expect(asked).toEqual([])
  })

  test("credits a payment that was never notified, also long after its code expired", async () => {
    for (const interval of ["1 minute", "20 hours"]) {
      const { token, topUp } = await alone()
      await age(topUp.id, interval)
      await world.topUps.poll()
      expect(await balance(token)).toBe(50_000_000_000)
      await age(topUp.id, interval)
      asked.length = 0
      await world.topUps.poll()
      expect(asked).toEqual([])
    }
  })

  const pauses: [string, number | null][] = [
    ["10 seconds", 10],
    ["10 minutes", 300],
    ["12 hours", 3600],
    ["25 hours", null],
  ]
  test.each(pauses)("of one that is %s old is taken up again %p seconds later", async (interval, seconds) => {
    const { topUp } = await alone()
    answer = () => new Response("down", { status: 500 })
    await age(topUp.id, interval)
    await world.topUps.poll()
    expect(await nextIn(topUp.id)).toBe(seconds)
  })

  test("goes on where the database's clock was ahead by a day and is set back, and so does who asks", async () => {
    const { token, topUp } = await alone()
    answer = (path) => Response.json(settled(orderOf(path), { status_code: "201", transaction_status: "pending" }))
    const ahead = () => world.sql`
      update top_ups set checked_at = now() + interval '1 day', next_check_at = now() + interval '1 day 10 seconds' where id = ${topUp.id}`
    await ahead()
    asked.length = 0
    await world.topUps.poll()
    expect(asked).toHaveLength(1)
    expect(await nextIn(topUp.id)).toBe(10)
    await ahead()
    answer = (path) => Response.json(settled(orderOf(path)))
    expect((await world.call("POST", `/top-ups/${topUp.id}/check`, { token })).json.status).toBe("paid")
  })

  test("takes accounts in turn: one that has opened many does not keep another waiting", async () => {
    const { token } = await alone()
    for (let n = 0; n < 19; n++) await world.call("POST", "/top-ups", { token, body: { amount_rp: 50_000 } })
    const other = await opened()
    await world.sql`
      update top_ups set next_check_at = now() - case when id = ${other.topUp.id} then interval '1 second' else interval '1 hour' end
      where status = 'pending' and next_check_at is not null`
    asked.length = 0
    await world.topUps.poll()
    expect(asked).toHaveLength(10)
    expect(await balance(other.token)).toBe(50_000_000_000)
  })

  test("by several processes at once asks once, and few at a time", async () => {
    await alone()
    answer = (path) => Response.json(settled(orderOf(path), { status_code: "201", transaction_status: "pending" }))
    for (let n = 0; n < 14; n++) await opened()
    await world.sql`update top_ups set next_check_at = now() where status = 'pending' and next_check_at is not null`
    asked.length = 0
    await world.topUps.poll()
    expect(asked).toHaveLength(10)
    await Promise.all([world.topUps.poll(), world.topUps.poll(), world.topUps.poll()])
    expect(asked).toHaveLength(15)
    expect(new Set(asked.map(({ path }) => path)).size).toBe(15)
  })
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
