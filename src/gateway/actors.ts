/**
 * The actors that a call meets, with a method for each message. An ask resolves with its reply or a `Failure`. After a
 * failure the caller sends what is right whether or not the ask was handled: a release, or a void.
 */
import type { AccountCommand, AccountView, Charged, HoldReply } from "../../actors/account.ts"
import type { Actor, Soon } from "../../actors/kernel/actor.ts"
import type { Registry } from "../../actors/kernel/registry.ts"
import type { CallUsage, CountReply, KeyCommand, KeyView, Reservation, ReserveReply } from "../../actors/key.ts"
import type { LeaseNews } from "../../actors/lease.ts"
import type { LedgerCommand, LedgerView, Opening, Settled, Settlement } from "../../actors/ledger.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import type { Share } from "../../actors/share.ts"
import type { AcquireReply, SlotCaller, SlotsCommand, SlotsView } from "../../actors/slots.ts"
import type { HoldTerms } from "../../actors/waiting-holds.ts"
import type { Failure } from "../failure/failure.ts"
import { asked } from "./asked.ts"

/** How long whoever has changed a key waits until the change is in force here. */
const IN_FORCE_MS = 2_000

type LeaseCommand = { readonly type: "lease"; readonly news: LeaseNews }

/** A registry of actors that lease money from the database. */
interface Lessees {
  tellIfActive(id: string, command: LeaseCommand): boolean
  tellAll(command: LeaseCommand): void
}

/** What keys and accounts have in common: both lease money, and hear what others do with the rest. */
class LeasingActors {
  readonly #registry: Lessees

  constructor(registry: Lessees) {
    this.#registry = registry
  }

  /** There may be more to lease: somebody was credited, or gave back. */
  freed(id: string): void {
    this.#registry.tellIfActive(id, { type: "lease", news: { type: "freed" } })
  }
  allFreed(): void {
    this.#registry.tellAll({ type: "lease", news: { type: "freed" } })
  }

  /** Another process is short of `amount`. Of two that are short the one that `yields` lets the other go first. */
  recalled(id: string, amount: Micro, yields: boolean): void {
    this.#registry.tellIfActive(id, { type: "lease", news: { type: "recalled", amount, yields } })
  }

  /** From now on only what is held is kept. */
  drain(): void {
    this.#registry.tellAll({ type: "lease", news: { type: "drain" } })
  }
}

/** Ids are the hex SHA-256 of the key. */
export class KeyActors extends LeasingActors {
  readonly #registry: Registry<KeyCommand>

  constructor(registry: Registry<KeyCommand>) {
    super(registry)
    this.#registry = registry
  }

  /** A call has come with the secret of this hash; one that is not `counted` takes nothing of the request window. */
  count(keyHash: string, secret: string, counted: boolean): Soon<CountReply | Failure> {
    const ask = asked<CountReply>()
    return this.#registry.askOf(keyHash, ask, { type: "count", counted, secret, reply: ask.reply })
  }
  reserve(keyHash: string, reservation: Reservation): Soon<ReserveReply | Failure> {
    const ask = asked<ReserveReply>()
    return this.#registry.askOf(keyHash, ask, { type: "reserve", reservation, reply: ask.reply })
  }
  /** The account held less than the key did. */
  trim(keyHash: string, requestId: string, hold: Micro): void {
    this.#registry.tellIfActive(keyHash, { type: "trim", requestId, hold })
  }
  /** Resolves with what the budget pays of what the call costs. Never refused for want of room. */
  settle(keyHash: string, usage: CallUsage): Soon<Micro | Failure> {
    const ask = asked<Micro>()
    return this.#registry.insistOn(keyHash, ask, { type: "settle", usage, reply: ask.reply })
  }
  /** Settles without asking what the budget pays, if the key's actor is there. */
  tellSettled(keyHash: string, usage: CallUsage): void {
    this.#registry.tellIfActive(keyHash, { type: "settle", usage, reply: () => {} })
  }
  /** Takes back a charge, or a part of it, that was not booked. */
  unsettle(keyHash: string, charge: Micro, starts: PeriodStarts): void {
    this.#registry.tellIfActive(keyHash, { type: "unsettle", charge, starts })
  }
  release(keyHash: string, requestId: string): void {
    this.#registry.tellIfActive(keyHash, { type: "release", requestId })
  }

  view(keyHash: string): Soon<KeyView | Failure> {
    const ask = asked<KeyView>()
    return this.#registry.askOf(keyHash, ask, { type: "view", reply: ask.reply })
  }
  /** Undefined when the key's actor is not there, or does not answer. */
  async viewIfActive(keyHash: string): Promise<KeyView | undefined> {
    const outcome = await this.#registry.askIfActive<KeyView>(keyHash, (reply) => ({ type: "view", reply }))
    return outcome?.kind === "ok" ? outcome.value : undefined
  }

