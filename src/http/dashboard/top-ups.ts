/** `/top-ups`: buying balance with a QR payment (decisions §10; specification, "Billing rules" 7). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { toString } from "qrcode"
import { microToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import { total } from "../../payments/breakdown.ts"
import { isTopUpId, type TopUps } from "../../payments/top-ups.ts"
import type { TopUp, TopUpStore } from "../../store/top-ups.ts"
import { bodyReader } from "./body.ts"
import type { Authenticate } from "./session.ts"

export interface TopUpsDeps {
  readonly topUps: TopUps
  readonly store: TopUpStore
  readonly authenticate: Authenticate
}

const readTopUp = bodyReader(
  Type.Object({
    amount_rp: Type.Integer({
      minimum: 10_000,
      maximum: 100_000_000,
      description: "an integer of rupiah from 10,000 to 100,000,000",
    }),
  }),
)

export const topUpsController = ({ topUps, store, authenticate }: TopUpsDeps) =>
  new Elysia({ name: "dashboard/top-ups" })
    .post(
      "/top-ups",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const body = await readTopUp(request)
        if (body instanceof Failure) return body
        const topUp = await topUps.open(session.accountId, body.amount_rp)
        if (topUp instanceof Failure) return topUp
        set.status = 201
        return await topUpJson(topUp)
      },
      { parse: "none" },
    )
    .get("/top-ups", async ({ request }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      return { data: (await store.list(session.accountId)).map(summaryJson) }
    })
    .get("/top-ups/:id", async ({ request, params }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const topUp = isTopUpId(params.id) ? await store.find(params.id) : undefined
      // Whose it is must not show: a foreign one is as unknown as one that never was.
      if (topUp === undefined || topUp.accountId !== session.accountId) return new Failure("resource.not_found")
      return await topUpJson(topUp)
    })

const summaryJson = (topUp: TopUp) => ({
  id: topUp.id,
  status: topUp.status,
  breakdown: {
    balance_purchased_micro: microToJson(topUp.breakdown.balancePurchasedMicro),
    service_fee_micro: microToJson(topUp.breakdown.serviceFeeMicro),
    payment_fee_micro: microToJson(topUp.breakdown.paymentFeeMicro),
    network_fee_micro: microToJson(topUp.breakdown.networkFeeMicro),
    total_micro: microToJson(total(topUp.breakdown)),
  },
  created_at: topUp.createdAt.toISOString(),
  expires_at: topUp.expiresAt.toISOString(),
  paid_at: topUp.paidAt?.toISOString() ?? null,
})

/** With the QR code, which is drawn only where one is looked at; one that could not be made is null. */
const topUpJson = async (topUp: TopUp) => ({
  ...summaryJson(topUp),
  qr:
    topUp.qrPayload === ""
      ? null
      : { payload: topUp.qrPayload, svg: await toString(topUp.qrPayload, { type: "svg", errorCorrectionLevel: "M" }) },
})
