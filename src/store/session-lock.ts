/**
 * A lock that says that this process lives: a PostgreSQL session advisory lock on a connection of its own, which the
 * server drops with the connection. A lost connection is replaced at once, and the lock taken again, unless another
 * process has closed this one in the meantime. Times in milliseconds.
 */
import { Connection } from "./connection.ts"
import { DatabaseUnavailable, type Sql } from "./database.ts"
import { pause, within } from "./deadline.ts"

const ANSWER_MS = 5000
/** How often a silent connection is asked whether it still is one. */
const LOOK_MS = 2000
const RETAKE_PAUSE_MS = 100

/** The number that stands for a process, in SQL. */
export function lockKey(sql: Sql, id: ReturnType<Sql> | string) {
  return sql`hashtextextended('loket:process:' || ${id}, 0)`
}

interface Options {
  readonly url: string
  readonly processId: string
  /** Called once: the process was closed by another. The lock is given up then. */
  readonly onFenced: () => void
}

export class SessionLock {
  readonly #options: Options
  readonly #released = Promise.withResolvers<void>()
  #over = false
  #watching: Promise<void> = Promise.resolve()
  /** On the monotonic clock: when the lock was last lost. */
  lostAt = -Infinity

  private constructor(options: Options) {
    this.#options = options
  }

  /** Throws `DatabaseUnavailable`. */
  static async take(options: Options): Promise<SessionLock> {
    const lock = new SessionLock(options)
    const connection = await lock.#acquire()
    if (!connection) throw new DatabaseUnavailable("The lock of this process could not be taken")
    lock.#watching = lock.#watch(connection)
    return lock
  }

  async release(): Promise<void> {
    this.#end()
    await this.#watching
  }

  #end(): void {
    this.#over = true
    this.#released.resolve()
  }

  async #watch(first: Connection): Promise<void> {
    let connection: Connection | undefined = first
    while (!this.#over) {
      if (connection) await this.#lookAfter(connection)
      connection?.discard()
      if (this.#over) return
      this.lostAt = performance.now()
      connection = await this.#acquire()
      if (!connection) await pause(RETAKE_PAUSE_MS, this.#released.promise)
    }
    connection?.discard()
  }

  /** Returns when the lock is lost or given up. */
  async #lookAfter(connection: Connection): Promise<void> {
    const lost = new Promise<void>((resolve) => connection.onClosed(resolve))
    const { processId, onFenced } = this.#options
    while (!this.#over && !connection.closed) {
      try {
        const rows = await within(
          ANSWER_MS,
          connection.sql`select from processes where id = ${processId} and closed_at is not null`,
        )
        if (rows.length > 0) {
          this.#end()
          onFenced()
          return
        }
      } catch {
        // Whatever it was, a fresh connection tells whether it is over.
        return
      }
      await Promise.race([lost, pause(LOOK_MS, this.#released.promise)])
    }
  }

  /** A connection that holds the lock; undefined if there is none to be had now, or another session has the lock. */
  async #acquire(): Promise<Connection | undefined> {
    const { url, processId } = this.#options
    const connection = new Connection({ url, connectTimeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
    try {
      const rows = await within(
        ANSWER_MS,
        connection.sql<{ held: boolean }[]>`
          select pg_try_advisory_lock(${lockKey(connection.sql, processId)}) as held`,
      )
      if (rows[0]?.held) return connection
    } catch {
      // The same as not getting it: the caller tries again.
    }
    connection.discard()
    return undefined
  }
}
