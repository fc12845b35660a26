/**
 * The database, as everything else sees it: one statement at a time, with a deadline of our own. Times in milliseconds.
 * No statement can hang: one that gets no answer in time costs its connection, and is sent again where that is harmless,
 * because nothing can be known of a statement whose connection was lost.
 */
import postgres from "postgres"
import { AsyncLocalStorage } from "node:async_hooks"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Blocker, Blockers, Gate, type GateLoad } from "./gate.ts"
import { type Connection, NoAnswer, within } from "./connection.ts"
import { ServerRefused, Servers } from "./servers.ts"
import type { Sql } from "./sql.ts"

export type { Sql }

/** Postgres could not be reached, or gave no answer in time. Whether a write happened is unknown. */
export class DatabaseUnavailable extends Error {
  override readonly name: string = "DatabaseUnavailable"
}

const noConnection = ({ names }: Servers, cause: Error): string =>
  `Postgres is not reached at ${names}: ${cause.message}`

/** No connection was had. Names the servers, without user and password. */
export const notReached = (servers: Servers, cause: Error): DatabaseUnavailable =>
  new DatabaseUnavailable(noConnection(servers, cause), { cause })

/** Somebody else holds a lock that the statement has waited for as long as it may. Nothing was done. */
export class RowsHeld extends DatabaseUnavailable {
  override readonly name = "RowsHeld"
}

interface RunOptions {
  /** For everything: waiting for a connection, all attempts and the pauses between them. */
  readonly deadlineMs?: number
  /** For one attempt. At most the database's `maxAttemptMs`. */
  readonly attemptMs?: number
  /** The statement is idempotent: a lost one is sent again until the deadline. */
  readonly retry?: boolean
}

export interface Database {
  /**
   * Runs one statement. Throws `DatabaseUnavailable`, of which `RowsHeld` is one, or the `PostgresError` of a statement that Postgres refused
   * (a constraint, a syntax error), which is never sent again.
   */
  run<T>(statement: (sql: Sql) => PromiseLike<T>, options?: RunOptions): Promise<T>
  /** Whether Postgres answers. Never throws. Whoever asks meanwhile gets the same answer, since anybody may (`/readyz`). */
  ping(): Promise<boolean>
  /** The statements under way, and those that wait for a connection. */
  readonly load: GateLoad
  /** Refuses new statements, waits for those under way (each has its deadline), and disconnects. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** An address for this pool alone, or the servers that several pools share. */
  readonly url: string | Servers
  /** How many statements may be under way at once. */
  readonly connections: number
  /** How many more may wait for a connection; one over that is refused at once. */
  readonly maxWaiting?: number
  /** Told of who holds the lock that a statement has waited for. */
  readonly onBlocked?: (blocker: Blocker) => void
  /** The longest that any one statement may take. The server ends it a second later. */
  readonly maxAttemptMs?: number
  /** How long one statement waits for a lock. 0 is as long as it may take. */
  readonly lockWaitMs?: number
  /** A factor of all deadlines and attempts, asked for with each statement. 1 without it. */
  readonly patience?: () => number
}

const DEADLINE_MS = 5000
/**
 * Less than an attempt may take, so that it is the server that gives up: the connection is free for others then, and nothing is
 * left behind that waits on.
 */
export const LOCK_WAIT_MS = 1500
const LOCK_NOT_AVAILABLE = "55P03"
/** An attempt that may be repeated is given up sooner than one that may not. */
const REPEATABLE_ATTEMPT_MS = 2000

export function openDatabase(options: DatabaseOptions): Database {
  return new Pool(options)
}

class Pool implements Database {
  readonly #gate: Gate
  readonly #maxAttemptMs: number
  readonly #lockWaitMs: number
  readonly #patience: () => number
  readonly #servers: Servers
  readonly #ownsServers: boolean
  readonly #blockers: Blockers | undefined
  /** The server has let this pool in before. */
  #wasLetIn = false
  #pinging: Promise<boolean> | undefined
  /** The most recently used one is taken first, so that few stay open under little load. */
  readonly #idle: Connection[] = []

