/** Whose turn it is among the calls that wait: the accounts in turn, in each its keys in turn, of each key the oldest call. */
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
  #size = 0

  add({ requestId, accountId, keyId }: WaitingCall): void {
    let queues = this.#accounts.get(accountId)
    if (queues === undefined) this.#accounts.set(accountId, (queues = { byKey: new Map(), size: 0 }))
    const queue = queues.byKey.get(keyId)
    if (queue === undefined) queues.byKey.set(keyId, new Set([requestId]))
    else queue.add(requestId)
    queues.size++
    this.#size++
  }

  remove({ requestId, accountId, keyId }: WaitingCall): void {
    const queues = this.#accounts.get(accountId)
    const queue = queues?.byKey.get(keyId)
    if (queues === undefined || queue?.delete(requestId) !== true) return
    this.#size--
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
    // When every account waits with one call there is nobody to take a place from.
    const most = this.#size > this.#accounts.size ? largest(this.#accounts.values()) : undefined
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
