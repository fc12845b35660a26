/** All that the dashboard's page calls, as one piece, so that its client is typed by what is served. */
import { Elysia } from "elysia"
import type { Keys } from "../../accounts/keys.ts"
import type { TopUps } from "../../payments/top-ups.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import type { UsageSumStore } from "../../store/usage-sums.ts"
import type { UsageStore } from "../../store/usage.ts"
import { type About, aboutController } from "../about.ts"
import { modelsController } from "../models.ts"
import { type OperatorDeps, operatorControllers } from "../operator/operator.ts"
import { accountController } from "./account.ts"
import { authController } from "./auth.ts"
import type { ClientView } from "./contract.ts"
import { keysController } from "./keys.ts"
import { sessionsController } from "./sessions.ts"
import { summaryController } from "./summary.ts"
import { topUpsController } from "./top-ups.ts"
import { usageController } from "./usage.ts"

export interface DashboardApiDeps extends OperatorDeps {
  readonly keys: Keys
  readonly topUps: TopUps
  readonly topUpStore: TopUpStore
  readonly usage: UsageStore
  readonly sums: UsageSumStore
  readonly about: About
}

export const dashboardApi = ({ keys, topUps, topUpStore, usage, sums, about, ...shared }: DashboardApiDeps) => {
  const { ports, authenticate, accounts } = shared
  return new Elysia({ name: "dashboard" })
    .use(modelsController(ports))
    .use(aboutController(about))
    .use(authController({ accounts, authenticate }))
    .use(accountController({ accounts, authenticate }))
    .use(sessionsController({ accounts, authenticate }))
    .use(summaryController({ accounts, sums, authenticate }))
    .use(keysController({ keys, authenticate }))
    .use(topUpsController({ topUps, store: topUpStore, authenticate }))
    .use(usageController({ usage, sums, authenticate }))
    .use(operatorControllers(shared))
}

/** For the typed client: routes, bodies and answers, without the failures that leave as errors. */
export type DashboardApi = ClientView<ReturnType<typeof dashboardApi>>
