/**
 * One ask on its way, and how it ended: exactly once, by whoever ends it first (its reply, its deadline, or the actor's
 * crash or stop). What is certain is said as certain: an ask whose turn had not begun is refused, and never handled later.
 */
import type { Clock, Timer } from "./clock.ts"
import type { DenseSet, Placed } from "./dense-set.ts"

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

/** What an outcome is to the asker, worked out in the turn in which the ask ends: an ask needs no second promise for it. */
export type Read<T, R> = (outcome: Outcome<T>) => R

/** An ask to those who need not know what it is answered with. */
export interface Pending extends Placed {
  readonly ended: boolean
  end(outcome: Outcome<never>): void
  /** Its turn is over without a reply: from now on it is one of those that a crash would leave unanswered. */
  leaveUnanswered(among: DenseSet<Pending>): void
}

export class Ask<T, R> implements Pending {
  place: number | undefined
  readonly #read: Read<T, R>
  #outcome: Outcome<T> | undefined
  #resolve: ((read: R) => void) | undefined
  #timer: Timer | undefined
  #unanswered: DenseSet<Pending> | undefined

  readonly reply: Reply<T> = (value) => this.end({ kind: "ok", value })

  constructor(read: Read<T, R>) {
    this.#read = read
  }

  get ended(): boolean {
    return this.#outcome !== undefined
  }

  end(outcome: Outcome<T>): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    this.#timer?.cancel()
    this.#unanswered?.delete(this)
    this.#resolve?.(this.#read(outcome))
  }

  /** What it is to the asker that nobody was asked. */
  refused(reason: Refusal): R {
    return this.#read({ kind: "refused", reason })
  }

  leaveUnanswered(among: DenseSet<Pending>): void {
    this.#unanswered = among
    among.add(this)
  }

  /** At once where it is known already: only an ask that was not answered in its own turn pays for a promise and a timer. */
  outcome(clock: Clock, deadlineMs: number, actor: { readonly whyLate: Refusal }): Promise<R> | R {
    return this.#outcome === undefined ? this.#later(clock, deadlineMs, actor) : this.#read(this.#outcome)
  }

  /** Apart from the answer that is there: whatever makes a closure pays for it at its beginning. */
  #later(clock: Clock, deadlineMs: number, actor: { readonly whyLate: Refusal }): Promise<R> {
    return new Promise((resolve) => {
      this.#resolve = resolve
      this.#timer = clock.after(deadlineMs, () => {
        const begun = this.#unanswered !== undefined
        this.end(begun ? { kind: "unknown", reason: "deadline" } : { kind: "refused", reason: actor.whyLate })
      })
    })
  }
}
