/** `/operator/…/refunds`: money back, by an operator: of a top-up, or what is left of a closed account. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { largestMicro, micro } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { Refunds } from "../../payments/refunds.ts"
import { isTopUpId } from "../../payments/top-ups.ts"
import type { AccountViews } from "../../store/operator/accounts.ts"
import { type OwnedRefund, type PaymentViews, waitingStatuses } from "../../store/operator/payments.ts"
import type { Refund, RefundStore } from "../../store/refunds.ts"
import { pageJson, pageQuery, readPage, Reason } from "../dashboard/page.ts"
import { refundJson, refundShape } from "../dashboard/top-ups.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { exactly, field, oneOf, orNull, pageOf, text } from "../shapes.ts"
import { ACCOUNT_ID, OnceKey } from "./accounts.ts"

export interface RefundsDeps {
  readonly refunds: Refunds
  readonly store: Pick<RefundStore, "list">
  readonly views: Pick<AccountViews, "find">
  readonly payments: Pick<PaymentViews, "waitingRefunds">
  readonly authenticate: Authenticate
}

const payouts = ["by_hand", "provider"] as const
const NewRefund = exactly({
  top_up_id: Type.Optional(
    Type.Union([Type.String({ maxLength: 60 }), Type.Null()], {
      description: field(
        "whose money it is; without one it is what is left of a closed account",
        "dana dari isi saldo mana; tanpa itu, sisa akun yang ditutup",
      ),
    }),
  ),
  amount_micro: Type.Integer({
    minimum: 1,
    maximum: Number(largestMicro),
    description: field(
      "a positive integer of micro-rupiah: the balance of a top-up goes back first, then its fees",
      "bilangan bulat positif mikro-rupiah: saldo isi saldo dikembalikan dulu, lalu biayanya",
    ),
  }),
  payout: oneOf(payouts),
  reason: Reason,
  idempotency_key: OnceKey,
})
const PaidOut = Type.Object({
  reference: Type.RegExp(/^[^\p{Cc}\p{Cs}]{1,200}$/u, {
    description: field(
      "1 to 200 characters on one line: the bank's name of the payment",
      "1 sampai 200 karakter dalam satu baris: nama pembayaran menurut bank",
    ),
  }),
  reason: Reason,
})
const REFUND_ID = /^ref_[A-Za-z0-9_-]{1,40}$/
const WithReason = Type.Object({ reason: Reason })

const OperatorRefund = Type.Intersect(
  [
    refundShape,
    Type.Object({
      account_id: text,
      payout: orNull(oneOf(payouts)),
      problem: orNull(text, field("Why the provider did not pay it out.", "Mengapa penyedia tidak membayarkannya.")),
    }),
  ],
  { $id: "OperatorRefund" },
)

export const operatorRefundsController = ({ refunds, store, views, payments, authenticate }: RefundsDeps) => {
  const operators = operatorBy(authenticate)
  const found = async (id: string) =>
    (ACCOUNT_ID.test(id) ? await views.find(id) : undefined) ?? new Failure("resource.not_found")
  return new Elysia({ name: "operator/refunds" })
    .get(
      ...operators(
        "/operator/refunds",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Refunds that are not paid out yet, the newest first",
            id: "Pengembalian dana yang belum dibayarkan, dari yang terbaru",
          },
          query: Type.Object({ ...pageQuery, status: Type.Optional(oneOf(waitingStatuses)) }),
          answer: pageOf(Type.Intersect([OperatorRefund, Type.Object({ email: text })])),
        },
        async ({ query }) => {
          const page = readPage(query, [REFUND_ID])
          if (page instanceof Failure) return page
          const rows = await payments.waitingRefunds(query.status, { after: page.after?.[0], limit: page.limit + 1 })
          return pageJson(rows, page, { item: ownedRefundJson, placeOf: ({ id }) => [id] })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id/refunds",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "What went back of an account, the newest first",
            id: "Apa yang dikembalikan dari sebuah akun, dari yang terbaru",
          },
          query: Type.Object(pageQuery),
          answer: pageOf(OperatorRefund),
        },
        async ({ params, query }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const page = readPage(query, [REFUND_ID])
          if (page instanceof Failure) return page
          const rows = await store.list({ accountId: account.id }, { after: page.after?.[0], limit: page.limit + 1 })
          return pageJson(rows, page, { item: operatorRefundJson, placeOf: ({ id }) => [id] })
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/refunds",
        {
          tag: "Operator",
          role: "finance",
          summary: {
            en: "Take a refund of the balance; once for each `idempotency_key`. At most what is free, and what is left of the top-up",
            id: "Ambil pengembalian dana dari saldo; sekali untuk setiap `idempotency_key`. Paling banyak sebesar saldo yang bebas, dan sisa dari isi saldonya",
          },
          description: {
            en: "With `payout` `provider` the payment provider is asked to pay it out at once. The customer reads `reason` on the statement and the receipt.",
            id: "Dengan `payout` `provider`, penyedia pembayaran langsung diminta membayarkannya. Pelanggan membaca `reason` di mutasi dan kuitansinya.",
          },
          body: NewRefund,
          answer: OperatorRefund,
          status: 201,
        },
        async ({ params, body, operator }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const topUpId = body.top_up_id ?? undefined
          if (topUpId === undefined && account.deletedAt === undefined)
            return new Failure("request.invalid", {
              message: "Without 'top_up_id' it is what is left of a closed account, and this one is open.",
            })
          if (topUpId !== undefined && !isTopUpId(topUpId)) return new Failure("resource.not_found")
          const refund = await refunds.make(
            {
              accountId: account.id,
              topUpId,
              amountMicro: micro(BigInt(body.amount_micro)),
              reason: body.reason,
              idempotencyKey: body.idempotency_key,
              byProvider: body.payout === "provider",
            },
            operator.act,
          )
          return shown(refund)
        },
      ),
    )
    .post(
      ...operators(
        "/operator/refunds/:id/paid-out",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Write down that a person paid it out", id: "Catat bahwa seseorang sudah membayarkannya" },
          body: PaidOut,
          answer: OperatorRefund,
        },
        async ({ params, body, operator }) =>
          shown(await refunds.change(params.id, { to: "paid_out", ...body }, operator.act)),
      ),
    )
    .post(
      ...operators(
        "/operator/refunds/:id/send",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Ask the payment provider to pay it out", id: "Minta penyedia pembayaran membayarkannya" },
          body: WithReason,
          answer: OperatorRefund,
        },
        async ({ params, body, operator }) =>
          shown(await refunds.change(params.id, { to: "sending", ...body }, operator.act)),
      ),
    )
    .post(
      ...operators(
        "/operator/refunds/:id/cancel",
        {
          tag: "Operator",
          role: "finance",
          summary: {
            en: "Give it back to the balance, while nobody has paid it out or was asked to",
            id: "Kembalikan ke saldo, selama belum dibayarkan dan belum ada yang diminta membayarkannya",
          },
          body: WithReason,
          answer: OperatorRefund,
        },
        async ({ params, body, operator }) =>
          shown(await refunds.change(params.id, { to: "cancelled", ...body }, operator.act)),
      ),
    )
}

const operatorRefundJson = (refund: Refund): Static<typeof OperatorRefund> => ({
  ...refundJson(refund),
  account_id: refund.accountId,
  payout: refund.payout ?? null,
  problem: refund.problem ?? null,
})

const ownedRefundJson = (refund: OwnedRefund) => ({ ...operatorRefundJson(refund), email: refund.email })

const shown = (refund: Refund | Failure) => (refund instanceof Failure ? refund : operatorRefundJson(refund))
