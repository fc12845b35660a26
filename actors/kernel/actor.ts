/**
 * An actor: a mailbox, and a behaviour that takes one command at a time. A turn is a synchronous function, so state that
 * a turn touches cannot change under it; what must wait (a query, a timer) is begun in a turn and comes back as a command.
 *
 * An ask is refused when the mailbox is full. A tell and an unbounded ask are never refused: they end what an admitted ask began
 * (releases, settlements) or carry news, and losing one would lose money. The number of admitted asks bounds them.
 */
import {
  Ask,
  type Envelope,
  type Outcome,
  type PendingAsk,
  type Reply,
  type Scheduler,
  type Unanswered,
} from "./turns.ts"
import type { Clock, Random } from "./clock.ts"
import { DenseSet } from "./dense-set.ts"

/** A first-in-first-out queue in one array: taking from the front is O(1), and space is given back when it empties. */
export class Mailbox<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  put(item: T): void {
    this.#items.push(item)
  }

  take(): T | undefined {
    const item = this.#items[this.#head]
    if (item === undefined) return undefined
    this.#items[this.#head++] = undefined
    if (this.#head === this.#items.length) {
      this.#items.length = 0
      this.#head = 0
    } else if (this.#head > 1_024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }
}

export type { Outcome, Reply } from "./turns.ts"

export interface Runtime {
  readonly clock: Clock
  readonly random: Random
  readonly scheduler: Scheduler
  /** A failure that restarts cannot mend: the process should end. */
  readonly fatal: (actor: string, cause: unknown) => void
  /** A turn that threw: a bug, worth a log line. */
  readonly crashed: (actor: string, cause: unknown) => void
}

export interface Behaviour<Command> {
  receive(command: Command): void
  /** Whether nothing would be lost if this actor were put away now. */
  idle?(): boolean
}

export interface ActorOptions<Command> {
  readonly name: string
  /** How many commands may wait before asks are refused. */
  readonly mailboxLimit: number
  /** Makes the behaviour from durable state, at first and after a crash. */
  readonly start: (self: Actor<Command>) => Behaviour<Command> | Promise<Behaviour<Command>>
  /** Told of a crash; answers whether to start again. */
  readonly supervise: (cause: unknown) => "restart" | "stop"
  /** It has stopped for good. */
  readonly ended?: () => void
}

/** Builds the command that carries a reply. */
export type CommandFactory<T, Command> = (reply: Reply<T>) => Command

/** A value that is known now, or later. */
export type MaybePromise<T> = T | Promise<T>

/** Like `then`, but in this turn where the value is known now: a promise costs more than most of the work that it would wait for. */
export function andThen<T, R>(value: MaybePromise<T>, onValue: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(onValue) : onValue(value)
}

/** Calls `onValue` with the result of `work`, or `onError` with whatever was thrown on the way. */
export function runThen<T>(
  work: () => MaybePromise<T>,
  onValue: (value: T) => void,
  onError: (error: unknown) => void,
): void {
  void orElse(() => andThen(work(), onValue), onError)
}

/** As `work`; what it throws, in this turn or later, becomes what `onError` makes of it. */
export function orElse<T, R>(work: () => MaybePromise<T>, onError: (error: unknown) => R): MaybePromise<T | R> {
  try {
    const value = work()
    return value instanceof Promise ? value.catch(onError) : value
  } catch (error) {
    return onError(error)
  }
}

/** For an ask whose asker wants to know how it ended. */
export const asOutcome = {
  ofReply: <T>(value: T): Outcome<T> => ({ kind: "ok", value }),
  otherwise: (end: Unanswered): Unanswered => end,
}

type State = "starting" | "running" | "stopped"

export class Actor<Command> {
  readonly name: string
  readonly #runtime: Runtime
  readonly #options: ActorOptions<Command>
  readonly #mailbox = new Mailbox<Envelope>()
  /** Asks whose turn is over, and whose reply is still to come. */
  readonly #unanswered = new DenseSet<PendingAsk>()
  readonly #stopWaiters: (() => void)[] = []
  #behaviour: Behaviour<Command> | undefined
  #state: State = "starting"
  #scheduled = false
  #stopping = false
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
  /** Why an ask whose turn has not begun at its deadline is refused. */
  get lateReason(): "unavailable" | "late" {
    return this.#state === "starting" ? "unavailable" : "late"
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
    this.#enqueue({ command, sentAt: this.#runtime.clock.monotonic(), ask: undefined })
    return true
  }

  /**
   * Sends what `make` builds around a reply, and waits for that reply or the deadline. No promise where the actor answers at
   * once.
   */
  ask<T>(make: CommandFactory<T, Command>, deadlineMs: number): MaybePromise<Outcome<T>> {
    const ask = new Ask<T, Outcome<T>>(asOutcome)
    return this.askWith(ask, make(ask.reply), deadlineMs)
  }

  /** The same with a command that carries the ask's reply: resolves with what the ask makes of the outcome. */
  askWith<T, R>(ask: Ask<T, R>, command: Command, deadlineMs: number): MaybePromise<R> {
    if (this.#stopping) return ask.refused("stopped")
    if (this.#mailbox.size >= this.#options.mailboxLimit) return ask.refused("full")
    return this.askUnboundedWith(ask, command, deadlineMs)
  }

  /** An ask that ends what was admitted: like a tell, it is not bound by the mailbox's limit. */
  askUnboundedWith<T, R>(ask: Ask<T, R>, command: Command, deadlineMs: number): MaybePromise<R> {
    if (this.#state === "stopped") return ask.refused("stopped")
    ask.command = command
    ask.sentAt = this.#runtime.clock.monotonic()
    this.#enqueue(ask)
    return ask.outcome(this.#runtime.clock, deadlineMs, this)
  }

  /** Takes what has been sent already and no more asks, then stops. */
  stop(): Promise<void> {
    if (this.#state === "stopped") return Promise.resolve()
    this.#stopping = true
    const stopped = new Promise<void>((resolve) => this.#stopWaiters.push(resolve))
    this.#schedule()
    return stopped
  }

  /** Stops if unused for `idleMs` and nothing is held or waiting. */
  passivate(idleMs: number): boolean {
    const quiet = this.#runtime.clock.monotonic() - this.#lastUsedAt >= idleMs
    if (!quiet || this.#mailbox.size > 0 || this.#unanswered.size > 0) return false
    if (this.#behaviour?.idle?.() !== true) return false
    this.#end({ kind: "refused", reason: "stopped" })
    return true
  }

  /** One command's turn. For the scheduler alone. */
  turn(): void {
    this.#scheduled = false
    if (this.#behaviour === undefined) return
    const envelope = this.#take()
    if (envelope !== undefined) {
      const { ask } = envelope
      this.#lastUsedAt = envelope.sentAt
      try {
        // Only commands of this actor come into its mailbox.
        this.#behaviour.receive(envelope.command as Command)
      } catch (cause) {
        ask?.end({ kind: "unknown", reason: "crashed" })
        this.#crash(cause)
        return
      }
      if (ask !== undefined && !ask.ended) ask.trackIn(this.#unanswered)
    }
    if (this.#mailbox.size > 0) this.#schedule()
    else if (this.#stopping) this.#end({ kind: "refused", reason: "stopped" })
  }

  /** The next command whose asker, if it has one, still waits. */
  #take(): Envelope | undefined {
    let envelope = this.#mailbox.take()
    while (envelope?.ask?.ended === true) envelope = this.#mailbox.take()
    return envelope
  }

  #start(): void {
    this.#state = "starting"
    try {
      const behaviour = this.#options.start(this)
      if (behaviour instanceof Promise)
        behaviour.then(
          (started) => this.#run(started),
          (cause: unknown) => this.#failStart(cause),
        )
      else this.#run(behaviour)
    } catch (cause) {
      // Not here and now: whoever is about to ask is to hear the cause too.
      queueMicrotask(() => this.#failStart(cause))
    }
  }

  #run(behaviour: Behaviour<Command>): void {
    this.#behaviour = behaviour
    this.#state = "running"
    if (this.#mailbox.size > 0 || this.#stopping) this.#schedule()
  }

  /** A start that fails refuses everyone who waits; the next one who asks begins anew. */
  #failStart(cause: unknown): void {
    this.#end({ kind: "refused", reason: "unavailable", cause })
  }

  /** Ends the asks that were begun and not answered: the behaviour that could have answered them is gone. */
  #crash(cause: unknown): void {
    this.#behaviour = undefined
    for (const ask of this.#unanswered.all()) ask.end({ kind: "unknown", reason: "crashed" })
    this.#runtime.crashed(this.name, cause)
    if (this.#options.supervise(cause) === "restart") this.#start()
    else this.#end({ kind: "refused", reason: "stopped" })
  }

  #end(waiting: Unanswered): void {
    this.#state = "stopped"
    this.#stopping = true
    this.#behaviour = undefined
    for (let envelope = this.#take(); envelope !== undefined; envelope = this.#take()) envelope.ask?.end(waiting)
    for (const ask of this.#unanswered.all()) ask.end({ kind: "unknown", reason: "stopped" })
    for (const resolve of this.#stopWaiters.splice(0)) resolve()
    this.#options.ended?.()
  }

  #enqueue(envelope: Envelope): void {
    this.#mailbox.put(envelope)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#scheduled || this.#state !== "running") return
    this.#scheduled = true
    this.#runtime.scheduler.ready(this)
  }
}
