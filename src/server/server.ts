/**
 * A running gateway: its parts are started in order and stopped in reverse, and its routes are mounted: one line mounts one
 * controller. Only this module knows all of them.
 */
import { Elysia } from "elysia"
import { systemClock } from "../../actors/kernel/clock.ts"
import { micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import type { Accounts } from "../accounts/accounts.ts"
import type { Keys } from "../accounts/keys.ts"
import { bound, type Config } from "../config.ts"
import { docsController } from "../dashboard/serve/docs.ts"
import { frontController } from "../dashboard/serve/front.ts"
import { dashboardController } from "../dashboard/serve/kept.ts"
import { legalController } from "../dashboard/serve/frame.ts"
import { statusController } from "../dashboard/serve/status.ts"
import { Failure } from "../failure/failure.ts"
import { callsController, isPathThere } from "../http/calls.ts"
import { Changes } from "../http/changes.ts"
import { childrenController } from "../http/children.ts"
import { dashboardApi } from "../http/dashboard/api.ts"
import type { Seller } from "../http/dashboard/document-content.ts"
import { simulatedPayController, webhooksController } from "../http/dashboard/payments.ts"
import { authenticator } from "../http/dashboard/session.ts"
import { DryRuns } from "../http/dry-runs.ts"
import { contextOf, edgeHandler, failureOf, failureResponse } from "../http/edge.ts"
import { eventsController } from "../http/events.ts"
import { healthController, type Readiness, type Ready, readyNow } from "../http/health.ts"
import { listen, listenForMetrics } from "./sockets.ts"
import { balanceController, recordController, runController } from "../http/own-key.ts"
import type { Log } from "../log.ts"
import type { TopUps } from "../payments/top-ups.ts"
import { archivesIn } from "../store/archives.ts"
import { idempotencyKeyStore } from "../store/idempotency-keys.ts"
import { movementStore } from "../store/movements.ts"
import { statusNoteStore } from "../store/operator/status-notes.ts"
import { runStore } from "../store/runs.ts"
import { usageSumStore } from "../store/usage-sums.ts"
import { usageStore } from "../store/usage.ts"
import { sendsLinks, sendsMail, trialCreditLimits } from "./accounts.ts"
import { startChores } from "./chores.ts"
import type { ServerOptions } from "./gateway.ts"
import { openParts, type Parts } from "./parts.ts"

export interface Server {
  readonly url: string
  /** The log that it was given. What is warned of by this one is in the metrics, and so can be alerted on. */
  readonly log: Log
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
/** How long chores may go on when the last call has ended. A webhook, or what a payment provider is asked, takes at most ten seconds. */
const CHORES_MS = 12_000

export async function startServer(options: ServerOptions): Promise<Server> {
  const parts = await openParts(options)
  try {
    return await serving(parts)
  } catch (error) {
    // A port that is taken, and the like. Left open, it would be a dead process, which its neighbours close and tell of.
    await parts.close()
    await parts.store.close()
    throw error
  }
}

async function serving(parts: Parts): Promise<Server> {
  const { config, log, store, gateway, accounts, keys, payments, daily, events, metrics, refreshCatalogue } = parts
  const app = routes(parts)
  // Before the others give it a share, which it would leave unused meanwhile.
  await parts.counts?.untilExact()
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
  const handle = edgeHandler(app, edge)
  const caughtUp = () => parts.standstills?.caughtUp()
  const server = bound("PORT", config, () => listen({ ...listening, handle, caughtUp, handingOver: () => handingOver }))
  parts.listens.port = server.port ?? config.PORT
  // Asked itself, and not on a port that others share, it tells at once that no new calls are to come.
  const readiness = { ...readinessOf(parts), draining: () => handingOver || gateway.isDraining }
  const metricsServer = bound("METRICS_PORT", config, () => listenForMetrics({ config, metrics, readiness, ...edge }))
  const chores = await startChores(parts)
  store.started()

  return {
    log,
    url: `http://${server.hostname?.includes(":") ? `[${server.hostname}]` : server.hostname}:${server.port}`,
    metricsUrl: metricsServer === undefined ? undefined : `${metricsServer.url.origin}/metrics`,
    accounts,
    keys,
    topUps: payments.topUps,
    metrics: () => metrics.values(),
    readiness: () => readyNow(readiness),
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
      // A mail server that says nothing may take minutes. What it has not taken is as after a crash.
      await Promise.race([choresEnded, Bun.sleep(CHORES_MS)])
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

function routes({
  config,
  legal,
  log,
  store,
  gateway,
  accounts,
  links,
  factors,
  passkeys,
  keys,
  members,
  children,
  breakers,
  payments,
  events,
  refusedStore,
  refreshCatalogue,
}: Parts) {
  const { database } = store
  const { ports } = gateway
  const changes = new Changes({
    store: idempotencyKeyStore(database),
    processId: store.process.id,
    failed: (error) => log.warn("change not noted", { error: String(error) }),
  })
  const authenticate = authenticator(accounts, changes)
  const sums = usageSumStore(database)
  const readiness = readinessOf({ gateway, store })
  const usage = usageStore(database, archivesIn(config.DATA_DIR))
  const runs = runStore(database)
  // Without this option a host of fewer than four characters, such as `gw`, is taken for a part of the path.
  const app = new Elysia({ handler: { standardHostname: false } })
    .onError({ as: "global" }, ({ error, request }) => {
      const { requestId } = contextOf(request)
      return failureResponse(failureOf(error, requestId, log), requestId)
    })
    .use(callsController(ports, new DryRuns({ ports, accounts, keys, share: () => gateway.share })))
    .use(balanceController({ ports, accounts, keys, sums }))
    .use(recordController({ ports, usage }))
    .use(runController({ ports, runs }))
    .use(childrenController({ children, changes }))
    .use(
      dashboardApi({
        ports,
        authenticate,
        accounts,
        links,
        factors,
        passkeys,
        keys,
        members,
        children,
        breakers,
        topUps: payments.topUps,
        topUpStore: payments.store,
        refunds: payments.refunds,
        accountChanged: (id) => events.accountChanged(id),
        confirmAbove: micro(BigInt(config.ADJUSTMENT_CONFIRM_RP) * MICRO_PER_RUPIAH),
        usage,
        archives: archivesIn(config.DATA_DIR),
        runs,
        sums,
        movements: movementStore(database),
        refused: refusedStore,
        database,
        processId: store.process.id,
        refreshCatalogue,
        seller: sellerOf(config),
        about: {
          supportContact: config.SUPPORT_CONTACT,
          sendsMail: sendsMail(config),
          sendsLinks: sendsLinks(config),
          passkeyOrigin: () => (passkeys.party.unavailable === undefined ? passkeys.party.origin : undefined),
          legalVersion: legal.version,
        },
      }),
    )
    .use(webhooksController(payments))
    .use(
      simulatedPayController({
        topUps: payments.topUps,
        store: payments.store,
        secret: config.PAYMENT_SIMULATED_SECRET,
        charges: payments.provider.id === "simulated",
      }),
    )
    .use(eventsController({ events, accounts, authenticate }))
    .use(
      frontController({
        offers: () => ports.catalogue.offers(ports.clock.now()),
        publicUrl: config.PUBLIC_URL,
        supportContact: config.SUPPORT_CONTACT,
        trialMicro: trialCreditLimits(config)?.amountMicro,
      }),
    )
    .use(
      statusController({
        catalogue: ports.catalogue,
        pools: ports.pools,
        health: ports.health,
        notes: statusNoteStore(database),
        readiness,
        now: () => ports.clock.now(),
        supportContact: config.SUPPORT_CONTACT,
      }),
    )
    .use(dashboardController())
    .use(legalController(legal))
    .use(healthController(readiness))
  return app.use(docsController(() => app.routes, config.SUPPORT_CONTACT))
}

const readinessOf = ({ gateway, store }: Pick<Parts, "gateway" | "store">): Readiness => ({
  draining: () => gateway.isDraining,
  database: () => store.database.ping(),
  async ledgerLagMs() {
    const view = await gateway.ports.actors.ledger.view()
    return view instanceof Failure ? Infinity : view.lagMs
  },
})

function sellerOf(config: Config): Seller | undefined {
  const { SELLER_NAME: name, SELLER_VAT_BPS: basisPoints } = config
  if (name === undefined) return undefined
  return {
    party: { name, address: config.SELLER_ADDRESS ?? null, npwp: config.SELLER_NPWP ?? null },
    vat: basisPoints === undefined ? undefined : { basisPoints, isIncluded: config.SELLER_PRICES_INCLUDE_VAT },
  }
}
