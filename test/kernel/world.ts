/** A runtime whose time and turns move only when a test says so. */
import {
  type Actor,
  asOutcome,
  type CommandFactory,
  type MaybePromise,
  type Outcome,
  type Runtime,
} from "../../actors/kernel/actor.ts"
import type { Registry } from "../../actors/kernel/registry.ts"
import { Ask } from "../../actors/kernel/turns.ts"
import { SeededScheduler, VirtualClock, seededRandom } from "./virtual-time.ts"

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

/** Asks as who ends what was admitted does, past the mailbox's limit. */
export function insist<T, Command>(
  actor: Actor<Command>,
  make: CommandFactory<T, NoInfer<Command>>,
  deadlineMs: number,
): MaybePromise<Outcome<T>> {
  const ask = new Ask<T, Outcome<T>>(asOutcome)
  return actor.askUnboundedWith(ask, make(ask.reply), deadlineMs)
}

/** The same of an actor of a registry. */
export function insistOn<T, Command>(
  registry: Registry<Command>,
  id: string,
  make: CommandFactory<T, NoInfer<Command>>,
): MaybePromise<Outcome<T>> {
  const ask = new Ask<T, Outcome<T>>(asOutcome)
  return registry.askUnboundedWith(id, ask, make(ask.reply))
}
