/** `/operator/overview`: how the house does. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson, plus } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import type { CallPeriod } from "../../store/operator/call-hours.ts"
import type { Overview } from "../../store/operator/overview.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { period, periodOf } from "../dashboard/usage-query.ts"
import { described, integer, micro as microShape, orNull, text, time } from "../shapes.ts"

export interface OverviewDeps {
  readonly authenticate: Authenticate
  readonly overview: (period: CallPeriod) => Promise<Overview>
  readonly ports: Pick<GatewayPorts, "actors" | "underWay" | "clock">
  readonly processId: string
}

export const LONGEST_DAYS = 92

const counts = Type.Record(Type.String(), Type.Integer())
const OverviewShape = Type.Object({
  from: time,
  to: time,
  calls: Type.Object({ total: integer, by_status: counts, by_error_code: counts }),
  revenue_micro: described(microShape, "Charges and service fees, less the fees that went back."),
  charged_micro: microShape,
  service_fees_micro: described(microShape, "Of top-ups that were paid, less those that went back in refunds."),
  absorbed_micro: microShape,
  top_ups: Type.Object({ count: integer, amount_micro: microShape }),
  adjusted_micro: described(microShape, "Given less taken."),
  new_accounts: integer,
  now: Type.Object(
    {
      accounts: integer,
      frozen_accounts: integer,
      balances_micro: microShape,
      held_micro: microShape,
      open_calls: integer,
      processes: integer,
    },
    { description: "Of all processes." },
  ),
  this_process: Type.Object({
    id: text,
    in_flight: integer,
    ledger_lag_ms: orNull(integer),
    ledger_backlog: orNull(integer),
  }),
})

export const overviewController = ({ authenticate, overview, ports, processId }: OverviewDeps) =>
  new Elysia({ name: "operator/overview" }).get(
    ...operatorBy(authenticate)(
      "/operator/overview",
      {
        tag: "Operator",
        role: "support",
        summary: "What the house made in a time, and what stands now",
        description:
          "Without a time it is the last day; at most 92 days. Under `this_process` is what only the process that answers knows.",
        query: Type.Object(period),
        answer: OverviewShape,
      },
      async ({ query, operator }) => {
        const terms = { timeZone: operator.timeZone, now: ports.clock.now(), longestDays: LONGEST_DAYS }
        const time = periodOf(query, terms)
        if (time instanceof Failure) return time
        const ledger = await ports.actors.ledger.view()
        const sums = await overview(time)
        return {
          from: time.from.toISOString(),
          to: time.to.toISOString(),
          ...overviewJson(sums),
          this_process: {
            id: processId,
            in_flight: ports.underWay.size,
            ledger_lag_ms: ledger instanceof Failure ? null : Math.round(ledger.lagMs),
            ledger_backlog: ledger instanceof Failure ? null : ledger.backlog,
          },
        }
      },
    ),
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
  now: {
    accounts: sums.now.accounts,
    frozen_accounts: sums.now.frozenAccounts,
    balances_micro: microToJson(sums.now.balancesMicro),
    held_micro: microToJson(sums.now.heldMicro),
    open_calls: sums.now.openCalls,
    processes: sums.now.processes,
  },
})
