/** `/auth/*`: signing up, in and out, and changing the password (decisions §10). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Accounts, SignedIn } from "../../accounts/accounts.ts"
import { Email, NewPassword, SomeEmail, SomePassword } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import { open } from "../route.ts"
import { text } from "../shapes.ts"
import { accountJson, accountShape } from "./account.ts"
import { type Authenticate, cookieToken, isOwnOrigin, sessionCookie, signedInBy, whereabouts } from "./session.ts"

export interface AuthDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
}

const SignedInAnswer = Type.Object({ account: accountShape, session_token: text })

const signedInJson = ({ account, token }: SignedIn) => ({ account: accountJson(account), session_token: token })

export const authController = ({ accounts, authenticate }: AuthDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/auth" })
    .post(
      ...open(
        "/auth/sign-up",
        {
          tag: "Account",
          summary:
            "Make an account; one network makes so many in an hour and a day, and is 429 `rate_limit.sign_up` beyond",
          body: Type.Object({ email: Email, password: NewPassword }),
          answer: SignedInAnswer,
          status: 201,
        },
        async ({ request, body, set }) => {
          const account = await accounts.signUp(body, whereabouts(request))
          if (account instanceof Failure) return account
          if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, account.token)
          return signedInJson(account)
        },
      ),
    )
    .post(
      ...open(
        "/auth/sign-in",
        {
          tag: "Account",
          summary: "Sign in",
          body: Type.Object({ email: SomeEmail, password: SomePassword }),
          answer: SignedInAnswer,
        },
        async ({ request, body, set }) => {
          const visitor = { ...whereabouts(request), replaces: cookieToken(request) }
          const account = await accounts.signIn(body, visitor)
          if (account instanceof Failure) return account
          if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, account.token)
          return signedInJson(account)
        },
      ),
    )
    .post(
      ...signedIn(
        "/auth/sign-out",
        { tag: "Account", summary: "End this session", status: 204 },
        async ({ request, session, set }) => {
          await accounts.signOut(session)
          set.headers["set-cookie"] = sessionCookie(request, "")
          return undefined
        },
      ),
    )
    .post(
      ...signedIn(
        "/auth/password",
        {
          tag: "Account",
          summary: "Change the password, which ends every session",
          body: Type.Object({ current: SomePassword, new: NewPassword }),
          status: 204,
        },
        async ({ request, session, body, set }) => {
          const passwords = { current: body.current, replacement: body.new }
          const changed = await accounts.changePassword(session, passwords, whereabouts(request))
          if (changed instanceof Failure) return changed
          set.headers["set-cookie"] = sessionCookie(request, "")
          return undefined
        },
      ),
    )
}

/** A foreign page must not be able to sign its visitor in as somebody else. */
function mayKeepCookie(request: Request): boolean {
  const origin = request.headers.get("origin")
  return origin === null || isOwnOrigin(request, origin)
}
