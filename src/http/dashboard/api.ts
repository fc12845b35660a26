/** All that the dashboard's page calls, as one piece, so that its client is typed by what is served. */
import { Elysia } from "elysia"
import type { Keys } from "../../accounts/keys.ts"
import type { Failure } from "../../failure/failure.ts"
import type { FailureStatus } from "../../failure/table.ts"
import type { TopUps } from "../../payments/top-ups.ts"
import type { MovementStore } from "../../store/movements.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import type { UsageSumStore } from "../../store/usage-sums.ts"
import type { UsageStore } from "../../store/usage.ts"
import { type About, aboutController } from "../health.ts"
import type { ErrorBody } from "../errors.ts"
import { modelsController } from "../models.ts"
import { type OperatorDeps, operatorControllers } from "../operator/operator.ts"
import { accountController } from "./account.ts"
import { authController } from "./auth.ts"
import { keysController } from "./keys.ts"
import { statementController } from "./statement.ts"
import { topUpsController } from "./top-ups.ts"
import { usageController } from "./usage.ts"

export interface DashboardApiDeps extends OperatorDeps {
  readonly keys: Keys
  readonly topUps: TopUps
  readonly topUpStore: TopUpStore
  readonly usage: UsageStore
  readonly sums: UsageSumStore
  readonly movements: MovementStore
  readonly about: About
}

export const dashboardApi = ({
  keys,
  topUps,
  topUpStore,
  usage,
  sums,
  movements,
  about,
  ...shared
}: DashboardApiDeps) => {
  const { ports, authenticate, accounts } = shared
  return new Elysia({ name: "dashboard" })
    .use(modelsController(ports))
    .use(aboutController(about))
    .use(authController({ accounts, authenticate }))
    .use(accountController({ accounts, sums, authenticate }))
    .use(keysController({ keys, authenticate }))
    .use(topUpsController({ topUps, store: topUpStore, authenticate }))
    .use(usageController({ usage, sums, authenticate }))
    .use(statementController({ accounts, movements, sums, authenticate }))
    .use(operatorControllers(shared))
}

/** What the edge makes of what handlers return: a Failure leaves with a status of its own, and the error body. */
type AnswersOf<Response> = Response extends { 200: infer Returned }
  ? { 200: Exclude<Returned, Failure> } & Record<FailureStatus, ErrorBody>
  : Response

type RoutesOf<Routes> = {
  [Name in keyof Routes]: Routes[Name] extends { response: infer Response }
    ? Omit<Routes[Name], "response"> & { response: AnswersOf<Response> }
    : RoutesOf<Routes[Name]>
}

type ClientView<App> =
  App extends Elysia<infer Base, infer Singleton, infer Definitions, infer Meta, infer Routes, infer Own, infer Passing>
    ? Elysia<Base, Singleton, Definitions, Meta, RoutesOf<Routes>, Own, Passing>
    : never

/** For the typed client: routes, bodies and answers, without the failures that leave as errors. */
export type DashboardApi = ClientView<ReturnType<typeof dashboardApi>>
