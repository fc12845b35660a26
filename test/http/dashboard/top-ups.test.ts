import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { micro } from "../../../actors/money/micro.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { noFees } from "../../../src/payments/top-ups.ts"
import { simulatedProvider } from "../../../src/payments/provider.ts"
import { notification, openWorld, SECRET, type World } from "./world.ts"

let world: World
beforeAll(async () => void (world = await openWorld()))
afterAll(() => world[Symbol.asyncDispose]())

const RP = 1_000_000
const WEBHOOK = "/webhooks/payments/simulated"

async function opened(of: World = world, amount = 50_000) {
  const person = await of.signUp()
  const { json } = await of.call("POST", "/top-ups", { token: person.token, body: { amount_rp: amount } })
  return { ...person, topUp: json }
}
const balance = async (token: string, of: World = world) =>
  (await of.call("GET", "/account", { token })).json.balance_micro
const status = async (token: string, id: string) => (await world.call("GET", `/top-ups/${id}`, { token })).json.status
const paid = (topUpId: string, amountRp: number) =>
  notification({ top_up_id: topUpId, status: "paid", amount_rp: amountRp })

describe("a new top-up", () => {
  test("shows its breakdown and a QR code for fifteen minutes", async () => {
    const { topUp } = await opened()
    expect(topUp).toEqual({
      id: expect.stringMatching(/^top_[A-Za-z0-9_-]{21}$/),
      status: "pending",
      provider: "simulated",
      reference: null,
      breakdown: {
        balance_purchased_micro: 50_000 * RP,
        service_fee_micro: 0,
        payment_fee_micro: 0,
        network_fee_micro: 0,
        total_micro: 50_000 * RP,
      },
      qr: { payload: expect.stringContaining(topUp.id), svg: expect.stringMatching(/^<svg [^]*<\/svg>\s*$/) },
      created_at: expect.any(String),
      expires_at: expect.any(String),
      expires_in_s: expect.any(Number),
      pay_url: `/simulated-pay/${topUp.id}`,
      paid_at: null,
      refunded_micro: 0,
      refund_status: null,
      refunds: [],
    })
    expect(topUp.expires_in_s).toBeWithin(1, 15 * 60 + 1)
    expect(Date.parse(topUp.expires_at) - Date.parse(topUp.created_at)).toBe(15 * 60_000)
  })

  test("is refused while a hundred others wait for their payment, and somebody else's is not", async () => {
    const { id, token } = await opened()
    await world.sql`
      insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
        network_fee_micro, qr_payload, expires_at)
      select 'top_' || ${id} || n, ${id}, 'simulated', 1, 0, 0, 0, '', now() + interval '1 minute'
      from generate_series(1, 99) n`
    const open = () => world.call("POST", "/top-ups", { token, body: { amount_rp: 10_000 } })
    const { status, json, headers } = await open()
    expect([status, json.code]).toEqual([429, "gateway.capacity"])
    // By then those that are open now have expired.
    expect(headers.get("retry-after")).toBe("900")
    await opened()
    await world.sql`update top_ups set expires_at = now() where id = ${`top_${id}1`}`
    expect((await open()).status).toBe(201)
    expect((await open()).status).toBe(429)
    await world.sql`update top_ups set status = 'expired' where id = ${`top_${id}2`}`
    expect((await open()).status).toBe(201)
  })

  const amounts: [unknown, number][] = [
    [10_000, 201],
    [100_000_000, 201],
    [9_999, 400],
    [100_000_001, 400],
    [10_000.5, 400],
    ["10000", 400],
    [null, 400],
    [-10_000, 400],
    [1e300, 400],
    [undefined, 400],
  ]
  test.each(amounts)("of %j answers %d", async (amount, expected) => {
    const { token } = await world.signUp()
    const answer = await world.call("POST", "/top-ups", { token, body: { amount_rp: amount } })
    expect(answer.status).toBe(expected)
    if (expected === 400) expect(answer.json.code).toBe("request.invalid")
  })

  test("adds fees, rounded up to whole rupiah, and credits none of them", async () => {
    const fees = {
      service: { basisPoints: 1, fixedMicro: micro(1n) },
      payment: { basisPoints: 70, fixedMicro: micro(0n) },
    }
    await using costly = await openWorld({ fees })
    const { id, token, topUp } = await opened(costly, 10_001)
    expect(topUp.breakdown).toEqual({
      balance_purchased_micro: 10_001 * RP,
      service_fee_micro: 2 * RP,
      payment_fee_micro: 71 * RP,
      network_fee_micro: 0,
      total_micro: 10_074 * RP,
    })
    expect((await costly.call("POST", WEBHOOK, paid(topUp.id, 10_001))).status).toBe(400)
    expect((await costly.call("POST", WEBHOOK, paid(topUp.id, 10_074))).status).toBe(200)
    const shown = () => costly.call("GET", `/top-ups/${topUp.id}`, { token })
    const { json: first } = await shown()
    // Told again it is taken as well, and stays what it was.
    expect((await costly.call("POST", WEBHOOK, paid(topUp.id, 10_074))).status).toBe(200)
    expect((await shown()).json).toEqual({ ...first, expires_in_s: expect.any(Number) })
    expect(await balance(token, costly)).toBe(10_001 * RP)
    const rows =
      await costly.sql`select debit_account, credit_account, amount_micro from transfers order by amount_micro`
    expect([...rows]).toEqual([
      { debit_account: "house:cash_clearing", credit_account: "house:revenue", amount_micro: BigInt(2 * RP) },
      { debit_account: "house:cash_clearing", credit_account: id, amount_micro: BigInt(10_001 * RP) },
    ])
  })

  test("that the provider makes no code for is told as its failure, and expires", async () => {
    const failing = {
      ...simulatedProvider({ secret: SECRET }),
      createCharge: async () => new Failure("dependency.upstream_unavailable"),
    }
    await using broken = await openWorld({ provider: failing })
    const { token } = await broken.signUp()
    const answer = await broken.call("POST", "/top-ups", { token, body: { amount_rp: 10_000 } })
    expect([answer.status, answer.json.code]).toEqual([502, "dependency.upstream_unavailable"])
    const { data } = (await broken.call("GET", "/top-ups", { token })).json
    expect(data.map((each: { status: string }) => each.status)).toEqual(["expired"])
    expect((await broken.call("GET", `/top-ups/${data[0].id}`, { token })).json.qr).toBeNull()
  })

  test("that the provider makes no code for is listed as the last attempt, and gone with the next", async () => {
    let isAway = false
    const simulated = simulatedProvider({ secret: SECRET })
    const failing = {
      ...simulated,
      createCharge: async (charge: Parameters<typeof simulated.createCharge>[0]) =>
        isAway ? new Failure("dependency.upstream_unavailable") : await simulated.createCharge(charge),
    }
    await using broken = await openWorld({ provider: failing })
    const { token, id } = await broken.signUp()
    const open = async () => (await broken.call("POST", "/top-ups", { token, body: { amount_rp: 10_000 } })).status
    const listed = async () => {
      const found: string[] = []
      for (let cursor: string | null | undefined; cursor !== null;) {
        const page = cursor === undefined ? "?limit=1" : `?limit=1&cursor=${cursor}`
        const { json } = await broken.call("GET", `/top-ups${page}`, { token })
        found.push(...json.data.map(({ status }: { status: string }) => status))
        cursor = json.next_cursor
      }
      return found
    }
    expect(await open()).toBe(201)
    isAway = true
    for (let n = 0; n < 10; n++) expect(await open()).toBe(502)
    expect(await listed()).toEqual(["expired", "pending"])
    isAway = false
    expect(await open()).toBe(201)
    expect(await listed()).toEqual(["pending", "pending"])
    // One that expired with its code stays: it may have been paid a moment too late.
    await broken.sql`update top_ups set expires_at = now() where account_id = ${id}`
    expect(await listed()).toEqual(["expired", "expired"])
    const [kept] = await broken.sql`select count(*)::int as all from top_ups where account_id = ${id}`
    expect(kept?.all).toBe(12)
  })
})

