/**
 * Checkpoints of the embedded Postgres, which begins none by itself, having no process for it: its log would grow for ever,
 * and a start would read all of it again. Sizes in bytes of the log, times in milliseconds.
 */
import { statfsSync } from "node:fs"
import type { PGlite } from "@electric-sql/pglite"
import type { Database } from "../database.ts"
import type { SyncedFiles } from "./synced-files.ts"

/** When one is made. */
export interface CheckpointTerms {
  /** How often it is looked whether one is due. */
  readonly lookMs: number
  /** What a start has to read again at most, but for what is written between two looks. */
  readonly logBytes: number
  /** However little was written since the last one. */
  readonly ageMs: number
}

/** The size is that of one file of the log. */
export const usualTerms: CheckpointTerms = { lookMs: 1_000, logBytes: 16 * 1024 * 1024, ageMs: 5 * 60_000 }

/** After one that failed, as on a full disk. */
const AGAIN_MS = 10_000
/** For its small files. Where Postgres cannot write these, it gives up for good. */
const ROOM_BYTES = 1024 * 1024

/** The log since the last checkpoint began. */
const REDO =
  "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 as bytes from pg_control_checkpoint()"

/** How much of its log a start would have to read again, in bytes. Throws `DatabaseUnavailable`. */
export async function redoBytes(database: Database): Promise<number> {
  const [row] = await database.run((sql) => sql.unsafe<{ bytes: number }[]>(REDO), {
    deadlineMs: 2_000,
    attemptMs: 2_000,
  })
  return row?.bytes ?? 0
}

export interface CheckpointOptions {
  readonly database: PGlite
  readonly files: SyncedFiles
  readonly terms: CheckpointTerms
  /** Where the database is. */
  readonly directory: string
  /** Does something while no client has the database. */
  readonly between: (work: () => Promise<void>) => Promise<void>
  /** The database refused one; it is tried again. */
  readonly onRefused: (error: Error) => void
  /** The database itself failed at one. */
  readonly onFailure: (error: unknown) => void
}

export class Checkpoints {
  readonly #options: CheckpointOptions
  readonly #timer: ReturnType<typeof setInterval>
  #looking: Promise<void> = Promise.resolve()
  #busy = false
  /** Since the last look, and since the last checkpoint. */
  #touched = false
  #written = false
  #last = performance.now()
  #notBefore = 0

  constructor(options: CheckpointOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#tick(), options.terms.lookMs)
  }

  /** A statement was carried out: something may have been written. */
  touch(): void {
    this.#touched = true
    this.#written = true
  }

  /** No more of them; resolves when none is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
  }

  #tick(): void {
    const now = performance.now()
    const isDue = this.#touched || (this.#written && this.#isOld())
    if (this.#busy || !isDue || now < this.#notBefore) return
    this.#busy = true
    this.#touched = false
    const { between, onRefused, onFailure } = this.#options
    this.#looking = between(() => this.#look())
      .catch((error: unknown) => {
        if (!isRefusal(error)) return onFailure(error)
        this.#notBefore = now + AGAIN_MS
        this.#touched = true
        onRefused(error)
      })
      .finally(() => {
        this.#busy = false
      })
  }

  async #look(): Promise<void> {
    const { terms, directory } = this.#options
    if (!this.#isOld() && (await this.#logBytes()) < terms.logBytes) return
    if (roomIn(directory) < ROOM_BYTES) throw new NoRoom(`there is no room on the disk of ${directory}`)
    await this.#checkpoint()
    this.#last = performance.now()
    this.#written = false
  }

  #isOld(): boolean {
    return performance.now() - this.#last >= this.#options.terms.ageMs
  }

  /** Since the last checkpoint. */
  async #logBytes(): Promise<number> {
    const { rows } = await this.#options.database.query<{ bytes: number }>(REDO)
    return rows[0]?.bytes ?? 0
  }

  async #checkpoint(): Promise<void> {
    const { database, files } = this.#options
    files.beforeTables()
    try {
      await database.query("checkpoint")
    } finally {
      files.rest()
    }
  }
}

class NoRoom extends Error {
  override readonly name = "NoRoom"
}

function roomIn(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** An ERROR of the statement; a PANIC, or a file that cannot be synced, is of the database. */
const isRefusal = (error: unknown): error is Error =>
  error instanceof NoRoom || (error instanceof Error && "severity" in error && error.severity === "ERROR")
