/** `/account/sessions`: where the account is signed in, and ending it there (decisions §10). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import type { SessionRecord } from "../../store/sessions.ts"
import { described, flag, listOf, text, time } from "../shapes.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface SessionsDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
}

const SessionShape = Type.Object(
  {
    id: text,
    created_at: time,
    last_seen_at: described(time, "Right to a minute."),
    expires_at: time,
    user_agent: text,
    address: text,
    current: described(flag, "Whether it is the one that asks."),
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
        { may: "self", tag: "Account", summary: "Where the account is signed in", answer: listOf(SessionShape) },
        async ({ session }) => ({
          data: (await accounts.sessions(session)).map((each) => sessionJson(each, session.id)),
        }),
      ),
    )
    .delete(
      ...signedIn(
        "/account/sessions",
        { may: "self", tag: "Account", summary: "End all other sessions", status: 204 },
        async ({ session }) => {
          await accounts.endOtherSessions(session)
          return undefined
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/sessions/:id",
        { may: "self", tag: "Account", summary: "End one session", status: 204 },
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
