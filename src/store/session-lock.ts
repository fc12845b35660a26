/**
 * A lock that says that this process lives: a PostgreSQL session advisory lock on a connection of its own, which the
 * server drops with the connection. A lost connection is replaced at once, and the lock taken again, unless another
 * process has closed this one in the meantime. `processSigns` tells of the locks of all processes. Times in milliseconds.
 */
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import { type Connection, pause, within } from "./connection.ts"
import { type Database, DatabaseUnavailable, type Sql, isHeld, isLost, LOCK_WAIT_MS, notReached } from "./database.ts"
import type { Servers } from "./servers.ts"

const ANSWER_MS = 5000
/** How often a silent connection is asked whether it still is one. */
const LOOK_MS = 2000
export const LOSS_NOTICED_WITHIN_MS = LOOK_MS + ANSWER_MS
const RETAKE_PAUSE_MS = 100
const LEFT = "the server that it began on was left for one that had not heard of it"

/** The number that stands for a process, in SQL. */
export function lockKey(sql: Sql, id: ReturnType<Sql> | string) {
  return sql`hashtextextended('loket:process:' || ${id}, 0)`
}

interface Options {
  readonly servers: Servers
  readonly processId: string
  /** Each connection has a session of its own, as was proved. It is proved again when the lock was taken anew. */
  readonly ownSessions: boolean
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
  #leaseIsUnknown = false
  /** The session that holds the lock: its process on the server. */
  #session: number | undefined
  /** What is asked alone of a pooler that lends sessions gets the same one again and again, so that each look finds the lock's. */
  #isProven = true
  #watching: Promise<void> = Promise.resolve()
  /** On the monotonic clock: when the lock was taken again after it was lost. Infinity until it is. */
  retakenAt = -Infinity

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

