/** `/account/passkeys` and the sign-ins by one: what a browser is asked, and what it answers (WebAuthn, in its JSON form). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { CreationOptions, Passkeys, RequestOptions } from "../../accounts/passkeys.ts"
import type { SecondFactors } from "../../accounts/second-factor.ts"
import { Failure } from "../../failure/failure.ts"
import { type Passkey, PASSKEYS } from "../../store/passkeys.ts"
import { open } from "../route.ts"
import { anyObject, described, orNull, text, time } from "../shapes.ts"
import { mayKeepCookie, SignedInAnswer, signedInJson } from "./auth.ts"
import { Assertion, base64url, Proof, Token } from "./second-factor.ts"
import { type Authenticate, cookieToken, sessionCookie, signedInBy, whereabouts } from "./session.ts"

export interface PasskeyDeps {
  readonly factors: SecondFactors
  readonly passkeys: Passkeys
  readonly authenticate: Authenticate
}

const PasskeyShape = Type.Object(
  { id: text, name: text, created_at: time, last_used_at: orNull(time) },
  { $id: "Passkey" },
)
const passkeyJson = ({ id, name, createdAt, lastUsedAt }: Passkey) => ({
  id,
  name,
  created_at: createdAt.toISOString(),
  last_used_at: lastUsedAt?.toISOString() ?? null,
})

const asked = "as `navigator.credentials` takes it from its JSON form; good for five minutes and for one answer"
const CreationShape = Type.Unsafe<CreationOptions>(described(anyObject, `PublicKeyCredentialCreationOptions, ${asked}`))
const RequestShape = Type.Unsafe<RequestOptions>(described(anyObject, `PublicKeyCredentialRequestOptions, ${asked}`))

/** As `PublicKeyCredential.toJSON()` writes it; what else is in it is not read. */
const Attestation = Type.Object(
  {
    id: base64url(1_400),
    rawId: base64url(1_400),
    type: Type.Literal("public-key", { description: "'public-key'" }),
    clientExtensionResults: Type.Object({}, { description: "an object" }),
    response: Type.Object(
      {
        clientDataJSON: base64url(8_000),
        attestationObject: base64url(40_000),
        transports: Type.Optional(
          Type.Array(Type.String({ pattern: "^[!-~]{1,30}$" }), {
            maxItems: 10,
            description: "a list of at most ten transports",
          }),
        ),
      },
      { description: "an authenticator's attestation response in its JSON form" },
    ),
  },
  { description: "a new credential in its JSON form" },
)
const Name = Type.RegExp(/^(?=.*\S)[^\p{Cc}]{1,60}$/u, { description: "a name of 1 to 60 characters on one line" })

export const passkeysController = ({ factors, passkeys, authenticate }: PasskeyDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/passkeys" })
    .post(
      ...open(
        "/auth/sign-in/passkey/options",
        {
          tag: "Account",
          summary: "Begin a sign-in by passkey alone",
          description:
            "One network begins 300 in five minutes; further ones are 401 with a `Retry-After`. Where passkeys cannot be used it is 400 `request.unsupported_feature`.",
          answer: RequestShape,
        },
        async ({ request }) => await factors.requestForSignIn(whereabouts(request)),
      ),
    )
    .post(
      ...open(
        "/auth/sign-in/passkey",
        {
          tag: "Account",
          summary: "Sign in by passkey alone: its device has verified its owner, so no code is asked for",
          body: Type.Object({ passkey: Assertion }),
          answer: SignedInAnswer,
        },
        async ({ request, body, set }) => {
          const visitor = { ...whereabouts(request), replaces: cookieToken(request) }
          const account = await factors.signInByPasskey(body.passkey, visitor)
          if (account instanceof Failure) return account
          if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, account.token)
          return signedInJson(account)
        },
      ),
    )
    .post(
      ...open(
        "/auth/sign-in/second-factor/options",
        {
          tag: "Account",
          summary: "What a passkey is to sign for the second step of a sign-in",
          body: Type.Object({ token: Token }),
          answer: RequestShape,
        },
        async ({ body }) => await factors.requestForStep(body.token),
      ),
    )
    .get(
      ...signedIn(
        "/account/passkeys",
        {
          may: "self",
          tag: "Account",
          summary: "The account's passkeys, the oldest first",
          answer: Type.Object({
            data: Type.Array(PasskeyShape),
            origin: orNull(text, "The address whose pages can use passkeys; null where none can."),
            unavailable: orNull(text, "Why passkeys cannot be used."),
          }),
        },
        async ({ session }) => {
          const { party } = passkeys
          const isThere = party.unavailable === undefined
          return {
            data: (await passkeys.list(session)).map(passkeyJson),
            origin: isThere ? party.origin : null,
            unavailable: isThere ? null : party.unavailable,
          }
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/passkeys/options",
        {
          may: "self",
          tag: "Account",
          summary: "Begin to add a passkey; who has a second factor shows it",
          body: Proof,
          answer: CreationShape,
        },
        async ({ request, session, body }) => await factors.beginPasskey(session, body, whereabouts(request)),
      ),
    )
    .post(
      ...signedIn(
        "/account/passkeys/proof",
        {
          may: "self",
          tag: "Account",
          summary: "What a passkey is to sign in the place of a code, to change something of the second factors",
          answer: RequestShape,
        },
        async ({ session }) => await factors.requestForProof(session),
      ),
    )
    .post(
      ...signedIn(
        "/account/passkeys",
        {
          may: "self",
          tag: "Account",
          summary: `Add the passkey that the browser has made, ${PASSKEYS} at most`,
          description:
            "It is a second factor from now on. Where it is the first one, all other sessions end. Recovery codes come with it where the account has none.",
          body: Type.Object({ name: Name, passkey: Attestation }),
          answer: Type.Object({
            passkey: PasskeyShape,
            recovery_codes: orNull(Type.Array(text), "Shown this once; each works once."),
          }),
          status: 201,
        },
        async ({ session, body }) => {
          const added = await factors.addPasskey(session, body.name.trim(), body.passkey)
          if (added instanceof Failure) return added
          return { passkey: passkeyJson(added.passkey), recovery_codes: added.codes ?? null }
        },
      ),
    )
    .patch(
      ...signedIn(
        "/account/passkeys/:id",
        {
          may: "self",
          tag: "Account",
          summary: "Rename a passkey",
          body: Type.Object({ name: Name }),
          answer: PasskeyShape,
        },
        async ({ session, params, body }) => {
          const passkey = await passkeys.rename(session, params.id, body.name.trim())
          return passkey instanceof Failure ? passkey : passkeyJson(passkey)
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/passkeys/:id",
        {
          may: "self",
          tag: "Account",
          summary: "Remove a passkey; with the last second factor all other sessions end",
          body: Proof,
          status: 204,
        },
        async ({ request, session, params, body }) =>
          (await factors.removePasskey(session, params.id, body, whereabouts(request))) ?? undefined,
      ),
    )
}
