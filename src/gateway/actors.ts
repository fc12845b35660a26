/**
 * The actors that a call meets, with a method for each message. An ask resolves with its reply or a `Failure`. After a
 * failure the caller sends what is right whether or not the ask was handled: a release, or a void.
 */
import type { Actor, MaybePromise } from "../../actors/kernel/actor.ts"
import type { Registry } from "../../actors/kernel/registry.ts"
import type { LedgerCommand, LedgerView, Opening, Settled, Settlement } from "../../actors/ledger.ts"
import type { Share } from "../../actors/share.ts"
import type { AcquireReply, SlotCaller, SlotsCommand, SlotsForecast, SlotsView } from "../../actors/slots.ts"
import type { Failure } from "../failure/failure.ts"
import { actorAsk } from "./actor-ask.ts"
import type { AccountActors, BreakerActors, KeyActors, RunActors } from "./leasing-actors.ts"

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
export interface Mailboxes {
  readonly kind: string
  /** Undefined where there is always one. */
  readonly actors: number | undefined
  /** Commands that wait. */
  readonly depth: number
  /** How long the oldest of them has waited, in milliseconds. */
  readonly oldestMs: number
}

export interface Actors {
  readonly keys: KeyActors
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
