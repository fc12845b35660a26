import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { Purse } from "../../actors/lease.ts"

const amount: fc.Arbitrary<Micro> = fc.bigInt({ min: 0n, max: 200n }).map(micro)
const requestId = fc.constantFrom("a", "b", "c", "d")
type Step =
  | { readonly do: "hold" | "settle"; readonly id: string; readonly amount: Micro }
  | { readonly do: "release"; readonly id: string }
  | { readonly do: "trim"; readonly id: string; readonly amount: Micro }
  | { readonly do: "grow" | "unsettle" | "give back"; readonly amount: Micro }
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constantFrom("hold" as const, "settle" as const), id: requestId, amount }),
  fc.record({ do: fc.constant("release" as const), id: requestId }),
  fc.record({ do: fc.constant("trim" as const), id: requestId, amount }),
  fc.record({ do: fc.constantFrom("grow" as const, "unsettle" as const, "give back" as const), amount }),
)

test("over any history a purse conserves money: available + held + settled + returned = granted, and none is ever negative", () => {
  fc.assert(
    fc.property(amount, amount, amount, fc.array(step, { maxLength: 60 }), (free, before, spent, steps) => {
      let granted: bigint = free + before + spent
      let returned: bigint = before
      let settled: bigint = spent
      const purse = new Purse({ granted: micro(granted), returned: before, settled: spent })
      const holds = new Map<string, bigint>()
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
        } else if (next.do === "trim") {
          purse.trim(next.id, next.amount)
          const held = holds.get(next.id)
          if (held !== undefined && next.amount < held) holds.set(next.id, next.amount)
        } else if (next.do === "give back") {
          if (next.amount <= purse.available) {
            purse.giveBack(next.amount)
            returned += next.amount
          } else expect(() => purse.giveBack(next.amount)).toThrow(RangeError)
        } else if (next.amount <= settled) {
          purse.unsettle(next.amount)
          settled -= next.amount
        } else expect(() => purse.unsettle(next.amount)).toThrow(RangeError)

        const held = [...holds.values()].reduce((sum, hold) => sum + hold, 0n)
        expect<bigint>(purse.held).toBe(held)
        expect<bigint>(purse.returned).toBe(returned)
        expect<bigint>(purse.settled).toBe(settled)
        expect(purse.available + held + settled + returned).toBe(granted)
        expect(purse.available >= 0n).toBe(true)
        expect(purse.isEmpty).toBe(holds.size === 0)
      }
    }),
    { numRuns: 500 },
  )
})

test("a lease that has settled more than it was granted is no lease, and neither is one of negative amounts", () => {
  expect(() => new Purse({ granted: micro(1n), returned: zero, settled: micro(2n) })).toThrow(RangeError)
  expect(() => new Purse({ granted: micro(3n), returned: micro(2n), settled: micro(2n) })).toThrow(RangeError)
  expect(() => new Purse({ granted: micro(3n), returned: micro(-1n), settled: micro(2n) })).toThrow(RangeError)
  expect(() => new Purse({ granted: micro(3n), returned: micro(2n), settled: micro(-1n) })).toThrow(RangeError)
})

test("a purse holds and gives back no negative amount, which would make more available than there is", () => {
  const purse = new Purse({ granted: micro(3n), returned: zero, settled: zero })
  expect(() => purse.hold("a", micro(-1n))).toThrow(RangeError)
  expect(() => purse.giveBack(micro(-1n))).toThrow(RangeError)
  expect(purse.available).toBe(micro(3n))
})
