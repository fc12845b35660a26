/**
 * The actors that a call meets, with a method for each message. An ask resolves with its reply or a `Failure`. After a
 * failure the caller sends what is right whether or not the ask was handled: a release, or a void. Then what they are told
 * of what other processes do, and this process's share of what all keep together.
 */
import type { Actor, MaybePromise } from "../../actors/kernel/actor.ts"
import type { Registry } from "../../actors/kernel/registry.ts"
import type { LedgerCommand, LedgerView, Opening, Settled, Settlement } from "../../actors/ledger.ts"
import { type Share, whole } from "../../actors/lease.ts"
import type { AcquireReply, SlotCaller, SlotsCommand, SlotsForecast, SlotsView } from "../../actors/slots.ts"
import type { Failure } from "../failure/failure.ts"
import type { turns } from "../store/gate.ts"
import { actorAsk } from "./lease-driver.ts"
import type { AccountActors, BreakerActors, KeyActors, RunActors } from "./leasing-actors.ts"
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { Database } from "../store/database.ts"
import type { Notice } from "../store/notices.ts"

/** By the catalogue's id. */
export class ModelActors {
  readonly #registry: Registry<SlotsCommand>

  constructor(registry: Registry<SlotsCommand>) {
    this.#registry = registry
  }

  acquire(model: string, caller: SlotCaller, waitMs: number): MaybePromise<AcquireReply | Failure> {
    const ask = actorAsk<AcquireReply>()
    return this.#registry.askWith(model, ask, { type: "acquire", caller, waitMs, reply: ask.reply })
  }
  /** What a call would meet now; nothing is taken. */
  forecast(model: string, caller: Omit<SlotCaller, "requestId">): MaybePromise<SlotsForecast | Failure> {
    const ask = actorAsk<SlotsForecast>()
    return this.#registry.askWith(model, ask, { type: "forecast", caller, reply: ask.reply })
  }
  /** Ends a slot or a wait, whichever there is. */
  release(model: string, requestId: string): void {
    this.#registry.tellIfActive(model, { type: "release", requestId })
  }
  setCap(model: string, cap: number): void {
    this.#registry.tellIfActive(model, { type: "cap", cap })
  }
  /** This process's part of the caps is another from now on. */
  share(share: Share): void {
    this.#registry.tellAll({ type: "share", share })
  }
  /** Undefined when the model's actor is not there, or does not answer. */
  async viewIfActive(model: string): Promise<SlotsView | undefined> {
    const outcome = await this.#registry.askIfActive<SlotsView>(model, (reply) => ({ type: "view", reply }))
    return outcome?.kind === "ok" ? outcome.value : undefined
  }
}

/** The whole gateway's slots. */
export class GateActor {
  readonly #actor: Actor<SlotsCommand>
  readonly #deadlineMs: number

  constructor(actor: Actor<SlotsCommand>, deadlineMs: number) {
    this.#actor = actor
    this.#deadlineMs = deadlineMs
  }

  acquire(caller: SlotCaller, waitMs: number): MaybePromise<AcquireReply | Failure> {
    const ask = actorAsk<AcquireReply>()
    return this.#actor.askWith(ask, { type: "acquire", caller, waitMs, reply: ask.reply }, this.#deadlineMs)
  }
  /** What a call would meet now; nothing is taken. */
  forecast(caller: Omit<SlotCaller, "requestId">): MaybePromise<SlotsForecast | Failure> {
    const ask = actorAsk<SlotsForecast>()
    return this.#actor.askWith(ask, { type: "forecast", caller, reply: ask.reply }, this.#deadlineMs)
  }
  /** Ends a slot or a wait, whichever there is. */
  release(requestId: string): void {
    this.#actor.tell({ type: "release", requestId })
  }
  view(): MaybePromise<SlotsView | Failure> {
    const ask = actorAsk<SlotsView>()
    return this.#actor.askWith(ask, { type: "view", reply: ask.reply }, this.#deadlineMs)
  }
}

/** The one writer to the database. */
export class LedgerActor {
  readonly #actor: Actor<LedgerCommand>
  readonly #deadlineMs: number

  /** `deadlineMs`: how long an answer is waited for. */
  constructor(actor: Actor<LedgerCommand>, deadlineMs: number) {
    this.#actor = actor
    this.#deadlineMs = deadlineMs
  }

