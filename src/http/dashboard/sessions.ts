/** `/account/sessions`: where the account is signed in, and ending it there (decisions §10). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import type { SessionRecord } from "../../store/sessions.ts"
import { described, field, flag, listOf, text, time } from "../shapes.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface SessionsDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
}

const SessionShape = Type.Object(
  {
    id: text,
    created_at: time,
    last_seen_at: described(time, field("Right to a minute.", "Tepat sampai semenit.")),
    expires_at: time,
    user_agent: text,
    address: text,
    current: described(flag, field("Whether it is the one that asks.", "Apakah ini sesi yang bertanya.")),
  },
  { $id: "Session" },
)

const SESSION_ID = /^ses_[A-Za-z0-9_-]{1,40}$/

export const sessionsController = ({ accounts, authenticate }: SessionsDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/sessions" })
    .get(
      ...signedIn(
        "/account/sessions",
        {
          may: "self",
          tag: "Account",
          summary: { en: "Where the account is signed in", id: "Di mana saja akun ini sedang masuk" },
          answer: listOf(SessionShape),
        },
        async ({ session }) => ({
          data: (await accounts.sessions(session)).map((each) => sessionJson(each, session.id)),
        }),
      ),
    )
    .delete(
      ...signedIn(
        "/account/sessions",
        {
          may: "self",
          tag: "Account",
          summary: { en: "End all other sessions", id: "Akhiri semua sesi lain" },
          status: 204,
        },
        async ({ session }) => {
          await accounts.endOtherSessions(session)
          return undefined
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/sessions/:id",
        { may: "self", tag: "Account", summary: { en: "End one session", id: "Akhiri satu sesi" }, status: 204 },
        async ({ session, params }) => {
          if (!SESSION_ID.test(params.id)) return new Failure("resource.not_found")
          const ended = await accounts.endSession(session, params.id)
          return ended instanceof Failure ? ended : undefined
        },
      ),
    )
}

const sessionJson = (session: SessionRecord, current: string) => ({
  id: session.id,
  created_at: session.createdAt.toISOString(),
  last_seen_at: session.lastSeenAt.toISOString(),
  expires_at: session.expiresAt.toISOString(),
  user_agent: session.userAgent,
  address: session.address,
  current: session.id === current,
})
