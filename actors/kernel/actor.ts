/**
 * An actor: a mailbox, and a behaviour that takes one command at a time. A turn is a synchronous function, so state that
 * a turn touches cannot change under it; what must wait (a query, a timer) is begun in a turn and comes back as a command.
 *
 * An ask is refused when the mailbox is full. A tell never is: tells are the ends of what an admitted ask began
 * (releases, settlements) and news, and losing one would lose money.
 */
import type { Clock, Timer } from "./clock.ts"
import { Mailbox } from "./mailbox.ts"
import type { Random } from "./random.ts"
import type { Scheduler } from "./scheduler.ts"

export interface Runtime {
  readonly clock: Clock
  readonly random: Random
  readonly scheduler: Scheduler
  /** A failure that restarts cannot mend: the process should end. */
  readonly fatal: (actor: string, cause: unknown) => void
  /** A turn that threw: a bug, worth a log line. */
  readonly crashed: (actor: string, cause: unknown) => void
}

export type Reply<T> = (value: T) => void

/**
 * How an ask ended. `refused`: it was not and will not be handled. `unknown`: it may have been handled, or may yet be;
 * the asker makes up for it with a command that is right in both cases.
 */
export type Outcome<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "refused"; readonly reason: "full" | "stopped" | "unavailable"; readonly cause?: unknown }
  | { readonly kind: "unknown"; readonly reason: "deadline" | "crashed" }

export interface Behaviour<Command> {
  receive(command: Command): void
  /** Whether nothing would be lost if this actor were put away now. */
  idle?(): boolean
}

export interface ActorOptions<Command> {
  readonly name: string
  /** How many asks may wait. */
  readonly mailboxLimit: number
  /** Makes the behaviour from durable state, at first and after a crash. */
  readonly start: (self: Actor<Command>) => Behaviour<Command> | Promise<Behaviour<Command>>
  /** Told of a crash; answers whether to start again. */
  readonly supervise: (cause: unknown) => "restart" | "stop"
}

interface Envelope<Command> {
  readonly command: Command
  readonly sentAt: number
  readonly end: ((outcome: Outcome<never>) => void) | undefined
}

type State = "starting" | "running" | "stopped"

export class Actor<Command> {
  readonly name: string
  readonly #runtime: Runtime
  readonly #options: ActorOptions<Command>
  readonly #mailbox = new Mailbox<Envelope<Command>>()
  readonly #stopWaiters: (() => void)[] = []
  #behaviour: Behaviour<Command> | undefined
  #state: State = "starting"
  #scheduled = false
  #stopWhenEmpty = false
  #lastUsedAt: number

  constructor(runtime: Runtime, options: ActorOptions<Command>) {
    this.name = options.name
    this.#runtime = runtime
    this.#options = options
    this.#lastUsedAt = runtime.clock.monotonic()
    this.#start()
  }

  get stopped(): boolean {
    return this.#state === "stopped"
  }
  get depth(): number {
    return this.#mailbox.size
  }
  /** Milliseconds that the oldest waiting command has waited. */
  get ageMs(): number {
    const oldest = this.#mailbox.peek()
    return oldest === undefined ? 0 : this.#runtime.clock.monotonic() - oldest.sentAt
  }

  /** Sends without an answer. False only when the actor has stopped. */
  tell(command: Command): boolean {
    if (this.#state === "stopped") return false
    this.#enqueue({ command, sentAt: this.#runtime.clock.monotonic(), end: undefined })
    return true
  }

  /** Sends what `make` builds around a reply, and waits for that reply or the deadline. */
  ask<T>(make: (reply: Reply<T>) => Command, deadlineMs: number): Promise<Outcome<T>> {
    if (this.#state === "stopped") return Promise.resolve({ kind: "refused", reason: "stopped" })
    if (this.#mailbox.size >= this.#options.mailboxLimit) return Promise.resolve({ kind: "refused", reason: "full" })
    let ended: Outcome<T> | undefined
    let resolve: ((outcome: Outcome<T>) => void) | undefined
    let timer: Timer | undefined
    const end = (outcome: Outcome<T>) => {
      if (ended !== undefined) return
      ended = outcome
      timer?.cancel()
      resolve?.(outcome)
    }
    const command = make((value) => end({ kind: "ok", value }))
    this.#enqueue({ command, sentAt: this.#runtime.clock.monotonic(), end })
    if (ended !== undefined) return Promise.resolve(ended)
    // Only an ask that was not answered in its own turn pays for a timer.
    return new Promise((settle) => {
      resolve = settle
      timer = this.#runtime.clock.after(deadlineMs, () => end({ kind: "unknown", reason: "deadline" }))
    })
  }

  /** Takes what has been sent already, then stops. */
  stop(): Promise<void> {
    if (this.#state === "stopped") return Promise.resolve()
    this.#stopWhenEmpty = true
    const stopped = new Promise<void>((resolve) => this.#stopWaiters.push(resolve))
    this.#schedule()
    return stopped
  }

  /** Stops if unused for `idleMs` and nothing is held or waiting. */
  passivate(idleMs: number): boolean {
    const quiet = this.#runtime.clock.monotonic() - this.#lastUsedAt >= idleMs
    if (this.#state !== "running" || !quiet || this.#mailbox.size > 0) return false
    if (this.#behaviour?.idle?.() !== true) return false
    this.#end({ kind: "refused", reason: "stopped" })
    return true
  }

  /** One command's turn. For the scheduler alone. */
  turn(): void {
    this.#scheduled = false
    if (this.#state !== "running" || this.#behaviour === undefined) return
    const envelope = this.#mailbox.take()
    if (envelope !== undefined) {
      this.#lastUsedAt = this.#runtime.clock.monotonic()
      try {
        this.#behaviour.receive(envelope.command)
      } catch (cause) {
        envelope.end?.({ kind: "unknown", reason: "crashed" })
        this.#crash(cause)
        return
      }
    }
    if (this.#mailbox.size > 0) this.#schedule()
    else if (this.#stopWhenEmpty) this.#end({ kind: "refused", reason: "stopped" })
  }

  #start(): void {
    this.#state = "starting"
    try {
      const behaviour = this.#options.start(this)
      if (behaviour instanceof Promise)
        behaviour.then((started) => this.#run(started)).catch((cause) => this.#failStart(cause))
      else this.#run(behaviour)
    } catch (cause) {
      this.#failStart(cause)
    }
  }

  #run(behaviour: Behaviour<Command>): void {
    if (this.#state !== "starting") return
    this.#behaviour = behaviour
    this.#state = "running"
    if (this.#mailbox.size > 0 || this.#stopWhenEmpty) this.#schedule()
  }

  /** A start that fails refuses everyone who waits; the next one who asks begins anew. */
  #failStart(cause: unknown): void {
    this.#end({ kind: "refused", reason: "unavailable", cause })
  }

  #crash(cause: unknown): void {
    this.#behaviour = undefined
    this.#runtime.crashed(this.name, cause)
    if (this.#options.supervise(cause) === "restart") this.#start()
    else this.#end({ kind: "unknown", reason: "crashed" })
  }

  #end(outcome: Outcome<never>): void {
    this.#state = "stopped"
    this.#behaviour = undefined
    for (let envelope = this.#mailbox.take(); envelope !== undefined; envelope = this.#mailbox.take()) {
      envelope.end?.(outcome)
    }
    for (const resolve of this.#stopWaiters.splice(0)) resolve()
  }

  #enqueue(envelope: Envelope<Command>): void {
    this.#mailbox.put(envelope)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled || this.#state !== "running") return
    this.#scheduled = true
    this.#runtime.scheduler.ready(this)
  }
}
