/**
 * `bun run simulate --seed N --steps M`: one world, or `--seeds K` of them from N on, over `--workers W` processes. Says
 * what happened in them; of the first one in which something does not hold, the shortest story that was found. Ends with
 * 1 then, and names the command that plays it again.
 */
import { parseArgs } from "node:util"
import { surveyInParallel } from "./parallel.ts"
import { drawPlan } from "./plan.ts"
import { neverHappened, survey, type Survey } from "./survey.ts"
import { shrink } from "./shrink.ts"
import { simulate } from "./world.ts"

const text = { type: "string" } as const
const { values } = parseArgs({
  options: {
    seed: text,
    steps: text,
    seeds: text,
    workers: text,
    trace: { type: "boolean" },
    json: { type: "boolean" },
  },
})
const number = (name: "seed" | "steps" | "seeds" | "workers", otherwise: number): number => {
  const given = values[name] ?? String(otherwise)
  if (!/^\d{1,12}$/.test(given)) {
    console.error(`--${name} is ${JSON.stringify(given)}; allowed is a whole number`)
    process.exit(2)
  }
  return Number(given)
}
const seed = number("seed", 1)
const seeds = number("seeds", 1)
const steps = number("steps", 500)
const workers = Math.max(1, Math.min(number("workers", 1), seeds))

const begun = performance.now()
const found = workers === 1 ? survey(seed, seeds, steps) : await surveyInParallel(seed, seeds, { steps, workers })
if (values.json === true) {
  console.log(JSON.stringify({ ...found, counts: [...found.counts] }))
} else {
  if (seeds === 1) tellOne()
  report(found)
}
const first = found.violations.toSorted((a, b) => a.seed - b.seed)[0]
if (first !== undefined && values.json !== true) tellStory(first.seed)
process.exit(first === undefined || values.json === true ? 0 : 1)

function tellOne(): void {
  const { hash, trace } = simulate(drawPlan(seed, steps), { keepTrace: values.trace === true })
  if (trace !== undefined) console.log(trace.join("\n"))
  console.log(`seed ${seed}: trace ${hash}`)
}

function report(found: Survey): void {
  const took = (performance.now() - begun) / 1_000
  for (const [what, count] of [...found.counts].sort(([a], [b]) => (a < b ? -1 : 1)))
    console.log(`${String(count).padStart(10)}  ${what}`)
  const hours = (found.virtualMs / 3_600_000).toFixed(1)
  console.log(`${found.seeds} worlds, ${found.steps} steps, ${found.calls} calls, ${hours} simulated hours`)
  console.log(`${(found.seeds / took).toFixed(0)} worlds a second, ${took.toFixed(1)} s`)
  const missing = found.seeds < 1_000 ? [] : neverHappened(found)
  for (const what of missing) console.log(`never happened: ${what}`)
  console.log(`${found.violations.length} worlds in which something does not hold`)
  for (const { seed: of, what } of found.violations.slice(0, 20)) console.log(`  seed ${of}: ${what.split("\n")[0]}`)
}

function tellStory(of: number): void {
  const plan = shrink(drawPlan(of, steps))
  const { trace, violations } = simulate(plan, { keepTrace: true })
  const faults = Object.entries(plan.rates).filter(([, rate]) => rate > 0)
  console.log(`\nThe shortest story found of seed ${of}: ${plan.processes} processes, ${plan.events.length} events`)
  console.log(`Faults: ${faults.map(([fault]) => fault).join("; ") || "none"}`)
  console.log(trace?.join("\n"))
  console.log(`\nDoes not hold: ${violations.join("\n")}`)
  console.log(`Again: bun run simulate --seed ${of} --steps ${steps}`)
}
