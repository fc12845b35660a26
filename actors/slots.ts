/**
 * Concurrency slots with a bounded, fair wait: of a model (its `max_concurrency`) or of the whole gateway (decisions
 * §5, §13.17). Who waits is served round robin by account and then by key, so that neither a thousand calls nor two hundred keys
 * starve another account; nor by filling the queue: an account that has fewer waiting than another takes the place of that
 * one's newest call. The last quarter of the slots is for accounts under their share of them. Where other processes call the
 * same backend, the slots are this process's share of the cap. Waits in milliseconds.
 */
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock, Timer } from "./kernel/clock.ts"
import { Presence, Turns } from "./fair-queue.ts"
import { type Share, shareOf, whole } from "./lease.ts"
import { unreachable } from "./unreachable.ts"

export type AcquireReply = { readonly kind: "acquired" } | { readonly kind: "full" }

export interface SlotsView {
  /** This process's share. */
  readonly cap: number
  readonly taken: number
  readonly waiting: number
}

/** What one more call would meet now. */
export interface SlotsForecast extends SlotsView {
  readonly kind: "acquired" | "waits" | "full"
}

/** Whose call asks for a slot. */
export interface SlotCaller {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
}

export type SlotsCommand =
  | {
      readonly type: "acquire"
      readonly caller: SlotCaller
      readonly waitMs: number
      readonly reply: Reply<AcquireReply>
    }
  /** Ends a slot or a wait, whichever there is: right at any time, also twice. */
  | { readonly type: "release"; readonly requestId: string }
  | { readonly type: "expire"; readonly requestId: string }
  | { readonly type: "cap"; readonly cap: number }
  | { readonly type: "share"; readonly share: Share }
  /** Somebody may count as gone by now. */
  | { readonly type: "look" }
  | { readonly type: "view"; readonly reply: Reply<SlotsView> }
  /** What a call would meet now; nothing is taken, and nobody counts as present for it. */
  | {
      readonly type: "forecast"
      readonly caller: Omit<SlotCaller, "requestId">
      readonly reply: Reply<SlotsForecast>
    }

interface Waiting extends SlotCaller {
  readonly reply: Reply<AcquireReply>
  readonly timer: Timer
}

/** The queue is no longer than this many times the cap (decisions §5). */
const QUEUE_FACTOR = 4
/** This part of the slots is for accounts under their share. */
const KEPT_PART = 4

export class Slots implements Behaviour<SlotsCommand> {
  readonly #clock: Clock
  readonly #self: (command: SlotsCommand) => void
  /** Whose each slot is. */
  readonly #taken = new Map<string, string>()
  readonly #waiting = new Map<string, Waiting>()
  readonly #turns = new Turns()
  readonly #presence: Presence
  #looking = false
  /** Of all processes together, and what this one has of it. */
  #wholeCap: number
  #share: Share
  #cap: number

  constructor(clock: Clock, self: (command: SlotsCommand) => void, cap: number, share: Share = whole) {
    this.#clock = clock
    this.#self = self
    this.#presence = new Presence(clock)
    this.#wholeCap = cap
    this.#share = share
    this.#cap = shareOf(cap, share)
  }

  idle(): boolean {
    return this.#taken.size === 0 && this.#waiting.size === 0
  }

