/**
 * What the gateway listens on. First the listener that callers reach, and the one for Prometheus and whoever asks after this
 * very process.
 *
 * Then the unix sockets of the gateway's processes on one machine, in `DATA_DIR/neighbours`, named by process id. Responses are
 * handed over there (src/gateway/response-handover.ts). Only this user can enter the directory and is trusted; there is no
 * network port. A process that was killed leaves its socket, on which nobody listens.
 */
import { chmodSync, lstatSync, mkdirSync, readdirSync, rmSync } from "node:fs"
import { join, resolve } from "node:path"
import { Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import type { Config } from "../config.ts"
import type { HandoverRequest, Neighbours } from "../gateway/response-handover.ts"
import { clientAddress, Connection, type Descriptors } from "../http/connection.ts"
import { type EdgeOptions, unhandled } from "../http/edge.ts"
import { answerHealth, type Readiness } from "../http/health.ts"
import type { Metrics } from "../http/metrics.ts"
import type { Log } from "../log.ts"

export interface ListenOptions extends EdgeOptions {
  readonly config: Pick<
    Config,
    "HOST" | "PORT" | "REUSE_PORT" | "METRICS_PORT" | "CLIENT_ADDRESS_HEADER" | "KEEP_ALIVE_MS"
  >
  readonly metrics: Metrics
  /** Answers a request. */
  readonly handle: (request: Request, findAddress: () => string, connection: Connection) => Promise<Response>
  /** What a request waits for before that; undefined when there is nothing. */
  readonly caughtUp: () => Promise<void> | undefined
  readonly descriptors: Pick<Descriptors, "crowded">
  /** Others listen on the port, so that each connection is closed with its next answer. */
  readonly handingOver: () => boolean
}

export function listen({ config, metrics, handle, caughtUp, handingOver, descriptors, ...edge }: ListenOptions) {
  const idleS = Math.ceil(config.KEEP_ALIVE_MS / 1_000)
  return Bun.serve({
    hostname: config.HOST,
    port: config.PORT,
    reusePort: config.REUSE_PORT,
    idleTimeout: idleS,
    // The gateway applies its own limit, so that the 413 has the error body that every failure has.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch: async (request, server) => {
      const { CLIENT_ADDRESS_HEADER: addressHeader } = config
      let findAddress = () => clientAddress(request.headers, server.requestIP(request)?.address ?? "", addressHeader)
      const reading = caughtUp()
      if (reading !== undefined) {
        // Of a client that leaves meanwhile it is not known afterwards.
        const address = findAddress()
        findAddress = () => address
        await reading
      }
      const connection = new Connection(server, request, { idleS: descriptors.crowded ? CROWDED_IDLE_S : idleS })
      const response = connection.answered(await handle(request, findAddress, connection))
      metrics.responded(response)
      if (handingOver() || descriptors.crowded) response.headers.set("Connection", "close")
      // A browser believes it only of an answer that came by https, so that is where it is said (RFC 6797, 7.2).
      if (addressHeader !== undefined && cameByHttps(request)) response.headers.set(...HSTS)
      return response
    },
    error: (error) => unhandled(error, edge),
  })
}

/** A year: long enough for browsers' lists of such hosts. */
const HSTS = ["Strict-Transport-Security", "max-age=31536000"] as const
/** Seconds, where there are hardly any descriptors left. */
const CROWDED_IDLE_S = 5

/** As the proxy says that is trusted with the client's address too; what clients wrote stands before it. */
const cameByHttps = ({ headers }: Request): boolean =>
  headers.get("x-forwarded-proto")?.split(",").at(-1)?.trim().toLowerCase() === "https"

/** Undefined without `METRICS_PORT`. */
export const listenForMetrics = ({
  config,
  metrics,
  readiness,
  ...edge
}: Omit<ListenOptions, "handle" | "caughtUp" | "handingOver" | "descriptors"> & { readonly readiness: Readiness }) =>
  config.METRICS_PORT === undefined
    ? undefined
    : Bun.serve({
        hostname: config.HOST,
        port: config.METRICS_PORT,
        fetch: async (request) =>
          (await answerHealth(new URL(request.url).pathname, readiness)) ?? (await metrics.respond(request)),
        error: (error) => unhandled(error, edge),
      })

