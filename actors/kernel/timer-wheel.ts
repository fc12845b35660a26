/**
 * Deadlines of seconds, in ticks: all that are due in one tick share one timer of the clock, so that a deadline which is
 * cancelled in time, as nearly every one is, costs no timer. None comes early; each comes within a tick. Milliseconds.
 */
import { DenseSet, type Placed } from "./dense-set.ts"

/** The part of a clock that it needs (clock.ts). */
interface RunningClock {
  running(): number
  after(delayMs: number, run: () => void): Timer
}

interface Timer {
  cancel(): void
}

/** One that is waited for: in the set of those that are due with it until it runs or is cancelled. */
class Deadline implements Timer, Placed {
  place: number | undefined
  readonly run: () => void
  readonly #wheel: TimerWheel
  readonly #due: DenseSet<Deadline>

  constructor(wheel: TimerWheel, due: DenseSet<Deadline>, run: () => void) {
    this.run = run
    this.#wheel = wheel
    this.#due = due
  }

  cancel(): void {
    if (this.#due.delete(this)) this.#wheel.left()
  }
}

export class TimerWheel {
  readonly #clock: RunningClock
  readonly #tickMs: number
  /** By the tick in which they are due. */
  readonly #ticks = new Map<number, DenseSet<Deadline>>()
  #waiting = 0
  /** The tick that the clock's timer is set for. */
  #next = Infinity
  #timer: Timer | undefined

  constructor(clock: RunningClock, tickMs: number) {
    this.#clock = clock
    this.#tickMs = tickMs
  }

  after(delayMs: number, run: () => void): Timer {
    const tick = Math.ceil((this.#clock.running() + delayMs) / this.#tickMs)
    const due = this.#ticks.get(tick) ?? new DenseSet()
    if (due.size === 0) this.#ticks.set(tick, due)
    const deadline = new Deadline(this, due, run)
    due.add(deadline)
    this.#waiting++
    if (tick < this.#next) this.#arm(tick)
    return deadline
  }

  /** One that was waited for is not any more. */
  left(): void {
    if (--this.#waiting === 0) this.#disarm()
  }

  #arm(tick: number): void {
    this.#timer?.cancel()
    this.#next = tick
    this.#timer = this.#clock.after(tick * this.#tickMs - this.#clock.running(), () => this.#turn())
  }

  /** A timer that nobody waits for must not keep a process from its end. */
  #disarm(): void {
    this.#timer?.cancel()
    this.#next = Infinity
    this.#ticks.clear()
  }

  #turn(): void {
    // The clock may be early by a part of a millisecond.
    const now = Math.floor((this.#clock.running() + 1) / this.#tickMs)
    this.#next = Infinity
    try {
      for (const tick of [...this.#ticks.keys()].toSorted((a, b) => a - b)) if (tick <= now) this.#run(tick)
    } finally {
      // Also when a deadline throws: what it kept from running runs next.
      const next = Math.min(...this.#ticks.keys())
      if (next < this.#next) this.#arm(next)
    }
  }

  #run(tick: number): void {
    const due = this.#ticks.get(tick)
    if (due === undefined) return
    for (const deadline of due.all()) {
      // One that ran before it may have cancelled it.
      if (!due.delete(deadline)) continue
      this.#waiting--
      deadline.run()
    }
    // One that ran may have set another one for this very tick: the next turn has it.
    if (due.size === 0) this.#ticks.delete(tick)
  }
}
