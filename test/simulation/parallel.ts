/** A survey over several processes, each with a stretch of the seeds. */
import { join } from "node:path"
import { emptySurvey, merge, type Survey } from "./survey.ts"

/** The collector's own threads take turns from worlds where every core has one. */
const SINGLE_THREADED_COLLECTOR = { BUN_JSC_useConcurrentGC: "0" }

export async function surveyInParallel(
  seed: number,
  seeds: number,
  { steps, workers }: { readonly steps: number; readonly workers: number },
): Promise<Survey> {
  const each = Math.ceil(seeds / workers)
  const sum = emptySurvey()
  const parts = Array.from({ length: workers }, async (_, index) => {
    const from = seed + index * each
    const count = Math.min(each, seed + seeds - from)
    if (count <= 0) return
    const terms = ["--seed", String(from), "--seeds", String(count), "--steps", String(steps), "--json"]
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "main.ts"), ...terms], {
      env: { ...process.env, ...SINGLE_THREADED_COLLECTOR },
      stdout: "pipe",
      stderr: "inherit",
    })
    const told = await new Response(child.stdout).text()
    if ((await child.exited) !== 0) throw new Error(`the worker of the seeds from ${from} ended badly`)
    merge(sum, JSON.parse(told) as Parameters<typeof merge>[1])
  })
  await Promise.all(parts)
  return sum
}
