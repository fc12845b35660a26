/** `/operator/top-ups` and `/operator/payment-problems`: what was paid, and what came and could not be credited. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { isTopUpId } from "../../payments/top-ups.ts"
import type { OwnedTopUp, PaymentViews, StoredProblem } from "../../store/operator/payments.ts"
import { bodyReader } from "../dashboard/body.ts"
import { asks, takes } from "../dashboard/contract.ts"
import { topUpSummary } from "../dashboard/top-ups.ts"
import type { OperatorGate } from "./gate.ts"
import { ID, type PageQuery, pageJson, pageOf, Reason, refused } from "../dashboard/page.ts"

export interface PaymentsDeps {
  readonly views: PaymentViews
  readonly gate: OperatorGate
}

const STATUSES = ["pending", "paid", "expired"] as const

const readNote = bodyReader(Type.Object({ note: Reason }))

export const operatorPaymentsController = ({ views, gate }: PaymentsDeps) =>
  new Elysia({ name: "operator/payments" })
    .get(
      "/operator/top-ups",
      async ({ request }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const page = pageOf(request.url, [/^top_/])
        if (page instanceof Failure) return page
        const [after] = page.after ?? []
        if (after !== undefined && !isTopUpId(after)) return refused("cursor", "a next_cursor as it was given")
        const asked = new URL(request.url).searchParams.get("status") || undefined
        const status = STATUSES.find((known) => known === asked)
        if (asked !== undefined && status === undefined) return refused("status", `one of ${STATUSES.join(", ")}`)
        const rows = await views.topUps({ status, after, limit: page.limit + 1 })
        return pageJson(rows, page, { item: topUpJson, placeOf: ({ id }) => [id] })
      },
      asks<PageQuery & { readonly status?: string }>(),
    )
    .get(
      "/operator/payment-problems",
      async ({ request }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const page = pageOf(request.url, [ID])
        if (page instanceof Failure) return page
        const asked = new URL(request.url).searchParams.get("resolved") || "false"
        if (asked !== "true" && asked !== "false") return refused("resolved", "true or false")
        const [before] = page.after ?? []
        const rows = await views.problems({
          all: asked === "true",
          before: before === undefined ? undefined : BigInt(before),
          limit: page.limit + 1,
        })
        return pageJson(rows, page, { item: problemJson, placeOf: ({ id }) => [String(id)] })
      },
      asks<PageQuery & { readonly resolved?: "true" | "false" }>(),
    )
    .post(
      "/operator/payment-problems/:id/resolve",
      async ({ request, params }) => {
        const operator = await gate(request)
        if (operator instanceof Failure) return operator
        const body = await readNote(request)
        if (body instanceof Failure) return body
        const id = ID.test(params.id) ? BigInt(params.id) : undefined
        if (id === undefined || (await views.problem(id)) === undefined) return new Failure("resource.not_found")
        await views.resolve(id, body.note, operator.act)
        const problem = await views.problem(id)
        return problem === undefined ? new Failure("resource.not_found") : problemJson(problem)
      },
      takes(readNote),
    )

const topUpJson = (topUp: OwnedTopUp) => ({
  ...topUpSummary(topUp),
  account_id: topUp.accountId,
  email: topUp.email,
})

const problemJson = (problem: StoredProblem) => ({
  id: Number(problem.id),
  provider: problem.provider,
  kind: problem.kind,
  reference: problem.reference,
  top_up_id: problem.topUpId ?? null,
  account_id: problem.accountId ?? null,
  /** As the provider says it. */
  paid: problem.paid,
  first_seen_at: problem.firstSeenAt.toISOString(),
  last_seen_at: problem.lastSeenAt.toISOString(),
  resolved_at: problem.resolution?.at.toISOString() ?? null,
  resolved_by: problem.resolution?.by ?? null,
  note: problem.resolution?.note ?? null,
})
