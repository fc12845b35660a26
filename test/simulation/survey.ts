/** Many worlds, one after the other, and what happened in them. */
import { costsPlayed } from "./costs.ts"
import { faultClasses } from "./faults.ts"
import { drawPlan } from "./plan.ts"
import { simulate } from "./world.ts"

export interface Survey {
  seeds: number
  steps: number
  calls: number
  virtualMs: number
  readonly counts: Map<string, number>
  /** Seeds of worlds in which something did not hold, and what. */
  readonly violations: { readonly seed: number; readonly what: string }[]
}

export const emptySurvey = (): Survey => ({
  seeds: 0,
  steps: 0,
  calls: 0,
  virtualMs: 0,
  counts: new Map(),
  violations: [],
})

export function survey(seed: number, seeds: number, steps: number): Survey {
  const sum = emptySurvey()
  for (let each = seed; each < seed + seeds; each++) {
    const { violations, counts, ...world } = simulate(drawPlan(each, steps))
    const what = violations[0]
    merge(sum, { ...world, seeds: 1, counts, violations: what === undefined ? [] : [{ seed: each, what }] })
  }
  return sum
}

export function merge(
  into: Survey,
  from: Omit<Survey, "counts"> & { readonly counts: Iterable<readonly [string, number]> },
): void {
  into.seeds += from.seeds
  into.steps += from.steps
  into.calls += from.calls
  into.virtualMs += from.virtualMs
  for (const [what, count] of from.counts) into.counts.set(what, (into.counts.get(what) ?? 0) + count)
  into.violations.push(...from.violations)
}

/** What never happened: in many worlds, a bug of the simulation. */
export const neverHappened = ({ counts }: Survey): string[] =>
  [...faultClasses, ...costsPlayed].filter((what) => !counts.has(what))
