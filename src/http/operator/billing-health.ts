/** `/operator/billing-health`: what in the house's books needs attention. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { Absorbed, AbsorbedPeriod } from "../../store/operator/absorbed.ts"
import type {
  BillingHealthStore,
  DifferenceRow,
  FlaggedRecord,
  ReconciliationRun,
} from "../../store/operator/billing-health.ts"
import { pageJson, pageQuery, readPage } from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { period, periodOf } from "../dashboard/usage-query.ts"
import { described, field, flag, integer, micro as microShape, oneOf, orNull, pageOf, text, time } from "../shapes.ts"
import { LONGEST_DAYS } from "./overview.ts"

export interface BillingHealthDeps {
  readonly authenticate: Authenticate
  readonly now: () => number
  readonly billing: BillingHealthStore
  readonly absorbed: (period: AbsorbedPeriod) => Promise<Absorbed>
}

/** How far back the absorbed amounts go, unless asked otherwise. */
const ABSORBED_DAYS = 30
/** Of reconciliations and of what they found. */
const SHOWN = 20
const REQUEST_ID = /^req_[A-Za-z0-9_-]{1,40}$/

const Flagged = Type.Object({
  request_id: text,
  kind: oneOf(["usage_missing", "billing_error", "fenced", "excess"]),
  account_id: text,
  key_id: text,
  model: text,
  error_code: orNull(text),
  absorbed_micro: microShape,
  created_at: time,
})
const Sums = Type.Object({
  usage_missing: integer,
  billing_error: integer,
  fenced: integer,
  excess: integer,
  absorbed_micro: microShape,
  fenced_micro: microShape,
  excess_micro: microShape,
})
const AbsorbedShape = Type.Object({
  from: time,
  to: time,
  sum_micro: described(
    microShape,
    field(
      "What `house:absorbed` grew by: the accounts and the others together.",
      "Pertambahan `house:absorbed`: dari akun-akun ini dan yang lain bersama-sama.",
    ),
  ),
  accounts: Type.Array(
    Type.Object({
      account_id: text,
      email: text,
      absorbed_micro: microShape,
      calls: integer,
      newest_at: time,
      request_ids: Type.Array(text),
      active_key_count: integer,
      frozen: flag,
      deleted_at: orNull(time),
    }),
  ),
  others: Type.Object({ accounts: integer, absorbed_micro: microShape }),
})
const Reconciliation = Type.Object({
  runs: Type.Array(
    Type.Object({
      id: integer,
      started_at: time,
      ended_at: orNull(time),
      differences: orNull(integer),
      not_compared: orNull(integer),
      broken_off: described(
        flag,
        field(
          "It has not ended and will not: its process is closed, or it began more than a day ago.",
          "Belum berakhir dan tidak akan berakhir: prosesnya sudah ditutup, atau dimulai lebih dari sehari lalu.",
        ),
      ),
    }),
  ),
  differences: Type.Array(
    Type.Object({
      id: integer,
      reconciliation_id: integer,
      claim: text,
      account_id: orNull(text),
      figures: Type.Unknown({
        description: field(
          "An object; its fields depend on the claim.",
          "Objek; isinya bergantung pada jenis temuannya.",
        ),
      }),
      mended: flag,
    }),
  ),
})

export const billingHealthController = ({ authenticate, now, billing, absorbed }: BillingHealthDeps) =>
  new Elysia({ name: "operator/billing-health" }).get(
    ...operatorBy(authenticate)(
      "/operator/billing-health",
      {
        tag: "Operator",
        role: "support",
        summary: {
          en: "Flagged records, what the house bore for whom, and what reconciliations found",
          id: "Catatan yang ditandai, apa yang ditanggung rumah dan untuk siapa, dan temuan rekonsiliasi",
        },
        description: {
          en: "`from` and `to` are of what was absorbed: 30 days unless they are given, 92 at most.",
          id: "`from` dan `to` berlaku untuk yang ditanggung: 30 hari jika tidak disebut, paling lama 92.",
        },
        query: Type.Object({ ...pageQuery, ...period }),
        answer: Type.Object({
          ...pageOf(Flagged).properties,
          sums: Sums,
          absorbed: AbsorbedShape,
          reconciliation: Reconciliation,
        }),
      },
      async ({ query, operator }) => {
        const page = readPage(query, [REQUEST_ID])
        if (page instanceof Failure) return page
        const [before] = page.after ?? []
        const terms = { timeZone: operator.timeZone, now: now(), longestDays: LONGEST_DAYS, days: ABSORBED_DAYS }
        const time = periodOf(query, terms)
        if (time instanceof Failure) return time
        const [bearing, rows, sums, runs, differences] = await Promise.all([
          absorbed(time),
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
          absorbed: { from: time.from.toISOString(), to: time.to.toISOString(), ...absorbedJson(bearing) },
          reconciliation: { runs: runs.map(runJson), differences: differences.map(differenceJson) },
        }
      },
    ),
  )

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
  broken_off: run.brokenOff,
})

const differenceJson = (difference: DifferenceRow) => ({
  id: Number(difference.id),
  reconciliation_id: Number(difference.reconciliationId),
  claim: difference.claim,
  account_id: difference.accountId ?? null,
  figures: difference.figures,
  mended: difference.mended,
})
