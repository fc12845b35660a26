/**
 * QRIS through Midtrans' Core API (docs.midtrans.com: "QRIS", "HTTP(S) Notification / Webhooks", "GET Status API").
 * A notification is verified in two steps: its SHA-512 signature, and then the transaction's status as the provider itself
 * gives it, because the signature covers neither the transaction status nor the currency.
 *
 * The order id is the top-up's id. Midtrans keeps order ids unique, so it is the payment's reference too, and a top-up can
 * never be credited twice.
 */
import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { Failure } from "../failure/failure.ts"
import { parseBody } from "../wire/body.ts"
import { type Charge, type PaymentNotice, type PaymentProvider, sameSignature } from "./provider.ts"

export interface MidtransTerms {
  /** Unset or empty: no charge is made and no notification accepted. */
  readonly serverKey: string | undefined
  /** `https://api.midtrans.com`, or `https://api.sandbox.midtrans.com`. */
  readonly baseUrl: string
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

/** Bank Indonesia's limit of one QRIS payment. */
const QRIS_LIMIT_RP = 10_000_000n
const TIMEOUT_MS = 10_000
/** Midtrans sends amounts as decimal text, in whole rupiah. */
const AMOUNT = /^(\d{1,15})(?:\.0{1,2})?$/
/** Of our own top-up ids; anything else must not get into a path. */
const ORDER_ID = /^[A-Za-z0-9_-]{1,50}$/

const Created = TypeCompiler.Compile(
  Type.Object({ status_code: Type.Literal("201"), qr_string: Type.String({ minLength: 1 }) }),
)
const Signed = TypeCompiler.Compile(
  Type.Object({
    order_id: Type.String(),
    status_code: Type.String(),
    gross_amount: Type.String(),
    signature_key: Type.String(),
  }),
)
const Status = Type.Object({
  order_id: Type.String(),
  status_code: Type.String(),
  transaction_status: Type.String(),
  gross_amount: Type.String(),
  currency: Type.String(),
})
const status = TypeCompiler.Compile(Status)
/** Midtrans knows no such order: it answers so under HTTP 200 and 404 alike. */
const unknownOrder = TypeCompiler.Compile(Type.Object({ status_code: Type.Literal("404") }))

export function midtransProvider(terms: MidtransTerms): PaymentProvider {
  const { serverKey, baseUrl } = terms
  const send = terms.fetch ?? fetch
  const call = async (path: string, init: RequestInit): Promise<unknown> => {
    try {
      const response = await send(new URL(path, baseUrl).href, {
        ...init,
        headers: {
          accept: "application/json",
          "content-type": "application/json",
          authorization: `Basic ${Buffer.from(`${serverKey}:`).toString("base64")}`,
        },
        redirect: "error",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      return await response.json()
    } catch {
      // No connection, no answer in time, or no JSON: to us all the same.
      return undefined
    }
  }

  return {
    id: "midtrans",
    largestRp: QRIS_LIMIT_RP,

    async createCharge(charge) {
      if (!serverKey) return unconfigured()
      const answer = await call("/v2/charge", { method: "POST", body: JSON.stringify(chargeBody(charge)) })
      return Created.Check(answer) ? { qrPayload: answer.qr_string } : unavailable()
    },

    async readNotification(body) {
      if (!serverKey) return unsigned()
      const notice = parseBody(body)
      if (notice instanceof Failure) return notice
      if (!Signed.Check(notice)) return unsigned()
      const signature = new Bun.CryptoHasher("sha512")
        .update(notice.order_id + notice.status_code + notice.gross_amount + serverKey)
        .digest("hex")
      if (!sameSignature(notice.signature_key, signature)) return unsigned()
      if (!ORDER_ID.test(notice.order_id)) return new Failure("resource.not_found")

      const now = await call(`/v2/${notice.order_id}/status`, { method: "GET" })
      if (!status.Check(now)) return unavailable()
      return judge(now, notice.order_id, notice.gross_amount)
    },

    async readStatus(topUpId) {
      if (!serverKey) return unconfigured()
      if (!ORDER_ID.test(topUpId)) return new Failure("resource.not_found")
      const now = await call(`/v2/${topUpId}/status`, { method: "GET" })
      if (unknownOrder.Check(now)) return { kind: "unpaid", status: "unknown" }
      return status.Check(now) ? judge(now, topUpId, now.gross_amount) : unavailable()
    },
  }
}

/** Compares what Midtrans has of an order with its notification, or with what the gateway asked for. */
function judge(now: Static<typeof Status>, orderId: string, noticeAmount: string): PaymentNotice {
  if (now.transaction_status !== "settlement" || now.status_code !== "200") {
    return { kind: "unpaid", status: now.transaction_status }
  }
  const amount = AMOUNT.exec(now.gross_amount)?.[1]
  if (
    now.order_id !== orderId ||
    now.currency !== "IDR" ||
    amount === undefined ||
    amount !== AMOUNT.exec(noticeAmount)?.[1]
  ) {
    const paid = `${now.order_id}: ${now.gross_amount} ${now.currency}`
    return { kind: "mismatched", topUpId: orderId, reference: orderId, paid }
  }
  return { kind: "paid", topUpId: orderId, reference: orderId, amountRp: BigInt(amount) }
}

const chargeBody = ({ topUpId, amountRp, validMinutes }: Charge) => ({
  payment_type: "qris",
  transaction_details: { order_id: topUpId, gross_amount: Number(amountRp) },
  qris: { acquirer: "gopay" },
  custom_expiry: { expiry_duration: validMinutes, unit: "minute" },
})

const unsigned = (): Failure =>
  new Failure("auth.unauthorized", { message: "The notification's signature is not valid." })
const unavailable = (): Failure =>
  new Failure("dependency.upstream_unavailable", { message: "The payment provider is not available; try again later." })
const unconfigured = (): Failure =>
  new Failure("dependency.upstream_unconfigured", { message: "No payment provider is configured." })
