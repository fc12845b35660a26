/**
 * Worlds of the whole gateway under faults, in a process a core. A share of them in the suite of processes; `bun run
 * test:simulation` plays ten thousand. A seed that fails is played again, and told, with `bun run simulate --seed N`.
 */
import { describe, expect, test } from "bun:test"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { surveyInParallel } from "../simulation/parallel.ts"
import { drawPlan } from "../simulation/plan.ts"
import { neverHappened } from "../simulation/survey.ts"
import { simulate } from "../simulation/world.ts"

const STEPS = 500
const SEEDS = Number(process.env["LOKET_SIMULATION_SEEDS"] ?? 300)
/** Ten thousand are also played behind other suites, on what those leave of the processors. */
const LIMIT_MS = 60_000 + 200 * SEEDS

describe("worlds of gateways, customers and backends under faults", () => {
  test(
    `keep their books and their word, in each of ${SEEDS}, and meet every class of faults`,
    async () => {
      const found = await surveyInParallel(1, SEEDS, { steps: STEPS, workers: availableParallelism() })
      const failed = found.violations.map(
        ({ seed, what }) => `bun run simulate --seed ${seed} --steps ${STEPS}: ${what}`,
      )
      expect(failed).toEqual([])
      expect(found.seeds).toBe(SEEDS)
      // Half of a class's worlds are without it, so a few hundred are enough.
      expect(neverHappened(found)).toEqual([])
    },
    LIMIT_MS,
  )

  test("are the same in another process", async () => {
    const { hash } = simulate(drawPlan(9, STEPS))
    const child = Bun.spawn([
      process.execPath,
      join(import.meta.dir, "../simulation/main.ts"),
      "--seed",
      "9",
      "--steps",
      String(STEPS),
    ])
    expect(await new Response(child.stdout).text()).toContain(`seed 9: trace ${hash}\n`)
    expect(await child.exited).toBe(0)
  })
})
