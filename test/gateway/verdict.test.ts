import { expect, test } from "bun:test"
import { Verdict } from "../../src/gateway/verdict.ts"

test("what was booked cannot be withdrawn any more, and what was withdrawn cannot be booked", () => {
  const booked = new Verdict()
  expect([booked.book(), booked.withdraw(), booked.withdrawn.aborted, booked.book()]).toEqual([
    true,
    false,
    false,
    true,
  ])
  const withdrawn = new Verdict()
  expect([withdrawn.withdraw(), withdrawn.withdrawn.aborted, withdrawn.book(), withdrawn.withdraw()]).toEqual([
    true,
    true,
    false,
    true,
  ])
})
