/**
 * One connection to Postgres, used by one caller at a time and thrown away at the first sign of trouble. Inside is a
 * postgres.js instance of a single connection that never reconnects: its reconnecting is where statements were seen to
 * be lost or to stay unsettled for ever. It connects at the first statement.
 */
import { connect, type Socket } from "node:net"
import postgres from "postgres"
import { teachArrays } from "./arrays.ts"
import { prepareSession, type ServerState } from "./server-state.ts"
import type { Sql } from "./sql.ts"
import { takeTls, type Tls } from "./tls.ts"

export interface ConnectionOptions {
  /** Of one server (hosts.ts); `?host=/directory` names the directory of a unix socket. */
  readonly url: string
  readonly connectTimeoutMs: number
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
    const { url, socketPath, tls } = locate(options.url)
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
      connect_timeout: options.connectTimeoutMs / 1000,
      types: { bigint: postgres.BigInt },
      connection: { application_name: "loket" },
      onnotice: () => {},
      // Not among postgres.js' documented options: it is how its own `listen` hears, which reconnects.
      onnotify: options.onNotify,
      onclose: () => this.discard(),
      // Our own socket, because postgres.js only ever half-closes its own, which a dead network never answers.
      socket: ({ host, port }: { host: string[]; port: number[] }) => this.#dial(host[0], port[0], socketPath),
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
    // Bytes written before the socket has connected wait in it. The host is for TLS, which asks for it by this name.
    Object.assign(socket, { host })
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

/**
 * libpq's `?host=/directory` is not known to postgres.js, which would send it to the server as a setting, and neither are its files
 * for TLS. On a socket of this machine there is none.
 */
function locate(text: string): { url: string; socketPath: string | undefined; tls: Tls } {
  const url = new URL(text)
  const tls = takeTls(url)
  const directory = url.searchParams.get("host")
  if (!directory?.startsWith("/")) return { url: url.href, socketPath: undefined, tls }
  const port = url.searchParams.get("port") ?? (url.port || "5432")
  url.searchParams.delete("host")
  url.searchParams.delete("port")
  return { url: url.href, socketPath: `${directory}/.s.PGSQL.${port}`, tls: false }
}
