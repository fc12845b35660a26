/** `/account/second-factor`: setting up and removing an authenticator app, and the second step of a sign-in. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { toString } from "qrcode"
import { SomePassword } from "../../accounts/fields.ts"
import type { SecondFactors } from "../../accounts/second-factor.ts"
import { Failure } from "../../failure/failure.ts"
import { open } from "../route.ts"
import { described, flag, integer, orNull, text, time } from "../shapes.ts"
import { mayKeepCookie, SignedInAnswer, signedInJson } from "./auth.ts"
import { type Authenticate, cookieToken, sessionCookie, signedInBy, whereabouts } from "./session.ts"

export interface SecondFactorDeps {
  readonly factors: SecondFactors
  readonly authenticate: Authenticate
}

const Code = Type.String({ maxLength: 100, description: "a code of the authenticator app, or a recovery code" })
export const base64url = (most: number) =>
  Type.String({ pattern: "^[A-Za-z0-9_-]+$", maxLength: most, description: `base64url of at most ${most} characters` })
/** As `PublicKeyCredential.toJSON()` writes it; what else is in it is not read. */
export const Assertion = Type.Object(
  {
    id: base64url(1_400),
    rawId: base64url(1_400),
    type: Type.Literal("public-key", { description: "'public-key'" }),
    clientExtensionResults: Type.Object({}, { description: "an object" }),
    response: Type.Object(
      {
        clientDataJSON: base64url(8_000),
        authenticatorData: base64url(8_000),
        signature: base64url(8_000),
        userHandle: Type.Optional(base64url(100)),
      },
      { description: "an authenticator's assertion response in its JSON form" },
    ),
  },
  { description: "what a passkey has signed, in its JSON form" },
)
/** One of the two. */
const shown = { code: Type.Optional(Code), passkey: Type.Optional(Assertion) }
export const Proof = Type.Object({ password: SomePassword, ...shown })
export const Token = Type.String({ maxLength: 200, description: "a string" })
const Codes = Type.Object({ recovery_codes: Type.Array(text, { description: "Shown this once; each works once." }) })

export const secondFactorController = ({ factors, authenticate }: SecondFactorDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/second-factor" })
    .post(
      ...open(
        "/auth/sign-in/second-factor",
        {
          tag: "Account",
          summary: "The second step of a sign-in: a code of the authenticator app, a recovery code, or a passkey",
          description:
            "`token` is what the first step answered; it is good for ten minutes and for nothing else. Ten wrong codes of an account in an hour, and further ones are 401 with a `Retry-After`.",
          body: Type.Object({ token: Token, ...shown }),
          answer: SignedInAnswer,
        },
        async ({ request, body, set }) => {
          const visitor = { ...whereabouts(request), replaces: cookieToken(request) }
          const account = await factors.signIn(body.token, body, visitor)
          if (account instanceof Failure) return account
          if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, account.token)
          return signedInJson(account)
        },
      ),
    )
    .get(
      ...signedIn(
        "/account/second-factor",
        {
          may: "self",
          tag: "Account",
          summary: "Whether a second factor is asked for at the sign-in",
          answer: Type.Object({
            since: orNull(time, "Since when an authenticator app is asked for; null when none is."),
            recovery_codes_left: integer,
            needed: described(flag, "Whether this session must show one before it has the operator's routes."),
          }),
        },
        async ({ session }) => {
          const { since, codesLeft } = await factors.state(session)
          return { since: since?.toISOString() ?? null, recovery_codes_left: codesLeft, needed: session.lacksFactor }
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/second-factor",
        {
          may: "self",
          tag: "Account",
          summary: "Begin to set up an authenticator app, which counts once a code of it was shown",
          description: "Who has a passkey shows it, or a recovery code.",
          body: Proof,
          answer: Type.Object({ secret: text, uri: text, qr_svg: text }),
          status: 201,
        },
        async ({ request, session, body }) => {
          const app = await factors.begin(session, body, whereabouts(request))
          if (app instanceof Failure) return app
          return { ...app, qr_svg: await toString(app.uri, { type: "svg", margin: 2 }) }
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/second-factor/confirm",
        {
          may: "self",
          tag: "Account",
          summary: "Show a first code: from now on one is asked for at the sign-in, and all other sessions end",
          body: Type.Object({ code: Code }),
          answer: Codes,
        },
        async ({ session, body }) => shownCodes(await factors.confirm(session, body.code)),
      ),
    )
    .post(
      ...signedIn(
        "/account/second-factor/recovery-codes",
        {
          may: "self",
          tag: "Account",
          summary: "New recovery codes in the place of all old ones",
          body: Proof,
          answer: Codes,
        },
        async ({ request, session, body }) =>
          shownCodes(await factors.newRecoveryCodes(session, body, whereabouts(request))),
      ),
    )
    .delete(
      ...signedIn(
        "/account/second-factor",
        {
          may: "self",
          tag: "Account",
          summary: "Remove the authenticator app; all other sessions end, and passkeys stay",
          body: Proof,
          status: 204,
        },
        async ({ request, session, body }) => (await factors.remove(session, body, whereabouts(request))) ?? undefined,
      ),
    )
}

const shownCodes = (codes: readonly string[] | Failure) =>
  codes instanceof Failure ? codes : { recovery_codes: codes }
