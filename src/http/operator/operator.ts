/** Everything under `/operator`: the house's own side of the dashboard's API, put together. */
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { Adjustments } from "../../accounts/adjustments.ts"
import { recall } from "../../gateway/neighbours.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import { apiKeyStore } from "../../store/api-keys.ts"
import type { Database } from "../../store/database.ts"
import { accountViews } from "../../store/operator/accounts.ts"
import { auditStore } from "../../store/operator/audit.ts"
import { modelStore } from "../../store/operator/models.ts"
import { topUpStore } from "../../store/top-ups.ts"
import type { Authenticate } from "../dashboard/session.ts"
import { operatorAccountsController } from "./accounts.ts"
import { auditController } from "./audit.ts"
import { operatorGate } from "./gate.ts"
import { operatorModelsController } from "./models.ts"

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
  const adjustments = new Adjustments({
    database,
    recall: (accountId, amount) => recall({ actors, database, processId }, accountId, amount),
    credited: (id) => actors.accounts.tellIfActive(id, { type: "lease", news: { type: "freed" } }),
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
        isConfigured: (provider) => ports.backends.has(provider),
        refreshCatalogue,
      }),
    )
    .use(auditController({ gate, audit }))
}
