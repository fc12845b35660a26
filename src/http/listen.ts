/** The listener that callers reach, and the one for Prometheus and whoever asks after this very process. */
import type { Config } from "../config.ts"
import { clientAddress, Connection, type Descriptors } from "./connection.ts"
import { type EdgeOptions, unhandled } from "./edge.ts"
import { answerHealth, type Readiness } from "./health.ts"
import type { Metrics } from "./metrics.ts"

export interface ListenOptions extends EdgeOptions {
  readonly config: Pick<
    Config,
    "HOST" | "PORT" | "REUSE_PORT" | "METRICS_PORT" | "CLIENT_ADDRESS_HEADER" | "KEEP_ALIVE_MS"
  >
  readonly metrics: Metrics
  /** Answers a request. */
  readonly handle: (request: Request, findAddress: () => string, connection: Connection) => Promise<Response>
  readonly descriptors: Pick<Descriptors, "crowded">
  /** Others listen on the port, so that each connection is closed with its next answer. */
  readonly handingOver: () => boolean
}

export function listen({ config, metrics, handle, handingOver, descriptors, ...edge }: ListenOptions) {
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
      const findAddress = () => clientAddress(request.headers, server.requestIP(request)?.address ?? "", addressHeader)
      const connection = new Connection(server, request, descriptors.crowded ? CROWDED_IDLE_S : idleS)
      const response = await handle(request, findAddress, connection)
      metrics.responded(response)
      connection.answered(response)
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
}: Omit<ListenOptions, "handle" | "handingOver" | "descriptors"> & { readonly readiness: Readiness }) =>
  config.METRICS_PORT === undefined
    ? undefined
    : Bun.serve({
        hostname: config.HOST,
        port: config.METRICS_PORT,
        fetch: async (request) =>
          (await answerHealth(new URL(request.url).pathname, readiness)) ?? (await metrics.respond(request)),
        error: (error) => unhandled(error, edge),
      })
