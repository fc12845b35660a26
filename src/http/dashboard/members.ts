/** `/account/members` and `/account/invitations`: who works on the account; `/account/memberships`: on which accounts a person works. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Email } from "../../accounts/fields.ts"
import { INVITATIONS_A_DAY, type Invited, type Members } from "../../accounts/members.ts"
import { Failure } from "../../failure/failure.ts"
import { memberRoles } from "../../store/account-settings.ts"
import { type Invitation, INVITATION_DAYS, type Member, type Membership, MAX_MEMBERS } from "../../store/members.ts"
import { open } from "../route.ts"
import { described, field, listOf, oneOf, orNull, text, time } from "../shapes.ts"
import { type Authenticate, signedInBy, clientInfoOf } from "./session.ts"

export interface MembersDeps {
  readonly members: Members
  readonly authenticate: Authenticate
}

const Role = oneOf(memberRoles)
export const memberShape = Type.Object(
  {
    id: described(text, field("The account that the person signs in to.", "Akun tempat orang itu masuk.")),
    email: text,
    role: Role,
    since: time,
    invited_by: orNull(
      text,
      field("An e-mail address; null when that account is deleted.", "Alamat e-mail; null jika akunnya sudah dihapus."),
    ),
  },
  { $id: "Member" },
)
const InvitationShape = Type.Object(
  { id: text, email: text, role: Role, created_at: time, expires_at: time, invited_by: orNull(text) },
  { $id: "Invitation" },
)
const InvitedShape = Type.Object({
  invitation: InvitationShape,
  path: orNull(
    text,
    field(
      "Of the link, below `/dashboard/`, to hand over, this once: where the gateway sends no mail. Null where a mail takes it.",
      "Jalur tautannya di bawah `/dashboard/`, untuk diserahkan sendiri, sekali ini: jika gateway tidak mengirim e-mail. Null jika tautannya dikirim lewat e-mail.",
    ),
  ),
})
const MembershipShape = Type.Object(
  {
    account_id: text,
    email: described(text, field("The account's address.", "Alamat akun.")),
    role: Role,
    since: time,
  },
  { $id: "Membership" },
)
const Token = Type.String({ description: field("a string", "teks") })
const ACCOUNT_ID = /^acc_[A-Za-z0-9_-]{1,40}$/
const INVITATION_ID = /^inv_[A-Za-z0-9_-]{1,40}$/
const none = (): Failure => new Failure("resource.not_found")

export const membersController = ({ members, authenticate }: MembersDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/members" })
    .get(
      ...signedIn(
        "/account/members",
        {
          may: "manage",
          tag: "Account",
          summary: {
            en: "Who has a role in the account, and who is invited",
            id: "Siapa yang punya peran di akun ini, dan siapa yang diundang",
          },
          answer: Type.Object({ members: Type.Array(memberShape), invitations: Type.Array(InvitationShape) }),
        },
        async ({ session }) => {
          const { members: data, invitations } = await members.list(session)
          return { members: data.map(memberJson), invitations: invitations.map(invitationJson) }
        },
      ),
    )
    .patch(
      ...signedIn(
        "/account/members/:id",
        {
          may: "manage",
          tag: "Account",
          summary: {
            en: "Change a member's role; it holds from the next request on",
            id: "Ubah peran anggota; berlaku mulai permintaan berikutnya",
          },
          body: Type.Object({ role: Role }),
          answer: memberShape,
        },
        async ({ session, params: { id }, body: { role } }) => {
          const member = ACCOUNT_ID.test(id) ? await members.changeRole(session, id, role) : none()
          return member instanceof Failure ? member : memberJson(member)
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/members/:id",
        {
          may: "manage",
          tag: "Account",
          summary: {
            en: "Remove a member, with the invitations that they made",
            id: "Keluarkan anggota, beserta undangan yang dibuatnya",
          },
          description: {
            en: "API keys stay as they are: rotate those whose secret the member knew.",
            id: "Kunci API tetap apa adanya: rotasi kunci yang rahasianya diketahui anggota itu.",
          },
          status: 204,
        },
        async ({ session, params: { id } }) =>
          ACCOUNT_ID.test(id) ? ((await members.remove(session, id)) ?? undefined) : none(),
      ),
    )
    .post(
      ...signedIn(
        "/account/invitations",
        {
          may: "manage",
          tag: "Account",
          summary: {
            en: "Invite somebody by e-mail address; an address that was invited before gets another link",
            id: "Undang seseorang lewat alamat e-mail; alamat yang sudah diundang mendapat tautan baru",
          },
          description: {
            en: `The link is good for ${INVITATION_DAYS} days and for one use, by an account of that address. An account has at most ${MAX_MEMBERS} members, open invitations included, and sends ${INVITATIONS_A_DAY} invitations a day; beyond, 429 \`rate_limit.mail\`.`,
            id: `Tautan berlaku ${INVITATION_DAYS} hari dan satu kali pakai, oleh akun dengan alamat itu. Satu akun punya paling banyak ${MAX_MEMBERS} anggota, termasuk undangan yang masih terbuka, dan mengirim ${INVITATIONS_A_DAY} undangan sehari; selebihnya 429 \`rate_limit.mail\`.`,
          },
          body: Type.Object({ email: Email, role: Role }),
          answer: InvitedShape,
          status: 201,
        },
        async ({ request, session, body }) => invitedJson(await members.invite(session, body, clientInfoOf(request))),
      ),
    )
    .post(
      ...signedIn(
        "/account/invitations/:id/send-again",
        {
          may: "manage",
          tag: "Account",
          summary: {
            en: "Send another link for the same role; the one before is dead",
            id: "Kirim tautan lagi untuk peran yang sama; tautan sebelumnya tidak berlaku lagi",
          },
          answer: InvitedShape,
        },
        async ({ request, session, params: { id } }) =>
          INVITATION_ID.test(id) ? invitedJson(await members.inviteAgain(session, id, clientInfoOf(request))) : none(),
      ),
    )
    .delete(
      ...signedIn(
        "/account/invitations/:id",
        {
          may: "manage",
          tag: "Account",
          summary: { en: "Take an invitation back", id: "Batalkan undangan" },
          status: 204,
        },
        async ({ session, params: { id } }) =>
          INVITATION_ID.test(id) ? ((await members.revoke(session, id)) ?? undefined) : none(),
      ),
    )
    .get(
      ...signedIn(
        "/account/memberships",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "The accounts of others in which whoever is signed in has a role",
            id: "Akun orang lain tempat Anda punya peran",
          },
          answer: listOf(MembershipShape),
        },
        async ({ session }) => ({ data: (await members.memberships(session)).map(membershipJson) }),
      ),
    )
    .post(
      ...signedIn(
        "/account/memberships",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Accept an invitation by its link's token",
            id: "Terima undangan dengan token dari tautannya",
          },
          description: {
            en: "For the account whose address is the invited one. The link that was mailed to it proves it, too.",
            id: "Untuk akun dengan alamat yang diundang. Tautan yang dikirim ke alamat itu sekaligus membuktikannya.",
          },
          body: Type.Object({ token: Token }),
          answer: Type.Object({ account_id: text }),
          status: 201,
        },
        async ({ session, body: { token } }) => {
          const joined = await members.accept(session, token)
          return joined instanceof Failure ? joined : { account_id: joined.accountId }
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/memberships/:id",
        {
          may: "self",
          tag: "Account",
          summary: { en: "Leave another's account", id: "Keluar dari akun orang lain" },
          status: 204,
        },
        async ({ session, params: { id } }) =>
          ACCOUNT_ID.test(id) ? ((await members.leave(session, id)) ?? undefined) : none(),
      ),
    )
    .post(
      ...signedIn(
        "/auth/look-at",
        {
          may: "self",
          tag: "Account",
          summary: {
            en: "Choose the account that this session is about: one's own, or one of a membership",
            id: "Pilih akun yang dilihat sesi ini: akun sendiri, atau akun tempat Anda menjadi anggota",
          },
          description: {
            en: "Everything but what is a person's own is about that account from then on, for as long as the membership lasts: lists, files and `/events` too. Send `X-Account-Id` to be refused with 409 `auth.other_account` where another one was chosen meanwhile.",
            id: "Sejak itu semuanya menyangkut akun tersebut, kecuali yang milik pribadi, selama keanggotaannya berlaku: daftar, berkas, dan `/events` juga. Kirim `X-Account-Id` agar ditolak dengan 409 `auth.other_account` jika sementara itu akun lain yang dipilih.",
          },
          body: Type.Object({
            account_id: orNull(
              Token,
              field("an account's id, or null for one's own", "id sebuah akun, atau null untuk akun sendiri"),
            ),
          }),
          status: 204,
        },
        async ({ session, body: { account_id: id } }) =>
          id === null || ACCOUNT_ID.test(id)
            ? ((await members.lookAt(session, id ?? session.personId)) ?? undefined)
            : none(),
      ),
    )
    .post(
      ...open(
        "/invitations/open",
        {
          tag: "Account",
          summary: {
            en: "What an invitation's link is for: who invites whom, to which role",
            id: "Untuk apa tautan undangan ini: siapa mengundang siapa, dengan peran apa",
          },
          body: Type.Object({ token: Token }),
          answer: Type.Object({
            email: described(text, field("Who is invited.", "Siapa yang diundang.")),
            from: text,
            role: Role,
            expires_at: time,
          }),
        },
        async ({ body: { token } }) => {
          const found = await members.open(token)
          if (found instanceof Failure) return found
          return { email: found.to, from: found.email, role: found.role, expires_at: found.expiresAt.toISOString() }
        },
      ),
    )
}

export const memberJson = ({ id, email, role, since, invitedBy }: Member): Static<typeof memberShape> => ({
  id,
  email,
  role,
  since: since.toISOString(),
  invited_by: invitedBy ?? null,
})

const invitationJson = (invitation: Invitation): Static<typeof InvitationShape> => ({
  id: invitation.id,
  email: invitation.email,
  role: invitation.role,
  created_at: invitation.createdAt.toISOString(),
  expires_at: invitation.expiresAt.toISOString(),
  invited_by: invitation.invitedBy ?? null,
})

const invitedJson = (invited: Invited | Failure) =>
  invited instanceof Failure ? invited : { invitation: invitationJson(invited.invitation), path: invited.path ?? null }

const membershipJson = ({ accountId, email, role, since }: Membership): Static<typeof MembershipShape> => ({
  account_id: accountId,
  email,
  role,
  since: since.toISOString(),
})
