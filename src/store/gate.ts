/**
 * A gate: at most `size` callers inside, the rest in one bounded line, first come first served. Times in milliseconds.
 * It stands in front of the connections because postgres.js queues without bound and never settles what it has pipelined
 * behind a connection that dies: a caller inside the gate has a connection to itself, one outside has sent nothing.
 */
import { systemClock } from "../../actors/kernel/clock.ts"

/** Being inside. Disposing of it lets the next one in; doing so twice does nothing. */
export type Pass = Disposable

/** Why a caller was not let in: the line is `full`, the wait was `late`, or the gate has `closed` for good. */
export type Refusal = "full" | "late" | "closed"

/** How full it is now, and since it was made: how many have waited, how long together, and how many were refused. */
export interface GateLoad {
  readonly size: number
  readonly inside: number
  readonly waiting: number
  readonly waits: number
  /** Of those who wait no more. */
  readonly waitedMs: number
  readonly refused: number
}

interface Waiter {
  readonly admit: () => void
  readonly refuse: (why: Refusal) => void
}

export class Gate {
  readonly #size: number
  readonly #maxWaiting: number
  /** In order of arrival; a set, so that one who gives up leaves from the middle at once. */
  readonly #waiting = new Set<Waiter>()
  #inside = 0
  #closed = false
  #whenEmpty: (() => void) | undefined
  #waits = 0
  #waitedMs = 0
  #refused = 0

  constructor(options: { size: number; maxWaiting: number }) {
    this.#size = options.size
    this.#maxWaiting = options.maxWaiting
  }

  get inside(): number {
    return this.#inside
  }
  get waiting(): number {
    return this.#waiting.size
  }

  get load(): GateLoad {
    return {
      size: this.#size,
      inside: this.inside,
      waiting: this.waiting,
      waits: this.#waits,
      waitedMs: this.#waitedMs,
      refused: this.#refused,
    }
  }

  /** Waits for a place, at most `timeoutMs`. */
  async enter(timeoutMs: number): Promise<Pass | Refusal> {
    if (this.#closed) return "closed"
    if (this.#inside < this.#size) return this.#admit()
    if (this.#waiting.size >= this.#maxWaiting) return this.#refuse("full")
    if (timeoutMs <= 0) return this.#refuse("late")
    this.#waits++
    const since = systemClock.running()
    return new Promise((resolve) => {
      const leaveLine = () => {
        timer.cancel()
        this.#waiting.delete(waiter)
        this.#waitedMs += systemClock.running() - since
      }
      const waiter: Waiter = {
        admit: () => {
          leaveLine()
          resolve(this.#admit())
        },
        refuse: (why) => {
          leaveLine()
          resolve(this.#refuse(why))
        },
      }
      const timer = systemClock.after(timeoutMs, () => waiter.refuse("late"))
      this.#waiting.add(waiter)
    })
  }

  /** Refuses everybody outside, now and from now on; resolves once the last one inside has left. */
  async close(): Promise<void> {
    this.#closed = true
    for (const waiter of this.#waiting) waiter.refuse("closed")
    if (this.#inside === 0) return
    await new Promise<void>((resolve) => {
      this.#whenEmpty = resolve
    })
  }

  #refuse(why: Refusal): Refusal {
    this.#refused++
    return why
  }

  #admit(): Pass {
    this.#inside++
    let left = false
    return {
      [Symbol.dispose]: () => {
        if (left) return
        left = true
        this.#leave()
      },
    }
  }

  #leave(): void {
    this.#inside--
    const [next] = this.#waiting
    if (next) next.admit()
    else if (this.#inside === 0) this.#whenEmpty?.()
  }
}
