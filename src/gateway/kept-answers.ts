/**
 * What is kept of answers that may be asked for again, in bytes: of calls under way, and for a while after their end. Memory
 * alone. An account has a share of the room. Who needs more loses its own oldest answers first, then whoever keeps the most does.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { defined } from "../../actors/unreachable.ts"

/** What an answer takes beside its bytes. */
const KEEPING_BYTES = 2_048
/** Of all there is, what one account may have. */
const SHARES = 8

export interface KeptAnswer {
  readonly accountId: string
  /** It is kept no more. */
  forget(): void
}

interface Account {
  bytes: number
  /** Those that have ended, the oldest first; undefined as long as there was none. */
  ended: Set<KeptAnswer> | undefined
}

export class KeptAnswers {
  readonly #clock: Clock
  readonly limit: number
  readonly #keptMs: number
  readonly #accounts = new Map<string, Account>()
  /** All that have ended, the oldest first, and until when they are kept. */
  readonly #ended = new Map<KeptAnswer, { readonly untilMs: number }>()
  #bytes = 0
  #timer: Timer | undefined

  /** `limit`: bytes; `keptMs`: for how long after their end. */
  constructor(clock: Clock, limit: number, keptMs: number) {
    this.#clock = clock
    this.limit = limit
    this.#keptMs = keptMs
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Bytes of an answer, or fewer; false where there is no room, and then nothing is changed. */
  hold({ accountId }: Pick<KeptAnswer, "accountId">, bytes: number): boolean {
    if (bytes > 0) {
      const share = Math.floor(this.limit / SHARES)
      while ((this.#accounts.get(accountId)?.bytes ?? 0) + bytes > share)
        if (!this.#forgetOldest(accountId)) return false
      while (this.#bytes + bytes > this.limit) if (!this.#forgetOldest(this.#largest())) return false
    }
    this.#change(accountId, bytes)
    return true
  }

  /** A call that may be asked for again has begun. */
  begin(answer: Pick<KeptAnswer, "accountId">): boolean {
    return this.hold(answer, KEEPING_BYTES)
  }

  /** Its answer is kept from now on for so long. */
  keep(answer: KeptAnswer): void {
    this.#ended.set(answer, { untilMs: this.#clock.monotonic() + this.#keptMs })
    const account = defined(this.#accounts.get(answer.accountId))
    account.ended ??= new Set()
    account.ended.add(answer)
    this.#timer ??= this.#clock.wait(this.#keptMs, () => this.#sweep())
  }

  /** It has let go of its bytes. */
  end(answer: KeptAnswer): void {
    this.#ended.delete(answer)
    this.#accounts.get(answer.accountId)?.ended?.delete(answer)
    this.#change(answer.accountId, -KEEPING_BYTES)
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

  #forgetOldest(accountId: string | undefined): boolean {
    const oldest = accountId === undefined ? undefined : this.#accounts.get(accountId)?.ended?.values().next().value
    oldest?.forget()
    return oldest !== undefined
  }

  /** Of those that have anything to forget. */
  #largest(): string | undefined {
    let largest: string | undefined
    let most = 0
    for (const [id, { bytes, ended }] of this.#accounts) {
      if (bytes <= most || ended === undefined || ended.size === 0) continue
      most = bytes
      largest = id
    }
    return largest
  }

  #sweep(): void {
    this.#timer = undefined
    const now = this.#clock.monotonic()
    for (const [answer, { untilMs }] of this.#ended) {
      if (untilMs > now) {
        this.#timer = this.#clock.wait(untilMs - now, () => this.#sweep())
        return
      }
      answer.forget()
    }
  }
}
