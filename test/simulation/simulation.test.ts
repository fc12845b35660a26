/**
 * Worlds of the whole gateway under faults. A share of them in the ordinary suite; `bun run test:simulation` plays ten
 * thousand. A seed that fails is played again, and told, with `bun run simulate --seed N`.
 */
import { describe, expect, test } from "bun:test"
import { drawPlan } from "./plan.ts"
import { neverHappened, survey } from "./survey.ts"
import { simulate } from "./world.ts"

const STEPS = 500
const SEEDS = Number(process.env["LOKET_SIMULATION_SEEDS"] ?? 200)
const BLOCK = 100

const played = blocks().map((from) => ({ from, seeds: Math.min(BLOCK, SEEDS - from + 1) }))

describe("a world of gateways, customers and backends under faults", () => {
  test.each(played)("keeps its books and its word: %j", ({ from, seeds }) => {
    const { violations } = survey(from, seeds, STEPS)
    expect(violations.map(({ seed, what }) => `bun run simulate --seed ${seed} --steps ${STEPS}: ${what}`)).toEqual([])
  })

  test("is the same from the same seed, and another from another", () => {
    const [first, again, other] = [7, 7, 8].map((seed) => simulate(drawPlan(seed, STEPS)))
    expect(again).toEqual(first)
    expect(other?.hash).not.toBe(first?.hash)
  })

  test("is the same in another process", async () => {
    const { hash } = simulate(drawPlan(9, STEPS))
    const child = Bun.spawn([process.execPath, `${import.meta.dir}/main.ts`, "--seed", "9", "--steps", String(STEPS)])
    expect(await new Response(child.stdout).text()).toContain(`seed 9: trace ${hash}\n`)
    expect(await child.exited).toBe(0)
  })

  test("meets every class of faults", () => {
    // Half of a class's worlds are without it, so a few hundred are enough.
    expect(neverHappened(survey(1, 300, STEPS))).toEqual([])
  })
})

function blocks(): number[] {
  return Array.from({ length: Math.ceil(SEEDS / BLOCK) }, (_, index) => 1 + index * BLOCK)
}
