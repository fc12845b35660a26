/** `/account/second-factor`: setting up and removing an authenticator app, and the second step of a sign-in. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { toString } from "qrcode"
import { SomePassword } from "../../accounts/fields.ts"
import type { SecondFactors } from "../../accounts/second-factor.ts"
import { Failure } from "../../failure/failure.ts"
import { open } from "../route.ts"
import { described, field, flag, integer, orNull, text, time } from "../shapes.ts"
import { mayKeepCookie, SignedInAnswer, signedInJson } from "./auth.ts"
import { type Authenticate, cookieToken, sessionCookie, signedInBy, clientInfoOf } from "./session.ts"

export interface SecondFactorDeps {
  readonly factors: SecondFactors
  readonly authenticate: Authenticate
}

const Code = Type.String({
  maxLength: 100,
  description: field(
    "a code of the authenticator app, or a recovery code",
    "kode dari aplikasi autentikator, atau kode pemulihan",
  ),
})
export const base64url = (most: number) =>
  Type.String({
    pattern: "^[A-Za-z0-9_-]+$",
    maxLength: most,
    description: field(`base64url of at most ${most} characters`, `base64url paling banyak ${most} karakter`),
  })
export const publicKey = Type.Literal("public-key", { description: field("'public-key'", "selalu 'public-key'") })
/** As `PublicKeyCredential.toJSON()` writes it; what else is in it is not read. */
export const Assertion = Type.Object(
  {
    id: base64url(1_400),
    rawId: base64url(1_400),
    type: publicKey,
    clientExtensionResults: Type.Object({}, { description: field("an object", "sebuah objek") }),
    response: Type.Object(
      {
        clientDataJSON: base64url(8_000),
        authenticatorData: base64url(8_000),
        signature: base64url(8_000),
        userHandle: Type.Optional(base64url(100)),
      },
      {
        description: field(
          "an authenticator's assertion response in its JSON form",
          "jawaban assertion dari autentikator dalam bentuk JSON",
        ),
      },
    ),
  },
  {
    description: field("what a passkey has signed, in its JSON form", "yang ditandatangani passkey, dalam bentuk JSON"),
  },
)
/** One of the two. */
const shown = { code: Type.Optional(Code), passkey: Type.Optional(Assertion) }
export const Proof = Type.Object({ password: SomePassword, ...shown })
export const Token = Type.String({ maxLength: 200, description: field("a string", "teks") })
const Codes = Type.Object({
  recovery_codes: Type.Array(text, {
    description: field(
      "Shown this once; each works once.",
      "Hanya ditampilkan sekali ini; masing-masing berlaku satu kali.",
    ),
  }),
})

export const secondFactorController = ({ factors, authenticate }: SecondFactorDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/second-factor" })
    .post(
      ...open(
        "/auth/sign-in/second-factor",
        {
          tag: "Account",
          summary: {
            en: "The second step of a sign-in: a code of the authenticator app, a recovery code, or a passkey",
            id: "Langkah kedua saat masuk: kode dari aplikasi autentikator, kode pemulihan, atau passkey",
          },
          description: {
            en: "`token` is what the first step answered; it is good for ten minutes and for nothing else. Ten wrong codes of an account in an hour, and further ones are 401 with a `Retry-After`; those from networks where nobody has signed in to it are counted by themselves.",
            id: "`token` adalah jawaban langkah pertama; berlaku sepuluh menit dan hanya untuk ini. Setelah sepuluh kode salah dari satu akun dalam satu jam, selebihnya 401 dengan `Retry-After`; kode dari jaringan yang belum pernah dipakai masuk dihitung tersendiri.",
          },
          body: Type.Object({ token: Token, ...shown }),
          answer: SignedInAnswer,
        },
        async ({ request, body, set }) => {
          const visitor = { ...clientInfoOf(request), replaces: cookieToken(request) }
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
          summary: {
            en: "Whether a second factor is asked for at the sign-in",
            id: "Apakah langkah kedua ditanyakan saat masuk",
          },
          answer: Type.Object({
            since: orNull(
              time,
              field(
                "Since when an authenticator app is asked for; null when none is.",
                "Sejak kapan aplikasi autentikator ditanyakan; null jika tidak.",
              ),
            ),
            recovery_codes_left: integer,
            needed: described(
              flag,
              field(
                "Whether this session must show one before it has the operator's routes.",
                "Apakah sesi ini harus menunjukkannya sebelum dapat memakai alamat operator.",
              ),
            ),
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
          summary: {
            en: "Begin to set up an authenticator app, which counts once a code of it was shown",
            id: "Mulai menyiapkan aplikasi autentikator, yang berlaku setelah satu kodenya ditunjukkan",
          },
          description: {
            en: "Who has a passkey shows it, or a recovery code.",
            id: "Yang punya passkey menunjukkannya, atau kode pemulihan.",
          },
          body: Proof,
          answer: Type.Object({ secret: text, uri: text, qr_svg: text }),
          status: 201,
        },
        async ({ request, session, body }) => {
          const app = await factors.begin(session, body, clientInfoOf(request))
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
          summary: {
            en: "Show a first code: from now on one is asked for at the sign-in, and all other sessions end",
            id: "Tunjukkan kode pertama: sejak itu kode ditanyakan saat masuk, dan semua sesi lain berakhir",
          },
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
          summary: {
            en: "New recovery codes in the place of all old ones",
            id: "Kode pemulihan baru sebagai pengganti semua yang lama",
          },
          body: Proof,
          answer: Codes,
        },
        async ({ request, session, body }) =>
          shownCodes(await factors.newRecoveryCodes(session, body, clientInfoOf(request))),
      ),
    )
    .delete(
      ...signedIn(
        "/account/second-factor",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Remove the authenticator app; all other sessions end, and passkeys stay",
            id: "Hapus aplikasi autentikator; semua sesi lain berakhir, passkey tetap ada",
          },
          body: Proof,
          status: 204,
        },
        async ({ request, session, body }) => (await factors.remove(session, body, clientInfoOf(request))) ?? undefined,
      ),
    )
}

const shownCodes = (codes: readonly string[] | Failure) =>
  codes instanceof Failure ? codes : { recovery_codes: codes }