/** Hashes in hex. */
const Hash = Type.String({ pattern: "^[0-9a-f]{64}$" })
const Asked = Type.Object({ keyHash: Hash, fingerprint: Hash })
const MAX_ASKED_BYTES = 1_024
/** Concurrent connections. */
const MAX_ASKING = 256
/** The longest path of a unix socket on Linux, with its terminating zero. */
const LONGEST_PATH = 107
const PROCESS_ID = /^prc_[A-Za-z0-9_-]{1,40}$/
/** A younger socket may belong to a process that is about to listen. */
const STALE_MS = 60_000
const CONNECT_MS = 1_000

export interface NeighbourSocketsOptions {
  readonly dataDir: string
  readonly processId: string
  readonly log: Log
  readonly handOver: (call: HandoverRequest, signal: AbortSignal) => ReadableStream<Uint8Array>
}

export class NeighbourSockets implements Neighbours {
  readonly #directory: string
  readonly #stop: () => Promise<void>

  private constructor(directory: string, stop: () => Promise<void>) {
    this.#directory = directory
    this.#stop = stop
  }

  /** Undefined where no socket can be opened, which is logged. Then duplicates that reach another process are refused. */
  static open(parts: NeighbourSocketsOptions): NeighbourSockets | undefined {
    const directory = join(resolve(parts.dataDir), "neighbours")
    try {
      ownDirectory(directory)
      const stop = listenForNeighbours(directory, parts)
      void removeStale(directory, parts.processId)
      return new NeighbourSockets(directory, stop)
    } catch (error) {
      parts.log.warn("no socket for neighbours", { directory, error: String(error) })
      return undefined
    }
  }

  async ask(
    processId: string,
    call: HandoverRequest,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array> | undefined> {
    if (!PROCESS_ID.test(processId)) return undefined
    try {
      const init = { method: "POST", body: JSON.stringify(call), signal, unix: join(this.#directory, processId) }
      const response = await fetch("http://neighbour/", init)
      return response.status === 200 ? (response.body ?? undefined) : undefined
    } catch {
      // The process is on another machine, or dead.
      return undefined
    }
  }

  /** Handovers in progress lose their connection. */
  stop(): Promise<void> {
    return this.#stop()
  }
}

/** Throws if other users can enter the directory. */
function ownDirectory(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const found = lstatSync(directory)
  if (!found.isDirectory()) throw new Error("it is no directory")
  if (found.uid !== process.getuid?.()) throw new Error("it belongs to another user")
  chmodSync(directory, 0o700)
}

function listenForNeighbours(directory: string, { processId, handOver }: NeighbourSocketsOptions): () => Promise<void> {
  const unix = join(directory, processId)
  const { length } = Buffer.from(unix)
  if (length > LONGEST_PATH) throw new Error(`${length} bytes of path are more than the ${LONGEST_PATH} of a socket's`)
  const server = Bun.serve({
    unix,

    maxRequestBodySize: MAX_ASKED_BYTES,
    async fetch(request) {
      if (server.pendingRequests > MAX_ASKING) return new Response(null, { status: 503 })
      const asked: unknown = await request.json().catch(() => undefined)
      if (!Value.Check(Asked, asked)) return new Response(null, { status: 400 })
      return new Response(handOver(asked, request.signal))
    },
  })
  chmodSync(unix, 0o600)
  return async () => {
    rmSync(unix, { force: true })
    await server.stop(true)
  }
}

/** Removes the sockets of killed processes. */
async function removeStale(directory: string, own: string): Promise<void> {
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    const isOld = (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - STALE_MS
    if (name === own || !PROCESS_ID.test(name) || !isOld) continue
    const signal = AbortSignal.timeout(CONNECT_MS)
    const refused = await fetch("http://neighbour/", { unix: path, signal }).then(
      () => false,
      (error: unknown) => error instanceof Error && "code" in error && error.code === "ECONNREFUSED",
    )
    if (refused) rmSync(path, { force: true })
  }
}