describe("a quote", () => {
  const fees = {
    service: { basisPoints: 50, fixedMicro: micro(1_000_000_000n) },
    payment: { basisPoints: 70, fixedMicro: micro(500_000_000n) },
  }

  test("is what the top-up will cost, fixed fees included, and makes none", async () => {
    await using costly = await openWorld({ fees })
    const { token } = await costly.signUp()
    const quote = await costly.call("GET", "/top-ups/quote?amount_rp=10000", { token })
    const breakdown = {
      balance_purchased_micro: 10_000 * RP,
      service_fee_micro: 1_050 * RP,
      payment_fee_micro: 570 * RP,
      network_fee_micro: 0,
      total_micro: 11_620 * RP,
    }
    expect([quote.status, quote.json]).toEqual([200, { amount_rp: 10_000, breakdown }])
    expect((await costly.call("GET", "/top-ups", { token })).json.data).toEqual([])
    const made = await costly.call("POST", "/top-ups", { token, body: { amount_rp: 10_000 } })
    expect(made.json.breakdown).toEqual(breakdown)
  })

  test.each(["", "?amount_rp=", "?amount_rp=9999", "?amount_rp=100000001", "?amount_rp=10000.5", "?amount_rp=1e5"])(
    "of %j is refused",
    async (query) => {
      const { token } = await world.signUp()
      const answer = await world.call("GET", `/top-ups/quote${query}`, { token })
      expect([answer.status, answer.json.code]).toEqual([400, "request.invalid"])
    },
  )

  test("is refused when the provider takes no payment that large, its fees included", async () => {
    const limited = { ...simulatedProvider({ secret: SECRET }), largestRp: 10_070n }
    await using small = await openWorld({ provider: limited, fees: { ...noFees, payment: fees.payment } })
    const { token } = await small.signUp()
    const quote = await small.call("GET", "/top-ups/quote?amount_rp=10000", { token })
    expect([quote.status, quote.json.code]).toEqual([400, "request.invalid"])
    expect(quote.json.error).toContain("at most Rp 10070")
    const made = await small.call("POST", "/top-ups", { token, body: { amount_rp: 10_000 } })
    expect([made.status, made.json.code]).toEqual([400, "request.invalid"])
    expect((await small.call("GET", "/top-ups", { token })).json.data).toEqual([])
  })

  test("needs a session", async () => {
    expect((await world.call("GET", "/top-ups/quote?amount_rp=10000")).status).toBe(401)
  })
})

