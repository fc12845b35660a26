/** `/auth/*`: signing up, in and out, and changing the password (decisions §10). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Accounts } from "../../accounts/accounts.ts"
import { Email, NewPassword, SomeEmail, SomePassword } from "../../accounts/fields.ts"
import { Failure } from "../../failure/failure.ts"
import { accountJson } from "./account.ts"
import { isOwnOrigin, whereabouts } from "./address.ts"
import { bodyReader } from "./body.ts"
import { takes } from "./contract.ts"
import { type Authenticate, cookieToken, sessionCookie } from "./session.ts"

export interface AuthDeps {
  readonly accounts: Accounts
  readonly authenticate: Authenticate
}

const readSignUp = bodyReader(Type.Object({ email: Email, password: NewPassword }))
const readSignIn = bodyReader(
  Type.Object({
    email: SomeEmail,
    password: SomePassword,
  }),
)
const readPasswords = bodyReader(Type.Object({ current: SomePassword, new: NewPassword }))

export const authController = ({ accounts, authenticate }: AuthDeps) =>
  new Elysia({ name: "dashboard/auth" })
    .post(
      "/auth/sign-up",
      async ({ request, set }) => {
        const credentials = await readSignUp(request)
        if (credentials instanceof Failure) return credentials
        const signedIn = await accounts.signUp(credentials, whereabouts(request))
        if (signedIn instanceof Failure) return signedIn
        set.status = 201
        if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, signedIn.token)
        return { account: accountJson(signedIn.account), session_token: signedIn.token }
      },
      takes(readSignUp),
    )
    .post(
      "/auth/sign-in",
      async ({ request, set }) => {
        const credentials = await readSignIn(request)
        if (credentials instanceof Failure) return credentials
        const visitor = { ...whereabouts(request), replaces: cookieToken(request) }
        const signedIn = await accounts.signIn(credentials, visitor)
        if (signedIn instanceof Failure) return signedIn
        if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, signedIn.token)
        return { account: accountJson(signedIn.account), session_token: signedIn.token }
      },
      takes(readSignIn),
    )
    .post(
      "/auth/sign-out",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        await accounts.signOut(session)
        set.status = 204
        set.headers["set-cookie"] = sessionCookie(request, "")
        return undefined
      },
      { parse: "none" },
    )
    .post(
      "/auth/password",
      async ({ request, set }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const passwords = await readPasswords(request)
        if (passwords instanceof Failure) return passwords
        const changed = await accounts.changePassword(
          session,
          { current: passwords.current, replacement: passwords.new },
          whereabouts(request),
        )
        if (changed instanceof Failure) return changed
        set.status = 204
        set.headers["set-cookie"] = sessionCookie(request, "")
        return undefined
      },
      takes(readPasswords),
    )

/** A foreign page must not be able to sign its visitor in as somebody else. */
function mayKeepCookie(request: Request): boolean {
  const origin = request.headers.get("origin")
  return origin === null || isOwnOrigin(request, origin)
}
