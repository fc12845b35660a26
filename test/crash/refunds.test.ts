/** SIGKILL around the payout of a refund: booked first, asked of the provider afterwards, and paid out once. */
import { expect, test } from "bun:test"
import { reconcile } from "../money/reconcile.ts"
import { House, modelSeed } from "./child.ts"

const SERVER_KEY = "SB-Mid-server-of-the-tests"
const PASSWORD = "correct horse battery"
const RP = 1_000_000

interface Made {
  readonly refund_key: string
  readonly amount: number
}

/** Midtrans with one order, which keeps the refunds that it was asked for; `before` and `after` may end who asks. */
function playMidtrans() {
  const made: Made[] = []
  /** Paths in the order in which they were asked, from the refund on. */
  const asked: string[] = []
  const on = { look: async () => {}, made: async () => {} }
  let total = 0
  const statusOf = (order: string) => {
    const back = made.reduce((sum, { amount }) => sum + amount, 0)
    return {
      status_code: "200",
      transaction_id: "513f1f01-c9da-474c-9fc9-d5c64364b709",
      order_id: order,
      gross_amount: `${total}.00`,
      currency: "IDR",
      payment_type: "qris",
      transaction_status: back === 0 ? "settlement" : "partial_refund",
      fraud_status: "accept",
      ...(back > 0 && {
        refund_amount: `${back}.00`,
        refunds: made.map(({ refund_key, amount }, place) => ({
          refund_chargeback_id: place + 1,
          refund_amount: `${amount}.00`,
          refund_key,
        })),
      }),
    }
  }
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { pathname } = new URL(request.url)
      const [, , order = "", act = ""] = pathname.split("/")
      if (order === "charge") {
        const { transaction_details: details } = (await request.json()) as {
          transaction_details: { order_id: string; gross_amount: number }
        }
        total = details.gross_amount
        return Response.json({
          ...statusOf(details.order_id),
          status_code: "201",
          qr_string: "0002",
          transaction_status: "pending",
        })
      }
      asked.push(act)
      if (act === "refund") {
        const body = (await request.json()) as Made
        made.push({ refund_key: body.refund_key, amount: body.amount })
        await on.made()
        return Response.json({ status_code: "200", refund_chargeback_id: made.length, refund_key: body.refund_key })
      }
      await on.look()
      return Response.json(statusOf(order))
    },
  })
  return { server, made, asked, on, statusOf }
}

test.each(["before the provider is asked", "after the provider has paid, and before it says so"])(
  "a process that is killed %s leaves a refund that is paid out once, under its own name",
  async (when) => {
    const midtrans = playMidtrans()
    await using house = await House.build([modelSeed("chat", "chat", "input=10&output=10")], {
      env: {
        OPERATOR_SECOND_FACTOR: "false",
        PAYMENT_PROVIDER: "midtrans",
        MIDTRANS_SERVER_KEY: SERVER_KEY,
        MIDTRANS_BASE_URL: midtrans.server.url.origin,
      },
    })
    let gateway = await house.start()
    const signUp = async () => {
      const body = { email: `p${crypto.randomUUID()}@example.com`, password: PASSWORD }
      const { session_token: token, account } = await send("/auth/sign-up", body)
      return { token: token as string, id: account.id as string }
    }
    const send = async (path: string, body: object, token?: string) => {
      const response = await fetch(gateway.url + path, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify(body),
      })
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
      return await response.json()
    }
    const [operator, customer] = [await signUp(), await signUp()]
    const { id: topUpId, breakdown } = await send("/top-ups", { amount_rp: 50_000 }, customer.token)
    const told = midtrans.statusOf(topUpId)
    const signature_key = new Bun.CryptoHasher("sha512")
      .update(told.order_id + told.status_code + told.gross_amount + SERVER_KEY)
      .digest("hex")
    await fetch(`${gateway.url}/webhooks/payments/midtrans`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...told, signature_key }),
    })
    expect(breakdown.total_micro).toBe(50_000 * RP)
    await gateway.stop()
    await house.books(
      (sql) => sql`update accounts set role = 'operator', operator_role = 'owner' where id = ${operator.id}`,
    )
    gateway = await house.start()
    const killed = Promise.withResolvers<void>()
    const kill = async () => {
      await gateway.kill()
      killed.resolve()
    }
    midtrans.asked.length = 0
    midtrans.on[when.startsWith("before") ? "look" : "made"] = kill
    const terms = {
      top_up_id: topUpId,
      amount_micro: 20_000 * RP,
      payout: "provider",
      reason: "a test",
      idempotency_key: "once",
    }
    const refund = () => send(`/operator/accounts/${customer.id}/refunds`, terms, operator.token)
    // Nobody learns what became of it.
    expect(await refund().catch(() => "no answer")).toBe("no answer")
    await killed.promise
    expect(midtrans.made).toHaveLength(when.startsWith("before") ? 0 : 1)
    Object.assign(midtrans.on, { look: async () => {}, made: async () => {} })
    const [left] = await house.books(async (sql) => {
      // Ten seconds go by.
      await sql`update refunds set next_attempt_at = now()`
      return await sql`select id, status, payout from refunds`
    })
    expect(left).toMatchObject({ status: "sending", payout: "provider" })
    gateway = await house.start()
    // The operator tries again under the same key, while the process takes it up by itself.
    const again = await refund()
    expect(again.id).toBe(left?.["id"])
    let now = again
    for (const until = Date.now() + 30_000; now.status !== "paid_out" && Date.now() < until; await Bun.sleep(200))
      now = await refund()
    expect([now.status, now.reference]).toEqual(["paid_out", "1"])
    expect(await gateway.balanceMicro({ accountId: customer.id, token: customer.token, keyId: "", key: "" })).toBe(
      30_000 * RP,
    )
    await gateway.stop()
    expect(midtrans.made).toEqual([{ refund_key: left?.["id"], amount: 20_000 }])
    expect(midtrans.asked.filter((act) => act === "refund")).toHaveLength(1)
    await house.books(async (sql) => {
      await reconcile(sql)
      const transfers = await sql`
        select amount_micro from transfers where idempotency_key = ${`refund:${left?.["id"]}`} and debit_account = ${customer.id}`
      expect([...transfers]).toEqual([{ amount_micro: 20_000n * BigInt(RP) }])
    })
    await midtrans.server.stop(true)
  },
)
