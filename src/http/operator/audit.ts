/** `/operator/audit`: what operators did, the newest first. */
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import type { AuditRow, AuditStore } from "../../store/operator/audit.ts"
import { asks } from "../dashboard/contract.ts"
import type { OperatorGate } from "./gate.ts"
import { ID, type PageQuery, pageJson, pageOf, refused } from "../dashboard/page.ts"

export interface AuditDeps {
  readonly audit: AuditStore
  readonly gate: OperatorGate
}

const SUBJECT = /^[^\p{Cc}]{1,200}$/u

export const auditController = ({ audit, gate }: AuditDeps) =>
  new Elysia({ name: "operator/audit" }).get(
    "/operator/audit",
    async ({ request }) => {
      const operator = await gate(request)
      if (operator instanceof Failure) return operator
      const page = pageOf(request.url, [ID])
      if (page instanceof Failure) return page
      const subject = new URL(request.url).searchParams.get("subject") || undefined
      if (subject !== undefined && !SUBJECT.test(subject)) return refused("subject", "an id")
      const [before] = page.after ?? []
      const rows = await audit.list({
        before: before === undefined ? undefined : BigInt(before),
        limit: page.limit + 1,
        subject,
      })
      return pageJson(rows, page, { item: auditJson, placeOf: ({ id }) => [String(id)] })
    },
    asks<PageQuery & { readonly subject?: string }>(),
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
