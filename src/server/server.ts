/** A running gateway: its parts put together, started in order and stopped in reverse. Alone knows all the rooms. */
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
  /** Of the listener for Prometheus; undefined without `METRICS_PORT`. */
  readonly metricsUrl: string | undefined
  readonly accounts: Accounts
  readonly keys: Keys
  readonly topUps: TopUps
  /** What `METRICS_PORT` tells: of a worker, whose supervisor has the listener. */
  metrics(): Promise<object[]>
  readiness(): Promise<Ready>
  /** All that is served, as the framework has it. */
  readonly routes: readonly { readonly method: string; readonly path: string }[]
  /** Reads the catalogue again now, and not only when its time has come. */
  refreshCatalogue(): Promise<void>
  /** Does the day's reconciliation now, if it is due and nobody has done it. */
  reconcileIfDue(): Promise<void>
  /** Takes no new calls, lets those under way end, writes what is to be written, and gives the leases back. */
  stop(): Promise<void>
}

/** How long a process that shares its port takes calls on from SIGTERM, and again from when it has closed its listener. */
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
        // Others listen on the port: what comes meanwhile is answered, and its connection closed; then all goes to them.
        handingOver = true
        await Bun.sleep(HANDOVER_MS)
        void server.stop()
        await Bun.sleep(HANDOVER_MS)
      }
      const choresEnded = chores.stop()
      events.close()
      // It listens until the last call has ended, so that who asks /readyz is told 503 and not hung up on.
      await gateway.drain()
      void server.stop()
      // Last bytes are still on their way, and who waited for a slot is still to be told that there is none.
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
