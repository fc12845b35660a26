/** Everything under `/operator`: the house's own side of the dashboard's API, put together, and its audit log. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Micro } from "../../../actors/money/micro.ts"
import type { Accounts } from "../../accounts/accounts.ts"
import type { Keys } from "../../accounts/keys.ts"
import { Adjustments } from "../../accounts/adjustments.ts"
import type { AccountChanged } from "../../accounts/in-force.ts"
import { recall } from "../../gateway/actors.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import { apiKeyStore } from "../../store/api-keys.ts"
import type { Database } from "../../store/database.ts"
import { readAbsorbed } from "../../store/operator/absorbed.ts"
import { accountViews } from "../../store/operator/accounts.ts"
import { type AuditRow, type AuditStore, auditStore } from "../../store/operator/audit.ts"
import { backendHistoryStore } from "../../store/operator/backend-history.ts"
import { billingHealthStore } from "../../store/operator/billing-health.ts"
import { memberStore } from "../../store/members.ts"
import { memberStore as poolMemberStore } from "../../store/operator/models.ts"
import { changeRole } from "../../store/operator/role.ts"
import { modelStore } from "../../store/operator/models.ts"
import { exchangeRateStore } from "../../store/costs.ts"
import { statusNoteStore } from "../../store/operator/status-notes.ts"
import { readMix, readProfit } from "../../store/operator/profit.ts"
import { readUnder } from "../../store/operator/profit-parts.ts"
import { readEmails } from "../../store/operator/profit-accounts.ts"
import { readDays, readOverview } from "../../store/operator/overview.ts"
import { paymentViews } from "../../store/operator/payments.ts"
import type { Refunds } from "../../payments/refunds.ts"
import { refundStore } from "../../store/refunds.ts"
import { sessionStore } from "../../store/sessions.ts"
import { topUpStore } from "../../store/top-ups.ts"
import type { UsageStore } from "../../store/usage.ts"
import { Failure } from "../../failure/failure.ts"
import { csvFile, csvQuery, ID, jsonCells, MAX_EXPORTED, pageJson, pageQuery, readPage } from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { firstRequestId } from "../edge.ts"
import { described, field, integer, ofAct, orNull, pageOf, text, time } from "../shapes.ts"
import { accountCallsController, seeAsController } from "./see-account.ts"
import { operatorAccountsController } from "./accounts.ts"
import { backendHistoryController } from "./backend-history.ts"
import { backendsController } from "./backends.ts"
import { billingHealthController } from "./billing-health.ts"
import { operatorModelsController } from "./models.ts"
import { overviewController } from "./overview.ts"
import { operatorRetirementsController } from "./retirements.ts"
import { exchangeRatesController } from "./exchange-rates.ts"
import { statusNotesController } from "./status-notes.ts"
import { profitController } from "./profit.ts"
import { operatorPaymentsController } from "./payments.ts"
import { operatorRefundsController } from "./refunds.ts"

export interface OperatorDeps {
  readonly authenticate: Authenticate
  readonly database: Database
  readonly processId: string
  readonly accounts: Accounts
  readonly keys: Keys
  readonly ports: GatewayPorts
  readonly refreshCatalogue: () => Promise<void>
  readonly refunds: Refunds
  /** Larger adjustments are to be confirmed. */
  readonly confirmAbove: Micro
  readonly accountChanged: AccountChanged
  readonly usage: UsageStore
  /** The directory of records that the database has no longer. */
  readonly archives: string
}

