/** All routes: one line mounts one controller. */
import { micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { Elysia } from "elysia"
import { dashboardController } from "../dashboard/serve/kept.ts"
import { docsController } from "../dashboard/serve/docs.ts"
import { frontController } from "../dashboard/serve/front.ts"
import { legalController } from "../dashboard/serve/legal.ts"
import { statusController } from "../dashboard/serve/status.ts"
import { Failure } from "../failure/failure.ts"
import { balanceController, runController } from "../http/own-key.ts"
import { callsController } from "../http/calls.ts"
import { childrenController } from "../http/children.ts"
import { DryRuns } from "../http/dry-runs.ts"
import { dashboardApi } from "../http/dashboard/api.ts"
import { simulatedPayController, webhooksController } from "../http/dashboard/payments.ts"
import type { Seller } from "../http/dashboard/document-content.ts"
import type { Config } from "../config.ts"
import { Changes } from "../http/changes.ts"
import { authenticator } from "../http/dashboard/session.ts"
import { contextOf, failureOf, failureResponse } from "../http/edge.ts"
import { eventsController } from "../http/events.ts"
import { healthController, type Readiness } from "../http/health.ts"
import { archivesIn } from "../store/archives.ts"
import { idempotencyKeyStore } from "../store/idempotency-keys.ts"
import { usageSumStore } from "../store/usage-sums.ts"
import { movementStore } from "../store/movements.ts"
import { statusNoteStore } from "../store/operator/status-notes.ts"
import { runStore } from "../store/runs.ts"
import { usageStore } from "../store/usage.ts"
import { sendsLinks, trialCreditLimits } from "./accounts.ts"
import type { Parts } from "./parts.ts"

export function routes({
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
  const runs = runStore(database)
  // Without this option a host of fewer than four characters, such as `gw`, is taken for a part of the path.
  const app = new Elysia({ handler: { standardHostname: false } })
    .onError({ as: "global" }, ({ error, request }) => {
      const { requestId } = contextOf(request)
      return failureResponse(failureOf(error, requestId, log), requestId)
    })
    .use(callsController(ports, new DryRuns({ ports, accounts, keys, share: () => gateway.share })))
    .use(balanceController({ ports, accounts, keys, sums }))
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
        usage: usageStore(database, archivesIn(config.DATA_DIR)),
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
          sendsMail: config.SMTP_URL !== undefined,
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

export const readinessOf = ({ gateway, store }: Pick<Parts, "gateway" | "store">): Readiness => ({
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
