/**
 * Accounts whose rows other processes are booking at the same time. A commit has an account's rows to itself until it is durable,
 * so several processes that book one account after every few calls mostly wait for each other. Each of them therefore books such
 * an account seldom and with more calls at once: after each meeting half as often, after each commit without one somewhat more
 * often. Others are booked as ever. Times in milliseconds, on the running clock.
 */
import { accountOf, type Entry } from "./batch.ts"

interface Contended {
  /** From the beginning of one commit to the next one. */
  gapMs: number
  /** It is in no commit before. */
  heldUntil: number
  /** Meetings since it was booked last. */
  meetings: number
}

const FIRST_GAP_MS = 4
/** What a call waits for at most because of it, on average half of it. */
const LAST_GAP_MS = 32
const SHRINKS_TO = 0.8
/** A commit of others is over soon; each further meeting doubles it. */
const AGAIN_MS = 3
/** One that is met more often in a row is held by somebody who does not just book it. */
const MOST_MEETINGS = 3
/** An account without a call for so long is as any other. */
const FORGOTTEN_MS = 1_000

export class Contention {
  readonly #accounts = new Map<string, Contended>()

  /** -Infinity of an account that is not contended, and of what is about all. */
  heldUntil(entry: Entry): number {
    if (this.#accounts.size === 0 || entry.kind === "barrier") return Number.NEGATIVE_INFINITY
    return this.#accounts.get(accountOf(entry) ?? "")?.heldUntil ?? Number.NEGATIVE_INFINITY
  }

  /** Others had its rows. False where it is nobody's who just books it; it is forgotten then. */
  met(accountId: string, now: number): boolean {
    const known = this.#accounts.get(accountId) ?? { gapMs: FIRST_GAP_MS, heldUntil: now, meetings: 0 }
    if (known.meetings >= MOST_MEETINGS) {
      this.#accounts.delete(accountId)
      return false
    }
    known.heldUntil = now + AGAIN_MS * 2 ** known.meetings++
    known.gapMs = Math.min(LAST_GAP_MS, 2 * known.gapMs)
    this.#accounts.set(accountId, known)
    return true
  }

  /** A commit that began at `since` has booked these, but for what is of accounts that were met. Whether anything is contended. */
  booked(entries: readonly Entry[], since: number, met: readonly string[]): boolean {
    if (this.#accounts.size === 0) return false
    const booked = new Set(entries.map(accountOf))
    for (const [accountId, known] of this.#accounts) {
      if (met.includes(accountId)) continue
      if (booked.has(accountId)) this.#wasBooked(accountId, known, since)
      else if (known.heldUntil + FORGOTTEN_MS < since) this.#accounts.delete(accountId)
    }
    return true
  }

  #wasBooked(accountId: string, known: Contended, since: number): void {
    if (known.meetings === 0) known.gapMs *= SHRINKS_TO
    known.meetings = 0
    known.heldUntil = since + known.gapMs
    if (known.gapMs < FIRST_GAP_MS) this.#accounts.delete(accountId)
  }
}
