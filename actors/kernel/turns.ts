/**
 * Turns, and those who wait for one. First who takes the next turn. Turns never nest: what a turn sends waits until that turn is
 * over, so an actor that asks another never finds itself re-entered.
 *
 * Then one ask on its way, and how it ended: exactly once, by whoever ends it first (its reply, its deadline, or the actor's
 * crash or stop). What is certain is said as certain: an ask whose turn had not begun is refused, and never handled later.
 */
import type { Clock, Timer } from "./clock.ts"
import type { DenseSet, Placed } from "./dense-set.ts"

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

export type Reply<T> = (value: T) => void

/**
 * `refused`: it was not and will not be handled. `unknown`: it was begun and not answered; the asker makes up for it with
 * a command that is right whether or not it had its effect.
 */
export type Outcome<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "refused"; readonly reason: Refusal; readonly cause?: unknown }
  | { readonly kind: "unknown"; readonly reason: "deadline" | "crashed" | "stopped" }

/**
 * `full`: the mailbox had no room. `late`: it waited in the mailbox until its deadline. `unavailable`: the actor could not
 * start, or not in time. `stopped`: the actor is stopping or has stopped.
 */
export type Refusal = "full" | "late" | "unavailable" | "stopped"

/** How an ask ended that got no reply. */
export type Unanswered = Exclude<Outcome<never>, { readonly kind: "ok" }>

/** Makes of an ask's end what the asker wants, in the turn in which it ends, so that it needs no second promise. */
export interface ResultOf<T, R> {
  ofReply(value: T): R
  otherwise(end: Unanswered): R
}

/** An ask, without the type of its answer. */
export interface PendingAsk extends Placed {
  readonly ended: boolean
  end(end: Unanswered): void
  /** Its turn is over without a reply: from now on a crash of the actor ends it. */
  trackIn(unanswered: DenseSet<PendingAsk>): void
}

/** What lies in a mailbox. */
export interface Envelope {
  readonly command: unknown
  readonly sentAt: number
  readonly ask: PendingAsk | undefined
}

/** It is its own envelope: a call makes a dozen. */
export class Ask<T, R> implements PendingAsk, Envelope {
  place: number | undefined
  command: unknown
  sentAt = 0
  readonly #resultOf: ResultOf<T, R>
  #ended = false
  #result: R | undefined
  #resolve: ((result: R) => void) | undefined
  #timer: Timer | undefined
  #unanswered: DenseSet<PendingAsk> | undefined

  readonly reply: Reply<T> = (value) => {
    if (!this.#ended) this.#endWith(this.#resultOf.ofReply(value))
  }

  constructor(resultOf: ResultOf<T, R>) {
    this.#resultOf = resultOf
  }

  get ask(): PendingAsk {
    return this
  }

  get ended(): boolean {
    return this.#ended
  }

  end(end: Unanswered): void {
    if (!this.#ended) this.#endWith(this.#resultOf.otherwise(end))
  }

  #endWith(result: R): void {
    this.#ended = true
    this.#result = result
    this.#timer?.cancel()
    this.#unanswered?.delete(this)
    this.#resolve?.(result)
  }

  /** The result of an ask that was not sent. */
  refused(reason: Refusal): R {
    return this.#resultOf.otherwise({ kind: "refused", reason })
  }

  trackIn(unanswered: DenseSet<PendingAsk>): void {
    this.#unanswered = unanswered
    unanswered.add(this)
  }

  /** At once where it is known already: only an ask that was not answered in its own turn pays for a promise and a timer. */
  outcome(clock: Clock, deadlineMs: number, actor: { readonly lateReason: Refusal }): Promise<R> | R {
    return this.#ended ? (this.#result as R) : this.#later(clock, deadlineMs, actor)
  }

  /** A function of its own, because a function that makes a closure pays for it at its beginning. */
  #later(clock: Clock, deadlineMs: number, actor: { readonly lateReason: Refusal }): Promise<R> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.#timer = clock.after(deadlineMs, () => {
        const begun = this.#unanswered !== undefined
        this.end(begun ? { kind: "unknown", reason: "deadline" } : { kind: "refused", reason: actor.lateReason })
      })
    })
  }
}