  /** Resolves when the opening is durable. */
  open(opening: Opening): Promise<"durable" | Failure> {
    const ask = actorAsk<"durable">()
    return Promise.resolve(this.#actor.askWith(ask, { type: "open", opening, reply: ask.reply }, this.#deadlineMs))
  }
  /** Resolves when the settlement is durable. Never refused for want of room. */
  settle(settlement: Settlement): Promise<Settled | Failure> {
    const ask = actorAsk<Settled>()
    return Promise.resolve(
      this.#actor.askUnboundedWith(ask, { type: "settle", settlement, reply: ask.reply }, this.#deadlineMs),
    )
  }
  /** The client was told that nothing is charged: whatever was or will be booked of this settlement must not stand. */
  void(settlement: Settlement): void {
    this.#actor.tell({ type: "void", settlement })
  }
  /** Runs `then` when all that was sent of the account before is durable, however long that takes. */
  whenDurable(accountId: string, then: () => void): void {
    this.#actor.tell({ type: "barrier", accountId, reply: () => then() })
  }
  /** Resolves when all that was sent before is durable: of one account, or of all. */
  barrier(accountId?: string, deadlineMs = this.#deadlineMs): Promise<"durable" | Failure> {
    const ask = actorAsk<"durable">()
    return Promise.resolve(this.#actor.askWith(ask, { type: "barrier", accountId, reply: ask.reply }, deadlineMs))
  }
  /** As it is for an account, or as it is for most. */
  view(accountId?: string): MaybePromise<LedgerView | Failure> {
    const ask = actorAsk<LedgerView>()
    return this.#actor.askWith(ask, { type: "view", accountId, reply: ask.reply }, this.#deadlineMs)
  }
}

/** How much waits in the mailboxes of one kind of actor. */
interface Mailboxes {
  readonly kind: string
  /** Undefined where there is always one. */
  readonly actors: number | undefined
  /** Commands that wait. */
  readonly depth: number
  /** How long the oldest of them has waited, in milliseconds. */
  readonly oldestMs: number
}

/** What keys without an actor wait in, by networks (authenticate.ts). */
export type LookUps = ReturnType<typeof turns>

export interface Actors {
  readonly keys: KeyActors
  readonly lookUps: LookUps
  readonly runs: RunActors
  readonly accounts: AccountActors
  readonly breakers: BreakerActors
  readonly models: ModelActors
  readonly gate: GateActor
  readonly ledger: LedgerActor
  mailboxes(): readonly Mailboxes[]
  /** Writes what was sent to the ledger, and gives the leases back. Nothing may be asked or told after it. */
  stop(): Promise<void>
}

// What other processes on the same database say, told to the actors that it concerns. An actor that is not there has
// nothing to give, and reads what is durable when it starts.

/** Of a key, a run or an account; what is heard of processes changes the `Shares`. */
type ActorNotice = Exclude<Notice, { readonly about: "processes" | "catalogue" | "origins" }>

export function hear(actors: Actors, processId: string, notice: ActorNotice): void {
  if (notice.what === "refused" || notice.what === "unusual" || notice.what === "called") return
  if (notice.what === "changed") {
    // An account's is for whoever looks at it; its keys say so themselves.
    if (notice.about === "key") actors.keys.changed(notice.id)
    if (notice.about === "breaker") actors.breakers.changed(notice.id)
    return
  }
  if (notice.what === "ended") return actors.runs.ended(notice.id, notice.endsAt)
  const lessees = { account: actors.accounts, key: actors.keys, run: actors.runs, breaker: actors.breakers }[
    notice.about
  ]
  if (notice.what === "freed") lessees.freed(notice.id)
  // Of two that are short one goes first; any order will do on which both agree.
  else if (notice.processId !== processId) lessees.recalled(notice.id, notice.amount, notice.processId < processId)
}

/** The number of processes has changed: every key and model has another share from now on. The gate is one process's own. */
export function tellShare(actors: Actors, share: Share): void {
  actors.keys.share(share)
  actors.models.share(share)
}

/** Some notices were missed: anything may have changed. Resolves once what is so of keys is in force, or after two seconds. */
export function hearAll(actors: Actors): Promise<unknown> {
  const read = actors.keys.inForce()
  actors.keys.allFreed()
  actors.runs.allChanged()
  actors.runs.allFreed()
  actors.accounts.allFreed()
  actors.breakers.allChanged()
  return read
}

/** From now on this process keeps only what its calls under way hold. */
export function drainLeases(actors: Actors): void {
  actors.keys.drain()
  actors.runs.drain()
  actors.accounts.drain()
  actors.breakers.drain()
}

/** Asks every process, this one too, for so much of what it has leased of an account and does not need. */
export function recall(
  { actors, database, processId }: { readonly actors: Actors; readonly database: Database; readonly processId: string },
  accountId: string,
  amount: Micro,
): void {
  actors.accounts.recalled(accountId, amount, true)
  const notice = `short account ${accountId} ${processId} ${amount}`
  // A lost notice is harmless: that process just keeps money that it does not need.
  database.run((sql) => sql`select pg_notify('loket', ${notice})`).catch(() => {})
}

interface SharesPorts {
  readonly clock: Clock
  /** Answers undefined when this process takes no calls. Undefined itself where there is no other process. */
  readonly look: (() => Promise<Share | undefined>) | undefined
  readonly changed: (share: Share) => void
  readonly failed: (error: unknown) => void
}

const LOOK_MS = 2_000

/**
 * This process's share of what all processes on a database keep together. It is looked up when one comes or goes, and
 * again every few seconds, because a notice may be lost. While nobody answers the last known share holds.
 */
export class Shares {
  readonly #ports: SharesPorts
  #current = whole
  #looking = false
  #lookAgain = false
  #timer: Timer | undefined
  #stopped = false

  constructor(ports: SharesPorts) {
    this.#ports = ports
  }

  get current(): Share {
    return this.#current
  }

  /** Looks now, and from now on every few seconds. */
  async follow(): Promise<void> {
    if (this.#ports.look === undefined) return
    await this.look()
    if (!this.#stopped) this.#timer = this.#ports.clock.after(LOOK_MS, () => void this.follow())
  }

  /** One look at a time, so that an older answer never overtakes a newer one. */
  async look(): Promise<void> {
    this.#lookAgain = true
    if (this.#looking) return
    this.#looking = true
    while (this.#lookAgain) {
      this.#lookAgain = false
      await this.#lookOnce()
    }
    this.#looking = false
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  async #lookOnce(): Promise<void> {
    try {
      const share = await this.#ports.look?.()
      if (share === undefined) return
      if (share.index === this.#current.index && share.count === this.#current.count) return
      this.#current = share
      this.#ports.changed(share)
    } catch (error) {
      this.#ports.failed(error)
    }
  }
}
