import { expect, test } from "bun:test"
import { assert, bigInt, integer, property, record } from "fast-check"
import { MICRO_PER_RUPIAH, micro } from "../../actors/money/micro.ts"
import { breakDown, noFees, total } from "../../src/payments/top-ups.ts"

const amount = integer({ min: 10_000, max: 100_000_000 })
const rate = record({
  basisPoints: integer({ min: 0, max: 2_000 }),
  fixedMicro: bigInt({ min: 0n, max: 10_000_000_000n }).map(micro),
})

test("without fees what is paid is what is credited", () => {
  const breakdown = breakDown(10_000, noFees)
  expect(breakdown.balancePurchasedMicro).toBe(micro(10_000_000_000n))
  expect(total(breakdown)).toBe(breakdown.balancePurchasedMicro)
})

test("fees never touch the balance purchased, and are whole rupiah, at least the exact fee and less than one more", () => {
  assert(
    property(amount, rate, rate, (rupiah, service, payment) => {
      const breakdown = breakDown(rupiah, { service, payment })
      expect(breakdown.balancePurchasedMicro).toBe(micro(BigInt(rupiah) * MICRO_PER_RUPIAH))
      for (const [fee, { basisPoints, fixedMicro }] of [
        [breakdown.serviceFeeMicro, service],
        [breakdown.paymentFeeMicro, payment],
      ] as const) {
        const exact = breakdown.balancePurchasedMicro * BigInt(basisPoints) + fixedMicro * 10_000n
        expect(fee % MICRO_PER_RUPIAH).toBe(0n)
        expect(fee * 10_000n - exact).toBeGreaterThanOrEqual(0n)
        expect(fee * 10_000n - exact).toBeLessThan(MICRO_PER_RUPIAH * 10_000n)
      }
      expect(total(breakdown) % MICRO_PER_RUPIAH).toBe(0n)
    }),
  )
})
