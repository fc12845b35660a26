/**
 * Time, handed in. `now` is the wall clock in whole milliseconds since the epoch, for what people and calendars see;
 * `monotonic` never goes back, and is what windows, deadlines and waits are measured with.
 */
export interface Clock {
  now(): number
  monotonic(): number
  /** Runs once, `delayMs` from now at the earliest. */
  after(delayMs: number, run: () => void): Timer
}

export interface Timer {
  cancel(): void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, run) {
    const handle = setTimeout(run, delayMs)
    return { cancel: () => clearTimeout(handle) }
  },
}

/** Resolves `delayMs` from now. */
export const sleep = (clock: Clock, delayMs: number): Promise<void> =>
  new Promise((resolve) => void clock.after(delayMs, resolve))

interface Due {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

/** Time that stands still until it is moved. Timers due at one moment run in the order in which they were set. */
export class VirtualClock implements Clock {
  #elapsed = 0
  #order = 0
  #wall: number
  readonly #timers: Due[] = []

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#wall = startMs
  }

  now(): number {
    return Math.floor(this.#wall + this.#elapsed)
  }
  monotonic(): number {
    return this.#elapsed
  }
  after(delayMs: number, run: () => void): Timer {
    const due: Due = { at: this.#elapsed + Math.max(0, delayMs), order: this.#order++, run }
    let index = this.#timers.length
    while (index > 0 && later(this.#timers[index - 1], due)) index--
    this.#timers.splice(index, 0, due)
    return {
      cancel: () => {
        const waiting = this.#timers.indexOf(due)
        if (waiting >= 0) this.#timers.splice(waiting, 1)
      },
    }
  }

  /** Sets the wall clock forth or back; elapsed time is untouched. */
  shiftWall(byMs: number): void {
    this.#wall += byMs
  }

  /** Jumps to the next timer and runs it; false when there is none. */
  runNext(): boolean {
    const due = this.#timers.shift()
    if (due === undefined) return false
    this.#elapsed = Math.max(this.#elapsed, due.at)
    due.run()
    return true
  }

  /** Moves on by `ms`, running every timer that falls due on the way. */
  advance(ms: number): void {
    const until = this.#elapsed + ms
    for (let next = this.#timers[0]; next !== undefined && next.at <= until; next = this.#timers[0]) this.runNext()
    this.#elapsed = until
  }
}

const later = (a: Due | undefined, b: Due): boolean => a !== undefined && a.at > b.at
