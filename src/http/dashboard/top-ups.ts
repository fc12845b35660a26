/** `/top-ups`: buying balance with a QR payment (decisions §10; gateway-api.md, "Billing rules" 7). */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { toString } from "qrcode"
import { microToJson, plus } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import { isTopUpId, type TopUps, total, refundedTotal } from "../../payments/top-ups.ts"
import { type Refund, refundKinds, refundStatuses, type RefundStore } from "../../store/refunds.ts"
import type { Breakdown, TopUp, TopUpStore } from "../../store/top-ups.ts"
import {
  described,
  exactly,
  field,
  integer,
  micro as microShape,
  oneOf,
  orNull,
  pageOf,
  text,
  time,
} from "../shapes.ts"
import { pageJson, pageQuery, readPage } from "./page.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface TopUpsDeps {
  readonly topUps: TopUps
  readonly store: TopUpStore
  readonly refunds: Pick<RefundStore, "list">
  readonly authenticate: Authenticate
}

const AmountRp = Type.Integer({
  minimum: 10_000,
  maximum: 100_000_000,
  description: field(
    "an integer of rupiah from 10,000 to 100,000,000",
    "bilangan bulat rupiah dari 10.000 sampai 100.000.000",
  ),
})

/** As many as were listed before there were pages. */
const LISTED = 100
const hundred = Type.Optional({ ...pageQuery.limit, default: LISTED })
const TOP_UP_ID = /^top_[A-Za-z0-9_-]{1,40}$/

const BreakdownShape = Type.Object(
  {
    balance_purchased_micro: described(microShape, field("Credited in full.", "Dikreditkan seluruhnya.")),
    service_fee_micro: microShape,
    payment_fee_micro: microShape,
    network_fee_micro: microShape,
    total_micro: described(
      microShape,
      field("What is paid; always whole rupiah.", "Yang dibayar; selalu rupiah bulat."),
    ),
  },
  { $id: "Breakdown" },
)

export const topUpStatuses = ["pending", "paid", "expired"] as const

export const topUpShape = Type.Object(
  {
    id: text,
    status: oneOf(topUpStatuses),
    provider: text,
    reference: orNull(
      text,
      field(
        "The provider's name for the payment, once there is one.",
        "Nama pembayaran menurut penyedia, jika sudah ada.",
      ),
    ),
    breakdown: BreakdownShape,
    created_at: time,
    expires_at: time,
    paid_at: orNull(time),
    refunded_micro: described(
      microShape,
      field("What of it went back, fees included.", "Yang dikembalikan darinya, termasuk biaya."),
    ),
    refund_status: orNull(
      oneOf(["partly_refunded", "refunded", "disputed"]),
      field(
        "Null while nothing went back; `disputed`: the payer's bank took it, or a part of it, back.",
        "Null selama tidak ada yang dikembalikan; `disputed`: bank pembayar menariknya kembali, seluruhnya atau sebagian.",
      ),
    ),
  },
  { $id: "TopUp" },
)

/** Money that went back. */
export const refundShape = Type.Object(
  {
    id: text,
    kind: described(
      oneOf(refundKinds),
      field(
        "`refund` is an operator's; the others the payment provider made.",
        "`refund` dibuat operator; yang lain oleh penyedia pembayaran.",
      ),
    ),
    status: described(
      oneOf(refundStatuses),
      field(
        "`booked`: taken of the balance, and not yet paid out.",
        "`booked`: sudah diambil dari saldo, dan belum dibayarkan.",
      ),
    ),
    top_up_id: orNull(text, field("Null for what was left of a closed account.", "Null untuk sisa akun yang ditutup.")),
    amount_micro: described(microShape, field("All that goes back.", "Semua yang dikembalikan.")),
    balance_micro: described(microShape, field("The part of the balance.", "Bagian dari saldo.")),
    fees_micro: described(microShape, field("The part of the fees.", "Bagian dari biaya.")),
    claimed_micro: described(
      microShape,
      field(
        "What of the balance was spent already, and is settled first from what comes next.",
        "Bagian saldo yang sudah terpakai, dan dilunasi lebih dulu dari yang masuk berikutnya.",
      ),
    ),
    reason: text,
    reference: orNull(text, field("Of the payout.", "Dari pembayarannya.")),
    created_at: time,
    paid_out_at: orNull(time),
  },
  { $id: "Refund" },
)