describe("asking whether it was paid", () => {
  test("shows the top-up as it is where the provider cannot be asked", async () => {
    const { token, topUp } = await opened()
    const answer = await world.call("POST", `/top-ups/${topUp.id}/check`, { token })
    expect([answer.status, answer.json]).toEqual([200, topUp])
  })

  test("of a foreign top-up is as of an unknown one", async () => {
    const { topUp } = await opened()
    const { token } = await world.signUp()
    for (const id of [topUp.id, "top_unknown", "%00"]) {
      const answer = await world.call("POST", `/top-ups/${id}/check`, { token })
      expect([answer.status, answer.json.code]).toEqual([404, "resource.not_found"])
    }
  })
})

const pay = (method: "GET" | "POST", id: string, of: World = world) => of.call(method, `/simulated-pay/${id}`)

describe("the page of a simulated payment", () => {
  test("has a button that pays, once", async () => {
    const { id, token, topUp } = await opened()
    const shown = await pay("GET", topUp.id)
    expect([shown.status, shown.text.includes("<button>Bayar"), shown.text.includes("50.000")]).toEqual([
      200,
      true,
      true,
    ])
    expect(await balance(token)).toBe(0)
    for (let n = 0; n < 2; n++) {
      const paid = await pay("POST", topUp.id)
      expect([paid.status, paid.text.includes("<button>Bayar")]).toEqual([200, false])
    }
    expect(await balance(token)).toBe(50_000 * RP)
    expect(await world.sql`select from transfers where credit_account = ${id}`).toHaveLength(1)
    const { json } = await world.call("GET", `/top-ups/${topUp.id}`, { token })
    expect(json).toMatchObject({ status: "paid", reference: topUp.id, paid_at: expect.any(String) })
  })

  test("takes a half back, and the rest by a chargeback, which after that finds nothing more", async () => {
    const { token, topUp } = await opened()
    expect((await pay("POST", `${topUp.id}?play=chargeback`)).status).toBe(200)
    expect(await balance(token)).toBe(0)
    await pay("POST", topUp.id)
    expect(await balance(token)).toBe(0)
    const other = await opened()
    await pay("POST", other.topUp.id)
    expect((await pay("POST", `${other.topUp.id}?play=refund`)).status).toBe(200)
    expect(await balance(other.token)).toBe(25_000 * RP)
    for (let n = 0; n < 2; n++) await pay("POST", `${other.topUp.id}?play=chargeback`)
    const { json } = await world.call("GET", `/top-ups/${other.topUp.id}`, { token: other.token })
    expect(json).toMatchObject({ refund_status: "disputed", refunded_micro: 50_000 * RP })
    expect(await balance(other.token)).toBe(0)
  })

  test("knows no top-up that is none of the provider's", async () => {
    const { topUp } = await opened()
    await world.sql`update top_ups set provider = 'midtrans' where id = ${topUp.id}`
    for (const id of [topUp.id, "top_unknown", "%00"]) {
      expect((await pay("GET", id)).status).toBe(404)
      expect((await pay("POST", id)).status).toBe(404)
    }
  })

  test.each([
    ["without its secret", { secret: undefined }],
    ["with an empty secret", { secret: "" }],
    ["beside another provider", { provider: { ...simulatedProvider({ secret: SECRET }), id: "another" } }],
  ])("is not there %s", async (_, options) => {
    await using closed = await openWorld(options)
    const { token, topUp } = await opened(closed)
    const answer = await pay("POST", topUp.id, closed)
    expect([answer.status, answer.json.code]).toEqual([404, "route.not_found"])
    expect(await balance(token, closed)).toBe(0)
  })
})

