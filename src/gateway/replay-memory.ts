/**
 * The memory budget for responses that can be replayed, in bytes: while their calls are in flight and for a while afterwards. Each
 * account has a share. An account that needs more loses its own oldest responses first; when all is full, the largest account does.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { defined } from "../../actors/unreachable.ts"

/** Overhead of one response. */
const ENTRY_BYTES = 2_048
/** An account may have 1/SHARES of the memory. */
const SHARES = 8

export interface ReplayEntry {
  readonly accountId: string
  /** Set while the response is retained. For the memory alone. */
  retained: Retained | undefined
  /** Called on eviction. */
  forget(): void
}

/** A finished response in the order of all and in that of its account. */
interface Retained {
  readonly ofAll: Link
  readonly ofAccount: Link
}

interface Account {
  bytes: number
  /** Finished responses. Undefined as long as there was none. */
  ended: Queue | undefined
}

interface Link {
  readonly entry: ReplayEntry
  readonly untilMs: number
  older: Link | undefined
  newer: Link | undefined
}

/**
 * Responses in the order of their ends. Most are taken out soon after, and a `Set` or a `Map` would keep them alive
 * (actors/kernel/dense-set.ts). What is taken out points to no others, or a dead one could do the same.
 */
class Queue {
  oldest: Link | undefined
  #newest: Link | undefined

  add(entry: ReplayEntry, untilMs: number): Link {
    const link: Link = { entry, untilMs, older: this.#newest, newer: undefined }
    if (this.#newest === undefined) this.oldest = link
    else this.#newest.newer = link
    this.#newest = link
    return link
  }

  delete(link: Link): void {
    const { older, newer } = link
    if (older === undefined) this.oldest = newer
    else older.newer = newer
    if (newer === undefined) this.#newest = older
    else newer.older = older
    link.older = link.newer = undefined
  }
}

export class ReplayMemory {
  readonly #clock: Clock
  readonly limit: number
  readonly #retentionMs: number
  readonly #accounts = new Map<string, Account>()
  readonly #ended = new Queue()
  #bytes = 0
  #timer: Timer | undefined

  /** `limit` in bytes. `keptMs` counts from the end of a call. */
  constructor(clock: Clock, limit: number, keptMs: number) {
    this.#clock = clock
    this.limit = limit
    this.#retentionMs = keptMs
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Reserves bytes of a response, or gives them back if negative. False where there is no room; then nothing is changed. */
  reserve({ accountId }: Pick<ReplayEntry, "accountId">, bytes: number): boolean {
    if (bytes > 0) {
      const share = Math.floor(this.limit / SHARES)
      while ((this.#accounts.get(accountId)?.bytes ?? 0) + bytes > share)
        if (!this.#evictOldest(accountId)) return false
      while (this.#bytes + bytes > this.limit) if (!this.#evictOldest(this.#largestAccount())) return false
    }
    this.#change(accountId, bytes)
    return true
  }

  /** Reserves the overhead of a new response. */
  begin(answer: Pick<ReplayEntry, "accountId">): boolean {
    return this.reserve(answer, ENTRY_BYTES)
  }

  /** The call has ended; its response is stored for the retention time. */
  retain(answer: ReplayEntry): void {
    const untilMs = this.#clock.monotonic() + this.#retentionMs
    const account = defined(this.#accounts.get(answer.accountId))
    account.ended ??= new Queue()
    answer.retained = { ofAll: this.#ended.add(answer, untilMs), ofAccount: account.ended.add(answer, untilMs) }
    this.#timer ??= this.#clock.wait(this.#retentionMs, () => this.#evictExpired())
  }

  /** The response has given back its bytes. */
  release(answer: ReplayEntry): void {
    if (answer.retained !== undefined) {
      this.#ended.delete(answer.retained.ofAll)
      this.#accounts.get(answer.accountId)?.ended?.delete(answer.retained.ofAccount)
      answer.retained = undefined
    }
    this.#change(answer.accountId, -ENTRY_BYTES)
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #change(accountId: string, bytes: number): void {
    this.#bytes += bytes
    const account = this.#accounts.get(accountId)
    if (account === undefined) return void this.#accounts.set(accountId, { bytes, ended: undefined })
    account.bytes += bytes
    if (account.bytes === 0) this.#accounts.delete(accountId)
  }

  #evictOldest(accountId: string | undefined): boolean {
    const oldest = accountId === undefined ? undefined : this.#accounts.get(accountId)?.ended?.oldest?.entry
    oldest?.forget()
    return oldest !== undefined
  }

  /** Among accounts with a finished response. */
  #largestAccount(): string | undefined {
    let largest: string | undefined
    let most = 0
    for (const [id, { bytes, ended }] of this.#accounts) {
      if (bytes <= most || ended?.oldest === undefined) continue
      most = bytes
      largest = id
    }
    return largest
  }

  #evictExpired(): void {
    this.#timer = undefined
    const now = this.#clock.monotonic()
    for (let { oldest } = this.#ended; oldest !== undefined; { oldest } = this.#ended) {
      if (oldest.untilMs > now) {
        this.#timer = this.#clock.wait(oldest.untilMs - now, () => this.#evictExpired())
        return
      }
      oldest.entry.forget()
    }
  }
}
