/**
 * Actors that lease only once they are asked for money start again without knowing of what the one before them had leased. That is
 * in nobody's hands: no neighbour gets anything of it before an actor knows it again. So those are told that they follow one that
 * crashed, and a start of theirs that fails is repeated.
 */
import type { Behaviour, Runtime } from "../../actors/kernel/actor.ts"

export type Start<Command> = (id: string, tell: (command: Command) => void) => Promise<Behaviour<Command>>
export type Restart<Command> = (
  id: string,
  tell: (command: Command) => void,
  isRestarted: boolean,
) => Promise<Behaviour<Command>>

/** When an actor that could not be started again, because the database was away, is looked after again, in milliseconds. */
export const START_AGAIN_MS = 1_000

export class Restarts {
  /** What the actors are to be run on. */
  readonly runtime: Runtime
  readonly #kinds = new Set<string>()
  /** By name, from their crash until they have started. */
  readonly #crashed = new Set<string>()

  constructor(runtime: Runtime) {
    this.runtime = {
      ...runtime,
      crashed: (name, cause) => {
        if (this.#kinds.has(kindOf(name))) this.#crashed.add(name)
        runtime.crashed(name, cause)
      },
    }
  }

  /** `again`: asks for an actor of the kind, which begins it anew. */
  of<Command>(kind: string, start: Restart<Command>, again: (id: string) => void): Start<Command> {
    this.#kinds.add(kind)
    return async (id, tell) => {
      const name = `${kind}:${id}`
      const isRestarted = this.#crashed.has(name)
      try {
        const behaviour = await start(id, tell, isRestarted)
        this.#crashed.delete(name)
        return behaviour
      } catch (error) {
        if (isRestarted) this.runtime.clock.after(START_AGAIN_MS, () => again(id))
        throw error
      }
    }
  }
}

const kindOf = (name: string): string => name.slice(0, name.indexOf(":"))
