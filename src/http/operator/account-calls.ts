/** `/operator/accounts/:id/usage`: an account's calls, by the questions that its owner puts to `/usage`. */
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import type { AccountViews } from "../../store/operator/accounts.ts"
import type { AuditStore } from "../../store/operator/audit.ts"
import type { UsageStore } from "../../store/usage.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { exportQuery, recordsQuery, usageFilter } from "../dashboard/usage-query.ts"
import { callOf, callsOf } from "../dashboard/usage.ts"
import { usageCsv, usageDetail, usageRecord } from "../dashboard/usage-rows.ts"
import { pageOf } from "../shapes.ts"
import { ACCOUNT_ID } from "./accounts.ts"

export interface AccountCallsDeps {
  readonly views: Pick<AccountViews, "find">
  readonly usage: UsageStore
  readonly audit: Pick<AuditStore, "exported">
  readonly authenticate: Authenticate
}

export const accountCallsController = ({ views, usage, audit, authenticate }: AccountCallsDeps) => {
  const operators = operatorBy(authenticate)
  const found = async (id: string) =>
    (ACCOUNT_ID.test(id) ? await views.find(id) : undefined) ?? new Failure("resource.not_found")
  return new Elysia({ name: "operator/account-calls" })
    .get(
      ...operators(
        "/operator/accounts/:id/usage",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "An account's calls, the newest first; days are those of the operator's time zone",
            id: "Panggilan sebuah akun, dari yang terbaru; hari menurut zona waktu operator",
          },
          query: recordsQuery,
          answer: pageOf(usageRecord),
        },
        async ({ params, query, operator: { timeZone } }) => {
          const account = await found(params.id)
          return account instanceof Failure ? account : await callsOf(usage, { accountId: account.id, timeZone }, query)
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id/usage/export.csv",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "An account's calls as CSV", id: "Panggilan sebuah akun, sebagai CSV" },
          query: exportQuery,
          media: "text/csv",
        },
        async ({ params, query: { lang, ...query }, operator: { timeZone, act } }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const filter = usageFilter({ accountId: account.id, timeZone }, query)
          if (filter instanceof Failure) return filter
          await audit.exported(act, { list: "calls", accountId: account.id, filters: query })
          return await usageCsv(usage, filter, lang)
        },
      ),
    )
    .get(
      ...operators(
        "/operator/accounts/:id/usage/:request_id",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "One of an account's calls", id: "Satu panggilan sebuah akun" },
          answer: usageDetail,
        },
        async ({ params }) => {
          const account = await found(params.id)
          return account instanceof Failure ? account : await callOf(usage, account.id, params.request_id)
        },
      ),
    )
}
