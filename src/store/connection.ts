/**
 * One connection to Postgres, used by one caller at a time and thrown away at the first sign of trouble. Inside is a
 * postgres.js instance of a single connection that never reconnects: its reconnecting is where statements were seen to
 * be lost or to stay unsettled for ever. It connects at the first statement.
 */
import postgres from "postgres"
import { type Socket, connect } from "node:net"
import { systemClock } from "../../actors/kernel/clock.ts"
import { takeTls, type Tls } from "./hosts.ts"
import { type Sql, teachArrays } from "./sql.ts"

export interface ConnectionOptions {
  /** Of one server (hosts.ts); `?host=/directory` names the directory of a unix socket. */
  readonly url: string
  /** Unset is no limit of its own, for whoever limits all that it waits for. */
  readonly connectTimeoutMs?: number
  /** After this the server itself ends a statement that was abandoned here, so that it cannot hold locks for long. 0 is never. */
  readonly statementTimeoutMs: number
  /** How long a statement waits for a lock that somebody else holds; then it fails with 55P03. 0 or unset is no limit of its own. */
  readonly lockWaitMs?: number
  /** Told of what is notified on the channels that this connection listens on. */
  readonly onNotify?: (channel: string, payload: string) => void
}

export class Connection {
  readonly sql: Sql
  readonly #overNetwork: boolean
  readonly #statementTimeoutMs: number
  readonly #lockWaitMs: number
  readonly #onClosed: (() => void)[] = []
  #socket: Socket | undefined
  #closed = false
  /** Its own process on the server, once it is prepared. */
  session: number | undefined

  constructor(options: ConnectionOptions) {
    const { url, socketPath, tls, ipv6 } = locate(options.url)
    this.#overNetwork = socketPath === undefined
    this.#statementTimeoutMs = options.statementTimeoutMs
    this.#lockWaitMs = options.lockWaitMs ?? 0
    const settings = {
      max: 1,
      ssl: tls,
      fetch_types: false,
      idle_timeout: 0,
      // Unset, it would end a connection after half an hour, and whatever had just been sent on it.
      max_lifetime: null,
      connect_timeout: (options.connectTimeoutMs ?? 0) / 1000,
      types: { bigint: postgres.BigInt },
      connection: { application_name: "loket" },
      onnotice: () => {},
      // Not among postgres.js' documented options: it is how its own `listen` hears, which reconnects.
      onnotify: options.onNotify,
      onclose: () => this.discard(),
      // Our own socket, because postgres.js only ever half-closes its own, which a dead network never answers.
      socket: ({ host, port }: { host: string[]; port: number[] }) => this.#dial(ipv6 ?? host[0], port[0], socketPath),
    } satisfies postgres.Options<{ bigint: postgres.PostgresType<bigint> }> & { socket: unknown; onnotify: unknown }
    this.sql = postgres(url, settings)
    teachArrays(this.sql)
  }

  get closed(): boolean {
    return this.#closed
  }

  /** On this machine, as the server sees it too unless something stands between; undefined of a unix socket. */
  get localPort(): number | undefined {
    return this.#overNetwork ? this.#socket?.localPort : undefined
  }

  /** Tells the server what it has to know, and asks what it is. Before anything else; rejects when the connection is lost. */
  async prepare(): Promise<ServerState> {
    const { promise: lost, reject } = Promise.withResolvers<never>()
    this.onClosed(() => reject(connectionLost()))
    const options = {
      statementTimeoutMs: this.#statementTimeoutMs,
      lockWaitMs: this.#lockWaitMs,
      overNetwork: this.#overNetwork,
    }
    const state = await Promise.race([prepareSession(this.sql, options), lost])
    this.session = state.pid
    return state
  }

