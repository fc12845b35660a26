/**
 * A running gateway: everything put together, started in order and stopped in reverse. Alone knows all the rooms.
 */
import { availableParallelism, totalmem } from "node:os"
import { join } from "node:path"
import { Elysia } from "elysia"
import { InlineScheduler } from "../actors/kernel/scheduler.ts"
import type { Runtime } from "../actors/kernel/actor.ts"
import { systemClock } from "../actors/kernel/clock.ts"
import { Accounts } from "./accounts/accounts.ts"
import { watchFrozenKeys } from "./accounts/frozen-keys.ts"
import { Keys } from "./accounts/keys.ts"
import { Passwords } from "./accounts/password.ts"
import { SignUps } from "./accounts/sign-ups.ts"
import { SlowDown } from "./accounts/slow-down.ts"
import { LargeBodies } from "./bodies/bodies.ts"
import { BodyWorkers } from "./bodies/workers.ts"
import { LiveCatalogue } from "./catalogue/live.ts"
import type { CatalogueFile } from "./catalogue/schema.ts"
import type { Config } from "./config.ts"
import { dashboardController } from "./dashboard/serve/controller.ts"
import { every } from "./every.ts"
import { Gateway } from "./gateway/gateway.ts"
import { callFields } from "./gateway/call-fields.ts"
import type { CallLimits } from "./gateway/ports.ts"
import { callController, countTokensController } from "./http/calls.ts"
import { lowBalanceTeller } from "./accounts/low-balance.ts"
import { dashboardApi } from "./http/dashboard/api.ts"
import { authenticator } from "./http/dashboard/session.ts"
import { simulatedPayController } from "./http/dashboard/simulated-pay.ts"
import { webhooksController } from "./http/dashboard/webhooks.ts"
import { Descriptors } from "./http/descriptors.ts"
import { contextOf, edgeHandler, failureOf } from "./http/edge.ts"
import { failureResponse } from "./http/errors.ts"
import { Events, eventsController } from "./http/events.ts"
import { healthController } from "./http/health.ts"
import { listen, listenForMetrics } from "./http/listen.ts"
import { Metrics } from "./http/metrics.ts"
import { openapiController } from "./http/openapi.ts"
import { Failure } from "./failure/failure.ts"
import type { Log } from "./log.ts"
import { openPayments } from "./payments/open.ts"
import type { TopUps } from "./payments/top-ups.ts"
import { dailyReconciliation } from "./reconcile.ts"
import { PdfWorker } from "./pdf/reader.ts"
import { searx } from "./search/searx.ts"
import { accountStore, type OwnedKey } from "./store/accounts.ts"
import { actorStore } from "./store/actor-store.ts"
import { apiKeyStore } from "./store/api-keys.ts"
import { loadCatalogue } from "./store/catalogue.ts"
import { endUserSecret } from "./store/installation.ts"
import { estimateFactorStore } from "./store/estimate-factors.ts"
import { ledgerStore } from "./store/ledger.ts"
import { Notices } from "./store/notices.ts"
import { signUpStore } from "./store/sign-ups.ts"
import { sessionStore } from "./store/sessions.ts"
import { openStore } from "./store/open.ts"
import { storedCatalogue } from "./store/stored-catalogue.ts"
import { usageSumStore } from "./store/usage-sums.ts"
import { usageStore } from "./store/usage.ts"
import { WithdrawalFiles } from "./store/withdrawals.ts"
import type { Backend } from "./upstream/providers.ts"
import { chatFormat } from "./wire/chat/format.ts"
import { messagesFormat } from "./wire/messages/format.ts"
import { responsesFormat } from "./wire/responses/format.ts"

export interface ServerParts {
  readonly config: Config
  readonly log: Log
  /** What an empty database is filled with. */
  readonly catalogueFile: CatalogueFile
  readonly backends: ReadonlyMap<string, Backend>
  /** The process cannot go on: something that restarts do not mend. */
  readonly fatal: (reason: string) => void
  /** Waits that are nobody's to configure, shorter: for tests. */
  readonly limits?: Partial<Pick<CallLimits, "readerStallMs">>
}

