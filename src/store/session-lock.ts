/**
 * A lock that says that this process lives: a PostgreSQL session advisory lock on a connection of its own, which the
 * server drops with the connection. A lost connection is replaced at once, and the lock taken again, unless another
 * process has closed this one in the meantime. Times in milliseconds.
 */
import type { Connection } from "./connection.ts"
import { DatabaseUnavailable, type Sql } from "./database.ts"
import { pause, within } from "./deadline.ts"
import { SessionsShared } from "./pooler.ts"
import type { Servers } from "./servers.ts"

const ANSWER_MS = 5000
/** How often a silent connection is asked whether it still is one. */
const LOOK_MS = 2000
const RETAKE_PAUSE_MS = 100

/** The number that stands for a process, in SQL. */
export function lockKey(sql: Sql, id: ReturnType<Sql> | string) {
  return sql`hashtextextended('loket:process:' || ${id}, 0)`
}

interface Options {
  readonly servers: Servers
  readonly processId: string
  /** Called once: this process has no place in the database any more, and why. The lock is given up then. */
  readonly onFenced: (why: string) => void
  /** The lock's connection was lost; another one is sought at once. */
  readonly onLost?: () => void
}

export class SessionLock {
  readonly #options: Options
  readonly #released = Promise.withResolvers<void>()
  #over = false
  #registered = false
  /** The session that holds the lock: its process on the server. */
  #session: number | undefined
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

  /** From now on the database knows this process; one that does not know it has not got what was written before. */
  registered(): void {
    this.#registered = true
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
      if (connection) this.#options.onLost?.()
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
        const isRegistered = this.#registered
        const [row] = await within(
          ANSWER_MS,
          connection.sql<{ session: number; open: boolean | null }[]>`
            select pg_backend_pid() as session, (select closed_at is null from processes where id = ${processId}) as open`,
        )
        const why = this.#whyOver(row, isRegistered)
        if (why !== undefined) {
          this.#end()
          onFenced(why)
          return
        }
      } catch {
        // Whatever it was, a fresh connection tells whether it is over.
        return
      }
      await Promise.race([lost, pause(LOOK_MS, this.#released.promise)])
    }
  }

  #whyOver(row: { session: number; open: boolean | null } | undefined, isRegistered: boolean): string | undefined {
    if (row?.open === false) return "another process took this one for dead and closed it"
    if (row?.open !== true && isRegistered)
      return "the database does not know this process: the server that it began on was left for one that had not heard of it"
    if (row?.session !== this.#session) return new SessionsShared().message
    return undefined
  }

  /** A connection that holds the lock; undefined if there is none to be had now, or another session has the lock. */
  async #acquire(): Promise<Connection | undefined> {
    const { servers, processId } = this.#options
    let connection: Connection | undefined
    try {
      connection = await servers.connect({ timeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
      const [row] = await within(
        ANSWER_MS,
        connection.sql<{ held: boolean; session: number }[]>`
          select pg_try_advisory_lock(${lockKey(connection.sql, processId)}) as held, pg_backend_pid() as session`,
      )
      this.#session = row?.session
      if (row?.held) return connection
    } catch {
      // The same as not getting it: the caller tries again.
    }
    connection?.discard()
    return undefined
  }
}
