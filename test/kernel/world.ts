/** A runtime whose time and turns move only when a test says so. */
import type { Runtime } from "../../actors/kernel/actor.ts"
import { VirtualClock, seededRandom } from "../../actors/kernel/clock.ts"
import { SeededScheduler } from "../../actors/kernel/turns.ts"

export interface World extends Runtime {
  readonly clock: VirtualClock
  readonly scheduler: SeededScheduler
  readonly crashes: string[]
  readonly fatals: string[]
}

export function world(seed = 1): World {
  const random = seededRandom(seed)
  const crashes: string[] = []
  const fatals: string[] = []
  return {
    clock: new VirtualClock(),
    random,
    scheduler: new SeededScheduler(random),
    crashed: (actor) => crashes.push(actor),
    fatal: (actor) => fatals.push(actor),
    crashes,
    fatals,
  }
}

/** Lets every promise that can go on go on. */
export const flush = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Takes all turns there are, with what they wake up. */
export async function quiesce({ scheduler }: World): Promise<void> {
  do await flush()
  while (scheduler.step())
}
