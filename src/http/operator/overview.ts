/** `/operator/overview`: how the house does. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { plus, sumToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { GatewayPorts } from "../../gateway/ports.ts"
import type { CallPeriod } from "../../store/operator/overview.ts"
import type { DaySums, Overview } from "../../store/operator/overview.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { period, periodOf } from "../dashboard/usage-query.ts"
import { described, field, integer, listOf, micro as microShape, orNull, text, time } from "../shapes.ts"

export interface OverviewDeps {
  readonly authenticate: Authenticate
  readonly overview: (period: CallPeriod) => Promise<Overview>
  readonly days: (period: CallPeriod & { readonly timeZone: string }) => Promise<readonly DaySums[]>
  readonly ports: Pick<GatewayPorts, "actors" | "inFlight" | "clock">
  readonly processId: string
}

export const LONGEST_DAYS = 92

const counts = Type.Record(Type.String(), Type.Integer())
const OverviewShape = Type.Object({
  from: time,
  to: time,
  calls: Type.Object({ total: integer, by_status: counts, by_error_code: counts }),
  revenue_micro: described(
    microShape,
    field(
      "Charges and service fees, less the fees that went back.",
      "Biaya panggilan dan biaya layanan, dikurangi biaya yang dikembalikan.",
    ),
  ),
  charged_micro: microShape,
  service_fees_micro: described(
    microShape,
    field(
      "Of top-ups that were paid, less those that went back in refunds.",
      "Dari isi saldo yang lunas, dikurangi yang dikembalikan lewat pengembalian dana.",
    ),
  ),
  absorbed_micro: microShape,
  top_ups: Type.Object({ count: integer, amount_micro: microShape }),
  adjusted_micro: described(microShape, field("Given less taken.", "Yang diberikan dikurangi yang diambil.")),
  trial_micro: described(microShape, field("Given as trial credit.", "Yang diberikan sebagai kredit percobaan.")),
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
    { description: field("Of all processes.", "Dari semua proses.") },
  ),
  this_process: Type.Object({
    id: text,
    in_flight: integer,
    ledger_lag_ms: orNull(integer),
    ledger_backlog: orNull(integer),
  }),
})

const DayShape = Type.Object(
  {
    day: text,
    revenue_micro: described(
      microShape,
      field(
        "Charges and service fees, less the fees that went back; may be below zero.",
        "Biaya panggilan dan biaya layanan, dikurangi biaya yang dikembalikan; dapat di bawah nol.",
      ),
    ),
    calls: integer,
    new_accounts: integer,
    active_accounts: described(
      integer,
      field("Accounts of which a call was opened on that day.", "Akun dengan panggilan yang dibuka pada hari itu."),
    ),
  },
  { $id: "OverviewDay" },
)

export const overviewController = ({ authenticate, overview, days, ports, processId }: OverviewDeps) =>
  new Elysia({ name: "operator/overview" })
    .get(
      ...operatorBy(authenticate)(
        "/operator/overview/days",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "Revenue, calls and customers by day", id: "Pendapatan, panggilan, dan pelanggan per hari" },
          description: {
            en: "Without a time it is the last day; at most 92 days, of the operator's own time zone. Days on which nothing was are left out.",
            id: "Tanpa waktu, sehari terakhir; paling lama 92 hari, menurut zona waktu operator. Hari tanpa kegiatan tidak disebut.",
          },
          query: Type.Object(period),
          answer: listOf(DayShape),
        },
        async ({ query, operator }) => {
          const { timeZone } = operator
          const time = periodOf(query, { timeZone, now: ports.clock.now(), longestDays: LONGEST_DAYS })
          if (time instanceof Failure) return time
          return { data: (await days({ ...time, timeZone })).map(dayJson) }
        },
      ),
    )
    .get(
      ...operatorBy(authenticate)(
        "/operator/overview",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "What the house made in a time, and what stands now",
            id: "Hasil usaha dalam suatu waktu, dan keadaan saat ini",
          },
          description: {
            en: "Without a time it is the last day; at most 92 days. Under `this_process` is what only the process that answers knows.",
            id: "Tanpa waktu, sehari terakhir; paling lama 92 hari. `this_process` berisi yang hanya diketahui proses yang menjawab.",
          },
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
              in_flight: ports.inFlight.size,
              ledger_lag_ms: ledger instanceof Failure ? null : Math.round(ledger.lagMs),
              ledger_backlog: ledger instanceof Failure ? null : ledger.backlog,
            },
          }
        },
      ),
    )

const dayJson = ({ day, calls, revenueMicro, newAccounts, activeAccounts }: DaySums) => ({
  day,
  revenue_micro: sumToJson(revenueMicro),
  calls,
  new_accounts: newAccounts,
  active_accounts: activeAccounts,
})

const overviewJson = (sums: Overview) => ({
  calls: { total: sums.calls, by_status: sums.byStatus, by_error_code: sums.byErrorCode },
  revenue_micro: sumToJson(plus(sums.chargedMicro, sums.serviceFeesMicro)),
  charged_micro: sumToJson(sums.chargedMicro),
  service_fees_micro: sumToJson(sums.serviceFeesMicro),
  absorbed_micro: sumToJson(sums.absorbedMicro),
  top_ups: { count: sums.topUps, amount_micro: sumToJson(sums.toppedUpMicro) },
  adjusted_micro: sumToJson(sums.adjustedMicro),
  trial_micro: sumToJson(sums.trialMicro),
  new_accounts: sums.newAccounts,
  now: {
    accounts: sums.now.accounts,
    frozen_accounts: sums.now.frozenAccounts,
    balances_micro: sumToJson(sums.now.balancesMicro),
    held_micro: sumToJson(sums.now.heldMicro),
    open_calls: sums.now.openCalls,
    processes: sums.now.processes,
  },
})
