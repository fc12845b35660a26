/** `/account/sessions`: where the account is signed in, and ending that. */
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import type { Authenticate } from "./session.ts"

export interface SessionsDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
}

const SESSION_ID = /^ses_[A-Za-z0-9_-]{1,40}$/

export const sessionsController = ({ accounts, authenticate }: SessionsDeps) =>
  new Elysia({ name: "dashboard/sessions" })
    .get("/account/sessions", async ({ request }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const sessions = await accounts.sessions(session)
      return {
        data: sessions.map((each) => ({
          id: each.id,
          created_at: each.createdAt.toISOString(),
          last_seen_at: each.lastSeenAt.toISOString(),
          expires_at: each.expiresAt.toISOString(),
          user_agent: each.userAgent,
          address: each.address,
          current: each.id === session.id,
        })),
      }
    })
    .delete(
      "/account/sessions",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        await accounts.endOtherSessions(session)
        set.status = 204
        return undefined
      },
      { parse: "none" },
    )
    .delete(
      "/account/sessions/:id",
      async ({ request, params, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        if (!SESSION_ID.test(params.id)) return new Failure("resource.not_found")
        const ended = await accounts.endSession(session, params.id)
        if (ended instanceof Failure) return ended
        set.status = 204
        return undefined
      },
      { parse: "none" },
    )
