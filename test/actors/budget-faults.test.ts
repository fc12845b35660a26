/** A key's budget where the database was away, or the clock wrong. */
import { expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { budget, key, startsOf } from "./key-harness.ts"

const DAY_MS = 24 * 3_600_000

test("what a charge has gone past the limit is not to be spent again when that charge is taken back", () => {
  const { clock, reserve, settle, usage, change, book, behaviour } = key(budget(100n, "daily"))
  const starts = startsOf(reserve("a", 40n))
  change(budget(100n, "total"))
  reserve("b", 90n, 90n)
  settle("a", 40n, starts)
  book("total", 40n)
  const charge = settle("b", 90n)
  book("total", 90n)
  behaviour.receive({ type: "unsettle", charge, starts })
  book("total", -90n)
  clock.advance(1_000)
  expect(usage()).toBe(micro(40n))
  expect(reserve("c", 61n).kind).toBe("budget-exceeded")
  expect(reserve("d", 60n).kind).toBe("reserved")
  expect(usage()).toBe(micro(100n))
})

test.each(["daily", "monthly"] as const)(
  "a %s budget is that of the clock again when it was ahead by weeks and is set right",
  (period) => {
    const { clock, reserve, settle, usage, book } = key(budget(100n, period))
    const spend = (id: string, amount: bigint) => {
      const { kind } = reserve(id, amount)
      if (kind !== "reserved") return kind
      settle(id, amount)
      book(period, amount)
      return kind
    }
    expect(spend("a", 70n)).toBe("reserved")
    clock.shiftWall(400 * DAY_MS)
    expect([spend("b", 100n), spend("c", 1n)]).toEqual(["reserved", "budget-exceeded"])
    clock.shiftWall(-400 * DAY_MS)
    expect(spend("d", 31n)).toBe("budget-exceeded")
    expect(usage()).toBe(micro(70n))
    expect([spend("e", 30n), spend("f", 1n)]).toEqual(["reserved", "budget-exceeded"])
  },
)
