/**
 * The fair queue of calls that wait for a slot: accounts take turns, the keys of an account take turns, and each key's oldest call
 * comes first. `Presence` says which accounts share the slots.
 */
import type { Clock } from "./kernel/clock.ts"

interface WaitingCall {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
}

/** An account's calls by key. The map's order is whose turn it is; each set is in order of arrival. */
interface Queues {
  readonly byKey: Map<string, Set<string>>
  size: number
}

export class Turns {
  /** The map's order is whose turn it is. */
  readonly #accounts = new Map<string, Queues>()

  add({ requestId, accountId, keyId }: WaitingCall): void {
    let queues = this.#accounts.get(accountId)
    if (queues === undefined) this.#accounts.set(accountId, (queues = { byKey: new Map(), size: 0 }))
    const queue = queues.byKey.get(keyId)
    if (queue === undefined) queues.byKey.set(keyId, new Set([requestId]))
    else queue.add(requestId)
    queues.size++
  }

  remove({ requestId, accountId, keyId }: WaitingCall): void {
    const queues = this.#accounts.get(accountId)
    const queue = queues?.byKey.get(keyId)
    if (queues === undefined || queue?.delete(requestId) !== true) return
    queues.size--
    if (queue.size === 0) queues.byKey.delete(keyId)
    if (queues.size === 0) this.#accounts.delete(accountId)
  }

  /** The call whose turn it is, of the first account that may be served; account and key go to the end. It stays until it is removed. */
  next(mayBeServed: (accountId: string) => boolean): string | undefined {
    for (const [accountId, queues] of this.#accounts) {
      if (!mayBeServed(accountId)) continue
      const [keyId, queue] = first(queues.byKey)
      toEnd(queues.byKey, keyId, queue)
      toEnd(this.#accounts, accountId, queues)
      return first(queue)
    }
    return undefined
  }

  /**
   * Who gives its place in a full queue to one more call: of the account with the most the key with the most, and of that one
   * the newest call. Undefined when nobody has more than the one that wants the place would have.
   */
  givesWay({ accountId, keyId }: Omit<WaitingCall, "requestId">): string | undefined {
    const own = this.#accounts.get(accountId)
    const most = largest(this.#accounts.values())
    if (most === undefined) return undefined
    if (most.size > (own?.size ?? 0) + 1) return newest(largest(most.byKey.values()))
    // The account's own calls: a key of it may take a place from another.
    const longest = own && largest(own.byKey.values())
    return longest !== undefined && longest.size > (own?.byKey.get(keyId)?.size ?? 0) + 1 ? newest(longest) : undefined
  }
}

function largest<T extends { readonly size: number }>(all: Iterable<T>): T | undefined {
  let most: T | undefined
  for (const each of all) if (each.size > (most?.size ?? 0)) most = each
  return most
}

const newest = (queue: ReadonlySet<string> | undefined): string | undefined => [...(queue ?? [])].at(-1)

/** Queues that are empty are not kept. */
function first<T>(all: Iterable<T>): T {
  for (const each of all) return each
  throw new Error("an empty queue was kept")
}

function toEnd<T>(map: Map<string, T>, name: string, value: T): void {
  map.delete(name)
  map.set(name, value)
}

/**
 * Which accounts share the slots of a model: those that hold some, and those that asked within the last minute. An account
 * whose calls are short would else count as gone between two of them, and find all slots taken at the next one. Milliseconds.
 */
const GONE_AFTER_MS = 60_000

export class Presence {
  readonly #clock: Clock
  /** When each account asked last, took a slot, or was seen to hold; in this order. */
  readonly #seen = new Map<string, number>()
  /** Slots held, of accounts that hold any. */
  readonly #held = new Map<string, number>()
  /** No account that was seen is gone before. */
  #nextGoneAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  asks(accountId: string): void {
    this.#forgetGone()
    this.#see(accountId)
  }

  /** It may have waited for so long that it counted as gone. */
  takes(accountId: string): void {
    this.#see(accountId)
    this.#held.set(accountId, this.held(accountId) + 1)
  }

  releases(accountId: string): void {
    const left = this.held(accountId) - 1
    if (left > 0) this.#held.set(accountId, left)
    else this.#held.delete(accountId)
  }

  held(accountId: string): number {
    return this.#held.get(accountId) ?? 0
  }

  /** How many there are now. */
  get count(): number {
    this.#forgetGone()
    return this.#seen.size
  }

  /** In how many milliseconds the first of them may be gone. */
  get nextGoneMs(): number {
    const first = this.#seen.values().next().value
    return first === undefined ? GONE_AFTER_MS : Math.max(1, first + GONE_AFTER_MS - this.#clock.monotonic())
  }

  #see(accountId: string): void {
    this.#seen.delete(accountId)
    this.#seen.set(accountId, this.#clock.monotonic())
  }

  #forgetGone(): void {
    const now = this.#clock.monotonic()
    if (now < this.#nextGoneAt) return
    this.#nextGoneAt = now + GONE_AFTER_MS
    for (const [accountId, at] of this.#seen) {
      if (now - at < GONE_AFTER_MS) {
        this.#nextGoneAt = at + GONE_AFTER_MS
        return
      }
      if (this.#held.has(accountId)) this.#see(accountId)
      else this.#seen.delete(accountId)
    }
  }
}
