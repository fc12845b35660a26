import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { shareOf, whole } from "../../actors/lease.ts"

const counts = fc.integer({ min: 1, max: 64 })
const sharesOf = (limit: number, count: number) =>
  Array.from({ length: count }, (_, index) => shareOf(limit, { index, count }))
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

describe("the shares of a limit", () => {
  test("add up to it, and differ by one at most", () => {
    fc.assert(
      fc.property(counts, fc.integer({ min: 0, max: 1_000_000 }), (count, above) => {
        const limit = count + above
        const shares = sharesOf(limit, count)
        expect(sum(shares)).toBe(limit)
        expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1)
      }),
    )
  })

  test("are one each where there are more processes than it admits, and none of none", () => {
    fc.assert(
      fc.property(counts, fc.integer({ min: 1, max: 64 }), (count, limit) => {
        fc.pre(limit <= count)
        expect(sharesOf(limit, count)).toEqual(Array.from({ length: count }, () => 1))
      }),
    )
    expect(sharesOf(0, 3)).toEqual([0, 0, 0])
  })

  test("are all of it for a process that is alone", () => {
    fc.assert(fc.property(fc.nat(), (limit) => expect(shareOf(limit, whole)).toBe(limit)))
  })
})
