/** The listener that callers reach, and the one for Prometheus. */
import type { Config } from "../config.ts"
import { clientAddress } from "./client-address.ts"
import { unhandled, type EdgeOptions } from "./edge.ts"
import type { Metrics } from "./metrics.ts"

export interface ListenTerms extends EdgeOptions {
  readonly config: Pick<Config, "HOST" | "PORT" | "REUSE_PORT" | "METRICS_PORT" | "CLIENT_ADDRESS_HEADER">
  readonly metrics: Metrics
  /** Answers a request of the client at this address. */
  readonly handle: (request: Request, address: string) => Promise<Response>
  /** Others listen on the port, so that each connection is closed with its next answer. */
  readonly handingOver: () => boolean
}

export const listen = ({ config, metrics, handle, handingOver, ...edge }: ListenTerms) =>
  Bun.serve({
    hostname: config.HOST,
    port: config.PORT,
    reusePort: config.REUSE_PORT,
    // Quiet streams are kept alive by heartbeats; a time-out would only kill slow answers.
    idleTimeout: 0,
    // The limit is ours, so that its answer is ours too (413 with the specification's body).
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch: async (request, server) => {
      const peer = server.requestIP(request)?.address ?? ""
      const response = await handle(request, clientAddress(request.headers, peer, config.CLIENT_ADDRESS_HEADER))
      metrics.responded(response)
      if (handingOver()) response.headers.set("Connection", "close")
      return response
    },
    error: (error) => unhandled(error, edge),
  })

/** Undefined without `METRICS_PORT`. */
export const listenForMetrics = ({ config, metrics, ...edge }: Omit<ListenTerms, "handle" | "handingOver">) =>
  config.METRICS_PORT === undefined
    ? undefined
    : Bun.serve({
        hostname: config.HOST,
        port: config.METRICS_PORT,
        fetch: (request) => metrics.respond(request),
        error: (error) => unhandled(error, edge),
      })