describe("the list", () => {
  test("is the account's own, the newest first", async () => {
    const { token, topUp } = await opened()
    await opened()
    const second = (await world.call("POST", "/top-ups", { token, body: { amount_rp: 20_000 } })).json
    const { json } = await world.call("GET", "/top-ups", { token })
    expect(json.data.map(({ id }: { id: string }) => id)).toEqual([second.id, topUp.id])
  })

  test("is read to its first one, a page at a time, and not by a foreign place", async () => {
    const person = await world.signUp()
    await world.sql`
      insert into top_ups (id, account_id, provider, balance_purchased_micro, service_fee_micro, payment_fee_micro,
        network_fee_micro, qr_payload, expires_at, created_at)
      select 'top_old_' || n || ${person.id.slice(4)}, ${person.id}, 'simulated', 10000000000, 0, 0, 0, 'x', now(), now() - interval '1 day'
      from generate_series(101, 250) n`
    const page = async (query: string) =>
      (await world.call("GET", `/top-ups${query}`, { token: person.token })).json as {
        data: { id: string }[]
        next_cursor: string | null
      }
    const first = await page("")
    const second = await page(`?cursor=${first.next_cursor}`)
    expect([first.data.length, second.data.length, second.next_cursor]).toEqual([100, 50, null])
    expect(new Set([...first.data, ...second.data].map(({ id }) => id)).size).toBe(150)
    expect((await page("?limit=1")).data).toHaveLength(1)
    const { token } = await opened()
    const foreign = await world.call("GET", `/top-ups?cursor=${first.next_cursor}`, { token })
    expect(foreign.json.data.map(({ id }: { id: string }) => id)).not.toContain(second.data[0]?.id)
    const wrong = await world.call("GET", "/top-ups?cursor=x", { token })
    expect([wrong.status, wrong.json.code]).toEqual([400, "request.invalid"])
  })

  test("shows a foreign top-up no more than an unknown one", async () => {
    const { topUp } = await opened()
    const { token } = await world.signUp()
    for (const id of [topUp.id, "top_unknown", "%00"]) {
      const answer = await world.call("GET", `/top-ups/${id}`, { token })
      expect([answer.status, answer.json.code]).toEqual([404, "resource.not_found"])
    }
  })
})