  constructor(options: DatabaseOptions) {
    const { url, connections, maxWaiting = 10_000, maxAttemptMs = DEADLINE_MS, onBlocked } = options
    this.#gate = new Gate({ size: connections, maxWaiting })
    this.#maxAttemptMs = maxAttemptMs
    this.#lockWaitMs = options.lockWaitMs ?? LOCK_WAIT_MS
    this.#patience = options.patience ?? (() => 1)
    this.#ownsServers = typeof url === "string"
    this.#servers = typeof url === "string" ? new Servers(url) : url
    this.#blockers = onBlocked && new Blockers(this.#servers, onBlocked)
  }

  async run<T>(statement: (sql: Sql) => PromiseLike<T>, options: RunOptions = {}): Promise<T> {
    const { deadlineMs = DEADLINE_MS, retry = false } = options
    const attemptMs =
      options.attemptMs ?? (retry ? Math.min(REPEATABLE_ATTEMPT_MS, this.#maxAttemptMs) : this.#maxAttemptMs)
    if (attemptMs > this.#maxAttemptMs) throw new RangeError(`An attempt may take at most ${this.#maxAttemptMs} ms`)
    const patience = this.#patience()
    const deadline = systemClock.running() + deadlineMs * patience
    for (let pauseMs = 10; ; pauseMs = Math.min(2 * pauseMs, 250)) {
      const lost = await this.#attempt(statement, deadline, attemptMs * patience)
      if (!(lost instanceof Lost)) return lost.value
      const leftMs = deadline - systemClock.running()
      if (!retry || !lost.repeatable || leftMs <= pauseMs)
        throw new DatabaseUnavailable(lost.why, { cause: lost.cause })
      await Bun.sleep(pauseMs * (0.5 + Math.random() / 2))
    }
  }

  get load(): GateLoad {
    return this.#gate.load
  }

  ping(): Promise<boolean> {
    this.#pinging ??= this.#ping().finally(() => {
      this.#pinging = undefined
    })
    return this.#pinging
  }

  async #ping(): Promise<boolean> {
    try {
      await this.run((sql) => sql`select 1`, {
        deadlineMs: 2000,
        attemptMs: Math.min(1000, this.#maxAttemptMs),
        retry: true,
      })
      return true
    } catch {
      return false
    }
  }

  async close(): Promise<void> {
    await this.#gate.close()
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()))
    if (this.#ownsServers) await this.#servers.close()
  }

  async #attempt<T>(
    statement: (sql: Sql) => PromiseLike<T>,
    deadline: number,
    attemptMs: number,
  ): Promise<{ value: T } | Lost> {
    const pass = await this.#gate.enter(deadline - systemClock.running())
    if (typeof pass === "string") return new Lost(refusals[pass], false)
    using _inside = pass
    const leftMs = Math.min(attemptMs, deadline - systemClock.running())
    if (leftMs <= 0) return new Lost(refusals.late, false)
    const until = systemClock.running() + leftMs
    let connection: Connection | undefined
    try {
      connection = this.#takeIdle() ?? (await this.#connect(leftMs))
      this.#wasLetIn = true
      const forItMs = until - systemClock.running()
      if (forItMs <= 0) throw new NoAnswer(`no connection within ${Math.round(leftMs)} ms`)
      using _watched = this.#blockers?.watch(connection.session)
      const value = await within(forItMs, byWhoActs(connection.sql, statement))
      this.#idle.push(connection)
      return { value }
    } catch (error) {
      if (connection && error instanceof postgres.PostgresError && !isLost(error)) {
        this.#idle.push(connection)
        throw isHeld(error) ? new RowsHeld(HELD, { cause: error }) : error
      }
      connection?.discard()
      // Who was let in before is refused for a while, as in an operator's maintenance. Who never was has the wrong address.
      const isRefused = connection === undefined && this.#wasLetIn && error instanceof postgres.PostgresError
      if (isRefused || isLost(error)) {
        const isConnected = connection !== undefined
        const why = isConnected ? `Postgres is unavailable: ${error.message}` : noConnection(this.#servers, error)
        return new Lost(why, true, error)
      }
      throw error
    }
  }

  #takeIdle(): Connection | undefined {
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      if (!connection.closed) return connection
    }
    return undefined
  }

  #connect(timeoutMs: number): Promise<Connection> {
    const statementTimeoutMs = this.#maxAttemptMs * this.#patience() + 1000
    const limits = { statementTimeoutMs, lockWaitMs: this.#lockWaitMs }
    return this.#servers.connect({ timeoutMs, ...limits })
  }
}

