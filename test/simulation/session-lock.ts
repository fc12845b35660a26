/**
 * The session lock of a simulated process, as `src/store/session-lock.ts` keeps it: taken again when it was lost, unless
 * another process has closed this one in the meantime. Times in milliseconds.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import { REPRIEVE_MS } from "../../src/store/processes.ts"
import { LOSS_NOTICED_WITHIN_MS } from "../../src/store/session-lock.ts"
import type { SimulatedDatabase } from "./database.ts"
import { arrival, type ProcessClock } from "./process-clock.ts"
import type { Stage } from "./stage.ts"

interface Parts {
  readonly stage: Stage
  readonly clock: ProcessClock
  readonly database: SimulatedDatabase
  readonly processId: string
  readonly fenced: () => void
}

const LOOK_MS = 2_000
const RETAKE_PAUSE_MS = 100

export class SessionLock {
  readonly #parts: Parts
  #over = false
  #held = false
  #retakenAt = -Infinity
  /** What it believes itself: Infinity from when it notices that the lock is lost. */
  #judgesFrom = -Infinity

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** While its own lock is lost, and for a while after, a process judges no other. */
  get inReprieve(): boolean {
    return this.#parts.clock.monotonic() < this.#judgesFrom
  }

  /** When another process last could take this one for dead. */
  get lackedAt(): number {
    return this.#held ? this.#retakenAt : this.#parts.clock.monotonic()
  }

  get held(): boolean {
    return this.#held
  }

  async take(): Promise<boolean> {
    if (!(await this.#acquire())) return false
    this.#look()
    return true
  }

  /** The server drops the session; the process notices up to a look later. */
  lose(): void {
    const { stage, database, processId, clock } = this.#parts
    if (!this.#held) return
    stage.trace(`${processId} loses its lock`)
    this.#held = false
    void database.books.dropLock(processId)
    clock.after(stage.delay(LOSS_NOTICED_WITHIN_MS), () => void this.#retake())
  }

  async release(): Promise<void> {
    this.#over = true
    if (this.#held) await this.#parts.database.books.dropLock(this.#parts.processId)
  }

  async #retake(): Promise<void> {
    this.#judgesFrom = Infinity
    while (!this.#over && !(await this.#acquire())) await sleep(this.#parts.clock, RETAKE_PAUSE_MS)
    this.#retakenAt = this.#parts.clock.monotonic()
    this.#judgesFrom = this.#retakenAt + REPRIEVE_MS
    if (!this.#over) await this.#askWhetherFenced()
  }

  async #acquire(): Promise<boolean> {
    const { stage, clock, database, processId } = this.#parts
    await arrival(clock, 1 + stage.delay(5))
    if (database.away || this.#over) return false
    this.#held = await database.books.takeLock(processId)
    return this.#held
  }

  #look(): void {
    this.#parts.clock.after(LOOK_MS, () => {
      if (this.#held && !this.#parts.database.away) void this.#askWhetherFenced()
      this.#look()
    })
  }

  async #askWhetherFenced(): Promise<void> {
    const { database, processId, fenced } = this.#parts
    if (this.#over || !(await database.books.isClosed(processId))) return
    this.#over = true
    fenced()
  }
}
