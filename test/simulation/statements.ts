/**
 * A process's way to the database: each statement is done whole at one moment, after it was sent and before it is
 * answered, and either way may be slow, lost or cut. What the caller sees is what `src/store/database.ts` would tell it.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"
import { statementFaults } from "./faults.ts"
import type { ProcessClock } from "./process-clock.ts"
import type { Stage } from "./stage.ts"

interface RunOptions {
  readonly deadlineMs?: number
  readonly retry?: boolean
}

/** The server, as far as it can be away, and whoever listens to what statements notify. */
export interface Server {
  readonly away: boolean
  /** A statement was sent. */
  sent(): void
  /** It came, whether it was carried out or met nobody. */
  arrived(): void
  /** A statement was done. */
  done(): void
}

type Outcome<T> =
  | { readonly kind: "value"; readonly value: T }
  | { readonly kind: "error"; readonly error: unknown }
  | { readonly kind: "lost" }

const DEADLINE_MS = 5_000
const REPEATABLE_ATTEMPT_MS = 2_000
const lost = { kind: "lost" } as const

export class Statements {
  readonly #stage: Stage
  /** The process's own: what it is told is told to nobody once it is gone. */
  readonly #clock: ProcessClock
  readonly #server: Server
  readonly #who: string
  #troubledAt = -Infinity
  /** Statements under way that something is wrong with. */
  #failing = 0

  constructor(stage: Stage, clock: ProcessClock, server: Server, who: string) {
    this.#stage = stage
    this.#clock = clock
    this.#server = server
    this.#who = who
  }

  /** When the database last failed this process, or kept it waiting: now, while it does. */
  get troubledAt(): number {
    return this.#failing > 0 ? this.#clock.monotonic() : this.#troubledAt
  }

  async run<T>(what: string, statement: () => Promise<T>, options: RunOptions = {}): Promise<T> {
    const { deadlineMs = DEADLINE_MS, retry = false } = options
    const deadline = this.#clock.running() + deadlineMs
    const attemptMs = retry ? REPEATABLE_ATTEMPT_MS : DEADLINE_MS
    for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, 250)) {
      const left = Math.min(attemptMs, deadline - this.#clock.running())
      const outcome = left <= 0 ? lost : await this.#attempt(what, statement, left)
      if (outcome.kind === "value") return outcome.value
      if (outcome.kind === "error") throw outcome.error
      if (!retry || deadline - this.#clock.running() <= pauseMs)
        throw new DatabaseUnavailable("Postgres gave no answer")
      await sleep(this.#clock, pauseMs * (0.5 + this.#stage.random() / 2))
    }
  }

  #attempt<T>(what: string, statement: () => Promise<T>, attemptMs: number): Promise<Outcome<T>> {
    const stage = this.#stage
    return new Promise((resolve) => {
      const end = (outcome: Outcome<T>) => {
        giveUp.cancel()
        if (isFailing) this.#failing--
        isFailing = false
        if (fault !== undefined || this.#server.away) this.#troubledAt = this.#clock.monotonic()
        resolve(outcome)
      }
      const giveUp = this.#clock.after(attemptMs, () => end(lost))
      // What was on its way when the connections were cut does not come.
      const answer = (outcome: Outcome<T>, delayMs: number) =>
        this.#clock.io(delayMs, () => end(this.#server.away ? lost : outcome))
      const fault = stage.fault(statementFaults)
      let isFailing = fault !== undefined
      if (isFailing) this.#failing++
      if (this.#server.away) this.#troubledAt = this.#clock.monotonic()
      if (this.#server.away) return answer(lost, 1)
      if (fault === "statement lost on its way") return
      if (fault === "connection reset before the statement") return answer(lost, stage.delay(20))
      let afterMs = 1 + stage.delay(6)
      if (fault === "statement slow") afterMs += stage.delay(attemptMs)
      if (fault === "statement done after its caller gave it up") afterMs = attemptMs + 1 + stage.delay(4_000)
      this.#server.sent()
      stage.clock.after(afterMs, () => {
        this.#server.arrived()
        // Its connection was cut with all the others.
        if (this.#server.away) return answer(lost, 1)
        stage.trace(`${this.#who} ${what}`)
        const done = statement()
        this.#server.done()
        if (fault === "statement done, its reply lost") return
        if (fault === "connection reset after the statement") return answer(lost, stage.delay(20))
        const backMs = stage.delay(4)
        done.then(
          (value) => answer({ kind: "value", value }, backMs),
          (error: unknown) => answer({ kind: "error", error }, backMs),
        )
      })
    })
  }
}
