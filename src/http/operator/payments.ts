/** `/operator/top-ups` and `/operator/payment-problems`: what was paid, and what came and could not be credited. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import { isTopUpId } from "../../payments/top-ups.ts"
import type { OwnedTopUp, PaymentViews, StoredProblem } from "../../store/operator/payments.ts"
import { problemKinds } from "../../store/payment-problems.ts"
import type { AuditStore } from "../../store/operator/audit.ts"
import {
  csvFile,
  csvQuery,
  ID,
  jsonCells,
  MAX_EXPORTED,
  pageJson,
  pageQuery,
  readPage,
  Reason,
} from "../dashboard/page.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { topUpShape, topUpStatuses, topUpSummary } from "../dashboard/top-ups.ts"
import { refused } from "../route.ts"
import { described, field, integer, micro as microShape, oneOf, orNull, pageOf, text, time } from "../shapes.ts"
import { ACCOUNT_ID } from "./accounts.ts"

export interface PaymentsDeps {
  readonly views: PaymentViews
  readonly audit: Pick<AuditStore, "exported">
  readonly authenticate: Authenticate
}

const topUpFilters = {
  account_id: Type.Optional(Type.RegExp(ACCOUNT_ID, { description: field("an account's id", "id sebuah akun") })),
  status: Type.Optional(oneOf(topUpStatuses)),
}
const OwnedTopUpShape = Type.Intersect([topUpShape, Type.Object({ account_id: text, email: text })])
const Problem = Type.Object(
  {
    id: integer,
    provider: text,
    kind: oneOf(problemKinds),
    reference: text,
    top_up_id: orNull(text),
    account_id: orNull(text, field("Whose top-up it is.", "Pemilik isi saldo ini.")),
    paid: described(text, field("As the provider says it.", "Menurut penyedia.")),
    over_micro: Type.Optional(
      described(
        microShape,
        field(
          "What of it is over all that was paid, and not booked; not there where nothing is, or where it is not known.",
          "Bagiannya yang melebihi semua yang dibayar, dan tidak dibukukan; tidak ada jika tidak ada, atau tidak diketahui.",
        ),
      ),
    ),
    first_seen_at: time,
    last_seen_at: time,
    resolved_at: orNull(time),
    resolved_by: orNull(text),
    note: orNull(text),
  },
  { $id: "PaymentProblem" },
)

const { breakdown: _, ...topUpFields } = topUpShape.properties
const TOP_UP_COLUMNS = [
  "account_id",
  "email",
  ...Object.keys({ ...topUpFields, ...topUpShape.properties.breakdown.properties }),
]

export const operatorPaymentsController = ({ views, audit, authenticate }: PaymentsDeps) => {
  const operators = operatorBy(authenticate)
  return new Elysia({ name: "operator/payments" })
    .get(
      ...operators(
        "/operator/top-ups",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Everybody's top-ups or an account's, the newest first",
            id: "Isi saldo semua akun atau satu akun, dari yang terbaru",
          },
          query: Type.Object({ ...pageQuery, ...topUpFilters }),
          answer: pageOf(OwnedTopUpShape),
        },
        async ({ query }) => {
          const page = readPage(query, [/^top_/])
          if (page instanceof Failure) return page
          const [after] = page.after ?? []
          if (after !== undefined && !isTopUpId(after))
            return refused("cursor", pageQuery.cursor.description ?? "a cursor")
          const { account_id: accountId, status } = query
          const rows = await views.topUps({ accountId, status, after, limit: page.limit + 1 })
          return pageJson(rows, page, { item: topUpJson, placeOf: ({ id }) => [id] })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/top-ups/export.csv",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "The same as CSV", id: "Yang sama sebagai CSV" },
          query: Type.Object({ ...topUpFilters, ...csvQuery }),
          media: "text/csv",
        },
        async ({ query: { account_id: accountId, status, lang }, operator }) => {
          await audit.exported(operator.act, { list: "top-ups", filters: { account_id: accountId, status } })
          return await csvFile<OwnedTopUp>({
            name: "loket-top-ups",
            columns: TOP_UP_COLUMNS,
            notation: lang,
            cells: (topUp) => {
              const { breakdown, ...json } = topUpJson(topUp)
              return jsonCells(TOP_UP_COLUMNS)({ ...json, ...breakdown })
            },
            read: ({ limit, after }) => views.topUps({ accountId, status, after: after?.id, limit }),
            most: MAX_EXPORTED,
          })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/payment-problems",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Payments that need an operator: not credited, taken back by a bank, or for a closed account",
            id: "Pembayaran yang memerlukan operator: tidak dapat dikreditkan, ditarik kembali oleh bank, atau untuk akun yang ditutup",
          },
          query: Type.Object({
            ...pageQuery,
            resolved: Type.Optional(
              Type.Boolean({
                description: field(
                  "true for resolved ones too, or false",
                  "true agar yang sudah selesai ikut, atau false",
                ),
              }),
            ),
          }),
          answer: pageOf(Problem),
        },
        async ({ query }) => {
          const page = readPage(query, [ID])
          if (page instanceof Failure) return page
          const [before] = page.after ?? []
          const rows = await views.problems({
            all: query.resolved === true,
            before: before === undefined ? undefined : BigInt(before),
            limit: page.limit + 1,
          })
          return pageJson(rows, page, { item: problemJson, placeOf: ({ id }) => [String(id)] })
        },
      ),
    )
    .post(
      ...operators(
        "/operator/payment-problems/:id/resolve",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Say what was done about one", id: "Catat apa yang sudah dilakukan dengan satu di antaranya" },
          body: Type.Object({ note: Reason }),
          answer: Problem,
        },
        async ({ params, body, operator }) => {
          const id = ID.test(params.id) ? BigInt(params.id) : undefined
          if (id === undefined || (await views.problem(id)) === undefined) return new Failure("resource.not_found")
          await views.resolve(id, body.note, operator.act)
          const problem = await views.problem(id)
          return problem === undefined ? new Failure("resource.not_found") : problemJson(problem)
        },
      ),
    )
}

export const topUpJson = (topUp: OwnedTopUp) => ({
  ...topUpSummary(topUp),
  account_id: topUp.accountId,
  email: topUp.email,
})

export const problemJson = (problem: StoredProblem) => ({
  id: Number(problem.id),
  provider: problem.provider,
  kind: problem.kind,
  reference: problem.reference,
  top_up_id: problem.topUpId ?? null,
  account_id: problem.accountId ?? null,
  paid: problem.paid,
  ...(problem.overMicro !== undefined && { over_micro: microToJson(problem.overMicro) }),
  first_seen_at: problem.firstSeenAt.toISOString(),
  last_seen_at: problem.lastSeenAt.toISOString(),
  resolved_at: problem.resolution?.at.toISOString() ?? null,
  resolved_by: problem.resolution?.by ?? null,
  note: problem.resolution?.note ?? null,
})
