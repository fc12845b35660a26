import { expect, test } from "bun:test"
import { simulate } from "./simulation.ts"

const SEEDS = 1_000

test("over a thousand interleavings no money is lost, held or told wrongly, and every call ends once", async () => {
  const kinds = new Set<string>()
  for (let seed = 1; seed <= SEEDS; seed++) {
    const result = await simulate(seed)
    expect({ seed, violations: result.violations }).toEqual({ seed, violations: [] })
    for (const kind of result.kinds) kinds.add(kind)
  }
  // The interleavings are worth something only if they reach every way out.
  for (const kind of ["charged", "voided", "slots full", "account insufficient", "key budget-exceeded"])
    expect(kinds).toContain(kind)
})

test("the same seed gives the same run, and another seed another", async () => {
  const [first, again, other] = [await simulate(7), await simulate(7), await simulate(8)]
  expect(again.trace).toBe(first.trace)
  expect(other.trace).not.toBe(first.trace)
})
