/** An account as its customer sees it, for operators: its calls, its keys, and the dashboard itself. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { AccountChanged } from "../../accounts/in-force.ts"
import type { Keys } from "../../accounts/keys.ts"
import { Failure } from "../../failure/failure.ts"
import type { AccountViews } from "../../store/operator/accounts.ts"
import type { AuditStore } from "../../store/operator/audit.ts"
import { SEEING_MINUTES, type SessionStore } from "../../store/sessions.ts"
import type { UsageStore } from "../../store/usage.ts"
import { keyJson, keyShape } from "../dashboard/key-json.ts"
import { KEY_ID, keyAfter, keyPlace, STATUS } from "../dashboard/keys.ts"
import { pageJson, pageQuery, readPage, Reason } from "../dashboard/page.ts"
import { type Authenticate, operatorBy, signedInBy } from "../dashboard/session.ts"
import { exportQuery, recordsQuery, usageFilter } from "../dashboard/usage-query.ts"
import { usageCsv, usageDetail, usagePage } from "../dashboard/usage-rows.ts"
import { callOf, callsOf } from "../dashboard/usage.ts"
import { pageOf, time } from "../shapes.ts"
import { ACCOUNT_ID } from "./accounts.ts"

interface AccountCallsDeps {
  readonly views: Pick<AccountViews, "find">
  readonly usage: UsageStore
  readonly keys: Pick<Keys, "list" | "revoke">
  readonly audit: Pick<AuditStore, "exported">
  readonly authenticate: Authenticate
}

/** `/operator/accounts/:id/usage`, by the questions that its owner puts to `/usage`; and `/operator/accounts/:id/keys`, each of which can be revoked. */
export const accountCallsController = ({ views, usage, keys, audit, authenticate }: AccountCallsDeps) => {
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
          answer: usagePage,
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
          return await usageCsv(usage, filter, { notation: lang, timeZone })
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
    .get(
      ...operators(
        "/operator/accounts/:id/keys",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "An account's keys: those that work first, the newest first",
            id: "Kunci sebuah akun: yang berlaku lebih dulu, dari yang terbaru",
          },
          query: Type.Object(pageQuery),
          answer: pageOf(keyShape),
        },
        async ({ params, query }) => {
          const page = readPage(query, [STATUS, KEY_ID])
          if (page instanceof Failure) return page
          const account = await found(params.id)
          if (account instanceof Failure) return account
          const after = keyAfter(page)
          const rows = await keys.list({ accountId: account.id }, { after, limit: page.limit + 1 })
          return pageJson(rows, page, { item: keyJson, placeOf: keyPlace })
        },
      ),
    )
    .post(
      ...operators(
        "/operator/accounts/:id/keys/:key/revoke",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Revoke one of an account's keys, for good, as when it has leaked",
            id: "Cabut satu kunci sebuah akun untuk selamanya, seperti saat bocor",
          },
          body: Type.Object({ reason: Reason }),
          answer: keyShape,
        },
        async ({ params, body, operator }) => {
          const account = await found(params.id)
          if (account instanceof Failure) return account
          if (!KEY_ID.test(params.key)) return new Failure("resource.not_found")
          const by = { act: operator.act, reason: body.reason }
          const record = await keys.revoke({ accountId: account.id, keyId: params.key }, by)
          return record instanceof Failure ? record : keyJson(record)
        },
      ),
    )
}

interface SeeAsDeps {
  readonly sessions: Pick<SessionStore, "seeAs" | "endSeeing">
  /** Ends the streams of events of who may not read them any more. */
  readonly accountChanged: AccountChanged
  readonly authenticate: Authenticate
}

/** Seeing an account as its customer does: in the operator's own session, read only, for a while, and known to the customer. */
export const seeAsController = ({ sessions, accountChanged, authenticate }: SeeAsDeps) =>
  new Elysia({ name: "operator/see-as" })
    .post(
      ...operatorBy(authenticate)(
        "/operator/accounts/:id/see-as",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "See an account as its customer does, in this session",
            id: "Lihat akun seperti pelanggannya, dalam sesi ini",
          },
          description: {
            en: `For ${SEEING_MINUTES} minutes every route of whoever is signed in reads that account. Changes are 403 \`auth.read_only\`, and so are the operators' own. The audit log has its beginning, with the reason, and its end, and the customer's history both. An operator's account cannot be seen.`,
            id: `Selama ${SEEING_MINUTES} menit, setiap alamat milik yang masuk membaca akun itu. Perubahan dijawab 403 \`auth.read_only\`, begitu juga alamat milik operator. Log audit memuat awalnya, dengan alasannya, dan akhirnya; riwayat pelanggan memuat keduanya. Akun operator tidak dapat dilihat.`,
          },
          body: Type.Object({ reason: Reason }),
          answer: Type.Object({ until: time }),
        },
        async ({ params, body, operator, session }) => {
          if (!ACCOUNT_ID.test(params.id)) return new Failure("resource.not_found")
          const { id, personId: accountId } = session
          const by = { act: operator.act, reason: body.reason }
          const until = await sessions.seeAs({ id, accountId }, params.id, by)
          if (until === undefined) {
            const message = "Only a customer's account that is not deleted can be seen; an operator's cannot."
            return new Failure("request.invalid", { message })
          }
          accountChanged(params.id)
          return { until: until.toISOString() }
        },
      ),
    )
    .post(
      ...signedInBy(authenticate)(
        "/auth/see-as/end",
        {
          may: "self",
          whenSeen: "own",
          tag: "Operator",
          summary: {
            en: "End seeing an account as its customer does",
            id: "Berhenti melihat akun seperti pelanggannya",
          },
          status: 204,
        },
        async ({ session }) => {
          const seen = await sessions.endSeeing(session.id)
          if (seen !== undefined) accountChanged(seen)
          return undefined
        },
      ),
    )
