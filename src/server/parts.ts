/** The parts of a running gateway, opened in order. `server.ts` closes them in reverse. */
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Catalogue, LiveCatalogue } from "../catalogue/model.ts"
import type { Config } from "../config.ts"
import { callFields, refusedFields, RefusedCalls } from "../gateway/call-records.ts"
import { BackendHistory } from "../gateway/backend-history.ts"
import type { Gateway } from "../gateway/gateway.ts"
import { recall } from "../gateway/actors.ts"
import { Descriptors } from "../http/connection.ts"
import { firstRequestId } from "../http/edge.ts"
import { Events } from "../http/events.ts"
import { Metrics } from "../http/metrics.ts"
import type { LegalTexts } from "../legal/texts.ts"
import { counting, type Log } from "../log.ts"
import { openPayments, type Payments } from "../payments/top-ups.ts"
import { dailyReconciliation } from "../reconcile.ts"
import type { Daily } from "../reconciliation/reconcile.ts"
import { loadCatalogue, storedCatalogue } from "../store/catalogue.ts"
import { currenciesWithoutRate } from "../store/costs.ts"
import type { Database } from "../store/database.ts"
import { redoBytes } from "../store/embedded/checkpoints.ts"
import { callTeller, Notices, tellAccountChanged } from "../store/notices.ts"
import { backendHistoryStore } from "../store/operator/backend-history.ts"
import { processSigns } from "../store/session-lock.ts"
import { openStore, type Store } from "../store/open.ts"
import { type RefusedCallStore, refusedCallStore } from "../store/refused-calls.ts"
import { type SpendingAlertStore, spendingAlertStore } from "../store/alerts.ts"
import { openTracing } from "../traces/tracing.ts"
import { PageOrigins } from "../accounts/keys.ts"
import { pageOriginStore } from "../store/live-keys.ts"
import type { RedisCounts } from "../redis/counts.ts"
import { openAccounts, type People, sendsMail } from "./accounts.ts"
import { openGateway, type ServerOptions, type Standstills, watchForStandstills } from "./gateway.ts"

export interface Parts extends People {
  readonly pageOrigins: PageOrigins
  readonly config: Config
  readonly legal: LegalTexts
  readonly log: Log
  readonly store: Store
  readonly gateway: Gateway
  /** Undefined without `REDIS_URL`. */
  readonly counts: RedisCounts | undefined
  /** The listener's address. The system may choose the port, so it is known only once the gateway listens. */
  readonly listens: { port: number }
  readonly payments: Payments
  readonly daily: Daily
  readonly events: Events
  readonly refusedCalls: RefusedCalls
  readonly refusedStore: RefusedCallStore
  readonly history: BackendHistory
  readonly spendingAlerts: SpendingAlertStore
  readonly metrics: Metrics
  readonly descriptors: Descriptors
  readonly refreshCatalogue: () => Promise<void>
  /** Undefined where there is no other process. */
  readonly standstills: Standstills | undefined
  /** Called after the last call has ended. */
  close(): Promise<void>
}

export async function openParts(given: ServerOptions): Promise<Parts> {
  const metrics = new Metrics()
  const log = counting(given.log, (level, event) => metrics.logged(level, event))
  const options = { ...given, log }
  const store = await openStore(options)
  try {
    return await openAround(store, options, metrics)
  } catch (error) {
    // Calls to be taken back that cannot be read, and the like. Left open, it would be a dead process (server.ts).
    await store.close()
    throw error
  }
}

