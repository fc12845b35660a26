/** Measures how long nothing has been written to a response, in milliseconds. One timer, which sleeps for the time that is left. */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"

export interface IdleTimerOptions {
  readonly clock: Clock
  readonly heartbeatMs: number
  /** Run after each `heartbeatMs` without a write. */
  readonly onIdle: () => void
}

export class IdleTimer {
  readonly #options: IdleTimerOptions
  #lastActivityAt = 0
  #timer: Timer | undefined
  #hasEnded = false

  constructor(options: IdleTimerOptions) {
    this.#options = options
  }

  /** Starts to measure. */
  start(): void {
    this.activity()
    this.#schedule(this.#options.heartbeatMs)
  }

  /** Something was written. */
  activity(): void {
    this.#lastActivityAt = this.#options.clock.monotonic()
  }

  end(): void {
    this.#hasEnded = true
    this.#timer?.cancel()
  }

  #schedule(delayMs: number): void {
    const { clock, heartbeatMs, onIdle } = this.#options
    this.#timer = clock.wait(delayMs, () => {
      const silentMs = clock.monotonic() - this.#lastActivityAt
      if (silentMs + 1 >= heartbeatMs) onIdle()
      const again = heartbeatMs - (clock.monotonic() - this.#lastActivityAt)
      if (!this.#hasEnded) this.#schedule(Math.max(1, again))
    })
  }
}