  /** Calls back once, when the connection is lost or discarded. */
  onClosed(callback: () => void): void {
    if (this.#closed) callback()
    else this.#onClosed.push(callback)
  }

  /** Drops the connection at once, whatever is under way on it. What was under way may or may not have happened. */
  discard(): void {
    if (this.#closed) return
    this.#closed = true
    this.#socket?.destroy()
    void this.sql.end({ timeout: 0 }).catch(() => {})
    for (const callback of this.#onClosed) callback()
  }

  /** Takes leave of the server properly. Only for a connection with nothing under way. */
  async end(): Promise<void> {
    await this.sql.end({ timeout: 1 }).catch(() => {})
    this.discard()
  }

  #dial(host: string | undefined, port: number | undefined, socketPath: string | undefined): Socket {
    // A connection that ends before it is ready is dialled again by postgres.js, without pause or end, its caller waiting.
    if (this.#closed || this.#socket !== undefined) throw connectionLost()
    const socket = socketPath ? connect(socketPath) : connect(port ?? 5432, host ?? "localhost")
    // Bytes written before the socket has connected wait in it. The host is for TLS, which asks for it by this name; errors name both.
    Object.assign(socket, { host, port })
    // postgres.js hears of errors until it lets go of the socket; an attempt to connect may fail after that, heard by nobody.
    socket.on("error", () => {})
    socket.setNoDelay(true)
    // Ten probes a second apart follow.
    socket.setKeepAlive(true, 5_000)
    this.#socket = socket
    return socket
  }
}

const connectionLost = () =>
  Object.assign(new Error("the connection was lost before it was ready"), { code: "CONNECTION_CLOSED" })

interface Located {
  readonly url: string
  readonly socketPath: string | undefined
  readonly tls: Tls
  readonly ipv6: string | undefined
}

/**
 * libpq's `?host=/directory` is not known to postgres.js, which would send it to the server as a setting, and neither are its files
 * for TLS. On a socket of this machine there is none. An address of IPv6 it cuts at its first colon.
 */
function locate(text: string): Located {
  const url = new URL(text)
  const tls = takeTls(url)
  const directory = url.searchParams.get("host")
  const ipv6 = /^\[(.+)\]$/.exec(url.hostname)?.[1]
  if (!directory?.startsWith("/")) return { url: url.href, socketPath: undefined, tls, ipv6 }
  const port = url.searchParams.get("port") ?? (url.port || "5432")
  url.searchParams.delete("host")
  url.searchParams.delete("port")
  return { url: url.href, socketPath: `${directory}/.s.PGSQL.${port}`, tls: false, ipv6: undefined }
}

// What a fresh connection is told, and what it is asked, before anybody has it. All of it is sent at once, so that it costs
// one round trip. Times in milliseconds.
//
// Nothing is a start-up parameter, because poolers refuse those that they do not know.

/** The session, and the server that it is on. */
export interface ServerState {
  /** The session's own process on the server. */
  readonly pid: number
  /** Whether the server takes writes, and why not. */
  readonly writes: "taken" | "standby" | "read-only"
  /** Undefined where the server does not tell it, as some that only speak PostgreSQL's protocol. */
  readonly identity: ServerIdentity | undefined
}

export interface ServerIdentity {
  /** Given by `initdb`, and shared by a primary and its standbys. */
  readonly system: string
  /** One more with each promotion; 0 of a standby. */
  readonly timeline: number
  /** Tells two servers apart that have the rest in common. */
  readonly startedAt: string
}

/** After so many milliseconds the server gives a silent machine up. With the look of its neighbours they are under 15 s. */
const GONE_MS = 8_000
const PROBE_S = 2

/** The limit rules keepalives too where it is known; elsewhere two probes are as long. No server need know them. */
const noticeTheDead = [
  `select set_config('tcp_keepalives_idle', '${GONE_MS / 1000 - 2 * PROBE_S}', false),
    set_config('tcp_keepalives_interval', '${PROBE_S}', false), set_config('tcp_keepalives_count', '2', false)`,
  `select set_config('tcp_user_timeout', '${GONE_MS}', false)`,
]

const askState = `select pg_backend_pid() as pid,
  case when pg_is_in_recovery() then 'standby' when current_setting('transaction_read_only') = 'on' then 'read-only'
    else 'taken' end as writes`

/** The timeline is that of the log which is being written: the control file knows it only from the next checkpoint on. */
const askIdentity = `select (select system_identifier from pg_control_system())::text as system,
  case when pg_is_in_recovery() then 0
    else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end as timeline,
  pg_postmaster_start_time()::text as "startedAt"`

interface PrepareOptions {
  /** After this the server itself ends a statement that was abandoned here. 0 is never. */
  readonly statementTimeoutMs: number
  /** How long a statement waits for a lock at most; then it fails and the session goes on. 0 is as long as it may take at all. */
  readonly lockWaitMs: number
  /**
   * The server is to notice soon when this machine is gone, and with it whatever would end the connection: by keepalives while
   * it is silent, by a limit on what stays unacknowledged. A server's own patience is hours, and so long it would keep locks.
   */
  readonly overNetwork: boolean
}

/** Throws what postgres.js throws; may stay pending where the connection is lost. */
async function prepareSession(sql: Sql, options: PrepareOptions): Promise<ServerState> {
  const { statementTimeoutMs, lockWaitMs } = options
  // The server would compile sums over years of records, which it thinks dear: seconds for what is read in milliseconds. In its own
  // forms of dates and bytes, where those are others, times would not be read, or the month as the day, and bytes as other ones; and
  // backslashes in our statements would be escapes. Names that it quotes when it tells them would be other names when they are quoted again.
  // It may end sessions in which nothing is asked, and with one of them this process' lock.
  const limited = sql
    .unsafe(
      `set statement_timeout = ${statementTimeoutMs}; set lock_timeout = ${lockWaitMs}; set jit = off;
        set datestyle = 'ISO, YMD'; set bytea_output = 'hex'; set standard_conforming_strings = on; set quote_all_identifiers = off;
        set idle_session_timeout = 0`,
    )
    .execute()
  if (options.overNetwork) for (const statement of noticeTheDead) void sql.unsafe(statement).catch(() => {})
  const state = sql.unsafe<Pick<ServerState, "pid" | "writes">[]>(askState).execute()
  const identity = sql
    .unsafe<ServerIdentity[]>(askIdentity)
    .execute()
    .catch((error: unknown) => {
      if (error instanceof postgres.PostgresError) return []
      throw error
    })
  const [, [found], [who]] = await Promise.all([limited, state, identity])
  if (found === undefined) throw new Error("the server did not say what it is")
  return { ...found, identity: who }
}

/**
 * What did not come in time. postgres.js does not limit how long an answer may take, so `within` does, in milliseconds of running
 * time: an answer that arrived while this process stood still has arrived (decisions §13.1).
 */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer"
}

/** Resolves after `ms`, or when `sooner` does. */
export async function pause(ms: number, sooner: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = systemClock.after(ms, resolve)
  await Promise.race([promise, sooner])
  timer.cancel()
}

/** The promise's outcome, or a `NoAnswer` after `ms`. What the promise does later is nobody's any more. */
export async function within<T>(ms: number, promise: PromiseLike<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = systemClock.after(ms, () => reject(new NoAnswer(`no answer within ${Math.round(ms)} ms`)))
  try {
    return await Promise.race([promise, late])
  } finally {
    timer.cancel()
  }
}