async function openAround(store: Store, options: ServerOptions, metrics: Metrics): Promise<Parts> {
  const { config, log, passwordCost } = options
  const { database } = store
  const stored = await storedCatalogue(database, options.catalogueFile)
  const catalogue = new LiveCatalogue(stored)
  const unknown = await database.run(currenciesWithoutRate, { retry: true })
  if (unknown.length > 0) log.warn("costs not known", { currencies_without_rate: unknown.join(" ") })
  const events = new Events()
  const refusedStore = refusedCallStore(database, {
    processId: store.process.id,
    tells: config.DATABASE_URL !== undefined,
  })
  const refusedCalls = new RefusedCalls({ store: refusedStore, firstId: firstRequestId, now: Date.now })
  const history = new BackendHistory({ store: backendHistoryStore(database, store.process.id), now: Date.now })
  const spendingAlerts = spendingAlertStore({
    database,
    sendsMail: sendsMail(config),
    tells: config.DATABASE_URL !== undefined,
    firstId: firstRequestId,
  })
  // The embedded database has no other process to notify.
  const tellCalled = config.DATABASE_URL === undefined ? undefined : callTeller(database, store.process.id)
  const tracing = openTracing(config, {
    processId: store.process.id,
    random: Math.random,
    failed: (problem) => log.warn("traces not sent", { ...problem }),
  })
  const {
    gateway,
    withdrawals,
    counts,
    stop: stopGateway,
  } = await openGateway(options, store, catalogue, {
    tracing,
    history,
    admitted: (accountId) => events.balanceChanged(accountId),
    finished(call) {
      log.info("call", callFields(call))
      metrics.finished(call)
      events.finished(call)
      tellCalled?.(call.accountId)
    },
    refused(call) {
      // A flood of refused calls costs its sender nothing, so the log has the same sample as the call's owner.
      if (refusedCalls.add(call)) log.info("call refused", refusedFields(call))
    },
    alerted({ requestId, ...alert }) {
      log.error("backend needs attention", { request_id: requestId, ...alert })
      metrics.alerted(alert)
    },
  })
  const { actors, bodies, deduplication, inFlight } = gateway.ports
  const refreshCatalogue = catalogueReader(database, gateway, stored, () => events.catalogueChanged())
  const pageOrigins = new PageOrigins(pageOriginStore(database))
  // Whoever reads the catalogue again and again logs that it could not.
  const readAnew = () => Promise.all([gateway.hearAll(), refreshCatalogue().catch(() => {})])
  const notices = await hearNotices(config, store, { gateway, events, refreshCatalogue, readAnew, pageOrigins })
  const standstills = notices && watchForStandstills(readAnew)
  const accountChanged = (accountId: string) => {
    events.accountChanged(accountId)
    if (config.DATABASE_URL !== undefined) tellAccountChanged(database, accountId)
  }
  const listens = { port: config.PORT }
  const people = openAccounts(
    { config, log, database, gateway, listens, spendingAlerts, pageOrigins, passwordCost },
    accountChanged,
  )
  const { accounts } = people
  const payments = openPayments(config, database, {
    needsOperator({ topUpId, ...problem }) {
      const fields = { top_up_id: topUpId, ...problem }
      // What a bank takes back is booked by itself.
      if (problem.kind === "chargeback") log.info("chargeback", fields)
      else log.error("payment needs an operator", fields)
    },
    credited: (accountId, topUpId) => {
      actors.accounts.freed(accountId)
      events.credited(accountId, topUpId)
    },
    recall: (accountId, amount) => recall({ actors, database, processId: store.process.id }, accountId, amount),
    changed: (accountId) => {
      actors.accounts.freed(accountId)
      accountChanged(accountId)
    },
  })
  const daily = dailyReconciliation({
    config,
    servers: store.servers,
    database,
    payments,
    freeze: (accountId, reason, act) => accounts.freeze(accountId, reason, act),
    processId: store.process.id,
    log,
  })
  const descriptors = new Descriptors()
  const embedded = config.DATABASE_URL === undefined
  metrics.watch({
    actors,
    models: () => catalogue.offers(systemClock.now()).map(({ model }) => model.id),
    underWay: () => inFlight.size,
    memberPools: {
      members: () =>
        catalogue.offers(systemClock.now()).flatMap(({ model }) => {
          const { isAlone } = gateway.ports.pools.of(model)
          return gateway.ports.pools.all(model).map((place) => ({ model: model.id, isAlone, place }))
        }),
      health: gateway.ports.health,
      budget: gateway.ports.pools.budget,
      now: () => gateway.ports.pools.clock.monotonic(),
    },
    reconciled: () => daily.last,
    descriptors,
    bodies,
    deduplication,
    withdrawalsKept: () => withdrawals.waiting,
    tracing,
    counts,
    pools: { shared: database, ledger: store.ledgerDatabase },
    processes: embedded ? undefined : () => processSigns(database),
    redoBytes: embedded ? () => redoBytes(database) : undefined,
  })
  return {
    config,
    legal: options.legal,
    log,
    store,
    gateway,
    counts,
    ...people,
    listens,
    payments,
    daily,
    events,
    refusedCalls,
    refusedStore,
    history,
    spendingAlerts,
    metrics,
    descriptors,
    refreshCatalogue,
    standstills,
    pageOrigins,
    async close() {
      standstills?.stop()
      metrics.stop()
      await stopGateway()
      await refusedCalls
        .flush()
        .catch((error: unknown) => log.warn("refused calls not written", { error: String(error) }))
      await history
        .flush()
        .catch((error: unknown) => log.warn("history of backends not written", { error: String(error) }))
      await notices?.stop()
      await tracing?.stop()
    },
  }
}

/** Reloads the catalogue, one reading at a time: an older reading that ended later would restore old prices. */
function catalogueReader(
  database: Database,
  gateway: Gateway,
  stored: Catalogue,
  changed: () => void,
): () => Promise<void> {
  let known = stored
  const read = async () => {
    const catalogue = await database.run((sql) => loadCatalogue(sql))
    gateway.replaceCatalogue(catalogue)
    if (!Bun.deepEquals(known, catalogue)) changed()
    known = catalogue
  }
  let reading = Promise.resolve()
  return () => {
    const next = reading.then(read)
    reading = next.catch(() => {})
    return next
  }
}

/** Notices of other processes on the same database. The embedded database has none. */
async function hearNotices(
  { DATABASE_URL: url }: Config,
  { servers, process }: Store,
  {
    gateway,
    events,
    refreshCatalogue,
    readAnew,
    pageOrigins,
  }: Pick<Parts, "gateway" | "events" | "refreshCatalogue" | "pageOrigins"> & {
    readonly readAnew: () => Promise<unknown>
  },
): Promise<Notices | undefined> {
  if (url === undefined) return undefined
  return await Notices.listen({
    servers,
    heard: (notice) => {
      if (notice.about === "account" && notice.what === "freed") events.balanceChanged(notice.id)
      if (notice.about === "account" && notice.what === "refused") return events.refused(notice.id)
      if (notice.about === "account" && notice.what === "unusual") return events.unusual(notice.id)
      if (notice.what === "called") {
        if (notice.processId !== process.id) events.finishedElsewhere(notice.id)
        return
      }
      if (notice.about === "account" && notice.what === "changed") events.accountChanged(notice.id)
      // The periodic task repeats a failed reading and logs it.
      else if (notice.about === "catalogue") refreshCatalogue().catch(() => {})
      else if (notice.about === "origins") pageOrigins.refresh().catch(() => {})
      else gateway.hear(notice)
    },
    missed: () => {
      void readAnew()
      pageOrigins.refresh().catch(() => {})
    },
  })
}
