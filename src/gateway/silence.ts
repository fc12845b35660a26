/** How long nothing has been written to an answer. Milliseconds. One timer for its life: it looks, and sleeps for what is left. */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"

export interface SilenceOptions {
  readonly clock: Clock
  readonly heartbeatMs: number
  /** Run when nothing has been written for so long. */
  readonly onSilence: () => void
}

export class Silence {
  readonly #options: SilenceOptions
  #brokenAt = 0
  #timer: Timer | undefined
  #isOver = false

  constructor(options: SilenceOptions) {
    this.#options = options
  }

  /** From now on it counts. */
  watch(): void {
    this.broken()
    this.#watch(this.#options.heartbeatMs)
  }

  /** Something was written. */
  broken(): void {
    this.#brokenAt = this.#options.clock.monotonic()
  }

  end(): void {
    this.#isOver = true
    this.#timer?.cancel()
  }

  #watch(delayMs: number): void {
    const { clock, heartbeatMs, onSilence } = this.#options
    this.#timer = clock.wait(delayMs, () => {
      const silentMs = clock.monotonic() - this.#brokenAt
      if (silentMs + 1 >= heartbeatMs) onSilence()
      const again = heartbeatMs - (clock.monotonic() - this.#brokenAt)
      if (!this.#isOver) this.#watch(Math.max(1, again))
    })
  }
}
