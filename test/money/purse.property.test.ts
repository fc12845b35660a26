import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { type Micro, micro } from "../../actors/money/micro.ts"
import { Purse } from "../../actors/money/purse.ts"

const amount: fc.Arbitrary<Micro> = fc.bigInt({ min: 0n, max: 200n }).map(micro)
const requestId = fc.constantFrom("a", "b", "c", "d")
type Step =
  | { readonly do: "hold" | "settle"; readonly id: string; readonly amount: Micro }
  | { readonly do: "release"; readonly id: string }
  | { readonly do: "grow" | "unsettle"; readonly amount: Micro }
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom("hold" as const, "settle" as const), id: requestId, amount }),
  fc.record({ do: fc.constant("release" as const), id: requestId }),
  fc.record({ do: fc.constantFrom("grow" as const, "unsettle" as const), amount }),
)

test("over any history a purse conserves money: available + held + settled = granted, and none is ever negative", () => {
  fc.assert(
    fc.property(amount, fc.array(step, { maxLength: 60 }), (start, steps) => {
      const purse = new Purse(start, micro(0n))
      const holds = new Map<string, bigint>()
      let granted: bigint = start
      let settled = 0n
      for (const next of steps) {
        if (next.do === "hold") {
          const fits = next.amount <= purse.available && !holds.has(next.id)
          if (fits) {
            purse.hold(next.id, next.amount)
            holds.set(next.id, next.amount)
          } else expect(() => purse.hold(next.id, next.amount)).toThrow()
        } else if (next.do === "settle") {
          const most = purse.available + (holds.get(next.id) ?? 0n)
          const { charge, absorbed } = purse.settle(next.id, next.amount)
          expect(charge + absorbed).toBe(next.amount)
          expect<bigint>(charge).toBe(next.amount < most ? next.amount : most)
          holds.delete(next.id)
          settled += charge
        } else if (next.do === "release") {
          purse.release(next.id)
          holds.delete(next.id)
        } else if (next.do === "grow") {
          // News of an older, smaller grant changes nothing.
          purse.grantedIs(next.amount)
          granted = granted > next.amount ? granted : next.amount
        } else if (next.amount <= settled) {
          purse.unsettle(next.amount)
          settled -= next.amount
        } else expect(() => purse.unsettle(next.amount)).toThrow(RangeError)

        const held = [...holds.values()].reduce((sum, hold) => sum + hold, 0n)
        expect<bigint>(purse.held).toBe(held)
        expect(purse.available + held + settled).toBe(granted)
        expect(purse.available >= 0n).toBe(true)
        expect(purse.isEmpty).toBe(holds.size === 0)
      }
    }),
    { numRuns: 500 },
  )
})

test("a lease that has settled more than it was granted is no lease", () => {
  expect(() => new Purse(micro(1n), micro(2n))).toThrow(RangeError)
})