/** As it is shown alone. */
const PayableTopUp = Type.Intersect([
  topUpShape,
  Type.Object({
    qr: orNull(
      Type.Object({ payload: text, svg: text }),
      field("Null where the code could not be made.", "Null jika kodenya tidak dapat dibuat."),
    ),
    expires_in_s: described(
      integer,
      field("Seconds until it expires, 0 from then on.", "Detik sampai berakhir, 0 sejak saat itu."),
    ),
    refunds: Type.Array(refundShape, { description: field("The newest first.", "Yang terbaru dulu.") }),
    pay_url: orNull(
      text,
      field(
        "Where it can be paid by pressing a button, while payments are simulated.",
        "Tempat membayarnya dengan menekan tombol, selama pembayaran disimulasikan.",
      ),
    ),
  }),
])

export const topUpsController = ({ topUps, store, refunds, authenticate }: TopUpsDeps) => {
  const signedIn = signedInBy(authenticate)
  /** Whose it is must not show: a foreign one is as unknown as one that never was. */
  const ownTopUp = async (id: string, accountId: string): Promise<TopUp | Failure> => {
    const topUp = isTopUpId(id) ? await store.find(id) : undefined
    return topUp?.accountId === accountId ? topUp : new Failure("resource.not_found")
  }
  const shown = async (topUp: TopUp | Failure) =>
    topUp instanceof Failure
      ? topUp
      : topUpJson(topUps, topUp, topUp.status === "paid" ? await refunds.list({ topUpId: topUp.id }) : [])
  return new Elysia({ name: "dashboard/top-ups" })
    .post(
      ...signedIn(
        "/top-ups",
        {
          may: "pay",
          tag: "Top-ups",
          summary: { en: "Begin a top-up by QR payment", id: "Mulai isi saldo dengan pembayaran QR" },
          body: exactly({ amount_rp: AmountRp }),
          answer: PayableTopUp,
          status: 201,
        },
        async ({ session, body, change }) => await shown(await topUps.open(session.accountId, body.amount_rp, change)),
      ),
    )
    .get(
      ...signedIn(
        "/top-ups",
        {
          may: "books",
          tag: "Top-ups",
          summary: { en: "The account's top-ups, the newest first", id: "Isi saldo akun, dari yang terbaru" },
          query: Type.Object({ ...pageQuery, limit: hundred }),
          answer: pageOf(topUpShape),
        },
        async ({ session, query: { cursor, limit = LISTED } }) => {
          const page = readPage({ limit, ...(cursor !== undefined && { cursor }) }, [TOP_UP_ID])
          if (page instanceof Failure) return page
          const rows = await store.list(session.accountId, { after: page.after?.[0], limit: page.limit + 1 })
          return pageJson(rows, page, { item: topUpSummary, placeOf: ({ id }) => [id] })
        },
      ),
    )
    .get(
      ...signedIn(
        "/top-ups/quote",
        {
          may: "books",
          tag: "Top-ups",
          summary: { en: "What a top-up would cost", id: "Biaya sebuah isi saldo" },
          query: Type.Object({ amount_rp: AmountRp }),
          answer: Type.Object({ amount_rp: integer, breakdown: BreakdownShape }),
        },
        async ({ query: { amount_rp } }) => {
          const breakdown = topUps.quote(amount_rp)
          return breakdown instanceof Failure ? breakdown : { amount_rp, breakdown: breakdownJson(breakdown) }
        },
      ),
    )
    .get(
      ...signedIn(
        "/top-ups/:id",
        { may: "books", tag: "Top-ups", summary: { en: "One top-up", id: "Satu isi saldo" }, answer: PayableTopUp },
        async ({ session, params }) => await shown(await ownTopUp(params.id, session.accountId)),
      ),
    )
    .post(
      ...signedIn(
        "/top-ups/:id/check",
        {
          may: "pay",
          tag: "Top-ups",
          summary: {
            en: "Ask the payment provider now whether a top-up was paid",
            id: "Tanyakan sekarang kepada penyedia pembayaran apakah isi saldo sudah dibayar",
          },
          answer: PayableTopUp,
        },
        async ({ session, params }) => {
          const topUp = await ownTopUp(params.id, session.accountId)
          if (topUp instanceof Failure) return topUp
          const checked = await topUps.check(topUp)
          if (checked instanceof Failure) return checked
          return await shown(await ownTopUp(params.id, session.accountId))
        },
      ),
    )
}