export function operatorControllers(deps: OperatorDeps) {
  const {
    authenticate,
    database,
    processId,
    accounts,
    keys,
    ports,
    refreshCatalogue,
    refunds,
    confirmAbove,
    accountChanged,
    usage,
    archives,
  } = deps
  const { actors } = ports
  const audit = auditStore(database)
  const isConfigured = (provider: string) => ports.backends.has(provider)
  const adjustments = new Adjustments({
    database,
    recall: (accountId, amount) => recall({ actors, database, processId }, accountId, amount),
    credited: (id) => actors.accounts.freed(id),
  })
  const catalogue = {
    authenticate,
    models: modelStore(database),
    now: () => ports.clock.now(),
    isConfigured,
    refreshCatalogue,
  }
  return new Elysia({ name: "operator" })
    .use(
      operatorAccountsController({
        authenticate,
        accounts,
        adjustments,
        confirmAbove,
        audit,
        views: accountViews(database, archives),
        keys: apiKeyStore(database),
        topUps: topUpStore(database),
        members: memberStore(database),
        changeRole: (id, change) => changeRole(database, { id }, change),
      }),
    )
    .use(seeAsController({ sessions: sessionStore(database), accountChanged, authenticate }))
    .use(
      accountCallsController({
        authenticate,
        audit,
        views: accountViews(database),
        usage,
        keys,
      }),
    )
    .use(operatorModelsController(catalogue))
    .use(operatorRetirementsController(catalogue))
    .use(
      operatorRefundsController({
        authenticate,
        refunds,
        store: refundStore(database),
        views: accountViews(database),
        payments: paymentViews(database),
      }),
    )
    .use(operatorPaymentsController({ authenticate, audit, views: paymentViews(database) }))
    .use(
      overviewController({
        authenticate,
        ports,
        processId,
        overview: (period) => readOverview(database, period, firstRequestId),
        days: (period) => readDays(database, period, firstRequestId),
      }),
    )
    .use(
      billingHealthController({
        authenticate,
        now: () => ports.clock.now(),
        billing: billingHealthStore(database),
        absorbed: (period) => readAbsorbed(database, period),
      }),
    )
    .use(
      profitController({
        authenticate,
        audit,
        now: () => ports.clock.now(),
        profit: (question) => readProfit(database, question),
        under: (period) => readUnder(database, period),
        mix: (model, period) => readMix(database, model, period),
        emails: (ids) => readEmails(database, ids),
      }),
    )
    .use(
      exchangeRatesController({
        authenticate,
        rates: exchangeRateStore(database),
        now: () => ports.clock.now(),
        refreshCatalogue,
      }),
    )
    .use(
      backendsController({
        authenticate,
        processId,
        health: ports.health,
        pools: ports.pools,
        catalogue: ports.catalogue,
        members: poolMemberStore(database),
        now: () => ports.clock.now(),
        refreshCatalogue,
      }),
    )
    .use(
      backendHistoryController({
        authenticate,
        history: backendHistoryStore(database, processId),
        now: () => ports.clock.now(),
      }),
    )
    .use(statusNotesController({ authenticate, notes: statusNoteStore(database) }))
    .use(auditController({ authenticate, audit }))
}

const AuditEntry = Type.Object({
  id: integer,
  at: time,
  request_id: text,
  operator: orNull(
    Type.Object({ id: text, email: text }),
    field(
      "Null for the command line, and for a reconciliation, whose `request_id` says so.",
      "Null untuk baris perintah, dan untuk pencocokan buku, seperti kata `request_id`-nya.",
    ),
  ),
  address: orNull(text),
  action: text,
  subject: described(text, field("The id of what was changed.", "Id dari yang diubah.")),
  before: ofAct,
  after: ofAct,
  reason: orNull(text),
})
const AuditQuery = Type.Object({
  ...pageQuery,
  subject: Type.Optional(
    Type.RegExp(/^[^\p{Cc}]{1,200}$/u, { description: field("the id of what was changed", "id dari yang diubah") }),
  ),
})

interface AuditDeps {
  readonly audit: AuditStore
  readonly authenticate: Authenticate
}

const AUDIT_COLUMNS = Object.keys(AuditEntry.properties)

const auditController = ({ audit, authenticate }: AuditDeps) =>
  new Elysia({ name: "operator/audit" })
    .get(
      ...operatorBy(authenticate)(
        "/operator/audit/export.csv",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "What operators did as CSV", id: "Apa yang dilakukan operator, sebagai CSV" },
          query: Type.Object({ subject: AuditQuery.properties.subject, ...csvQuery }),
          media: "text/csv",
        },
        async ({ query: { subject, lang }, operator }) => {
          await audit.exported(operator.act, { list: "audit", filters: { subject } })
          return await csvFile<AuditRow>({
            name: "loket-audit",
            columns: AUDIT_COLUMNS,
            notation: lang,
            cells: (row) => jsonCells(AUDIT_COLUMNS)({ ...auditJson(row), operator: row.operator?.email ?? null }),
            read: ({ limit, after }) => audit.list({ before: after?.id, limit, subject }),
            most: MAX_EXPORTED,
          })
        },
      ),
    )
    .get(
      ...operatorBy(authenticate)(
        "/operator/audit",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "What operators did, the newest first", id: "Apa yang dilakukan operator, dari yang terbaru" },
          query: AuditQuery,
          answer: pageOf(AuditEntry),
        },
        async ({ query }) => {
          const page = readPage(query, [ID])
          if (page instanceof Failure) return page
          const [before] = page.after ?? []
          const rows = await audit.list({
            before: before === undefined ? undefined : BigInt(before),
            limit: page.limit + 1,
            subject: query.subject,
          })
          return pageJson(rows, page, { item: auditJson, placeOf: ({ id }) => [String(id)] })
        },
      ),
    )

const auditJson = ({ operator, address, reason, at, id, requestId, ...row }: AuditRow) => ({
  id: Number(id),
  at: at.toISOString(),
  request_id: requestId,
  operator: operator ?? null,
  address: address ?? null,
  ...row,
  reason: reason ?? null,
})
