/**
 * How much each account has used of something lately, in milliseconds of time or in number: what was used counts half after
 * ten seconds.
 */
import type { Clock } from "../../actors/kernel/clock.ts"

const HALF_LIFE_MS = 10_000
/** Less than this is forgotten: far less than one body costs, of which there may be many. */
const NOTHING = 0.01
const MOST_ACCOUNTS = 10_000

interface Used {
  readonly amount: number
  readonly at: number
}

export class RecentUse {
  readonly #clock: Clock
  /** Whoever used some last stands last. */
  readonly #accounts = new Map<string, Used>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  by(accountId: string): number {
    const used = this.#accounts.get(accountId)
    if (used === undefined) return 0
    const amount = used.amount * 0.5 ** ((this.#clock.monotonic() - used.at) / HALF_LIFE_MS)
    return amount < NOTHING ? 0 : amount
  }

  add(accountId: string, amount: number): void {
    const used = { amount: this.by(accountId) + amount, at: this.#clock.monotonic() }
    this.#accounts.delete(accountId)
    this.#accounts.set(accountId, used)
    for (const [oldest] of this.#accounts) {
      if (this.#accounts.size <= MOST_ACCOUNTS && this.by(oldest) > 0) break
      this.#accounts.delete(oldest)
    }
  }
}
