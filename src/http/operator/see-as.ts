/** Seeing an account as its customer does: in the operator's own session, read only, for a while, and known to the customer. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { AccountChanged } from "../../accounts/in-force.ts"
import { Failure } from "../../failure/failure.ts"
import { SEEING_MINUTES, type SessionStore } from "../../store/sessions.ts"
import { Reason } from "../dashboard/page.ts"
import { type Authenticate, operatorBy, signedInBy } from "../dashboard/session.ts"
import { time } from "../shapes.ts"
import { ACCOUNT_ID } from "./accounts.ts"

export interface SeeAsDeps {
  readonly sessions: Pick<SessionStore, "seeAs" | "endSeeing">
  /** Ends the streams of events of who may not read them any more. */
  readonly accountChanged: AccountChanged
  readonly authenticate: Authenticate
}

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
