/**
 * Which accounts share the slots of a model: those that hold some, and those that asked within the last minute. An account
 * whose calls are short would else count as gone between two of them, and find all slots taken at the next one. Milliseconds.
 */
import type { Clock } from "./kernel/clock.ts"

const GONE_AFTER_MS = 60_000

export class Presence {
  readonly #clock: Clock
  /** When each account asked last, or was seen to hold; in this order. */
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

  takes(accountId: string): void {
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

  /** How many there would be, had this one asked. */
  countWith(accountId: string): number {
    return this.count + (this.#seen.has(accountId) ? 0 : 1)
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
