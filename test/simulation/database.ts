/** The one database of a simulated world: the books, whether they can be reached, and who is told what they notify. */
import { ModelBooks } from "./model-books.ts"
import type { Notice } from "../../src/store/notices.ts"
import type { Stage } from "./stage.ts"
import type { Server } from "./statements.ts"

const BEGIN = Date.UTC(2026, 0, 1)

export class SimulatedDatabase implements Server {
  readonly books = new ModelBooks(() => this.now())
  readonly listeners = new Set<(notice: Notice) => void>()
  readonly #stage: Stage
  #awayUntil = -1
  #aheadMs = 0
  /** Statements that are on their way, whether or not somebody still waits for them. */
  onTheirWay = 0

  constructor(stage: Stage) {
    this.#stage = stage
  }

  /** Its own clock, in milliseconds since the epoch; it is never set back. */
  now(): number {
    return BEGIN + this.#stage.clock.monotonic() + this.#aheadMs
  }

  /** For its clock alone. */
  minutesGoBy(byMs: number): void {
    this.#aheadMs += byMs
  }

  get away(): boolean {
    return this.#stage.clock.monotonic() < this.#awayUntil
  }

  goAway(forMs: number): void {
    this.#awayUntil = Math.max(this.#awayUntil, this.#stage.clock.monotonic() + forMs)
  }

  comeBack(): void {
    this.#awayUntil = -1
  }

  sent(): void {
    this.onTheirWay++
  }

  arrived(): void {
    this.onTheirWay--
  }

  done(): void {
    void this.#tell()
  }

  async #tell(): Promise<void> {
    for (const notice of await this.books.notices()) {
      for (const listener of this.listeners) listener(notice)
    }
  }
}