describe("a payment", () => {
  test("is credited in full, booked twice and told", async () => {
    const { id, token, topUp } = await opened()
    world.credited.length = 0
    const answer = await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))
    expect([answer.status, answer.json]).toEqual([200, { received: true }])
    expect(await balance(token)).toBe(50_000 * RP)
    expect(await status(token, topUp.id)).toBe("paid")
    expect(world.credited).toEqual([id])
    const transfers = await world.sql`select * from transfers where credit_account = ${id}`
    expect(transfers).toMatchObject([
      {
        idempotency_key: `topup:simulated:${topUp.id}`,
        debit_account: "house:cash_clearing",
        amount_micro: BigInt(50_000 * RP),
      },
    ])
  })

  test("told twenty times at once is credited once", async () => {
    const { id, token, topUp } = await opened()
    const waiting = (await world.call("POST", "/top-ups", { token, body: { amount_rp: 20_000 } })).json
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => world.call("POST", WEBHOOK, paid(topUp.id, 50_000))),
    )
    expect(answers.map((each) => each.status)).toEqual(Array.from({ length: 20 }, () => 200))
    expect(await balance(token)).toBe(50_000 * RP)
    const shown = async () => (await world.call("GET", `/top-ups/${topUp.id}`, { token })).json
    const first = await shown()
    expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(200)
    expect((await shown()).paid_at).toBe(first.paid_at)
    expect(await balance(token)).toBe(50_000 * RP)
    expect(await status(token, waiting.id)).toBe("pending")
    expect(await world.sql`select from transfers where credit_account = ${id}`).toHaveLength(1)
  })

  test("of two top-ups at once is credited twice", async () => {
    const { token, topUp } = await opened()
    const second = (await world.call("POST", "/top-ups", { token, body: { amount_rp: 20_000 } })).json
    await Promise.all([
      world.call("POST", WEBHOOK, paid(topUp.id, 50_000)),
      world.call("POST", WEBHOOK, paid(second.id, 20_000)),
    ])
    expect(await balance(token)).toBe(70_000 * RP)
  })

  test("that comes late is credited all the same", async () => {
    const { token, topUp } = await opened()
    await world.sql`update top_ups set expires_at = now() - interval '1 day' where id = ${topUp.id}`
    expect(await status(token, topUp.id)).toBe("expired")
    expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(200)
    expect([await status(token, topUp.id), await balance(token)]).toEqual(["paid", 50_000 * RP])
  })

  test("meets a leased balance without touching the lease", async () => {
    const { id, token, topUp } = await opened()
    await world.sql`update balances set posted_micro = 9, leased_micro = 9 where account_id = ${id}`
    expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(200)
    expect(await balance(token)).toBe(50_000 * RP + 9)
  })
})

const problems = (reference: string) =>
  world.sql`select provider, kind, top_up_id, paid, resolved_at from payment_problems where reference = ${reference}`

describe("what cannot be credited is kept for the operator", () => {
  test("once, a wrong amount", async () => {
    const { topUp } = await opened()
    for (let n = 0; n < 3; n++) expect((await world.call("POST", WEBHOOK, paid(topUp.id, 49_999))).status).toBe(400)
    expect(await problems(topUp.id)).toMatchObject([
      { provider: "simulated", kind: "wrong_amount", top_up_id: topUp.id, paid: "49999 IDR", resolved_at: null },
    ])
  })

  test("a payment of an unknown order, or of another provider's", async () => {
    const unknown = `top_${crypto.randomUUID()}`
    expect((await world.call("POST", WEBHOOK, paid(unknown, 50_000))).status).toBe(404)
    expect(await problems(unknown)).toMatchObject([{ kind: "unknown_order", top_up_id: null, paid: "50000 IDR" }])
    const { topUp } = await opened()
    await world.sql`update top_ups set provider = 'midtrans' where id = ${topUp.id}`
    expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(404)
    expect(await problems(topUp.id)).toMatchObject([{ kind: "unknown_order", top_up_id: null }])
  })

  test("and what was credited to a closed account", async () => {
    const { id, topUp } = await opened()
    await world.sql`update accounts set deleted_at = now() where id = ${id}`
    for (let n = 0; n < 3; n++) expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(200)
    expect(await problems(topUp.id)).toMatchObject([
      { provider: "simulated", kind: "closed_account", top_up_id: topUp.id, paid: "50000 IDR", resolved_at: null },
    ])
    const [row] = await world.sql`select posted_micro from balances where account_id = ${id}`
    expect(row?.posted_micro).toBe(BigInt(50_000 * RP))
  })

  test("but not what nobody has proved, nor what was credited", async () => {
    const { topUp } = await opened()
    const forged = notification(told(topUp.id, { amount_rp: 1 }), "another")
    expect((await world.call("POST", WEBHOOK, forged)).status).toBe(401)
    expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(200)
    expect(await problems(topUp.id)).toHaveLength(0)
  })
})

