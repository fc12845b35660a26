/** Those of the actors that a call meets that lease money: keys, runs, accounts and breakers (actors.ts). */
import type { AccountCommand, AccountView, Charged, HoldReply } from "../../actors/account.ts"
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Registry } from "../../actors/kernel/registry.ts"
import type {
  CallUsage,
  Counting,
  CountReply,
  KeyCommand,
  KeyForecast,
  KeyView,
  Reservation,
  ReserveReply,
} from "../../actors/key-record.ts"
import type { HoldOutcome, HoldRequest, LeaseNews, Share } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import type { EnterReply, RunRequest, RunCommand, RunView } from "../../actors/run.ts"
import type { Failure } from "../failure/failure.ts"
import type { BreakerPurses, PurseLook } from "../store/breakers.ts"
import { actorAsk } from "./lease-driver.ts"

/** How long whoever has changed a key waits until the change is in force here. */
const IN_FORCE_MS = 2_000

type LeaseCommand = { readonly type: "lease"; readonly news: LeaseNews }

/** A registry of actors that lease money from the database. */
interface Lessees {
  tellIfActive(id: string, command: LeaseCommand): boolean
  tellAll(command: LeaseCommand): void
}

/** What keys, runs, accounts and breakers have in common: they lease money, and hear what others do with the rest. */
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
  readonly #clock: Clock

  constructor(registry: Registry<KeyCommand>, clock: Clock) {
    super(registry)
    this.#registry = registry
    this.#clock = clock
  }

  has(keyHash: string): boolean {
    return this.#registry.has(keyHash)
  }
  count(keyHash: string, call: Counting): MaybePromise<CountReply | Failure> {
    const ask = actorAsk<CountReply>()
    return this.#registry.askWith(keyHash, ask, { type: "count", call, reply: ask.reply })
  }
  /** Takes back the count of a call that another key's window has refused. */
  uncount(keyHash: string, countedAtMs: number): void {
    this.#registry.tellIfActive(keyHash, { type: "uncount", countedAtMs })
  }
  reserve(keyHash: string, reservation: Reservation): MaybePromise<ReserveReply | Failure> {
    const ask = actorAsk<ReserveReply>()
    return this.#registry.askWith(keyHash, ask, { type: "reserve", reservation, reply: ask.reply })
  }
  /** The account held less than the key did. */
  trim(keyHash: string, requestId: string, hold: Micro): void {
    this.#registry.tellIfActive(keyHash, { type: "trim", requestId, hold })
  }
  /** Resolves with what the budget pays of what the call costs. Never refused for want of room. */
  settle(keyHash: string, usage: CallUsage): MaybePromise<Micro | Failure> {
    const ask = actorAsk<Micro>()
    return this.#registry.askUnboundedWith(keyHash, ask, { type: "settle", usage, reply: ask.reply })
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
  view(keyHash: string): MaybePromise<KeyView | Failure> {
    const ask = actorAsk<KeyView>()
    return this.#registry.askWith(keyHash, ask, { type: "view", reply: ask.reply })
  }
  /** What the key would say to a call of so many tokens; nothing is counted. */
  forecast(keyHash: string, tokens: number): MaybePromise<KeyForecast | Failure> {
    const ask = actorAsk<KeyForecast>()
    return this.#registry.askWith(keyHash, ask, { type: "forecast", tokens, reply: ask.reply })
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

  /**
   * Whether what was committed of these keys, or of all that have an actor, is in force in this process: each actor that is there has
   * read its key again, and one that starts later reads it anyway. Calls that came before stay. Told and not asked, because an ask
   * that is late is never handled: an actor that could not read in time goes on trying.
   */
  async inForce(keyHashes: readonly string[] = this.#registry.ids): Promise<boolean> {
    const read = keyHashes.map((id) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      if (!this.#registry.tellIfActive(id, { type: "changed", reply: () => resolve() })) resolve()
      return promise
    })
    const late = Promise.withResolvers<false>()
    const timer = this.#clock.after(IN_FORCE_MS, () => late.resolve(false))
    const inForce = await Promise.race([Promise.all(read).then(() => true), late.promise])
    timer.cancel()
    return inForce
  }

  /** This process's part of the rate windows is another from now on. */
  share(share: Share): void {
    this.#registry.tellAll({ type: "share", share })
  }
  /** The count of all processes is there again, or has begun anew: keys tell it what it does not know. */
  tellCounts(): void {
    this.#registry.tellAll({ type: "tell" })
  }
  /** Forgets the actor of a hash that turned out to be no key's. */
  passivate(keyHash: string): void {
    this.#registry.passivate(keyHash)
  }
}

/** By run id. */
export class RunActors extends LeasingActors {
  readonly #registry: Registry<RunCommand>
  readonly #mayOpen: (accountId: string) => Promise<boolean>

  constructor(registry: Registry<RunCommand>, mayOpen: (accountId: string) => Promise<boolean>) {
    super(registry)
    this.#registry = registry
    this.#mayOpen = mayOpen
  }

  /** Whether the account may have another run now. Rejects with `DatabaseUnavailable`. */
  mayOpen(accountId: string): Promise<boolean> {
    return this.#mayOpen(accountId)
  }

  /** A call wants to be one of the run's, which is made where there is none and a budget is given. */
  enter(asking: RunRequest): MaybePromise<EnterReply | Failure> {
    const ask = actorAsk<EnterReply>()
    return this.#registry.askWith(asking.runId, ask, { type: "enter", request: asking, reply: ask.reply })
  }
  hold(runId: string, terms: HoldRequest): MaybePromise<HoldOutcome | Failure> {
    const ask = actorAsk<HoldOutcome>()
    return this.#registry.askWith(runId, ask, { type: "hold", terms, reply: ask.reply })
  }
  /** The account held less than the run did. */
  trim(runId: string, requestId: string, hold: Micro): void {
    this.#registry.tellIfActive(runId, { type: "trim", requestId, hold })
  }
  /** Resolves with what the run pays of what the call costs. Never refused for want of room. */
  settle(runId: string, requestId: string, actual: Micro): MaybePromise<Micro | Failure> {
    const ask = actorAsk<Micro>()
    return this.#registry.askUnboundedWith(runId, ask, { type: "settle", requestId, actual, reply: ask.reply })
  }
  /** Settles without asking what the run pays, if its actor is there. */
  tellSettled(runId: string, requestId: string, actual: Micro): void {
    this.#registry.tellIfActive(runId, { type: "settle", requestId, actual, reply: () => {} })
  }
  /** Takes back a charge, or a part of it, that was not booked. */
  unsettle(runId: string, charge: Micro): void {
    this.#registry.tellIfActive(runId, { type: "unsettle", charge })
  }
  release(runId: string, requestId: string): void {
    this.#registry.tellIfActive(runId, { type: "release", requestId })
  }
  /** It was ended, at this time in milliseconds: a call that comes later is refused. */
  ended(runId: string, endsAt: number): void {
    this.#registry.tellIfActive(runId, { type: "ended", endsAt })
  }
  /** Some may have been ended that nothing was heard of. */
  allChanged(): void {
    this.#registry.tellAll({ type: "changed" })
  }
  /** Undefined when the run's actor is not there, or does not answer. */
  async viewIfActive(runId: string): Promise<RunView | undefined> {
    const outcome = await this.#registry.askIfActive<RunView | undefined>(runId, (reply) => ({ type: "view", reply }))
    return outcome?.kind === "ok" ? outcome.value : undefined
  }
  /** Forgets the actor of a run that there is not. */
  passivate(runId: string): void {
    this.#registry.passivate(runId)
  }
}

/** By account id. */
export class AccountActors extends LeasingActors {
  readonly #registry: Registry<AccountCommand>

  constructor(registry: Registry<AccountCommand>) {
    super(registry)
    this.#registry = registry
  }

  hold(accountId: string, terms: HoldRequest): MaybePromise<HoldReply | Failure> {
    const ask = actorAsk<HoldReply>()
    return this.#registry.askWith(accountId, ask, { type: "hold", terms, reply: ask.reply })
  }
  /** Ends the hold and charges what the purse can pay of `actual`. Never refused for want of room. */
  settle(accountId: string, requestId: string, actual: Micro): MaybePromise<Charged | Failure> {
    const ask = actorAsk<Charged>()
    return this.#registry.askUnboundedWith(accountId, ask, { type: "settle", requestId, actual, reply: ask.reply })
  }
  /** Takes back a charge that was not booked. */
  unsettle(accountId: string, charged: Charged): void {
    this.#registry.tellIfActive(accountId, { type: "unsettle", charged })
  }
  release(accountId: string, requestId: string): void {
    this.#registry.tellIfActive(accountId, { type: "release", requestId })
  }
  view(accountId: string): MaybePromise<AccountView | Failure> {
    const ask = actorAsk<AccountView>()
    return this.#registry.askWith(accountId, ask, { type: "view", reply: ask.reply })
  }
}

/** A trip that was asked for, by purse: many calls are refused at once. */
type Trips = Map<string, Promise<TripOutcome>>

/** `crowded`: there is room once calls under way have ended. */
export type TripOutcome = "paused" | "crowded" | "unavailable"

interface BreakerPorts extends Pick<BreakerPurses, "look"> {
  readonly trip: (purse: string, least: Micro) => Promise<TripOutcome>
}

/** By the id of a breaker's purse. */
export class BreakerActors extends AccountActors {
  readonly #registry: Registry<AccountCommand>
  readonly #ports: BreakerPorts
  readonly #trips: Trips = new Map()

  constructor(registry: Registry<AccountCommand>, ports: BreakerPorts) {
    super(registry)
    this.#registry = registry
    this.#ports = ports
  }

  /** The account held less than the purse did. */
  trim(purse: string, requestId: string, hold: Micro): void {
    this.#registry.tellIfActive(purse, { type: "trim", requestId, hold })
  }
  /** The ceiling is another. */
  changed(purse: string): void {
    this.#registry.tellIfActive(purse, { type: "lease", news: { type: "changed" } })
  }
  allChanged(): void {
    this.#registry.tellAll({ type: "lease", news: { type: "changed" } })
  }
  /** A call that needs so much was refused: resolves when that is durable, and in force in this process. */
  trip(purse: string, least: Micro): Promise<TripOutcome> {
    const underWay = this.#trips.get(purse)
    if (underWay !== undefined) return underWay
    const trip = this.#ports.trip(purse, least).finally(() => this.#trips.delete(purse))
    this.#trips.set(purse, trip)
    return trip
  }
  /** The ceiling as it stands, of all processes; the actor is not asked, which would lease. Rejects with `DatabaseUnavailable`. */
  look(purse: string): Promise<PurseLook | undefined> {
    return this.#ports.look(purse)
  }
}
