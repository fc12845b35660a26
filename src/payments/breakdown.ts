/**
 * What a top-up costs, as shown before payment (gateway-api.md, "Billing rules" 7). Micro-rupiah. The balance purchased is
 * credited in full; fees come on top of it and are rounded up to whole rupiah, the smallest amount that can be paid.
 */
import { type Micro, MICRO_PER_RUPIAH, micro, zero } from "../../actors/money/micro.ts"
import type { Breakdown } from "../store/top-ups.ts"

export interface FeeRate {
  /** Hundredths of a percent of the balance purchased. */
  readonly basisPoints: number
  readonly fixedMicro: Micro
}

export interface Fees {
  readonly service: FeeRate
  /** What the QR provider takes. */
  readonly payment: FeeRate
}

const noFee: FeeRate = { basisPoints: 0, fixedMicro: zero }
export const noFees: Fees = { service: noFee, payment: noFee }

export function breakDown(amountRp: number, fees: Fees): Breakdown {
  const purchased = micro(BigInt(amountRp) * MICRO_PER_RUPIAH)
  return {
    balancePurchasedMicro: purchased,
    serviceFeeMicro: fee(purchased, fees.service),
    paymentFeeMicro: fee(purchased, fees.payment),
    networkFeeMicro: zero,
  }
}

export const total = (breakdown: Breakdown): Micro =>
  micro(
    breakdown.balancePurchasedMicro + breakdown.serviceFeeMicro + breakdown.paymentFeeMicro + breakdown.networkFeeMicro,
  )

function fee(amount: Micro, rate: FeeRate): Micro {
  const exact = amount * BigInt(rate.basisPoints) + rate.fixedMicro * 10_000n
  const unit = MICRO_PER_RUPIAH * 10_000n
  return micro(((exact + unit - 1n) / unit) * MICRO_PER_RUPIAH)
}
