/**
 * The reconciliation of each day, in the process. Of several processes one does it: the day is a row that one of them
 * takes. What the last one came to, whoever did it, is read again at each look, for the metrics.
 */
import type { Log } from "../log.ts"
import type { LastReconciliation, ReconciliationStore } from "../store/reconciliations.ts"
import { differencesIn, notComparedIn } from "./claim.ts"
import type { Reconciliation } from "./reconcile.ts"

export interface DailyParts {
  /** Of the day in UTC, from which on it is due. */
  readonly hour: number
  readonly processId: string
  readonly store: Pick<ReconciliationStore, "beginDay" | "last">
  readonly reconcile: (id: bigint, signal: AbortSignal) => Promise<Reconciliation>
  readonly now: () => number
  readonly log: Log
}

const LOOK_EVERY_MS = 60_000
const HOUR_MS = 3_600_000

export class Daily {
  readonly #parts: DailyParts
  readonly #ended = new AbortController()
  #looking: Promise<void> = Promise.resolve()
  #timer: ReturnType<typeof setInterval> | undefined
  #last: LastReconciliation | undefined

  constructor(parts: DailyParts) {
    this.#parts = parts
  }

  /** The one that ended last, as of the last look. */
  get last(): LastReconciliation | undefined {
    return this.#last
  }

  /** Looks first a minute from now, when a process that starts has other things behind it. */
  async start(): Promise<void> {
    this.#last = await this.#parts.store.last()
    this.#timer = setInterval(() => void this.look(), LOOK_EVERY_MS)
  }

  /** Does what is due, if nobody else is at it. Never throws; what failed is tried again at the next look. */
  look(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#look())
    return this.#looking
  }

  /** Breaks off what is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#ended.abort()
    await this.#looking
  }

  async #look(): Promise<void> {
    const { hour, store, processId, now, log } = this.#parts
    const { signal } = this.#ended
    if (signal.aborted) return
    try {
      const day = new Date(now() - hour * HOUR_MS).toISOString().slice(0, 10)
      const id = await store.beginDay(day, processId)
      if (id !== undefined) this.#tell(await this.#parts.reconcile(id, signal))
      this.#last = await store.last()
    } catch (error) {
      if (!signal.aborted) log.warn("books not reconciled", { error: String(error) })
    }
  }

  #tell({ id, since, findings, frozen }: Reconciliation): void {
    const { log } = this.#parts
    const differences = differencesIn(findings)
    const fields = {
      reconciliation: Number(id),
      since: since?.toISOString() ?? "",
      compared: findings.reduce((total, { compared }) => total + compared, 0),
      not_compared: notComparedIn(findings),
      differences,
      claims: findings.flatMap((finding) => (finding.differences > 0 ? [finding.claim] : [])).join("; "),
      frozen: frozen.slice(0, 100).join(" "),
    }
    if (differences === 0) log.info("books reconciled", fields)
    else log.error("books do not agree", fields)
  }
}
