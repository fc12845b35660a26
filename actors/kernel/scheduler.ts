/**
 * Who takes the next turn. Turns never nest: what a turn sends waits until that turn is over, so an actor that asks
 * another never finds itself re-entered.
 */
import type { Random } from "./clock.ts"

/** Something with one turn to take. It announces itself again when it has more. */
export interface Runnable {
  turn(): void
}

export interface Scheduler {
  ready(runnable: Runnable): void
}

/** Runs turns at once, on the sender's stack: an ask that finds everyone idle is answered before it returns. */
export class InlineScheduler implements Scheduler {
  #running = false
  #queue: Runnable[] = []

  ready(runnable: Runnable): void {
    this.#queue.push(runnable)
    if (this.#running) return
    this.#running = true
    let taken = 0
    try {
      // A queue that is walked, not shifted: turns append to it while it is walked.
      for (let next = this.#queue[0]; next !== undefined; next = this.#queue[++taken]) next.turn()
    } finally {
      // A turn that throws is a bug of the kernel; who waited behind it still gets a turn with the next one.
      this.#queue.splice(0, taken + 1)
      this.#running = false
    }
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