  /** Durable state has changed: the key is read again. */
  changed(keyHash: string): void {
    this.#registry.tellIfActive(keyHash, { type: "changed" })
  }
  allChanged(): void {
    this.#registry.tellAll({ type: "changed" })
  }

  /**
   * Whether what was committed of these keys is in force in this process: each actor that is there has read its key again,
   * and one that starts later reads it anyway. Calls that came before stay. Told and not asked, because an ask that is late
   * is never handled: an actor that could not read in time goes on trying.
   */
  async inForce(keyHashes: readonly string[]): Promise<boolean> {
    const read = keyHashes.map(
      (id) =>
        new Promise<void>((resolve) => {
          const isThere = this.#registry.tellIfActive(id, { type: "changed", reply: () => resolve() })
          if (!isThere) resolve()
        }),
    )
    const late = Promise.withResolvers<false>()
    const timer = setTimeout(() => late.resolve(false), IN_FORCE_MS)
    const inForce = await Promise.race([Promise.all(read).then(() => true), late.promise])
    clearTimeout(timer)
    return inForce
  }

  /** This process's part of the rate windows is another from now on. */
  share(share: Share): void {
    this.#registry.tellAll({ type: "share", share })
  }
  /** Forgets the actor of a hash that turned out to be no key's. */
  putAway(keyHash: string): void {
    this.#registry.putAway(keyHash)
  }
}

/** By account id. */
export class AccountActors extends LeasingActors {
  readonly #registry: Registry<AccountCommand>

  constructor(registry: Registry<AccountCommand>) {
    super(registry)
    this.#registry = registry
  }

  hold(accountId: string, terms: HoldTerms): Soon<HoldReply | Failure> {
    const ask = asked<HoldReply>()
    return this.#registry.askOf(accountId, ask, { type: "hold", terms, reply: ask.reply })
  }
  /** Ends the hold and charges what the purse can pay of `actual`. Never refused for want of room. */
  settle(accountId: string, requestId: string, actual: Micro): Soon<Charged | Failure> {
    const ask = asked<Charged>()
    return this.#registry.insistOn(accountId, ask, { type: "settle", requestId, actual, reply: ask.reply })
  }
  /** Takes back a charge that was not booked. */
  unsettle(accountId: string, charged: Charged): void {
    this.#registry.tellIfActive(accountId, { type: "unsettle", charged })
  }
  release(accountId: string, requestId: string): void {
    this.#registry.tellIfActive(accountId, { type: "release", requestId })
  }
  view(accountId: string): Soon<AccountView | Failure> {
    const ask = asked<AccountView>()
    return this.#registry.askOf(accountId, ask, { type: "view", reply: ask.reply })
  }
}

/** By the catalogue's id. */
export class ModelActors {
  readonly #registry: Registry<SlotsCommand>

  constructor(registry: Registry<SlotsCommand>) {
    this.#registry = registry
  }

  acquire(model: string, caller: SlotCaller, waitMs: number): Soon<AcquireReply | Failure> {
    const ask = asked<AcquireReply>()
    return this.#registry.askOf(model, ask, { type: "acquire", caller, waitMs, reply: ask.reply })
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

  acquire(caller: SlotCaller, waitMs: number): Soon<AcquireReply | Failure> {
    const ask = asked<AcquireReply>()
    return this.#actor.askOf(ask, { type: "acquire", caller, waitMs, reply: ask.reply }, this.#deadlineMs)
  }
  /** Ends a slot or a wait, whichever there is. */
  release(requestId: string): void {
    this.#actor.tell({ type: "release", requestId })
  }
  view(): Soon<SlotsView | Failure> {
    const ask = asked<SlotsView>()
    return this.#actor.askOf(ask, { type: "view", reply: ask.reply }, this.#deadlineMs)
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
    const ask = asked<"durable">()
    return Promise.resolve(this.#actor.askOf(ask, { type: "open", opening, reply: ask.reply }, this.#deadlineMs))
  }
  /** Resolves when the settlement is durable. Never refused for want of room. */
  settle(settlement: Settlement): Promise<Settled | Failure> {
    const ask = asked<Settled>()
    return Promise.resolve(
      this.#actor.insistOn(ask, { type: "settle", settlement, reply: ask.reply }, this.#deadlineMs),
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
    const ask = asked<"durable">()
    return Promise.resolve(this.#actor.askOf(ask, { type: "barrier", accountId, reply: ask.reply }, deadlineMs))
  }
  /** As it is for an account, or as it is for most. */
  view(accountId?: string): Soon<LedgerView | Failure> {
    const ask = asked<LedgerView>()
    return this.#actor.askOf(ask, { type: "view", accountId, reply: ask.reply }, this.#deadlineMs)
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
  readonly accounts: AccountActors
  readonly models: ModelActors
  readonly gate: GateActor
  readonly ledger: LedgerActor
  mailboxes(): readonly Mailboxes[]
  /** Writes what was sent to the ledger, and gives the leases back. Nothing may be asked or told after it. */
  stop(): Promise<void>
}
