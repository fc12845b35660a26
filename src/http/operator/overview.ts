/** `/operator/overview` and `/operator/billing-health`: how the house does, and what in its books wants a look. */
import { Elysia } from "elysia"
import { microToJson, plus } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import type { Absorbed, AbsorbedPeriod } from "../../store/operator/absorbed.ts"
import type {
  BillingHealthStore,
  DifferenceRow,
  FlaggedRecord,
  ReconciliationRun,
} from "../../store/operator/billing-health.ts"
import type { Overview, Period } from "../../store/operator/overview.ts"
import { asks } from "../dashboard/contract.ts"
import { periodOf } from "../dashboard/usage-query.ts"
import type { OperatorGate } from "./gate.ts"
import { type PageQuery, pageJson, pageOf } from "../dashboard/page.ts"

export interface OverviewDeps {
  readonly gate: OperatorGate
  readonly overview: (period: Period) => Promise<Overview>
  readonly billing: BillingHealthStore
  readonly absorbed: (period: AbsorbedPeriod) => Promise<Absorbed>
  readonly ports: Pick<GatewayPorts, "actors" | "underWay" | "clock">
  readonly processId: string
}

const LONGEST_DAYS = 92
/** How far back it is told whom the house bore something for, unless asked otherwise. */
const ABSORBED_DAYS = 30
/** Of reconciliations and of what they found. */
const SHOWN = 20
const REQUEST_ID = /^req_[A-Za-z0-9_-]{1,40}$/

export const overviewController = ({ gate, overview, billing, absorbed, ports, processId }: OverviewDeps) =>
  new Elysia({ name: "operator/overview" })
    .get(
      "/operator/overview",
      async ({ request }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const terms = { timeZone: operator.timeZone, now: ports.clock.now(), longestDays: LONGEST_DAYS }
        const period = periodOf(request.url, terms)
        if (period instanceof Failure) return period
        const ledger = await ports.actors.ledger.view()
        const sums = await overview(period)
        return {
          from: period.from.toISOString(),
          to: period.to.toISOString(),
          ...overviewJson(sums),
          this_process: {
            id: processId,
            in_flight: ports.underWay.size,
            ledger_lag_ms: ledger instanceof Failure ? null : Math.round(ledger.lagMs),
            ledger_backlog: ledger instanceof Failure ? null : ledger.backlog,
          },
        }
      },
      asks<{ readonly from?: string; readonly to?: string }>(),
    )
    .get(
      "/operator/billing-health",
      async ({ request }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const page = pageOf(request.url, [REQUEST_ID])
        if (page instanceof Failure) return page
        const [before] = page.after ?? []
        const terms = {
          timeZone: operator.timeZone,
          now: ports.clock.now(),
          longestDays: LONGEST_DAYS,
          days: ABSORBED_DAYS,
        }
        const period = periodOf(request.url, terms)
        if (period instanceof Failure) return period
        const [bearing, rows, sums, runs, differences] = await Promise.all([
          absorbed(period),
          billing.flagged({ before, limit: page.limit + 1 }),
          billing.sums(),
          billing.runs(SHOWN),
          billing.differences(SHOWN),
        ])
        return {
          ...pageJson(rows, page, { item: flaggedJson, placeOf: ({ requestId }) => [requestId] }),
          sums: {
            usage_missing: sums.byKind.usage_missing ?? 0,
            billing_error: sums.byKind.billing_error ?? 0,
            fenced: sums.byKind.fenced ?? 0,
            excess: sums.byKind.excess ?? 0,
            absorbed_micro: microToJson(sums.absorbedMicro),
            fenced_micro: microToJson(sums.fencedMicro),
            excess_micro: microToJson(sums.excessMicro),
          },
          absorbed: { from: period.from.toISOString(), to: period.to.toISOString(), ...absorbedJson(bearing) },
          reconciliation: { runs: runs.map(runJson), differences: differences.map(differenceJson) },
        }
      },
      asks<PageQuery & { readonly from?: string; readonly to?: string }>(),
    )

const overviewJson = (sums: Overview) => ({
  calls: { total: sums.calls, by_status: sums.byStatus, by_error_code: sums.byErrorCode },
  revenue_micro: microToJson(plus(sums.chargedMicro, sums.serviceFeesMicro)),
  charged_micro: microToJson(sums.chargedMicro),
  service_fees_micro: microToJson(sums.serviceFeesMicro),
  absorbed_micro: microToJson(sums.absorbedMicro),
  top_ups: { count: sums.topUps, amount_micro: microToJson(sums.toppedUpMicro) },
  adjusted_micro: microToJson(sums.adjustedMicro),
  new_accounts: sums.newAccounts,
  /** Of all processes. */
  now: {
    accounts: sums.now.accounts,
    frozen_accounts: sums.now.frozenAccounts,
    balances_micro: microToJson(sums.now.balancesMicro),
    held_micro: microToJson(sums.now.heldMicro),
    open_calls: sums.now.openCalls,
    processes: sums.now.processes,
  },
})

/** The accounts and the others add up to `sum_micro`, by which `house:absorbed` grew. */
const absorbedJson = ({ accounts, absorbedMicro, others }: Absorbed) => ({
  sum_micro: microToJson(absorbedMicro),
  accounts: accounts.map((account) => ({
    account_id: account.accountId,
    email: account.email,
    absorbed_micro: microToJson(account.absorbedMicro),
    calls: account.calls,
    newest_at: account.newestAt.toISOString(),
    request_ids: account.requestIds,
    active_key_count: account.activeKeys,
    frozen: account.frozen,
    deleted_at: account.deletedAt?.toISOString() ?? null,
  })),
  others: { accounts: others.accounts, absorbed_micro: microToJson(others.absorbedMicro) },
})

const flaggedJson = (record: FlaggedRecord) => ({
  request_id: record.requestId,
  kind: record.kind,
  account_id: record.accountId,
  key_id: record.keyId,
  model: record.model,
  error_code: record.errorCode ?? null,
  absorbed_micro: microToJson(record.absorbedMicro),
  created_at: record.openedAt.toISOString(),
})

const runJson = (run: ReconciliationRun) => ({
  id: Number(run.id),
  started_at: run.startedAt.toISOString(),
  ended_at: run.endedAt?.toISOString() ?? null,
  differences: run.differences ?? null,
  not_compared: run.notCompared ?? null,
})

const differenceJson = (difference: DifferenceRow) => ({
  id: Number(difference.id),
  reconciliation_id: Number(difference.reconciliationId),
  claim: difference.claim,
  account_id: difference.accountId ?? null,
  figures: difference.figures,
  mended: difference.mended,
})