type Sent = { body: string; headers: Record<string, string> }
const told = (topUpId: string, fields: object = {}) => ({
  top_up_id: topUpId,
  status: "paid",
  amount_rp: 50_000,
  ...fields,
})
const signed = (text: string): Sent => ({
  body: text,
  headers: { "X-Signature": new Bun.CryptoHasher("sha256", SECRET).update(text).digest("hex") },
})
const upper = (sent: Sent) => ({ ...sent, headers: { "X-Signature": sent.headers["X-Signature"]!.toUpperCase() } })

describe("a notification is refused", () => {
  const cases: [string, (id: string) => Sent, number, string][] = [
    ["without a signature", (id) => ({ ...notification(told(id)), headers: {} }), 401, "auth.unauthorized"],
    [
      "with an empty signature",
      (id) => ({ ...notification(told(id)), headers: { "X-Signature": "" } }),
      401,
      "auth.unauthorized",
    ],
    ["signed with another secret", (id) => notification(told(id), "another"), 401, "auth.unauthorized"],
    ["with the signature in capitals", (id) => upper(notification(told(id))), 401, "auth.unauthorized"],
    [
      "changed after it was signed",
      (id) => ({ ...notification(told(id)), body: JSON.stringify(told(id, { amount_rp: 1 })) }),
      401,
      "auth.unauthorized",
    ],
    ["that is no JSON", () => signed("{"), 400, "request.invalid"],
    ["that is no object", () => signed("[]"), 400, "request.invalid_request"],
    ["of another status", (id) => notification(told(id, { status: "pending" })), 400, "request.invalid"],
    ["of one rupiah less", (id) => notification(told(id, { amount_rp: 49_999 })), 400, "request.invalid"],
    ["of one rupiah more", (id) => notification(told(id, { amount_rp: 50_001 })), 400, "request.invalid"],
    ["of an amount as text", (id) => notification(told(id, { amount_rp: "50000" })), 400, "request.invalid"],
    ["of a fraction", (id) => notification(told(id, { amount_rp: 50_000.5 })), 400, "request.invalid"],
    ["without an amount", (id) => notification(told(id, { amount_rp: undefined })), 400, "request.invalid"],
    ["of an unknown top-up", () => notification(told("top_unknown")), 404, "resource.not_found"],
    ["of a NUL for a top-up", () => notification(told("top_\u0000")), 404, "resource.not_found"],
    ["that is too long", (id) => notification(told(id, { filler: "x".repeat(70_000) })), 413, "request.too_large"],
  ]
  test.each(cases)("%s", async (_, sent, code, name) => {
    const { token, topUp } = await opened()
    const answer = await world.call("POST", WEBHOOK, sent(topUp.id))
    expect([answer.status, answer.json.code]).toEqual([code, name])
    expect([await balance(token), await status(token, topUp.id)]).toEqual([0, "pending"])
  })

  test.each([undefined, ""])("whatever it says, when the secret is %j", async (secret) => {
    await using closed = await openWorld({ secret })
    const { token, topUp } = await opened(closed)
    for (const key of ["", SECRET]) {
      const text = JSON.stringify(told(topUp.id))
      const signature = key === "" ? "" : new Bun.CryptoHasher("sha256", key).update(text).digest("hex")
      const answer = await closed.call("POST", WEBHOOK, { body: text, headers: { "X-Signature": signature } })
      expect([answer.status, answer.json.code]).toEqual([401, "auth.unauthorized"])
    }
    expect(await balance(token, closed)).toBe(0)
  })

  test("of a provider that there is not", async () => {
    const answer = await world.call("POST", "/webhooks/payments/nobody", { body: {} })
    expect([answer.status, answer.json.code]).toEqual([404, "resource.not_found"])
  })

  test("of another provider's top-up", async () => {
    const { token, topUp } = await opened()
    await world.sql`update top_ups set provider = 'midtrans' where id = ${topUp.id}`
    expect((await world.call("POST", WEBHOOK, paid(topUp.id, 50_000))).status).toBe(404)
    expect(await balance(token)).toBe(0)
  })
})

test("nothing here was answered by a bug", () => expect(world.bugs).toEqual([]))
