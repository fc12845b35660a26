/**
 * Calls that were refused before they were forwarded, gathered for their owners (decisions §13.15). A call pays for a look-up and
 * a count; everything else is one statement every few seconds. A flood is counted and not kept: of each code an account's first
 * calls of a minute are.
 */
import type { RefusedCall, RefusedCallStore, RefusedCount } from "../store/refused-calls.ts"

interface Tally {
  hour: number
  calls: number
  /** What of them is written. */
  written: number
  minute: number
  /** Of this minute. */
  kept: number
}

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const KEPT_DAYS = 7

const MOST_A_MINUTE = 10
/** That wait to be written, of all accounts. */
const MOST_WAITING = 2_000
/** Accounts that are refused within one hour; those after them are not counted. */
const MOST_ACCOUNTS = 20_000
/** In the last hour's place a new one is counted; what is not written of it waits here. */
const MOST_COUNTS = 40_000

export interface RefusedCallsParts {
  readonly store: Pick<RefusedCallStore, "keep" | "removeOld">
  /** What all request ids of this millisecond begin with. */
  readonly firstId: (ms: number) => string
  readonly now: () => number
}

export class RefusedCalls {
  readonly #parts: RefusedCallsParts
  readonly #accounts = new Map<string, Map<string, Tally>>()
  /** Of hours that are over. */
  #over: RefusedCount[] = []
  #waiting: RefusedCall[] = []

  constructor(parts: RefusedCallsParts) {
    this.#parts = parts
  }

  /** What waits to be written. */
  get waiting(): { readonly calls: number; readonly accounts: number } {
    return { calls: this.#waiting.length, accounts: this.#accounts.size }
  }

  add(call: RefusedCall): void {
    let tallies = this.#accounts.get(call.accountId)
    if (tallies === undefined) {
      if (this.#accounts.size >= MOST_ACCOUNTS) return
      this.#accounts.set(call.accountId, (tallies = new Map()))
    }
    const minute = Math.floor(call.at / MINUTE_MS)
    let tally = tallies.get(call.code)
    if (tally === undefined) {
      tallies.set(call.code, (tally = { hour: Math.floor(call.at / HOUR_MS), calls: 0, written: 0, minute, kept: 0 }))
    }
    if (minute !== tally.minute) this.#nextMinute(call, tally, minute)
    tally.calls++
    if (tally.kept >= MOST_A_MINUTE || this.#waiting.length >= MOST_WAITING) return
    tally.kept++
    this.#waiting.push(call)
  }

  #nextMinute({ accountId, code, at }: RefusedCall, tally: Tally, minute: number): void {
    tally.minute = minute
    tally.kept = 0
    const hour = Math.floor(at / HOUR_MS)
    if (hour === tally.hour) return
    if (tally.calls > tally.written && this.#over.length < MOST_COUNTS)
      this.#over.push({ accountId, code, hour: tally.hour, calls: tally.calls })
    Object.assign(tally, { hour, calls: 0, written: 0 })
  }

  /** Writes what has come since. What could not be written is written with the next. Tells of which accounts there was any. */
  async flush(): Promise<ReadonlySet<string>> {
    const { store, firstId, now } = this.#parts
    const calls = this.#waiting
    const over = this.#over
    const open: { readonly tally: Tally; readonly count: RefusedCount }[] = []
    for (const [accountId, tallies] of this.#accounts)
      for (const [code, tally] of tallies) {
        const { hour, calls } = tally
        if (calls > tally.written) open.push({ tally, count: { accountId, code, hour, calls } })
      }
    if (open.length > 0 || over.length > 0) {
      this.#waiting = []
      this.#over = []
      try {
        await store.keep(calls, [...over, ...open.map(({ count }) => count)], firstId(now() - DAY_MS))
      } catch (error) {
        this.#waiting = [...calls, ...this.#waiting].slice(0, MOST_WAITING)
        this.#over = [...over, ...this.#over].slice(0, MOST_COUNTS)
        throw error
      }
      for (const { tally, count } of open) if (tally.hour === count.hour) tally.written = count.calls
    }
    this.#forget()
    return new Set([...over, ...open.map(({ count }) => count)].map(({ accountId }) => accountId))
  }

  /** Rows of calls whose time is over. */
  async removeOld(): Promise<void> {
    const { store, firstId, now } = this.#parts
    await store.removeOld(firstId(now() - KEPT_DAYS * DAY_MS))
  }

  /** What is of an hour before, and written. */
  #forget(): void {
    const hour = Math.floor(this.#parts.now() / HOUR_MS)
    for (const [accountId, tallies] of this.#accounts) {
      for (const [code, tally] of tallies) if (tally.hour < hour && tally.calls === tally.written) tallies.delete(code)
      if (tallies.size === 0) this.#accounts.delete(accountId)
    }
  }
}
