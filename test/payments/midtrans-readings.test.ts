/** What Midtrans says seldom: lists and amounts that are not whole, and reasons that are none or long. */
import { expect, test } from "bun:test"
import { midtransProvider } from "../../src/payments/midtrans.ts"

const order = (fields: object) => ({
  status_code: "200",
  order_id: "top_x",
  gross_amount: "50000.00",
  currency: "IDR",
  transaction_status: "settlement",
  ...fields,
})
const part = (id: number, amount: number, fields: object = {}) => ({
  refund_chargeback_id: id,
  refund_amount: `${amount}.00`,
  ...fields,
})
/** Answers of Midtrans, one for each question. */
const answering = (...answers: object[]) => {
  const sent: unknown[] = []
  const provider = midtransProvider({
    serverKey: "a key",
    baseUrl: "https://api.example",
    fetch: async (_, { body }) => {
      sent.push(typeof body === "string" ? JSON.parse(body) : undefined)
      return Response.json(answers.shift())
    },
  })
  return { provider, sent }
}
const read = (fields: object) => answering(order(fields)).provider.readStatus?.("top_x")

test("a refund is what is listed, and only of a whole chargeback is nothing left, whatever is told beside it", async () => {
  const refunds = [part(1, 20_000)]
  expect(await read({ transaction_status: "refund", refunds })).toMatchObject({
    kind: "reversed",
    backRp: 20_000n,
    reversals: [{ reference: "1", amountRp: 20_000n }],
  })
  expect(await read({ transaction_status: "chargeback", refunds })).toMatchObject({
    backRp: 50_000n,
    reversals: [{ amountRp: 20_000n }, { reference: "upto-50000", amountRp: 30_000n }],
  })
  // More than was paid is told as it is: an operator has to hear of it.
  expect(await read({ transaction_status: "chargeback", refund_amount: "60000.00" })).toMatchObject({
    backRp: 60_000n,
    reversals: [{ reference: "upto-60000", amountRp: 60_000n }],
  })
})

test("an amount that cannot be read is a mismatch, also where nothing is there that it could differ from", async () => {
  for (const fields of [
    { gross_amount: "50000.50" },
    { gross_amount: "" },
    { transaction_status: "partial_refund", refund_amount: "much", refunds: [part(1, 5_000)] },
  ])
    expect([fields, await read(fields)]).toMatchObject([fields, { kind: "mismatched", topUpId: "top_x" }])
})

test("a reversal without a reason has an empty one", async () => {
  const refunds = [part(1, 20_000, { reason: null }), part(2, 5_000)]
  expect(await read({ transaction_status: "partial_refund", refunds })).toMatchObject({
    reversals: [{ reason: "" }, { reason: "" }],
  })
})

test("a refund is asked for with as much of its reason as Midtrans takes, and a refusal without words is its code", async () => {
  const { provider, sent } = answering(order({}), { status_code: "412" }, order({}))
  const asking = { id: "ref_x", topUpId: "top_x", amountRp: 5_000n, reason: "r".repeat(256) }
  expect(await provider.refund?.(asking)).toEqual({ kind: "refused", why: "412" })
  expect(sent[1]).toEqual({ refund_key: "ref_x", amount: 5_000, reason: "r".repeat(255) })
})

test("a refusal's words can be written down whatever characters they have", async () => {
  const { provider } = answering(order({}), { status_code: "412", status_message: "no \u0000" }, order({}))
  const asking = { id: "ref_x", topUpId: "top_x", amountRp: 5_000n, reason: "r" }
  expect(await provider.refund?.(asking)).toEqual({ kind: "refused", why: "412 no \uFFFD" })
})
