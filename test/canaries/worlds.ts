/** Plays simulated worlds until something does not hold in one of them, and ends with 1 then. Beside a canary, see plant.ts. */
import { drawPlan } from "../simulation/plan.ts"
import { simulate } from "../simulation/world.ts"

const WORLDS = 900
const STEPS = 500

for (let seed = 1; seed <= WORLDS; seed++) {
  const [violation] = simulate(drawPlan(seed, STEPS)).violations
  if (violation === undefined) continue
  process.stdout.write(`after ${seed} worlds: ${violation}\n`)
  process.exit(1)
}
