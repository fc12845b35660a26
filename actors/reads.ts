/**
 * Reads of durable state that may change at any time. One is under way at a time, so that an older answer never overtakes a
 * newer one; a change that is announced meanwhile is read after it. Whoever announced one is answered when what was read
 * after that is in force.
 */
import type { Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"

/** A change that could not be read is tried again after so long: a revoked key must not live on. */
const AGAIN_MS = 500

export interface ReadPorts {
  readonly clock: Clock
  /** Begins a read; its outcome is told to `ended` or `failed`. */
  readonly read: () => void
  /** Announces the change again, as a command of the actor. */
  readonly again: () => void
}

export class Reads {
  readonly #ports: ReadPorts
  #isReading = false
  #isStale = false
  /** Who is answered after the read under way, and after the one that follows it. */
  #waiting: Reply<"in force">[] = []
  #waitingForNext: Reply<"in force">[] = []

  constructor(ports: ReadPorts) {
    this.#ports = ports
  }

  get isIdle(): boolean {
    return !this.#isReading && this.#waitingForNext.length === 0
  }

  changed(reply?: Reply<"in force">): void {
    if (reply !== undefined) this.#waitingForNext.push(reply)
    if (this.#isReading) {
      // The read under way may be older than the change.
      this.#isStale = true
      return
    }
    this.#isReading = true
    this.#waiting = this.#waitingForNext.splice(0)
    this.#ports.read()
  }

  /** What was read is in force. */
  ended(): void {
    for (const reply of this.#waiting.splice(0)) reply("in force")
    this.#next()
  }

  failed(): void {
    this.#ports.clock.after(AGAIN_MS, this.#ports.again)
    this.#waitingForNext.unshift(...this.#waiting.splice(0))
    this.#next()
  }

  #next(): void {
    this.#isReading = false
    if (!this.#isStale) return
    this.#isStale = false
    this.changed()
  }
}
