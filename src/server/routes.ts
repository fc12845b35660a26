/** All that is served: one mount line a controller. */
import { Elysia } from "elysia"
import { dashboardController } from "../dashboard/serve/controller.ts"
import { Failure } from "../failure/failure.ts"
import { callsController } from "../http/calls.ts"
import { dashboardApi } from "../http/dashboard/api.ts"
import { simulatedPayController, webhooksController } from "../http/dashboard/payments.ts"
import { authenticator } from "../http/dashboard/session.ts"
import { contextOf, failureOf } from "../http/edge.ts"
import { failureResponse } from "../http/errors.ts"
import { eventsController } from "../http/events.ts"
import { healthController, type Readiness } from "../http/health.ts"
import { openapiController } from "../http/openapi-page.ts"
import { usageSumStore } from "../store/usage-sums.ts"
import { movementStore } from "../store/movements.ts"
import { usageStore } from "../store/usage.ts"
import type { Parts } from "./parts.ts"

export function routes({ config, log, store, gateway, accounts, keys, payments, events, refreshCatalogue }: Parts) {
  const { database } = store
  const { ports } = gateway
  const authenticate = authenticator(accounts)
  // Without this option a host of fewer than four characters, such as `gw`, is taken for a part of the path.
  const app = new Elysia({ handler: { standardHostname: false } })
    .onError({ as: "global" }, ({ error, request }) => {
      const { requestId } = contextOf(request)
      return failureResponse(failureOf(error, requestId, log), requestId)
    })
    .use(callsController(ports))
    .use(
      dashboardApi({
        ports,
        authenticate,
        accounts,
        keys,
        topUps: payments.topUps,
        topUpStore: payments.store,
        usage: usageStore(database),
        sums: usageSumStore(database),
        movements: movementStore(database),
        database,
        processId: store.process.id,
        refreshCatalogue,
        about: { supportContact: config.SUPPORT_CONTACT, sendsMail: config.SMTP_URL !== undefined },
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
    .use(dashboardController())
    .use(healthController(readinessOf({ gateway, store })))
  return app.use(openapiController(() => app.routes))
}

export const readinessOf = ({ gateway, store }: Pick<Parts, "gateway" | "store">): Readiness => ({
  draining: () => gateway.isDraining,
  database: () => store.database.ping(),
  async ledgerLagMs() {
    const view = await gateway.ports.actors.ledger.view()
    return view instanceof Failure ? Infinity : view.lagMs
  },
})
