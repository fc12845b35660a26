/**
 * QRIS through Midtrans' Core API (docs.midtrans.com: "QRIS", "HTTP(S) Notification / Webhooks", "GET Status API", "Refund
 * Transactions").
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
import {
  type Charge,
  type PaymentNotice,
  type PaymentProvider,
  type ProviderRefund,
  sameSignature,
  type ReportedReversal,
} from "./provider.ts"

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
  /** All that went back so far. */
  refund_amount: Type.Optional(Type.String()),
  refunds: Type.Optional(
    Type.Array(
      Type.Object({
        refund_chargeback_id: Type.Union([Type.Integer(), Type.String({ minLength: 1, maxLength: 100 })]),
        refund_amount: Type.String(),
        refund_key: Type.Optional(Type.String()),
        reason: Type.Optional(Type.Union([Type.String(), Type.Null()])),
      }),
      { maxItems: 1_000 },
    ),
  ),
})
const status = TypeCompiler.Compile(Status)
const Answered = TypeCompiler.Compile(
  Type.Object({
    status_code: Type.String(),
    status_message: Type.Optional(Type.String()),
    refund_chargeback_id: Type.Optional(Type.Union([Type.Integer(), Type.String()])),
  }),
)
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
      return JSON.parse(await response.text(), (_, value: unknown) => storable(value))
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

    async refund(refund) {
      if (!serverKey) return unconfigured()
      if (!ORDER_ID.test(refund.topUpId)) return new Failure("resource.not_found")
      // What an earlier attempt, or an earlier process, has asked for is looked for first, and again after a refusal.
      const known = async () => {
        const now = await call(`/v2/${refund.topUpId}/status`, { method: "GET" })
        if (!status.Check(now)) return unavailable()
        const made = now.refunds?.find(({ refund_key: key }) => key === refund.id)
        return made && ({ kind: "paid-out", reference: String(made.refund_chargeback_id) } as const)
      }
      const before = await known()
      if (before !== undefined) return before
      const answer = await call(`/v2/${refund.topUpId}/refund`, {
        method: "POST",
        body: JSON.stringify(refundBody(refund)),
      })
      if (!Answered.Check(answer)) return unavailable()
      if (/^20[01]$/.test(answer.status_code)) {
        return { kind: "paid-out", reference: String(answer.refund_chargeback_id ?? refund.id) }
      }
      // 4xx is its no; 408 and 429 are none, and 5xx says nothing.
      if (!/^4(?!08|29)\d\d$/.test(answer.status_code)) return unavailable()
      return (await known()) ?? { kind: "refused", why: `${answer.status_code} ${answer.status_message ?? ""}`.trim() }
    },
  }
}

/** Compares what Midtrans has of an order with its notification, or with what the gateway asked for. */
function judge(now: Static<typeof Status>, orderId: string, noticeAmount: string): PaymentNotice {
  const back = BACK.get(now.transaction_status)
  if ((now.transaction_status !== "settlement" && back === undefined) || now.status_code !== "200") {
    return { kind: "unpaid", status: now.transaction_status }
  }
  const amount = rupiah(now.gross_amount)
  const reversals = back && reversalsOf(now, back)
  if (
    now.order_id !== orderId ||
    now.currency !== "IDR" ||
    amount === undefined ||
    amount !== rupiah(noticeAmount) ||
    (back !== undefined && reversals === undefined)
  ) {
    const paid = `${now.order_id}: ${now.gross_amount} ${now.currency}`
    return { kind: "mismatched", topUpId: orderId, reference: orderId, paid }
  }
  const payment = { topUpId: orderId, reference: orderId, amountRp: amount }
  return reversals === undefined ? { kind: "paid", ...payment } : { kind: "reversed", ...payment, ...reversals }
}

/** Statuses of an order of which something went back. Each status is of the order, and so of its latest reversal. */
const BACK: ReadonlyMap<string, { readonly kind: ReportedReversal["kind"]; readonly whole: boolean }> = new Map([
  ["refund", { kind: "provider_refund", whole: true }],
  ["partial_refund", { kind: "provider_refund", whole: false }],
  ["chargeback", { kind: "chargeback", whole: true }],
  ["partial_chargeback", { kind: "chargeback", whole: false }],
])

/**
 * What went back, by its list, and all of it. Of a chargeback the list may be missing, or have only what went back before: then the
 * rest is one reversal, named by what went back so far. Undefined where an amount cannot be read.
 */
function reversalsOf(
  now: Static<typeof Status>,
  { kind, whole }: { readonly kind: ReportedReversal["kind"]; readonly whole: boolean },
) {
  const listed = (now.refunds ?? []).map(({ refund_chargeback_id: id, refund_amount, refund_key, reason }) => ({
    reference: String(id),
    refundId: refund_key,
    amountRp: rupiah(refund_amount),
    reason: reason ?? "",
    kind,
  }))
  const total = now.refund_amount === undefined ? undefined : rupiah(now.refund_amount)
  const sum = listed.reduce((all, { amountRp }) => all + (amountRp ?? 0n), 0n)
  const gross = rupiah(now.gross_amount) ?? 0n
  // Of a whole chargeback nothing is left, whatever sum is told beside it: that may be of the refunds before it, or of its own part.
  const backRp =
    whole && kind === "chargeback"
      ? largest(gross, total ?? 0n, sum)
      : (total ?? (sum > 0n ? sum : whole ? gross : undefined))
  if (backRp === undefined || (total === undefined && now.refund_amount !== undefined)) return undefined
  const reversals: ReportedReversal[] = listed.flatMap((each) =>
    each.amountRp === undefined ? [] : { ...each, amountRp: each.amountRp },
  )
  if (reversals.length < listed.length) return undefined
  const rest = backRp - sum
  if (rest > 0n) {
    reversals.push({ reference: `upto-${backRp}`, refundId: undefined, amountRp: rest, reason: "", kind, isRest: true })
  }
  return { backRp, reversals }
}

const largest = (...amounts: readonly bigint[]): bigint =>
  amounts.reduce((most, each) => (each > most ? each : most), 0n)

/** A text column takes no NUL. What stands for it keeps two names apart that differ by it. */
const storable = (value: unknown): unknown => (typeof value === "string" ? value.replaceAll("\u0000", "\uFFFD") : value)

function rupiah(amount: string): bigint | undefined {
  const whole = AMOUNT.exec(amount)?.[1]
  return whole === undefined ? undefined : BigInt(whole)
}

const refundBody = ({ id, amountRp, reason }: ProviderRefund) => ({
  refund_key: id,
  amount: Number(amountRp),
  reason: reason.slice(0, 255),
})

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
