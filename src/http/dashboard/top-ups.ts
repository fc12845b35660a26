/** `/top-ups`: buying balance with a QR payment (decisions §10; gateway-api.md, "Billing rules" 7). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { toString } from "qrcode"
import { microToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import { total } from "../../payments/breakdown.ts"
import { isTopUpId, type TopUps } from "../../payments/top-ups.ts"
import type { Breakdown, TopUp, TopUpStore } from "../../store/top-ups.ts"
import { bodyReader } from "./body.ts"
import { takes } from "./contract.ts"
import type { Authenticate } from "./session.ts"

export interface TopUpsDeps {
  readonly topUps: TopUps
  readonly store: TopUpStore
  readonly authenticate: Authenticate
}

const SMALLEST_RP = 10_000
const LARGEST_RP = 100_000_000
const AMOUNT = "an integer of rupiah from 10,000 to 100,000,000"

const readTopUp = bodyReader(
  Type.Object({ amount_rp: Type.Integer({ minimum: SMALLEST_RP, maximum: LARGEST_RP, description: AMOUNT }) }),
)

/** The amount that a query names. */
function quotedAmount(url: string): number | Failure {
  const text = new URL(url).searchParams.get("amount_rp") ?? ""
  const amount = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (amount >= SMALLEST_RP && amount <= LARGEST_RP) return amount
  return new Failure("request.invalid", { message: `'amount_rp' must be ${AMOUNT}.` })
}

export const topUpsController = ({ topUps, store, authenticate }: TopUpsDeps) => {
  /** Whose it is must not show: a foreign one is as unknown as one that never was. */
  const ownTopUp = async (id: string, accountId: string): Promise<TopUp | Failure> => {
    const topUp = isTopUpId(id) ? await store.find(id) : undefined
    return topUp?.accountId === accountId ? topUp : new Failure("resource.not_found")
  }
  return new Elysia({ name: "dashboard/top-ups" })
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
        return await topUpJson(topUps, topUp)
      },
      takes(readTopUp),
    )
    .get("/top-ups", async ({ request }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      return { data: (await store.list(session.accountId)).map(topUpSummary) }
    })
    .get("/top-ups/quote", async ({ request }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const amount = quotedAmount(request.url)
      if (amount instanceof Failure) return amount
      const breakdown = topUps.quote(amount)
      return breakdown instanceof Failure ? breakdown : { amount_rp: amount, breakdown: breakdownJson(breakdown) }
    })
    .get("/top-ups/:id", async ({ request, params }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const topUp = await ownTopUp(params.id, session.accountId)
      return topUp instanceof Failure ? topUp : await topUpJson(topUps, topUp)
    })
    .post(
      "/top-ups/:id/check",
      async ({ request, params }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const topUp = await ownTopUp(params.id, session.accountId)
        if (topUp instanceof Failure) return topUp
        const checked = await topUps.check(topUp)
        if (checked instanceof Failure) return checked
        const now = await ownTopUp(params.id, session.accountId)
        return now instanceof Failure ? now : await topUpJson(topUps, now)
      },
      { parse: "none" },
    )
}

const breakdownJson = (breakdown: Breakdown) => ({
  balance_purchased_micro: microToJson(breakdown.balancePurchasedMicro),
  service_fee_micro: microToJson(breakdown.serviceFeeMicro),
  payment_fee_micro: microToJson(breakdown.paymentFeeMicro),
  network_fee_micro: microToJson(breakdown.networkFeeMicro),
  total_micro: microToJson(total(breakdown)),
})

export const topUpSummary = (topUp: TopUp) => ({
  id: topUp.id,
  status: topUp.status,
  provider: topUp.provider,
  reference: topUp.reference ?? null,
  breakdown: breakdownJson(topUp.breakdown),
  created_at: topUp.createdAt.toISOString(),
  expires_at: topUp.expiresAt.toISOString(),
  paid_at: topUp.paidAt?.toISOString() ?? null,
})

/**
 * With the QR code, which is drawn only where one is looked at; one that could not be made is null. The time left is told
 * beside the time of expiry, because a payer's clock may be wrong.
 */
const topUpJson = async (topUps: TopUps, topUp: TopUp) => ({
  ...topUpSummary(topUp),
  expires_in_s: Math.max(0, Math.ceil((topUp.expiresAt.getTime() - Date.now()) / 1_000)),
  pay_url: topUps.payPath(topUp) ?? null,
  qr:
    topUp.qrPayload === ""
      ? null
      : { payload: topUp.qrPayload, svg: await toString(topUp.qrPayload, { type: "svg", errorCorrectionLevel: "M" }) },
})