/** An attempt without an outcome. */
class Lost {
  readonly why: string
  readonly repeatable: boolean
  readonly cause: unknown
  constructor(why: string, repeatable: boolean, cause?: unknown) {
    this.why = why
    this.repeatable = repeatable
    this.cause = cause
  }
}

const refusals = {
  full: "Too many statements are waiting for Postgres",
  late: "No connection to Postgres became free in time",
  closed: "The database is closed",
} as const
const HELD = "Rows that are needed are locked by another session; the event `waits for a lock` names it"

/** What the socket, the resolver and postgres.js say of a connection that failed. */
const connectionCodes = new Set([
  ..."CONNECTION_CLOSED CONNECTION_ENDED CONNECTION_DESTROYED CONNECT_TIMEOUT".split(" "),
  ..."ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ENOTFOUND EAI_AGAIN ETIMEDOUT EHOSTUNREACH EHOSTDOWN".split(" "),
  ..."ENETUNREACH ENETDOWN ENOENT EMFILE ENFILE ERR_SOCKET_CLOSED ERR_STREAM_DESTROYED".split(" "),
])

/**
 * SQLSTATEs that say nothing of the statement itself: connection failures (08), lack of resources (53), shutdown and
 * start-up (57P), system errors (58), serialization and deadlock (40001, 40P01, 40003), a server that has become a
 * standby (25006), and our own time limit (57014).
 */
const transientState = /^(?:08|53|57P|58)|^(?:40001|40P01|40003|25006|57014)$/

/** It says nothing of the statement itself. */
export function isLost(error: unknown): error is Error {
  if (error instanceof NoAnswer || error instanceof ServerRefused) return true
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return false
  if (!(error instanceof postgres.PostgresError)) return connectionCodes.has(error.code)
  return transientState.test(error.code) || isBrokenSession(error)
}

/** It has waited for a lock as long as it may; the session goes on. */
export const isHeld = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && error.code === LOCK_NOT_AVAILABLE

/** The server ended the session for a trouble of its own, as where its disk is too full to begin one. */
const isBrokenSession = ({ severity, code }: postgres.PostgresError): boolean =>
  (severity === "FATAL" || severity === "PANIC") && code.startsWith("XX")

/**
 * Who acts on an account that is not their own: a member, or whoever has a management token of one of its keys. Triggers write the
 * account's history (`0060_account_events.sql`). They know who acts by `loket.member` or `loket.management_token` of their
 * transaction, so each statement that is run inside of `actingAs` sets it first.
 */
type Acting =
  | {
      readonly accountId: string
      /** The account that the person signs in to. */
      readonly memberId: string
    }
  | { readonly tokenId: string }

const acting = new AsyncLocalStorage<Acting>()

/** Everything that is written meanwhile is done by this member, or with this token. Of other accounts a member is not said. */
export const actingAs = <T>(who: Acting, work: () => T): T => acting.run(who, work)

/** Runs one statement; that of a member or a token in a transaction of its own. */
function byWhoActs<T>(sql: Sql, statement: (sql: Sql) => PromiseLike<T>): PromiseLike<T> {
  const who = acting.getStore()
  if (who === undefined) return statement(sql)
  const [setting, named] =
    "tokenId" in who ? ["loket.management_token", who.tokenId] : ["loket.member", `${who.accountId} ${who.memberId}`]
  return sql.begin(async (transaction) => {
    await transaction`select set_config(${setting}, ${named}, true)`
    return await statement(transaction as unknown as Sql)
  }) as Promise<T>
}
