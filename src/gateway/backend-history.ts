/**
 * What becomes of the members of pools, gathered for operators: circuits that open and close, by the minute, and tries by the hour.
 * A call pays for a look-up and a count; the rest is a statement every few seconds, which no call waits for. What cannot be written
 * is written with the next, as far as there is room for it.
 */
import type { BackendEvent, BackendHistoryStore, BackendHour } from "../store/operator/backend-history.ts"
import { bucketOf, type FailureClass } from "./backend-health.ts"

/** What a member or a credential has come to. */
export type Occurrence = Pick<BackendEvent, "member" | "model" | "event" | "class" | "status">

interface Changing<Row> {
  row: Row
  /** Since it was last written. */
  isChanged: boolean
}

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
/** That are not written yet, or still change; what is new beyond them is not kept. */
const MAX_EVENTS = 2_000
const MAX_HOURS = 10_000

export interface BackendHistoryParts {
  readonly store: Pick<BackendHistoryStore, "keep">
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export class BackendHistory {
  readonly #parts: BackendHistoryParts
  readonly #events = new Map<string, Changing<BackendEvent>>()
  readonly #hours = new Map<string, Changing<BackendHour>>()

  constructor(parts: BackendHistoryParts) {
    this.#parts = parts
  }

  occurred(occurrence: Occurrence): void {
    const at = this.#parts.now()
    const minute = Math.floor(at / MINUTE_MS)
    const { member, model, event } = occurrence
    const fresh = () => ({ ...occurrence, minute, at, times: 0 })
    const known = entryOf(this.#events, JSON.stringify([minute, event, member, model]), MAX_EVENTS, fresh)
    if (known === undefined) return
    known.row = { ...known.row, ...occurrence, times: known.row.times + 1 }
    known.isChanged = true
  }

  /** A try has ended. `firstMs`: when its first content came; undefined where none did. */
  tried(member: string, model: string, outcome: "answered" | FailureClass, firstMs: number | undefined): void {
    const hour = Math.floor(this.#parts.now() / HOUR_MS)
    const fresh = () => ({ hour, member, model, answered: 0, failed: 0, rateLimited: 0, steps: new Map() })
    const known = entryOf(this.#hours, JSON.stringify([hour, member, model]), MAX_HOURS, fresh)
    if (known === undefined) return
    const { row } = known
    if (outcome === "answered") row.answered++
    else if (outcome !== "refused_request") row.failed++
    if (outcome === "rate_limited") row.rateLimited++
    if (firstMs !== undefined) {
      const step = bucketOf(firstMs)
      row.steps.set(step, (row.steps.get(step) ?? 0) + 1)
    }
    known.isChanged = true
  }

  /** Writes what has changed. What could not be written is written the next time. */
  async flush(): Promise<void> {
    const events = [...this.#events.values()].filter(({ isChanged }) => isChanged)
    const hours = [...this.#hours.values()].filter(({ isChanged }) => isChanged)
    if (events.length + hours.length > 0) {
      for (const one of [...events, ...hours]) one.isChanged = false
      try {
        await this.#parts.store.keep(rowsOf(events), rowsOf(hours))
      } catch (error) {
        for (const one of [...events, ...hours]) one.isChanged = true
        throw error
      }
    }
    const now = this.#parts.now()
    forget(this.#events, ({ minute }) => (minute + 1) * MINUTE_MS <= now)
    forget(this.#hours, ({ hour }) => (hour + 1) * HOUR_MS <= now)
  }
}

const rowsOf = <Row>(changing: readonly Changing<Row>[]): Row[] => changing.map(({ row }) => row)

/** Undefined when there is room for no more. */
function entryOf<Row>(
  all: Map<string, Changing<Row>>,
  key: string,
  most: number,
  fresh: () => Row,
): Changing<Row> | undefined {
  const known = all.get(key)
  if (known !== undefined || all.size >= most) return known
  const made = { row: fresh(), isChanged: false }
  all.set(key, made)
  return made
}

/** What is over, and written. */
function forget<Row>(all: Map<string, Changing<Row>>, isOver: (row: Row) => boolean): void {
  for (const [key, { row, isChanged }] of all) if (!isChanged && isOver(row)) all.delete(key)
}