export interface Server {
  readonly url: string
  /** Of the listener for Prometheus; undefined without `METRICS_PORT`. */
  readonly metricsUrl: string | undefined
  readonly accounts: Accounts
  readonly keys: Keys
  readonly topUps: TopUps
  /** All that is served, as the framework has it. */
  readonly routes: readonly { readonly method: string; readonly path: string }[]
  /** Reads the catalogue again now, and not only when its time has come. */
  refreshCatalogue(): Promise<void>
  /** Does the day's reconciliation now, if it is due and nobody has done it. */
  reconcileIfDue(): Promise<void>
  /** Takes no new calls, lets those under way end, writes what is to be written, and gives the leases back. */
  stop(): Promise<void>
}

/** Long enough for a laptop's nap (decisions §6). */
const READER_STALL_MS = 300_000
const MOST_BODY_WORKERS = 2
const LEAST_BODY_MEMORY_BYTES = 256 * 1024 * 1024
/** Longer than a window of 60 s, which must be empty before a key is put away. */
const IDLE_MS = 90_000
const CATALOGUE_EVERY_MS = 2_000
const SUCCESSION_EVERY_MS = 5_000
const DESCRIPTORS_EVERY_MS = 2_000
const PAYMENTS_EVERY_MS = 5_000
/** How long a process that shares its port takes calls on from SIGTERM, and again from when it has closed its listener. */
const HANDOVER_MS = 1_000
const LOW_BALANCES_EVERY_MS = 15_000

