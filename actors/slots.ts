/**
 * Concurrency slots with a bounded, fair wait: of a model (its `max_concurrency`) or of the whole gateway (decisions
 * §5). Who waits is served round robin by key, so that one key with a thousand calls cannot starve another; nor by filling
 * the queue: a key that has fewer waiting than another takes the place of that one's newest call. Where other processes call the
 * same backend, the slots are this process's share of the cap. Waits in milliseconds.
 */
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import { type Share, shareOf, whole } from "./share.ts"
import { unreachable } from "./unreachable.ts"

export type AcquireReply = { readonly kind: "acquired" } | { readonly kind: "full" }

export interface SlotsView {
  /** This process's share. */
  readonly cap: number
  readonly taken: number
  readonly waiting: number
}

export type SlotsCommand =
  | {
      readonly type: "acquire"
      readonly requestId: string
      readonly keyId: string
      readonly waitMs: number
      readonly reply: Reply<AcquireReply>
    }
  /** Ends a slot or a wait, whichever there is: right at any time, also twice. */
  | { readonly type: "release"; readonly requestId: string }
  | { readonly type: "expire"; readonly requestId: string }
  | { readonly type: "cap"; readonly cap: number }
  | { readonly type: "share"; readonly share: Share }
  | { readonly type: "view"; readonly reply: Reply<SlotsView> }

interface Waiting {
  readonly requestId: string
  readonly keyId: string
  readonly reply: Reply<AcquireReply>
  readonly cancelTimer: () => void
}

/** The queue is no longer than this many times the cap (decisions §5). */
const QUEUE_FACTOR = 4

export class Slots implements Behaviour<SlotsCommand> {
  readonly #clock: Clock
  readonly #self: (command: SlotsCommand) => void
  readonly #taken = new Set<string>()
  readonly #waiting = new Map<string, Waiting>()
  /** Each key's waiting calls in order of arrival; the map's own order is whose turn it is. */
  readonly #queues = new Map<string, Set<string>>()
  /** Of all processes together, and what this one has of it. */
  #wholeCap: number
  #share: Share
  #cap: number

  constructor(clock: Clock, self: (command: SlotsCommand) => void, cap: number, share: Share = whole) {
    this.#clock = clock
    this.#self = self
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
        return this.#onAcquire(command.requestId, command.keyId, command.waitMs, command.reply)
      case "release":
        return this.#onRelease(command.requestId)
      case "expire":
        return this.#onExpire(command.requestId)
      case "cap":
        return this.#onCap(command.cap, this.#share)
      case "share":
        return this.#onCap(this.#wholeCap, command.share)
      case "view":
        return command.reply({ cap: this.#cap, taken: this.#taken.size, waiting: this.#waiting.size })
      default:
        return unreachable(command)
    }
  }

  #onAcquire(requestId: string, keyId: string, waitMs: number, reply: Reply<AcquireReply>): void {
    if (this.#taken.has(requestId) || this.#waiting.has(requestId)) throw new Error(`${requestId} asked twice`)
    if (this.#taken.size < this.#cap) {
      this.#taken.add(requestId)
      return reply({ kind: "acquired" })
    }
    if (waitMs <= 0 || !this.#makeRoom(keyId)) return reply({ kind: "full" })
    const timer = this.#clock.after(waitMs, () => this.#self({ type: "expire", requestId }))
    this.#waiting.set(requestId, { requestId, keyId, reply, cancelTimer: () => timer.cancel() })
    const queue = this.#queues.get(keyId)
    if (queue === undefined) this.#queues.set(keyId, new Set([requestId]))
    else queue.add(requestId)
  }

  /** Whether one more call of `keyId` may wait, if need be instead of the newest one of the key with the most. */
  #makeRoom(keyId: string): boolean {
    const limit = QUEUE_FACTOR * this.#cap
    if (this.#waiting.size < limit) return true
    let longest: Set<string> | undefined
    // When every key waits with one call there is nobody to take a place from.
    if (this.#waiting.size > this.#queues.size)
      for (const queue of this.#queues.values()) if (queue.size > (longest?.size ?? 0)) longest = queue
    const own = this.#queues.get(keyId)?.size ?? 0
    if (longest === undefined || longest.size <= own + 1 || this.#waiting.size > limit) return false
    const newest = [...longest].at(-1)
    if (newest !== undefined) this.#leave(newest)?.reply({ kind: "full" })
    return true
  }

  #onRelease(requestId: string): void {
    if (this.#taken.delete(requestId)) this.#serve()
    else this.#leave(requestId)?.reply({ kind: "full" })
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

  /** Gives free slots to the keys in turn: a key that was served goes to the end. */
  #serve(): void {
    while (this.#taken.size < this.#cap) {
      const next = this.#queues.entries().next()
      if (next.done === true) return
      const [keyId, queue] = next.value
      const requestId = queue.values().next().value
      const waiting = requestId === undefined ? undefined : this.#leave(requestId)
      if (waiting === undefined) throw new Error(`the queue of ${keyId} names a call that does not wait`)
      if (this.#queues.delete(keyId)) this.#queues.set(keyId, queue)
      this.#taken.add(waiting.requestId)
      waiting.reply({ kind: "acquired" })
    }
  }

  #leave(requestId: string): Waiting | undefined {
    const waiting = this.#waiting.get(requestId)
    if (waiting === undefined) return undefined
    waiting.cancelTimer()
    this.#waiting.delete(requestId)
    const queue = this.#queues.get(waiting.keyId)
    queue?.delete(requestId)
    if (queue?.size === 0) this.#queues.delete(waiting.keyId)
    return waiting
  }
}
