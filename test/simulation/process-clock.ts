/**
 * Time as one process of a simulated world has it. It may stand still: then nothing of it runs, and the world around it goes
 * on. When it goes on, what was late comes in the worst order: all timers first, and what lay in its sockets after them.
 * Nothing of it runs any more once it is gone. Times in milliseconds.
 */
import { afterRunning, type Clock, type Timer } from "../../actors/kernel/clock.ts"
import type { Stage } from "./stage.ts"

/** Of a standstill a process takes so much for time in which it ran: two of its clock's ticks. */
const SEEN_MS = 100
/** The most that lies between two looks at the sockets of a process that goes on. */
const SPREAD_MS = 1

interface LateTimer {
  readonly run: () => void
  cancelled: boolean
}

export class ProcessClock implements Clock {
  readonly #stage: Stage
  readonly #skewMs: number
  alive = true
  #standsSince: number | undefined
  #lost = 0
  #lateTimers: LateTimer[] = []
  #lateIo: (() => void)[] = []

  constructor(stage: Stage) {
    this.#stage = stage
    this.#skewMs = Math.floor((stage.random() - 0.5) * 2_000)
  }

  now(): number {
    return this.#stage.clock.now() + this.#skewMs
  }
  monotonic(): number {
    return this.#stage.clock.monotonic()
  }
  running(): number {
    return this.monotonic() - this.#lost - this.#losing
  }
  wait(delayMs: number, run: () => void): Timer {
    const timer: LateTimer = { run, cancelled: false }
    const due = this.#stage.clock.after(delayMs, () => {
      if (!this.alive) return
      if (this.stands) this.#lateTimers.push(timer)
      else run()
    })
    return {
      cancel: () => {
        timer.cancelled = true
        due.cancel()
      },
    }
  }
  after(delayMs: number, run: () => void): Timer {
    return afterRunning(this, delayMs, run)
  }

  /** What comes to this process from outside, after so long. */
  io(delayMs: number, run: () => void): void {
    this.#stage.clock.after(delayMs, () => {
      if (this.alive) this.arrive(run)
    })
  }

  /** What comes to this process from outside, now. */
  arrive(run: () => void): void {
    if (this.stands) this.#lateIo.push(run)
    else run()
  }

  get stands(): boolean {
    return this.#standsSince !== undefined
  }

  /** False when it stands still already. */
  stand(forMs: number): boolean {
    if (!this.alive || this.stands) return false
    this.#standsSince = this.monotonic()
    this.#stage.clock.after(forMs, () => this.goOn())
    return true
  }

  /** Resolves when what comes from outside is heard. */
  heard(): Promise<void> {
    return new Promise((resolve) => this.arrive(resolve))
  }

  goOn(): void {
    if (!this.stands) return
    this.#lost += this.#losing
    this.#standsSince = undefined
    const timers = this.#lateTimers.splice(0)
    const arrived = this.#lateIo.splice(0)
    for (const timer of timers) {
      if (timer.cancelled || !this.alive) continue
      timer.run()
      this.#stage.settle()
    }
    let delayMs = 0
    for (const run of arrived) this.io((delayMs += this.#stage.random() < 0.2 ? SPREAD_MS : 0), run)
  }

  get #losing(): number {
    return this.#standsSince === undefined ? 0 : Math.max(0, this.monotonic() - this.#standsSince - SEEN_MS)
  }
}

/** Resolves when something has come from outside, after so long. */
export const arrival = (clock: ProcessClock, delayMs: number): Promise<void> =>
  new Promise((resolve) => clock.io(delayMs, resolve))
