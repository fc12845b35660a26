/** Time, chance and turns that are the same for the same seed, and move only when a test says so. */
import type { Clock, Random, Timer } from "../../actors/kernel/clock.ts"
import type { Runnable, Scheduler } from "../../actors/kernel/turns.ts"

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
  running(): number {
    return this.#elapsed
  }
  after(delayMs: number, run: () => void): Timer {
    // What is left of a time by subtraction may be too little to move the sum: it would be waited for for ever.
    const at = this.#elapsed + (delayMs > 0 ? Math.max(delayMs, 0.001) : 0)
    const due: Due = { at, order: this.#order++, run }
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

  wait(delayMs: number, run: () => void): Timer {
    return this.after(delayMs, run)
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

/** mulberry32 (public domain): small, fast, and the same run for the same seed. Not for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Takes turns only on `step`, in an order drawn from a seed: the simulation's scheduler. */
export class SeededScheduler implements Scheduler {
  readonly #random: Random
  readonly #waiting: Runnable[] = []

  constructor(random: Random) {
    this.#random = random
  }

  ready(runnable: Runnable): void {
    this.#waiting.push(runnable)
  }

  /** One turn of one who is ready; false when nobody is. */
  step(): boolean {
    const index = Math.floor(this.#random() * this.#waiting.length)
    const chosen = this.#waiting[index]
    if (chosen === undefined) return false
    const last = this.#waiting.pop()
    if (last !== undefined && last !== chosen) this.#waiting[index] = last
    chosen.turn()
    return true
  }

  drain(): void {
    while (this.step());
  }
}
