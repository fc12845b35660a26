/** All that the dashboard's page calls, as one piece, so that its client is typed by what is served. */
import { Elysia } from "elysia"
import type { Links } from "../../accounts/links.ts"
import type { Passkeys } from "../../accounts/passkeys.ts"
import type { SecondFactors } from "../../accounts/second-factor.ts"
import type { Breakers } from "../../accounts/breakers.ts"
import type { Children } from "../../accounts/children.ts"
import type { Keys } from "../../accounts/keys.ts"
import type { Members } from "../../accounts/members.ts"
import type { Failure } from "../../failure/failure.ts"
import type { FailureStatus } from "../../failure/table.ts"
import type { TopUps } from "../../payments/top-ups.ts"
import { refundStore } from "../../store/refunds.ts"
import { documentStore } from "../../store/documents.ts"
import { allowanceStore } from "../../store/allowances.ts"
import type { MovementStore } from "../../store/movements.ts"
import type { RefusedCallStore } from "../../store/refused-calls.ts"
import { personalExport } from "../../store/personal-export.ts"
import type { RunStore } from "../../store/runs.ts"
import type { TopUpStore } from "../../store/top-ups.ts"
import { readFirstTokens } from "../../store/first-tokens.ts"
import type { UsageSumStore } from "../../store/usage-sums.ts"
import { outbox } from "../../store/outbox.ts"
import { accountEventStore, webhookStore } from "../../store/account-events.ts"
import { priceChangeStore } from "../../store/announcements.ts"
import { type About, aboutController } from "../health.ts"
import type { ErrorBody } from "../edge.ts"
import { modelsController } from "../models.ts"
import { type OperatorDeps, operatorControllers } from "../operator/operator.ts"
import { accountController } from "./account.ts"
import { activityController, exportController } from "./activity.ts"
import { authController, sessionsController } from "./auth.ts"
import type { Seller } from "./document-content.ts"
import { documentsController } from "./documents.ts"
import { breakerController } from "./breaker.ts"
import { keysController, managementTokensController } from "./keys.ts"
import { membersController } from "./members.ts"
import { priceChangesController } from "./price-changes.ts"
import { refusedController } from "./refused.ts"
import { passkeysController } from "./passkeys.ts"
import { runsController } from "./runs.ts"
import { secondFactorController } from "./second-factor.ts"
import { statementController } from "./statement.ts"
import { topUpsController } from "./top-ups.ts"
import { usageController } from "./usage.ts"
import { webhookController } from "./webhook.ts"

export interface DashboardApiDeps extends OperatorDeps {
  readonly links: Links
  readonly factors: SecondFactors
  readonly passkeys: Passkeys
  readonly keys: Keys
  readonly members: Members
  readonly children: Children
  readonly breakers: Breakers
  readonly topUps: TopUps
  readonly topUpStore: TopUpStore
  readonly runs: RunStore
  readonly sums: UsageSumStore
  readonly movements: MovementStore
  readonly refused: RefusedCallStore
  readonly about: About
  readonly seller: Seller | undefined
}

export const dashboardApi = ({
  links,
  factors,
  passkeys,
  keys,
  members,
  children,
  breakers,
  topUps,
  topUpStore,
  usage,
  runs,
  sums,
  movements,
  refused,
  about,
  seller,
  ...shared
}: DashboardApiDeps) => {
  const { ports, authenticate, accounts, database } = shared
  return new Elysia({ name: "dashboard" })
    .use(modelsController(ports))
    .use(aboutController(about))
    .use(authController({ accounts, links, authenticate, legalVersion: about.legalVersion }))
    .use(secondFactorController({ factors, authenticate }))
    .use(passkeysController({ factors, passkeys, authenticate }))
    .use(
      accountController({
        accounts,
        sums,
        allowances: allowanceStore(database),
        authenticate,
        legalVersion: about.legalVersion,
      }),
    )
    .use(sessionsController({ accounts, authenticate }))
    .use(membersController({ members, authenticate }))
    .use(priceChangesController({ priceChanges: priceChangeStore(database), authenticate }))
    .use(
      webhookController({ authenticate, webhooks: webhookStore(database), outbox: outbox(database, about.sendsMail) }),
    )
    .use(
      exportController({
        accounts,
        allowances: allowanceStore(database),
        personalExport: (id) => personalExport(database, id),
        authenticate,
      }),
    )
    .use(keysController({ keys, authenticate }))
    .use(managementTokensController({ children, authenticate }))
    .use(breakerController({ breakers, allowances: allowanceStore(database), authenticate }))
    .use(topUpsController({ topUps, store: topUpStore, refunds: refundStore(shared.database), authenticate }))
    .use(usageController({ usage, sums, firstTokens: (question) => readFirstTokens(database, question), authenticate }))
    .use(runsController({ runs, keys, ports, authenticate }))
    .use(refusedController({ refused, authenticate }))
    .use(activityController({ events: accountEventStore(database), authenticate }))
    .use(statementController({ accounts, movements, sums, authenticate }))
    .use(
      documentsController({
        accounts,
        movements,
        sums,
        authenticate,
        documents: documentStore(database),
        topUps: topUpStore,
        refunds: refundStore(database),
        allowances: allowanceStore(database),
        seller,
      }),
    )
    .use(operatorControllers({ ...shared, keys, usage }))
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
