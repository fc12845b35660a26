/** Everything under `/operator`: the house's own side of the dashboard's API, put together. */
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { Adjustments } from "../../accounts/adjustments.ts"
import { recall } from "../../gateway/neighbours.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import { apiKeyStore } from "../../store/api-keys.ts"
import type { Database } from "../../store/database.ts"
import { readAbsorbed } from "../../store/operator/absorbed.ts"
import { accountViews } from "../../store/operator/accounts.ts"
import { auditStore } from "../../store/operator/audit.ts"
import { billingHealthStore } from "../../store/operator/billing-health.ts"
import { modelStore } from "../../store/operator/models.ts"
import { readOverview } from "../../store/operator/overview.ts"
import { paymentViews } from "../../store/operator/payments.ts"
import { topUpStore } from "../../store/top-ups.ts"
import type { Authenticate } from "../dashboard/session.ts"
import { operatorAccountsController } from "./accounts.ts"
import { auditController } from "./audit.ts"
import { backendsController } from "./backends.ts"
import { operatorGate } from "./gate.ts"
import { operatorModelsController } from "./models.ts"
import { overviewController } from "./overview.ts"
import { operatorPaymentsController } from "./payments.ts"

export interface OperatorDeps {
  readonly authenticate: Authenticate
  readonly database: Database
  readonly processId: string
  readonly accounts: Accounts
  readonly ports: GatewayPorts
  readonly refreshCatalogue: () => Promise<void>
}

export function operatorControllers(deps: OperatorDeps) {
  const { authenticate, database, processId, accounts, ports, refreshCatalogue } = deps
  const gate = operatorGate(authenticate)
  const audit = auditStore(database)
  const { actors } = ports
  const isConfigured = (provider: string) => ports.backends.has(provider)
  const adjustments = new Adjustments({
    database,
    recall: (accountId, amount) => recall({ actors, database, processId }, accountId, amount),
    credited: (id) => actors.accounts.freed(id),
  })
  return new Elysia({ name: "operator" })
    .use(
      operatorAccountsController({
        gate,
        accounts,
        adjustments,
        views: accountViews(database),
        keys: apiKeyStore(database),
        topUps: topUpStore(database),
      }),
    )
    .use(
      operatorModelsController({
        gate,
        models: modelStore(database),
        now: () => ports.clock.now(),
        isConfigured,
        refreshCatalogue,
      }),
    )
    .use(operatorPaymentsController({ gate, views: paymentViews(database) }))
    .use(
      overviewController({
        gate,
        ports,
        processId,
        overview: (period) => readOverview(database, period),
        billing: billingHealthStore(database),
        absorbed: (period) => readAbsorbed(database, period),
      }),
    )
    .use(
      backendsController({
        gate,
        processId,
        isConfigured,
        health: ports.health,
        models: () => ports.catalogue.offers(ports.clock.now()).map(({ model }) => model),
      }),
    )
    .use(auditController({ gate, audit }))
}
