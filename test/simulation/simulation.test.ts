/**
 * Worlds of the whole gateway under faults, played in this process. Hundreds of them, and ten thousand, are in
 * test/processes/simulation.test.ts.
 */
import { describe, expect, test } from "bun:test"
import { faultClasses, type Rates } from "./faults.ts"
import { drawFirstPlan, drawPlan, type Plan, type PlannedEvent } from "./plan.ts"
import { keys } from "./shop.ts"
import { type Result, simulate } from "./world.ts"

const STEPS = 500
/** In these something did not hold once. As long as first plans are drawn as they are, they come to the same place again. */
const REMEMBERED = [3_002_604, 3_007_035, 10_451_971, 10_583_898, 10_699_932]

const unknowns = ({ counts }: Result) => counts.get("cost is not known") ?? 0

describe("worlds of gateways, customers and backends under faults", () => {
  test.each(REMEMBERED)("keep them where they once did not: %d", (seed) => {
    expect(simulate(drawFirstPlan(seed, STEPS)).violations).toEqual([])
  })

  test("are the same from the same seed, and others from another", () => {
    const [first, again, other] = [7, 7, 8].map((seed) => simulate(drawPlan(seed, STEPS)))
    expect(again).toEqual(first)
    expect(other?.hash).not.toBe(first?.hash)
  })

  test.each([3, 10, 21, 40])("are the same to customers where it is not known what backends cost: %d", (seed) => {
    const known = simulate(drawPlan(seed, STEPS))
    const unknown = simulate(drawPlan(seed, STEPS), { hasCosts: false })
    expect([known.violations, unknown.violations]).toEqual([[], []])
    // What is committed and what is told, with its amounts, is in the trace.
    expect(unknown.hash).toBe(known.hash)
    expect(unknowns(unknown)).toBeGreaterThan(unknowns(known))
  })

  test.each(["key", "run"] as const)("leave nothing of a budget to nobody when the actor of a %s crashed", (kind) => {
    // While its lease is opened, and when all is quiet.
    for (const afterMs of [1, 2, 4, 8, 16, 32, 1_500]) {
      const crashes = [0, 1].map((process): PlannedEvent => ({ afterMs, type: "poison", process, key: MIDDLING, kind }))
      const calls = Array.from({ length: 4 }, (_, number) => callOfRun(number))
      expect({ afterMs, violations: play([...calls, ...crashes]).violations }).toEqual({ afterMs, violations: [] })
    }
  })
})

/** With a budget that does not begin anew. */
const MIDDLING = keys.findIndex(({ keyId }) => keyId === "key_middling")

const callOfRun = (number: number): PlannedEvent => ({
  afterMs: 300,
  type: "call",
  number,
  key: MIDDLING,
  format: "chat",
  model: "wide",
  stream: false,
  choices: 1,
  maxTokens: 10,
  promptLength: 20,
  searches: false,
  manners: undefined,
  paceMs: 0,
  seed: number,
  run: { name: "r2", budgetRp: 5 },
})

/** Two processes in which nothing goes wrong by itself. */
function play(events: readonly PlannedEvent[]): Result {
  const rates = Object.fromEntries(faultClasses.map((fault) => [fault, 0])) as Rates
  const plan: Plan = { ...drawFirstPlan(1, STEPS), processes: 2, shuffled: false, rates, events }
  return simulate(plan)
}