  /** The database has no lease open that this process has: where it has not closed the process, it has not got what was written before. */
  leaseUnknown(): void {
    this.#leaseIsUnknown = true
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
      this.retakenAt = Infinity
      this.#isProven = !this.#options.ownSessions
      if (connection) this.#options.onLost?.()
      connection = await this.#acquire()
      if (connection) this.retakenAt = performance.now()
      else await pause(RETAKE_PAUSE_MS, this.#released.promise)
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
        const leaseIsUnknown = this.#leaseIsUnknown
        const [row] = await within(
          ANSWER_MS,
          connection.sql<{ session: number; open: boolean | null }[]>`
            select pg_backend_pid() as session, (select closed_at is null from processes where id = ${processId}) as open`,
        )
        const why = this.#whyOver(row, { isRegistered, leaseIsUnknown }) ?? (await this.#whyShared())
        if (why !== undefined) {
          this.#end()
          onFenced(why)
          return
        }
      } catch (error) {
        // Whatever it was, a fresh connection tells whether it is over. Somebody holds the table, and the session its lock.
        if (!isHeld(error)) return
      }
      await Promise.race([lost, pause(LOOK_MS, this.#released.promise)])
    }
  }

  /** By what was known before the database was asked. */
  #whyOver(
    row: { session: number; open: boolean | null } | undefined,
    { isRegistered, leaseIsUnknown }: { readonly isRegistered: boolean; readonly leaseIsUnknown: boolean },
  ): string | undefined {
    if (row?.open === false) return "another process took this one for dead and closed it"
    if (row?.open !== true && isRegistered) return `the database does not know this process: ${LEFT}`
    if (leaseIsUnknown) return `the database does not know what this process has leased: ${LEFT}`
    if (row?.session !== this.#session) return new SessionsShared().message
    return undefined
  }

  /** A connection that was lost may have led to a pooler that is set otherwise by now. */
  async #whyShared(): Promise<string | undefined> {
    if (this.#isProven) return undefined
    try {
      await tryToShare(this.#options.servers)
      this.#isProven = true
    } catch (error) {
      if (error instanceof SessionsShared) return error.message
      // The next look tries it again.
    }
    return undefined
  }

  /** A connection that holds the lock; undefined if there is none to be had now, or another session has the lock. */
  async #acquire(): Promise<Connection | undefined> {
    const { servers, processId } = this.#options
    let connection: Connection | undefined
    try {
      connection = await servers.connect({
        timeoutMs: ANSWER_MS,
        statementTimeoutMs: ANSWER_MS,
        lockWaitMs: LOCK_WAIT_MS,
      })
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

// Whether each connection has a session of its own, which the lock that says that a process lives needs, and LISTEN. A pooler
// that lends sessions for a transaction or a statement has none to give.

/** The way to the database shares sessions between clients. */
export class SessionsShared extends Error {
  override readonly name = "SessionsShared"
  constructor() {
    super(
      "DATABASE_URL leads through a pooler that gives no client a session of its own, as PgBouncer with pool_mode = transaction or statement. Set pool_mode = session for this database, or connect to PostgreSQL itself (docs/operating/poolers.md)",
    )
  }
}

const ROUNDS = 3

const REACH_MS = 15_000
const AGAIN_MS = 250
/** Whoever starts a gateway by hand is not left looking at nothing. */
const TELL_AFTER_MS = 1_500

/**
 * Throws `SessionsShared`; `DatabaseUnavailable` when it could not be found out within 15 s; what Postgres says of whom it refuses.
 * `waits` is told once, after 1.5 s in which no server could be reached, why the last try failed.
 */
export async function proveSessions(servers: Servers, waits: (why: string) => void = () => {}): Promise<void> {
  const until = performance.now() + REACH_MS
  let why = "no answer yet"
  const telling = systemClock.after(TELL_AFTER_MS, () => waits(why))
  try {
    for (;;) {
      try {
        return await tryToShare(servers)
      } catch (error) {
        if (!isLost(error)) throw error
        why = error.message
        if (performance.now() > until) throw notReached(servers, error)
        await Bun.sleep(AGAIN_MS)
      }
    }
  } finally {
    telling.cancel()
  }
}

/**
 * While one connection has a transaction open, another asks which session it has: where sessions are lent, it is another one
 * than before, or the first has it now.
 */
async function tryToShare(servers: Servers): Promise<void> {
  const connect = () => servers.connect({ timeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
  const opened: Connection[] = []
  try {
    opened.push(await connect(), await connect())
    const [one, other] = opened
    if (one === undefined || other === undefined) return
    for (let round = 0; round < ROUNDS; round++) {
      const before = await sessionOf(one)
      // Sessions that are lent for a statement allow no transaction; whoever lends them lends the one that came back last.
      if ((await sessionOf(other)) === before) throw new SessionsShared()
      await within(ANSWER_MS, other.sql.unsafe("begin").execute())
      if ((await sessionOf(other)) === before || (await sessionOf(one)) !== before) throw new SessionsShared()
      await within(ANSWER_MS, other.sql.unsafe("rollback").execute())
    }
  } finally {
    for (const connection of opened) connection.discard()
  }
}

async function sessionOf({ sql }: Connection): Promise<number | undefined> {
  const [row] = await within(ANSWER_MS, sql.unsafe<{ pid: number }[]>("select pg_backend_pid() as pid").execute())
  return row?.pid
}

/**
 * What a process on a PostgreSQL server has leased, and when it last gave a sign of life. The sign is the look that its session
 * lock's connection takes every two seconds: nothing is written for it.
 */
export interface ProcessSign {
  readonly processId: string
  /** Accounts that it holds money of. */
  readonly leases: number
  /** What is left of that money. */
  readonly leased: Micro
  /** Whether its session lock is held; false of one that died and is not closed yet. */
  readonly lockHeld: boolean
  /** Since its last sign; undefined of one whose lock is not held, or where the server does not tell. */
  readonly silentS: number | undefined
}

interface Row {
  readonly id: string
  readonly leases: number
  readonly leased: bigint
  readonly held: boolean
  readonly silent: number | null
}

/** Of those that are not closed. */
export async function processSigns(database: Database): Promise<readonly ProcessSign[]> {
  const rows = await database.run(
    (sql) => sql<Row[]>`
      with held as materialized (
        select (classid::bigint << 32) | objid::bigint as key, pid from pg_locks
        where locktype = 'advisory' and granted and objsubid = 1
          and database = (select oid from pg_database where datname = current_database())
      ), leased as (
        select process_id, count(*)::int as leases, sum(granted_micro - returned_micro - settled_micro)::bigint as micro
        from leases where closed_at is null group by process_id
      )
      select p.id, coalesce(l.leases, 0) as leases, coalesce(l.micro, 0)::bigint as leased,
        h.pid is not null as held, greatest(0, extract(epoch from clock_timestamp() - a.state_change))::float8 as silent
      from processes p
      left join leased l on l.process_id = p.id
      left join held h on h.key = ${lockKey(sql, sql`p.id`)}
      left join pg_stat_activity a on a.pid = h.pid
      where p.closed_at is null`,
    { deadlineMs: 2_000, attemptMs: 2_000 },
  )
  return rows.map(({ id, leases, leased, held, silent }) => ({
    processId: id,
    leases,
    leased: micro(leased),
    lockHeld: held,
    silentS: silent ?? undefined,
  }))
}