export async function startServer(parts: ServerParts): Promise<Server> {
  const { config, log, catalogueFile, backends, fatal, limits } = parts
  const store = await openStore({ config, log, fatal })
  const { database, process } = store
  const clock = systemClock
  const runtime: Runtime = {
    clock,
    random: Math.random,
    scheduler: new InlineScheduler(),
    fatal: (actor, cause) => fatal(`the ${actor} actor does not recover: ${String(cause)}`),
    crashed: (actor, cause) => log.error("actor crashed", { actor, error: stackOf(cause) }),
  }
  const catalogue = new LiveCatalogue(await storedCatalogue(database, catalogueFile))
  const events = new Events()
  const pdfs = new PdfWorker(clock)
  const { DATABASE_URL: sharedUrl } = config
  const bodyWorkers = new BodyWorkers({
    log,
    workers: Math.min(MOST_BODY_WORKERS, Math.max(1, availableParallelism() - 1)),
    waitMs: config.CAPACITY_WAIT_MS,
  })
  const gateway = new Gateway({
    largeBodies: new LargeBodies(bodyWorkers),
    runtime,
    processId: process.id,
    store: actorStore(database, process.id),
    // The embedded database has one process, which shares with nobody.
    ...(sharedUrl !== undefined && { share: () => process.share() }),
    ledgerStore: ledgerStore({
      database: store.ledgerDatabase,
      processId: process.id,
      fenced: (ids) => log.error("settled without a lease", { request_ids: ids.join(" ") }),
    }),
    withdrawals: new WithdrawalFiles(join(config.DATA_DIR, "withdrawals"), log),
    catalogue,
    backends,
    fetch,
    endUserSecret: await endUserSecret(database),
    pdfs,
    factorStore: estimateFactorStore(database),
    search:
      config.SEARCH_URL === undefined
        ? undefined
        : searx({ baseUrl: config.SEARCH_URL, failed: (status) => log.warn("web search failed", { status }) }),
    limits: {
      maxBodyBytes: config.MAX_BODY_BYTES,
      bodyIdleMs: config.BODY_IDLE_TIMEOUT_MS,
      bodyBytes: config.BODY_MEMORY_BYTES ?? bodyBytesOf(memoryBytes(), config.MAX_BODY_BYTES),
      maxConcurrency: config.MAX_CONCURRENCY,
      capacityWaitMs: config.CAPACITY_WAIT_MS,
      heartbeatMs: config.HEARTBEAT_MS,
      settleDeadlineMs: config.SETTLE_DEADLINE_MS,
      upstreamStartMs: config.UPSTREAM_START_TIMEOUT_MS,
      upstreamIdleMs: config.UPSTREAM_IDLE_TIMEOUT_MS,
      drainMs: config.DRAIN_MS,
      idleMs: IDLE_MS,
      upstreamAnswerMs: config.UPSTREAM_ANSWER_TIMEOUT_MS,
      drainLeftMs: config.DRAIN_LEFT_MS,
      unreadBytes: config.MAX_UNREAD_BYTES ?? unreadBytesOf(memoryBytes()),
      readerStallMs: READER_STALL_MS,
      ...limits,
    },
    log,
    finished: (call) => {
      log.info("call", callFields(call))
      metrics.finished(call)
      events.finished(call)
    },
    alerted: ({ requestId, ...alert }) => {
      log.error("backend needs attention", { request_id: requestId, ...alert })
      metrics.alerted(alert)
    },
    crashed: (requestId, error) => log.error("call crashed", { request_id: requestId, error: stackOf(error) }),
  })
  const withdrawn = await gateway.recover()
  if (withdrawn > 0) log.warn("took back calls of a dead process", { calls: withdrawn })
  const { ports } = gateway
  const { actors } = ports
  const readCatalogue = async () => {
    gateway.replaceCatalogue(await database.run((sql) => loadCatalogue(sql)))
  }
  // One reading after the other: an older one that ended later would put back old prices.
  let reading = Promise.resolve()
  const refreshCatalogue = () => {
    const next = reading.then(readCatalogue)
    reading = next.catch(() => {})
    return next
  }
  const notices =
    sharedUrl === undefined
      ? undefined
      : await Notices.listen({
          url: sharedUrl,
          heard: (notice) => {
            if (notice.about === "account" && notice.what === "freed") events.moneyFreed(notice.id)
            if (notice.about !== "catalogue") gateway.hear(notice)
            // What fails here is tried again, and told, when its time has come.
            else refreshCatalogue().catch(() => {})
          },
          missed: () => gateway.hearAll(),
        })
  const descriptors = new Descriptors()
  const metrics = new Metrics({
    actors,
    models: () => catalogue.offers(clock.now()).map(({ model }) => model.id),
    underWay: () => ports.underWay.size,
    reconciled: () => daily.last,
    descriptors,
    bodies: ports.bodies,
  })

  const keysChanged = (changed: readonly OwnedKey[]) =>
    actors.keys.inForce(changed.map(({ keyHash }) => Buffer.from(keyHash).toString("hex")))
  const accounts = new Accounts({
    accounts: accountStore(database),
    sessions: sessionStore(database),
    passwords: new Passwords(),
    slowDown: new SlowDown(),
    signUps: new SignUps(signUpStore(database), {
      perHour: config.SIGN_UPS_PER_HOUR,
      perDay: config.SIGN_UPS_PER_DAY,
    }),
    keysChanged,
  })
  const keys = new Keys({
    store: apiKeyStore(database),
    keysChanged,
    mostKeys: config.MAX_KEYS_PER_ACCOUNT,
    live: (hash) => actors.keys.viewIfActive(Buffer.from(hash).toString("hex")),
  })
  const simulatedPayments = { secret: config.PAYMENT_SIMULATED_SECRET }
  const payments = openPayments(config, database, (accountId, topUpId) => {
    actors.accounts.freed(accountId)
    events.credited(accountId, topUpId)
  })
  const { topUps, providers, provider, store: topUpsStore } = payments
  const daily = dailyReconciliation({
    config,
    url: store.url,
    database,
    payments,
    freeze: (accountId, reason) => accounts.freeze(accountId, reason),
    processId: process.id,
    log,
  })
  const authenticate = authenticator(accounts)

  // Otherwise a host of fewer than four characters, such as `gw`, is taken for a part of the path.
  const app = new Elysia({ handler: { standardHostname: false } })
    .onError({ as: "global" }, ({ error, request }) =>
      failureResponse(failureOf(error, contextOf(request).requestId, log), contextOf(request).requestId),
    )
    .use(callController(ports, chatFormat))
    .use(callController(ports, messagesFormat))
    .use(callController(ports, responsesFormat))
    .use(countTokensController(ports, messagesFormat))
    .use(
      dashboardApi({
        ports,
        authenticate,
        accounts,
        keys,
        topUps,
        topUpStore: topUpsStore,
        usage: usageStore(database),
        sums: usageSumStore(database),
        database,
        processId: process.id,
        refreshCatalogue,
        about: { supportContact: config.SUPPORT_CONTACT, sendsMail: config.SMTP_URL !== undefined },
      }),
    )
    .use(webhooksController({ topUps, providers }))
    .use(
      simulatedPayController({
        topUps,
        store: topUpsStore,
        ...simulatedPayments,
        charges: provider.id === "simulated",
      }),
    )
    .use(eventsController({ events, accounts, authenticate }))
    .use(openapiController())
    .use(dashboardController())
    .use(
      healthController({
        draining: () => gateway.isDraining,
        database: () => database.ping(),
        ledgerLagMs: async () => {
          const view = await actors.ledger.view()
          return view instanceof Failure ? Infinity : view.lagMs
        },
      }),
    )

  await process.serve()
  await gateway.followShare()

  let handingOver = false
  const edge = { log, now: () => clock.now() }
  const listening = { config, metrics, ...edge }
  const server = listen({ ...listening, descriptors, handle: edgeHandler(app, edge), handingOver: () => handingOver })
  const metricsServer = listenForMetrics(listening)

  const refresh = setInterval(() => {
    refreshCatalogue().catch(() => log.warn("catalogue not refreshed"))
  }, CATALOGUE_EVERY_MS)
  const succession = setInterval(() => void store.closeDeadProcesses(), SUCCESSION_EVERY_MS)
  const lowBalances = lowBalanceTeller({ smtpUrl: config.SMTP_URL, from: config.MAIL_FROM, database, log })
  const mailing = every(LOW_BALANCES_EVERY_MS, () => lowBalances().catch(() => log.warn("low balances not looked for")))
  const looking = every(DESCRIPTORS_EVERY_MS, async () => void (await descriptors.look()))
  const polling = every(PAYMENTS_EVERY_MS, () => topUps.poll().catch(() => log.warn("payments not polled")))

  const failed = (error: unknown) => log.warn("key not read again", { error: String(error) })
  const keyChanged = (keyHash: string) => actors.keys.changed(keyHash)
  const freezes = sharedUrl === undefined ? watchFrozenKeys({ database, changed: keyChanged, failed }) : undefined
  await daily.start()

  return {
    url: `http://${server.hostname?.includes(":") ? `[${server.hostname}]` : server.hostname}:${server.port}`,
    metricsUrl: metricsServer === undefined ? undefined : `${metricsServer.url.origin}/metrics`,
    accounts,
    keys,
    topUps,
    routes: app.routes,
    refreshCatalogue,
    reconcileIfDue: () => daily.look(),
    async stop() {
      const told = process.drain().catch((error: unknown) => log.warn("drain not told", { error: String(error) }))
      if (config.REUSE_PORT) {
        // Others listen on the port: what comes meanwhile is answered, and its connection closed; then all goes to them.
        handingOver = true
        await Bun.sleep(HANDOVER_MS)
        void server.stop()
        await Bun.sleep(HANDOVER_MS)
      }
      clearInterval(refresh)
      clearInterval(succession)
      await Promise.all([daily.stop(), freezes?.stop(), polling.stop(), mailing.stop(), looking.stop()])
      events.close()
      // It listens until the last call has ended, so that who asks /readyz is told 503 and not hung up on.
      await gateway.drain()
      void server.stop()
      // Last bytes are still on their way, and who waited for a slot is still to be told that there is none.
      await Promise.race([noneOpen(server), Bun.sleep(config.CAPACITY_WAIT_MS + 1_000)])
      await server.stop(true)
      await gateway.stop()
      pdfs[Symbol.dispose]()
      bodyWorkers.stop()
      await notices?.stop()
      await metricsServer?.stop(true)
      await told
      await store.close()
    },
  }
}

/** Unread answers may take an eighth of the memory there is, and 64 MiB in any case. */
const unreadBytesOf = (memory: number): number => Math.max(64 * 1024 * 1024, Math.floor(memory / 8))

/** Another eighth is for request bodies; what is made of one takes more than its bytes. */
const bodyBytesOf = (memory: number, largest: number): number =>
  Math.max(LEAST_BODY_MEMORY_BYTES, 4 * largest, Math.floor(memory / 8))

/** Of the machine, or what a container may have of it. */
const memoryBytes = (): number => {
  const constrained = globalThis.process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

async function noneOpen(server: { readonly pendingRequests: number }): Promise<void> {
  while (server.pendingRequests > 0) await Bun.sleep(10)
}

const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error))
