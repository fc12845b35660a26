/** A running gateway: its parts are started in order and stopped in reverse. Only this module knows all of them. */
import { systemClock } from "../../actors/kernel/clock.ts"
import type { Accounts } from "../accounts/accounts.ts"
import type { Keys } from "../accounts/keys.ts"
import { isPathThere } from "../http/calls.ts"
import { edgeHandler } from "../http/edge.ts"
import { type Ready, readyNow } from "../http/health.ts"
import { listen, listenForMetrics } from "../http/listen.ts"
import type { TopUps } from "../payments/top-ups.ts"
import { startChores } from "./chores.ts"
import type { ServerOptions } from "./gateway.ts"
import { openParts } from "./parts.ts"
import { readinessOf, routes } from "./routes.ts"

export interface Server {
  readonly url: string
  /** The port of the listener for Prometheus. Undefined without `METRICS_PORT`. */
  readonly metricsUrl: string | undefined
  readonly accounts: Accounts
  readonly keys: Keys
  readonly topUps: TopUps
  /** The text of the metrics, for a worker whose supervisor has the listener. */
  metrics(): Promise<object[]>
  readiness(): Promise<Ready>
  /** The framework's application with all routes. */
  readonly routes: readonly { readonly method: string; readonly path: string }[]
  /** Reloads the catalogue now. */
  refreshCatalogue(): Promise<void>
  /** Runs the day's reconciliation now, if it is due and no process has done it. */
  reconcileIfDue(): Promise<void>
  /** Accepts no new calls, drains those in flight, writes pending entries, and returns the leases. */
  stop(): Promise<void>
}

/** How long a process that shares its port accepts calls after SIGTERM, and again after it has closed its listener. */
const HANDOVER_MS = 1_000

export async function startServer(options: ServerOptions): Promise<Server> {
  const parts = await openParts(options)
  const { config, log, store, gateway, accounts, keys, payments, daily, events, metrics, refreshCatalogue } = parts
  const app = routes(parts)
  await store.process.serve()
  await gateway.followShare()

  let handingOver = false
  const edge = {
    log,
    now: () => systemClock.now(),
    isThere: isPathThere(gateway.ports.catalogue),
    pages: parts.pageOrigins,
  }
  const listening = { ...parts, ...edge }
  const server = listen({ ...listening, handle: edgeHandler(app, edge), handingOver: () => handingOver })
  parts.listens.port = server.port ?? config.PORT
  const metricsServer = listenForMetrics({ config, metrics, readiness: readinessOf(parts), ...edge })
  const chores = await startChores(parts)

  return {
    url: `http://${server.hostname?.includes(":") ? `[${server.hostname}]` : server.hostname}:${server.port}`,
    metricsUrl: metricsServer === undefined ? undefined : `${metricsServer.url.origin}/metrics`,
    accounts,
    keys,
    topUps: payments.topUps,
    metrics: () => metrics.values(),
    readiness: () => readyNow(readinessOf(parts)),
    routes: app.routes,
    refreshCatalogue,
    reconcileIfDue: () => daily.look(),
    async stop() {
      const drained = store.process
        .drain()
        .catch((error: unknown) => log.warn("drain not told", { error: String(error) }))
      if (config.REUSE_PORT) {
        // Other processes listen on the port. Calls that still arrive are answered and their connections closed.
        handingOver = true
        await Bun.sleep(HANDOVER_MS)
        void server.stop()
        await Bun.sleep(HANDOVER_MS)
      }
      const choresEnded = chores.stop()
      events.close()
      // The listener stays open until the last call has ended, so that /readyz answers 503 and is not refused.
      await gateway.drain()
      void server.stop()
      // The last bytes are still being sent, and calls that waited for a slot must still be refused.
      await Promise.race([noneOpen(server), Bun.sleep(config.CAPACITY_WAIT_MS + 1_000)])
      await server.stop(true)
      await choresEnded
      await parts.close()
      await metricsServer?.stop(true)
      await drained
      await store.close()
    },
  }
}

async function noneOpen(server: { readonly pendingRequests: number }): Promise<void> {
  while (server.pendingRequests > 0) await Bun.sleep(10)
}
