/**
 * `/auth/*` and `/account/sessions`: signing up, in and out, passwords, the proof of an address, and where the account is signed in
 * (decisions §10, §13.16).
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import type { Accounts, SignedIn } from "../../accounts/accounts.ts"
import { agreeable, AgreedVersion, Email, NewPassword, SomeEmail, SomePassword } from "../../accounts/fields.ts"
import type { Links } from "../../accounts/links.ts"
import { Failure } from "../../failure/failure.ts"
import type { SessionRecord } from "../../store/sessions.ts"
import { open, refused } from "../route.ts"
import { field, flag, text, time, described, listOf } from "../shapes.ts"
import { accountJson, accountShape, shown } from "./account-json.ts"
import { type Authenticate, cookieToken, isOwnOrigin, sessionCookie, signedInBy, clientInfoOf } from "./session.ts"

interface AuthDeps {
  readonly accounts: Accounts
  readonly links: Links
  readonly authenticate: Authenticate
  readonly legalVersion: string
}

export const SignedInAnswer = Type.Object({ account: accountShape, session_token: text })

/** The password was right; `token` is for `POST /auth/sign-in/second-factor`. */
const HalfSignedIn = Type.Object({ second_factor: Type.Object({ token: text, has_passkey: flag, expires_at: time }) })

export const signedInJson = ({ account, token }: SignedIn) => ({ account: accountJson(account), session_token: token })

