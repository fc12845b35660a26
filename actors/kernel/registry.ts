/**
 * The actors of one kind, by id. The first ask for an id starts its actor, and everyone who asks meanwhile waits for
 * that one start; an actor that has been idle is put away. References are not handed out: between two turns an actor
 * may have been put away, so each message looks its actor up anew.
 */
import {
  Actor,
  asOutcome,
  type Behaviour,
  type CommandFactory,
  type Outcome,
  type Runtime,
  type MaybePromise,
} from "./actor.ts"
import { Ask } from "./turns.ts"
import type { Clock, Timer } from "./clock.ts"

export interface RegistryOptions<Command> {
  /** What these actors are, for logs and metrics: "key", "account". */
  readonly kind: string
  readonly mailboxLimit: number
  readonly askDeadlineMs: number
  readonly idleMs: number
  readonly intensity: Intensity
  readonly start: (id: string, tell: (command: Command) => void) => Behaviour<Command> | Promise<Behaviour<Command>>
}

export interface RegistryMetrics {
  readonly actors: number
  /** Commands waiting in all mailboxes. */
  readonly depth: number
  /** Milliseconds that the longest-waiting command has waited. */
  readonly oldestMs: number
}

export class Registry<Command> {
  readonly kind: string
  readonly #runtime: Runtime
  readonly #options: RegistryOptions<Command>
  /** None that has stopped: it leaves in the turn in which it ends. */
  readonly #actors = new Map<string, Actor<Command>>()
  readonly #supervise: (cause: unknown) => "restart" | "stop"
  #stopping = false
  #sweep: Timer | undefined

  constructor(runtime: Runtime, options: RegistryOptions<Command>) {
    this.kind = options.kind
    this.#runtime = runtime
    this.#options = options
    this.#supervise = supervisor(runtime.clock, options.intensity, (cause) => runtime.fatal(options.kind, cause))
    this.#sweepLater()
  }

  ask<T>(id: string, make: CommandFactory<T, Command>): MaybePromise<Outcome<T>> {
    const ask = new Ask<T, Outcome<T>>(asOutcome)
    return this.askWith(id, ask, make(ask.reply))
  }

  /** Asks with a command that has been built around an ask. */
  askWith<T, R>(id: string, ask: Ask<T, R>, command: Command): MaybePromise<R> {
    const actor = this.#find(id)
    return actor === undefined ? ask.refused("stopped") : actor.askWith(ask, command, this.#options.askDeadlineMs)
  }

  /** Asks only an actor that is there, and does not start one; undefined when there is none. */
  async askIfActive<T>(id: string, make: CommandFactory<T, Command>): Promise<Outcome<T> | undefined> {
    return await this.#actors.get(id)?.ask(make, this.#options.askDeadlineMs)
  }

  /** Asks for the end of what was admitted: never refused for want of room. */
  askUnboundedWith<T, R>(id: string, ask: Ask<T, R>, command: Command): MaybePromise<R> {
    const actor = this.#find(id)
    return actor === undefined
      ? ask.refused("stopped")
      : actor.askUnboundedWith(ask, command, this.#options.askDeadlineMs)
  }

  /**
   * Sends only to an actor that is there, one that is starting included. Nothing is lost if there is none: an actor is put
   * away only when nothing is held, and the next one reads durable state after the ledger has written what was sent before.
   * False when there is none.
   */
  tellIfActive(id: string, command: Command): boolean {
    return this.#actors.get(id)?.tell(command) ?? false
  }

  /** Puts an actor away at once if it holds nothing: for ids that turn out to name nothing. */
  passivate(id: string): void {
    this.#actors.get(id)?.passivate(0)
  }

  /** Sends to every actor that is there. */
  tellAll(command: Command): void {
    for (const actor of this.#actors.values()) actor.tell(command)
  }

  /** Whether an ask would find its actor, one that is starting included, and start none. */
  has(id: string): boolean {
    return this.#actors.has(id)
  }

  /** Of all actors that are there. */
  get ids(): string[] {
    return [...this.#actors.keys()]
  }

  metrics(): RegistryMetrics {
    let depth = 0
    let oldestMs = 0
    for (const actor of this.#actors.values()) {
      depth += actor.depth
      oldestMs = Math.max(oldestMs, actor.ageMs)
    }
    return { actors: this.#actors.size, depth, oldestMs }
  }

  /** Takes no more ids, lets every actor finish what it was sent, and waits for all of them. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#sweep?.cancel()
    await Promise.all([...this.#actors.values()].map((actor) => actor.stop()))
  }

  #find(id: string): Actor<Command> | undefined {
    return this.#actors.get(id) ?? (this.#stopping ? undefined : this.#begin(id))
  }

  #begin(id: string): Actor<Command> {
    const actor = new Actor<Command>(this.#runtime, {
      name: `${this.#options.kind}:${id}`,
      mailboxLimit: this.#options.mailboxLimit,
      start: (self) => this.#options.start(id, (command) => self.tell(command)),
      supervise: this.#supervise,
      // At once: whoever names a new id each time, of which none can be started, would fill the memory until the next sweep.
      ended: () => void this.#actors.delete(id),
    })
    this.#actors.set(id, actor)
    return actor
  }

  /** One timer for all actors of the kind, not one for each. */
  #sweepLater(): void {
    this.#sweep = this.#runtime.clock.after(Math.max(1, this.#options.idleMs / 2), () => {
      for (const actor of this.#actors.values()) actor.passivate(this.#options.idleMs)
      this.#sweepLater()
    })
  }
}

interface Intensity {
  readonly restarts: number
  readonly withinMs: number
}

/**
 * Restarts with a limit. A crash is a bug met once; many in a short time are a bug that restarting does not mend, and
 * then the whole process should end and start clean (after Erlang/OTP's restart intensity).
 */
export function supervisor(clock: Clock, intensity: Intensity, escalate: (cause: unknown) => void) {
  const times: number[] = []
  return (cause: unknown): "restart" | "stop" => {
    const now = clock.monotonic()
    times.push(now)
    while (times[0] !== undefined && now - times[0] > intensity.withinMs) times.shift()
    if (times.length <= intensity.restarts) return "restart"
    escalate(cause)
    return "stop"
  }
}
