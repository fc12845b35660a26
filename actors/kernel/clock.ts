/**
 * Time and randomness, handed in. All times in milliseconds.
 *
 * A process can stand still: a long turn, a busy machine, SIGSTOP. Whoever waits then hears its timers first and its sockets
 * second, and would take an answer that lies in the socket for one that never came. So a deadline counts the time in which
 * this process ran (decisions §13.1), and a timer that comes late lets I/O have its turn before it says so. Long deadlines share the timers of a wheel.
 */
import { DenseSet, type Placed } from "./dense-set.ts"

export interface Clock {
  /** The wall clock in whole milliseconds since the epoch, for what people and calendars see. */
  now(): number
  /** Never goes back; what windows and measurements go by. */
  monotonic(): number
  /** Monotonic time without the stretches in which this process stood still; what deadlines and silences go by. */
  running(): number
  /** A deadline: runs once, when this process has run for `delayMs` more, at the earliest. */
  after(delayMs: number, run: () => void): Timer
  /** Not a deadline: runs once, when `delayMs` have passed, however little of them this process ran. For what is owed to others. */
  wait(delayMs: number, run: () => void): Timer
}

export interface Timer {
  cancel(): void
}

type Machine = Pick<Clock, "monotonic" | "running" | "wait">

/** A timer that is this late comes from a process that stood still. */
const LATE_MS = 20
/** Long enough for one look at every socket. */
const IO_TURN_MS = 5
/** A machine that is always late must not put a deadline off for ever. */
const MAX_IO_TURNS = 3

/** `after` of a clock: what it waits for is running time, and I/O has its turn before it runs late. */
export function afterRunning(machine: Machine, delayMs: number, run: () => void): Timer {
  const due = machine.running() + delayMs
  let turns = 0
  let timer = wait(delayMs)
  function wait(ms: number): Timer {
    const at = machine.monotonic() + ms
    return machine.wait(ms, () => {
      const left = due - machine.running()
      if (left > 1) timer = wait(left)
      else if (machine.monotonic() - at > LATE_MS && turns++ < MAX_IO_TURNS) timer = wait(IO_TURN_MS)
      else run()
    })
  }
  return { cancel: () => timer.cancel() }
}

/** How often the running time is looked at. */
const TICK_MS = 50

/**
 * Running time from regular looks at the monotonic clock: between two of them no more than two ticks can have been run. It is
 * exact to that while the process runs, and a standstill of any length counts as two ticks.
 */
export class RunningTime {
  #ran = 0
  #seenAt: number
  #lost = 0

  constructor(monotonic: number) {
    this.#seenAt = monotonic
  }

  at(monotonic: number): number {
    return this.#ran + Math.min(monotonic - this.#seenAt, 2 * TICK_MS)
  }

  /** All standstills so far, in milliseconds. */
  get lost(): number {
    return this.#lost
  }

  tick(monotonic: number): void {
    const ran = this.at(monotonic)
    this.#lost += monotonic - this.#seenAt - (ran - this.#ran)
    this.#ran = ran
    this.#seenAt = monotonic
  }
}

const runningTime = new RunningTime(performance.now())
setInterval(() => runningTime.tick(performance.now()), TICK_MS).unref()

const machine: Machine = {
  monotonic: () => performance.now(),
  running: () => runningTime.at(performance.now()),
  wait(delayMs, run) {
    // What was due before it was asked for is due now; Bun warns of a negative delay.
    const handle = setTimeout(run, Math.max(0, delayMs))
    return { cancel: () => clearTimeout(handle) }
  },
}

// Deadlines of seconds, in ticks: all that are due in one tick share one timer of the clock, so that a deadline which is
// cancelled in time, as nearly every one is, costs no timer. None comes early; each comes within a tick.

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
  readonly #clock: Pick<Clock, "running" | "after">
  readonly #tickMs: number
  /** By the tick in which they are due. */
  readonly #ticks = new Map<number, DenseSet<Deadline>>()
  #waiting = 0
  /** The tick that the clock's timer is set for. */
  #next = Infinity
  #timer: Timer | undefined

  constructor(clock: Pick<Clock, "running" | "after">, tickMs: number) {
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

/** Below this a deadline has a timer of its own, which is exact. */
const LONG_MS = 2_000
const WHEEL_TICK_MS = 100
const wheel = new TimerWheel(
  { running: () => machine.running(), after: (delayMs, run) => afterRunning(machine, delayMs, run) },
  WHEEL_TICK_MS,
)

export const systemClock: Clock & { readonly lost: () => number } = {
  now: () => Date.now(),
  monotonic: () => machine.monotonic(),
  running: () => machine.running(),
  after: (delayMs, run) => (delayMs < LONG_MS ? afterRunning(machine, delayMs, run) : wheel.after(delayMs, run)),
  wait: (delayMs, run) => machine.wait(delayMs, run),
  /** For how long this process has stood still since its start. */
  lost: () => runningTime.lost,
}

/** Resolves when this process has run for `delayMs` more. */
export const sleep = (clock: Clock, delayMs: number): Promise<void> =>
  new Promise((resolve) => void clock.after(delayMs, resolve))

/** Randomness, handed in: a number in [0, 1). */
export type Random = () => number

/** Again and again with a pause between, never two at once. Stopping waits for the one under way. Milliseconds. */
export function every(pauseMs: number, work: () => Promise<void>, atOnce = false): { stop(): Promise<void> } {
  let current = Promise.resolve()
  let timer: ReturnType<typeof setTimeout> | undefined
  let over = false
  const later = () => {
    if (over) return
    timer = setTimeout(() => {
      current = work().then(later)
    }, pauseMs)
  }
  if (atOnce) current = work().then(later)
  else later()
  return {
    async stop() {
      over = true
      clearTimeout(timer)
      await current
    },
  }
}