export const authController = ({ accounts, links, authenticate, legalVersion }: AuthDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/auth" })
    .post(
      ...open(
        "/auth/sign-up",
        {
          tag: "Account",
          summary: {
            en: "Make an account; one network makes so many in an hour and a day, and is 429 `rate_limit.sign_up` beyond",
            id: "Buat akun; dari satu jaringan hanya boleh sekian akun per jam dan per hari, selebihnya 429 `rate_limit.sign_up`",
          },
          description: {
            en: "`agreed_version` says which version of the texts at `/terms`, `/privacy` and `/refunds` the person was shown and agrees to; without it, the dashboard asks at the next visit.",
            id: "`agreed_version` adalah versi `/terms`, `/privacy`, dan `/refunds` yang ditampilkan kepada orangnya dan disetujuinya; tanpa itu, dasbor menanyakannya pada kunjungan berikutnya.",
          },
          body: Type.Object({ email: Email, password: NewPassword, agreed_version: Type.Optional(AgreedVersion) }),
          answer: SignedInAnswer,
          status: 201,
        },
        async ({ request, body, set }) => {
          const { email, password, agreed_version: agreedVersion } = body
          if (agreedVersion !== undefined && agreedVersion !== legalVersion) return refused("agreed_version", agreeable)
          const account = await accounts.signUp({ email, password, agreedVersion }, clientInfoOf(request))
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
          summary: {
            en: "Sign in; an account with a second factor is asked for it then",
            id: "Masuk; akun dengan langkah kedua lalu ditanya kodenya",
          },
          body: Type.Object({ email: SomeEmail, password: SomePassword }),
          answer: Type.Union([SignedInAnswer, HalfSignedIn]),
        },
        async ({ request, body, set }) => {
          const visitor = { ...clientInfoOf(request), replaces: cookieToken(request) }
          const account = await accounts.signIn(body, visitor)
          if (account instanceof Failure) return account
          if ("step" in account)
            return {
              second_factor: {
                token: account.step,
                has_passkey: account.hasPasskey,
                expires_at: account.expiresAt.toISOString(),
              },
            }
          if (mayKeepCookie(request)) set.headers["set-cookie"] = sessionCookie(request, account.token)
          return signedInJson(account)
        },
      ),
    )
    .post(
      ...signedIn(
        "/auth/sign-out",
        {
          may: "self",
          whenSeen: "own",
          tag: "Account",
          summary: { en: "End this session", id: "Akhiri sesi ini" },
          status: 204,
        },
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
          may: "self",
          tag: "Account",
          summary: { en: "Change the password, which ends every session", id: "Ganti kata sandi; semua sesi berakhir" },
          body: Type.Object({ current: SomePassword, new: NewPassword }),
          status: 204,
        },
        async ({ request, session, body, set }) => {
          const passwords = { current: body.current, replacement: body.new }
          const changed = await accounts.changePassword(session, passwords, clientInfoOf(request))
          if (changed instanceof Failure) return changed
          set.headers["set-cookie"] = sessionCookie(request, "")
          return undefined
        },
      ),
    )
    .post(
      ...open(
        "/auth/password/forgotten",
        {
          tag: "Account",
          summary: {
            en: "Send a link for a new password to whoever has the address",
            id: "Kirim tautan untuk membuat kata sandi baru kepada pemilik alamat ini",
          },
          description: {
            en: "The answer is the same whether or not there is an account. The link is good for 30 minutes and for one use. Too many of them are 429 `rate_limit.mail`. Where no mail is sent it is 400 `request.unsupported_feature`.",
            id: "Jawabannya sama, entah akunnya ada atau tidak. Tautan berlaku 30 menit dan untuk satu kali pakai. Terlalu banyak tautan: 429 `rate_limit.mail`. Di gateway yang tidak mengirim e-mail: 400 `request.unsupported_feature`.",
          },
          body: Type.Object({ email: SomeEmail }),
          status: 204,
        },
        async ({ request, body }) => (await links.requestPasswordReset(body.email, clientInfoOf(request))) ?? undefined,
      ),
    )
    .post(
      ...open(
        "/auth/password/reset",
        {
          tag: "Account",
          summary: {
            en: "Set a new password by a link's token, which ends every session; a second factor is still asked for",
            id: "Buat kata sandi baru dengan token dari tautan; semua sesi berakhir, dan langkah kedua tetap ditanyakan",
          },
          body: Type.Object({ token: LinkToken, new: NewPassword }),
          status: 204,
        },
        async ({ request, body }) =>
          (await links.resetPassword(body.token, body.new, clientInfoOf(request))) ?? undefined,
      ),
    )
    .post(
      ...signedIn(
        "/auth/email",
        {
          may: "self",
          tag: "Account",
          summary: { en: "Change the account's e-mail address", id: "Ganti alamat e-mail akun" },
          description: {
            en: "A link is sent to the new address, which takes over when it is opened; the old one is told. Where no mail is sent, it takes over at once.",
            id: "Tautan dikirim ke alamat baru, yang berlaku setelah tautan itu dibuka; alamat lama diberi tahu. Di gateway yang tidak mengirim e-mail, alamat baru langsung berlaku.",
          },
          body: Type.Object({ email: Email, password: SomePassword }),
          answer: accountShape,
        },
        async ({ request, session, body }) => shown(await links.changeEmail(session, body, clientInfoOf(request))),
      ),
    )
    .post(
      ...signedIn(
        "/auth/email/send-again",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Send the proof of the account's address again",
            id: "Kirim lagi e-mail pembuktian alamat akun",
          },
          status: 204,
        },
        async ({ request, session }) => (await links.sendAgain(session, clientInfoOf(request))) ?? undefined,
      ),
    )
    .post(
      ...signedIn(
        "/auth/email/prove",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Prove an address by a link's token, signed in to the account that it is of",
            id: "Buktikan alamat dengan token dari tautan, setelah masuk ke akun pemiliknya",
          },
          body: Type.Object({ token: LinkToken }),
          answer: accountShape,
        },
        async ({ session, body, request }) => shown(await links.prove(session, body.token, clientInfoOf(request))),
      ),
    )
}

const LinkToken = Type.String({
  maxLength: 200,
  description: field("the token of a link that was sent by mail", "token dari tautan yang dikirim lewat e-mail"),
})

/** A foreign page must not be able to sign its visitor in as somebody else. */
export function mayKeepCookie(request: Request): boolean {
  const origin = request.headers.get("origin")
  return origin === null || isOwnOrigin(request, origin)
}

interface SessionsDeps {
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

/** Where the account is signed in, and ending it there. */
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