const breakdownJson = (breakdown: Breakdown) => ({
  balance_purchased_micro: microToJson(breakdown.balancePurchasedMicro),
  service_fee_micro: microToJson(breakdown.serviceFeeMicro),
  payment_fee_micro: microToJson(breakdown.paymentFeeMicro),
  network_fee_micro: microToJson(breakdown.networkFeeMicro),
  total_micro: microToJson(total(breakdown)),
})

export const topUpSummary = (topUp: TopUp): Static<typeof topUpShape> => ({
  id: topUp.id,
  status: topUp.status,
  provider: topUp.provider,
  reference: topUp.reference ?? null,
  breakdown: breakdownJson(topUp.breakdown),
  created_at: topUp.createdAt.toISOString(),
  expires_at: topUp.expiresAt.toISOString(),
  paid_at: topUp.paidAt?.toISOString() ?? null,
  refunded_micro: microToJson(refundedTotal(topUp)),
  refund_status: refundStatusOf(topUp),
})

function refundStatusOf({ disputed, refundedMicro, refundedFeesMicro, breakdown }: TopUp) {
  const refunded = plus(refundedMicro, refundedFeesMicro)
  if (refunded === 0n) return null
  if (disputed) return "disputed"
  // Fees may stay with the house: what was bought went back.
  return refundedMicro === breakdown.balancePurchasedMicro ? "refunded" : "partly_refunded"
}

export const refundJson = (refund: Refund): Static<typeof refundShape> => ({
  id: refund.id,
  kind: refund.kind,
  status: refund.status,
  top_up_id: refund.topUpId ?? null,
  amount_micro: microToJson(plus(refund.balanceMicro, refund.feesMicro)),
  balance_micro: microToJson(refund.balanceMicro),
  fees_micro: microToJson(refund.feesMicro),
  claimed_micro: microToJson(refund.claimedMicro),
  reason: refund.reason,
  reference: refund.reference ?? null,
  created_at: refund.createdAt.toISOString(),
  paid_out_at: refund.paidOutAt?.toISOString() ?? null,
})

/**
 * With the QR code, which is drawn only where one is looked at; one that could not be made is null. The time left stands
 * beside the time of expiry, because a payer's clock may be wrong.
 */
const topUpJson = async (topUps: TopUps, topUp: TopUp, refunds: readonly Refund[]) => ({
  ...topUpSummary(topUp),
  refunds: refunds.map(refundJson),
  expires_in_s: Math.max(0, Math.ceil((topUp.expiresAt.getTime() - Date.now()) / 1_000)),
  pay_url: topUps.payPath(topUp) ?? null,
  qr:
    topUp.qrPayload === ""
      ? null
      : { payload: topUp.qrPayload, svg: await toString(topUp.qrPayload, { type: "svg", errorCorrectionLevel: "M" }) },
})