  receive(command: SlotsCommand): void {
    switch (command.type) {
      case "acquire":
        return this.#onAcquire(command.caller, command.waitMs, command.reply)
      case "release":
        return this.#onRelease(command.requestId)
      case "expire":
        return this.#onExpire(command.requestId)
      case "cap":
        return this.#onCap(command.cap, this.#share)
      case "share":
        return this.#onCap(this.#wholeCap, command.share)
      case "look":
        this.#looking = false
        return this.#serve()
      case "view":
        return command.reply(this.#view())
      case "forecast":
        return command.reply({ ...this.#view(), kind: this.#forecast(command.caller) })
      default:
        return unreachable(command)
    }
  }

  #onAcquire(caller: SlotCaller, waitMs: number, reply: Reply<AcquireReply>): void {
    const { requestId, accountId } = caller
    if (this.#taken.has(requestId) || this.#waiting.has(requestId)) throw new Error(`${requestId} asked twice`)
    this.#presence.asks(accountId)
    if (this.#mayTake(accountId)) {
      this.#take(caller)
      return reply({ kind: "acquired" })
    }
    if (waitMs <= 0 || !this.#makeRoom(caller)) return reply({ kind: "full" })
    this.#wait(caller, waitMs, reply)
  }

  #view(): SlotsView {
    return { cap: this.#cap, taken: this.#taken.size, waiting: this.#waiting.size }
  }

  #forecast(caller: Omit<SlotCaller, "requestId">): SlotsForecast["kind"] {
    if (this.#mayTake(caller.accountId)) return "acquired"
    const limit = QUEUE_FACTOR * this.#cap
    if (this.#waiting.size < limit) return "waits"
    return this.#waiting.size === limit && this.#turns.givesWay(caller) !== undefined ? "waits" : "full"
  }

  #wait(caller: SlotCaller, waitMs: number, reply: Reply<AcquireReply>): void {
    const { requestId } = caller
    const timer = this.#clock.after(waitMs, () => this.#self({ type: "expire", requestId }))
    this.#waiting.set(requestId, { ...caller, reply, timer })
    this.#turns.add(caller)
    this.#lookLater()
  }

  /**
   * A slot is free, and if only the last quarter of them is, the account has fewer than its share: as many as each would have, were
   * they dealt out to all accounts that are present. One that is alone has them all.
   */
  #mayTake(accountId: string): boolean {
    const free = this.#cap - this.#taken.size
    if (free <= 0) return false
    if (free > Math.floor(this.#cap / KEPT_PART)) return true
    const share = Math.max(1, Math.floor(this.#cap / this.#presence.count))
    return this.#presence.held(accountId) < share
  }

  #take({ requestId, accountId }: SlotCaller): void {
    this.#taken.set(requestId, accountId)
    this.#presence.takes(accountId)
  }

  /** Whether one more call may wait, if need be instead of another one (`Turns.givesWay`). */
  #makeRoom(caller: SlotCaller): boolean {
    const limit = QUEUE_FACTOR * this.#cap
    if (this.#waiting.size < limit) return true
    const requestId = this.#waiting.size > limit ? undefined : this.#turns.givesWay(caller)
    if (requestId === undefined) return false
    this.#leave(requestId)?.reply({ kind: "full" })
    return true
  }

  #onRelease(requestId: string): void {
    const accountId = this.#taken.get(requestId)
    if (accountId === undefined) return this.#leave(requestId)?.reply({ kind: "full" })
    this.#taken.delete(requestId)
    this.#presence.releases(accountId)
    this.#serve()
  }

  #onExpire(requestId: string): void {
    this.#leave(requestId)?.reply({ kind: "full" })
  }

  #onCap(wholeCap: number, share: Share): void {
    this.#wholeCap = wholeCap
    this.#share = share
    this.#cap = shareOf(wholeCap, share)
    this.#serve()
  }

  /** Gives free slots to the accounts in turn. */
  #serve(): void {
    while (this.#taken.size < this.#cap) {
      const requestId = this.#turns.next((accountId) => this.#mayTake(accountId))
      if (requestId === undefined) return this.#lookLater()
      const waiting = this.#leave(requestId)
      if (waiting === undefined) throw new Error(`${requestId} has its turn and does not wait`)
      this.#take(waiting)
      waiting.reply({ kind: "acquired" })
    }
  }

  /** Who waits while a slot is free waits for others to come; when these have been away for long enough nobody would say so. */
  #lookLater(): void {
    if (this.#looking || this.#waiting.size === 0 || this.#taken.size >= this.#cap) return
    this.#looking = true
    this.#clock.after(this.#presence.nextGoneMs, () => this.#self({ type: "look" }))
  }

  #leave(requestId: string): Waiting | undefined {
    const waiting = this.#waiting.get(requestId)
    if (waiting === undefined) return undefined
    waiting.timer.cancel()
    this.#waiting.delete(requestId)
    this.#turns.remove(waiting)
    return waiting
  }
}
