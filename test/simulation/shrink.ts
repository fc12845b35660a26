/**
 * Cuts a plan down while the same thing still does not hold: fewer steps, fewer events, fewer kinds of faults, fewer
 * processes. What chance draws later changes with each cut, so each is tried with several courses of chance; one that hides
 * the violation with all of them is taken back.
 */
import type { Plan, PlannedEvent } from "./plan.ts"
import { faultClasses, type Rates } from "./faults.ts"
import { simulate } from "./world.ts"

/** Worlds that are tried in all. */
const MAX_RUNS = 4_000
/** Courses of chance that are tried with each cut. */
const SALTS = [1, 2, 3, 4, 5]

export function shrink(plan: Plan): Plan {
  const first = violationOf(plan)
  if (first === undefined) return plan
  let best = plan
  let runs = 0
  const tryOut = (candidate: Plan): boolean => {
    for (const salt of [candidate.salt, ...SALTS]) {
      if (runs++ >= MAX_RUNS) return false
      if (violationOf({ ...candidate, salt }) !== first) continue
      best = { ...candidate, salt }
      return true
    }
    return false
  }
  for (;;) {
    const before = best
    for (let processes = 1; processes < best.processes; processes++) tryOut({ ...best, processes })
    for (let size = Math.ceil(best.events.length / 2); size >= 1; size = Math.floor(size / 2)) {
      for (let at = best.events.length - size; at >= 0; at -= size)
        tryOut({ ...best, events: without(best.events, at, size) })
    }
    for (const fault of faultClasses)
      if (best.rates[fault] > 0) tryOut({ ...best, rates: switchedOff(best.rates, fault) })
    if (best.shuffled) tryOut({ ...best, shuffled: false })
    for (let steps = 16; steps < best.steps; steps = Math.ceil(steps * 1.5)) if (tryOut({ ...best, steps })) break
    if (best === before || runs >= MAX_RUNS) return best
  }
}

/** The kind of violation, without what differs from run to run. */
const violationOf = (plan: Plan): string | undefined => simulate(plan).violations[0]?.replaceAll(/[0-9]+|\(.*$/gs, "")

const switchedOff = (rates: Rates, fault: (typeof faultClasses)[number]): Rates => ({ ...rates, [fault]: 0 })

function without(events: readonly PlannedEvent[], at: number, size: number): PlannedEvent[] {
  // What comes after is not to come sooner: the pauses are part of the story.
  const cut = events.slice(at, at + size).reduce((sum, { afterMs }) => sum + afterMs, 0)
  return [
    ...events.slice(0, at),
    ...events
      .slice(at + size)
      .map((event, index) => (index === 0 ? { ...event, afterMs: event.afterMs + cut } : event)),
  ]
}
