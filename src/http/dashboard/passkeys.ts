/** `/account/passkeys` and the sign-ins by one: what a browser is asked, and what it answers (WebAuthn, in its JSON form). */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { CreationOptions, Passkeys, RequestOptions } from "../../accounts/passkeys.ts"
import type { SecondFactors } from "../../accounts/second-factor.ts"
import { Failure } from "../../failure/failure.ts"
import { type Passkey, PASSKEYS } from "../../store/passkeys.ts"
import { open } from "../route.ts"
import { anyObject, described, field, orNull, text, time } from "../shapes.ts"
import { mayKeepCookie, SignedInAnswer, signedInJson } from "./auth.ts"
import { Assertion, base64url, Proof, publicKey, Token } from "./second-factor.ts"
import { type Authenticate, cookieToken, sessionCookie, signedInBy, clientInfoOf } from "./session.ts"

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

const asked = (options: string) =>
  described(
    anyObject,
    field(
      `${options}, as \`navigator.credentials\` takes it from its JSON form; good for five minutes and for one answer`,
      `${options}, seperti yang diterima \`navigator.credentials\` dari bentuk JSON-nya; berlaku lima menit dan untuk satu jawaban`,
    ),
  )
const CreationShape = Type.Unsafe<CreationOptions>(asked("PublicKeyCredentialCreationOptions"))
const RequestShape = Type.Unsafe<RequestOptions>(asked("PublicKeyCredentialRequestOptions"))

/** As `PublicKeyCredential.toJSON()` writes it; what else is in it is not read. */
const Attestation = Type.Object(
  {
    id: base64url(1_400),
    rawId: base64url(1_400),
    type: publicKey,
    clientExtensionResults: Type.Object({}, { description: field("an object", "sebuah objek") }),
    response: Type.Object(
      {
        clientDataJSON: base64url(8_000),
        attestationObject: base64url(40_000),
        transports: Type.Optional(
          Type.Array(Type.String({ pattern: "^[!-~]{1,30}$" }), {
            maxItems: 10,
            description: field("a list of at most ten transports", "daftar paling banyak sepuluh transport"),
          }),
        ),
      },
      {
        description: field(
          "an authenticator's attestation response in its JSON form",
          "jawaban attestation dari autentikator dalam bentuk JSON",
        ),
      },
    ),
  },
  { description: field("a new credential in its JSON form", "kredensial baru dalam bentuk JSON") },
)
const Name = Type.RegExp(/^(?=.*\S)[^\p{Cc}\u202a-\u202e\u2066-\u2069]{1,60}$/u, {
  description: field(
    "a name of 1 to 60 characters on one line, without controls of the text's direction",
    "nama 1 sampai 60 karakter dalam satu baris, tanpa kendali arah teks",
  ),
})

export const passkeysController = ({ factors, passkeys, authenticate }: PasskeyDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/passkeys" })
    .post(
      ...open(
        "/auth/sign-in/passkey/options",
        {
          tag: "Account",
          summary: { en: "Begin a sign-in by passkey alone", id: "Mulai masuk hanya dengan passkey" },
          description: {
            en: "One network begins 300 in five minutes; further ones are 401 with a `Retry-After`. Where passkeys cannot be used it is 400 `request.unsupported_feature`.",
            id: "Satu jaringan boleh memulai 300 kali dalam lima menit; selebihnya 401 dengan `Retry-After`. Di gateway tanpa passkey: 400 `request.unsupported_feature`.",
          },
          answer: RequestShape,
        },
        async ({ request }) => await factors.requestForSignIn(clientInfoOf(request)),
      ),
    )
    .post(
      ...open(
        "/auth/sign-in/passkey",
        {
          tag: "Account",
          summary: {
            en: "Sign in by passkey alone: its device has verified its owner, so no code is asked for",
            id: "Masuk hanya dengan passkey: perangkatnya sudah memastikan pemiliknya, jadi kode tidak ditanyakan",
          },
          body: Type.Object({ passkey: Assertion }),
          answer: SignedInAnswer,
        },
        async ({ request, body, set }) => {
          const visitor = { ...clientInfoOf(request), replaces: cookieToken(request) }
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
          summary: {
            en: "What a passkey is to sign for the second step of a sign-in",
            id: "Yang harus ditandatangani passkey untuk langkah kedua saat masuk",
          },
          body: Type.Object({ token: Token }),
          answer: RequestShape,
        },
        async ({ request, body }) => await factors.requestForStep(body.token, clientInfoOf(request)),
      ),
    )
    .get(
      ...signedIn(
        "/account/passkeys",
        {
          may: "self",
          tag: "Account",
          summary: { en: "The account's passkeys, the oldest first", id: "Passkey akun, dari yang terlama" },
          answer: Type.Object({
            data: Type.Array(PasskeyShape),
            origin: orNull(
              text,
              field(
                "The address whose pages can use passkeys; null where none can.",
                "Alamat yang halamannya dapat memakai passkey; null jika tidak ada.",
              ),
            ),
            unavailable: orNull(text, field("Why passkeys cannot be used.", "Mengapa passkey tidak dapat dipakai.")),
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
          summary: {
            en: "Begin to add a passkey; who has a second factor shows it",
            id: "Mulai menambah passkey; yang punya langkah kedua menunjukkannya",
          },
          body: Proof,
          answer: CreationShape,
        },
        async ({ request, session, body }) => await factors.beginPasskey(session, body, clientInfoOf(request)),
      ),
    )
    .post(
      ...signedIn(
        "/account/passkeys/proof",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "What a passkey is to sign in the place of a code, to change something of the second factors",
            id: "Yang harus ditandatangani passkey sebagai pengganti kode, untuk mengubah langkah kedua",
          },
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
          summary: {
            en: `Add the passkey that the browser has made, ${PASSKEYS} at most`,
            id: `Tambahkan passkey yang dibuat peramban, paling banyak ${PASSKEYS}`,
          },
          description: {
            en: "It is a second factor from now on. Where it is the first one, all other sessions end. Recovery codes come with it where the account has none.",
            id: "Sejak itu passkey menjadi langkah kedua. Jika ini yang pertama, semua sesi lain berakhir. Kode pemulihan ikut diberikan jika akun belum punya.",
          },
          body: Type.Object({ name: Name, passkey: Attestation }),
          answer: Type.Object({
            passkey: PasskeyShape,
            recovery_codes: orNull(
              Type.Array(text),
              field(
                "Shown this once; each works once.",
                "Hanya ditampilkan sekali ini; masing-masing berlaku satu kali.",
              ),
            ),
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
          summary: { en: "Rename a passkey", id: "Ganti nama passkey" },
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
          summary: {
            en: "Remove a passkey; with the last second factor all other sessions end",
            id: "Hapus passkey; bersama langkah kedua yang terakhir, semua sesi lain berakhir",
          },
          body: Proof,
          status: 204,
        },
        async ({ request, session, params, body }) =>
          (await factors.removePasskey(session, params.id, body, clientInfoOf(request))) ?? undefined,
      ),
    )
}
