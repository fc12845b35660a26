/**
 * One connection to Postgres, used by one caller at a time and thrown away at the first sign of trouble. Inside is a
 * postgres.js instance of a single connection that never reconnects: its reconnecting is where statements were seen to
 * be lost or to stay unsettled for ever. It connects at the first statement.
 */
import { connect, type Socket } from "node:net"
import postgres from "postgres"
import { teachArrays } from "./arrays.ts"
import type { Sql } from "./sql.ts"

export interface ConnectionOptions {
  /** As libpq reads it; `?host=/directory` names the directory of a unix socket. */
  readonly url: string
  readonly connectTimeoutMs: number
  /** After this the server itself ends a statement that was abandoned here, so that it cannot hold locks for long. 0 is never. */
  readonly statementTimeoutMs: number
  /** Told of what is notified on the channels that this connection listens on. */
  readonly onNotify?: (channel: string, payload: string) => void
}

export class Connection {
  readonly sql: Sql
  readonly #sockets: Socket[] = []
  readonly #onClosed: (() => void)[] = []
  #closed = false
  #missing = false

  constructor(options: ConnectionOptions) {
    const { url, socketPath } = locate(options.url)
    const settings = {
      max: 1,
      fetch_types: false,
      idle_timeout: 0,
      // Unset, it would end a connection after half an hour, and whatever had just been sent on it.
      max_lifetime: null,
      connect_timeout: options.connectTimeoutMs / 1000,
      types: { bigint: postgres.BigInt },
      connection: { application_name: "loket", statement_timeout: options.statementTimeoutMs },
      onnotice: () => {},
      // Not among postgres.js' documented options: it is how its own `listen` hears, which reconnects.
      onnotify: options.onNotify,
      onclose: () => this.discard(),
      // The server's parameters come before it is ready, so that this is queued behind the first statement alone.
      onparameter: () => {
        if (socketPath === undefined) this.#missUsSoon()
      },
      // Our own socket, because postgres.js only ever half-closes its own, which a dead network never answers.
      socket: (parsed: { host: string[]; port: number[] }) => this.#dial(parsed, socketPath),
    } satisfies postgres.Options<{ bigint: postgres.PostgresType<bigint> }> & { socket: unknown; onnotify: unknown }
    this.sql = postgres(url, settings)
    teachArrays(this.sql)
  }

  get closed(): boolean {
    return this.#closed
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
    for (const socket of this.#sockets) socket.destroy()
    void this.sql.end({ timeout: 0 }).catch(() => {})
    for (const callback of this.#onClosed) callback()
  }

  /** Takes leave of the server properly. Only for a connection with nothing under way. */
  async end(): Promise<void> {
    await this.sql.end({ timeout: 1 }).catch(() => {})
    this.discard()
  }

  /**
   * Asks the server to notice soon when this machine is gone, and with it whatever would end the connection: by keepalives
   * while it is silent, by a limit on what stays unacknowledged. A server's own patience is hours, and so long it would keep
   * locks. Statements of their own, because poolers refuse start-up parameters, and because no server need know them:
   * without them everything works.
   */
  #missUsSoon(): void {
    if (this.#missing) return
    this.#missing = true
    for (const statement of noticeTheDead) void this.sql.unsafe(statement).catch(() => {})
  }

  #dial(parsed: { host: string[]; port: number[] }, socketPath: string | undefined): Socket {
    // A connection that ends before it is ready is dialled again by postgres.js, without pause or end, its caller waiting.
    // Once for each host is enough.
    const host = parsed.host[this.#sockets.length]
    if (this.#closed || host === undefined) {
      throw Object.assign(new Error("the connection was lost before it was ready"), { code: "CONNECTION_CLOSED" })
    }
    const socket = socketPath ? connect(socketPath) : connect(parsed.port[this.#sockets.length] ?? 5432, host)
    // Bytes written before the socket has connected wait in it. The host is for TLS, which asks for it by this name.
    Object.assign(socket, { host })
    // postgres.js hears of errors until it lets go of the socket; an attempt to connect may fail after that, heard by nobody.
    socket.on("error", () => {})
    socket.setNoDelay(true)
    // Ten probes a second apart follow.
    socket.setKeepAlive(true, 5_000)
    this.#sockets.push(socket)
    return socket
  }
}

/** After so many milliseconds the server gives a silent machine up. With the look of its neighbours they are under 15 s. */
const GONE_MS = 8_000
const PROBE_S = 2

/** The limit rules keepalives too where it is known; elsewhere two probes are as long. */
const noticeTheDead = [
  `select set_config('tcp_keepalives_idle', '${GONE_MS / 1000 - 2 * PROBE_S}', false),
    set_config('tcp_keepalives_interval', '${PROBE_S}', false), set_config('tcp_keepalives_count', '2', false)`,
  `select set_config('tcp_user_timeout', '${GONE_MS}', false)`,
]

/** libpq's `?host=/directory` is not known to postgres.js, which would send it to the server as a setting. */
function locate(text: string): { url: string; socketPath: string | undefined } {
  // A list of hosts is no URL, but postgres.js reads it.
  if (!URL.canParse(text)) return { url: text, socketPath: undefined }
  const url = new URL(text)
  const directory = url.searchParams.get("host")
  if (!directory?.startsWith("/")) return { url: text, socketPath: undefined }
  const port = url.searchParams.get("port") ?? (url.port || "5432")
  url.searchParams.delete("host")
  url.searchParams.delete("port")
  return { url: url.href, socketPath: `${directory}/.s.PGSQL.${port}` }
}
