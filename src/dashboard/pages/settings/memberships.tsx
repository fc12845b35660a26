/**
 * Memberships: inviting somebody to the account, the accounts of others in which whoever is signed in has a role, and the words.
 */
import { queryOptions, useQueryClient, useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import { type Account, useChange, accountQuery, membershipsQuery } from "../../api/queries.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Dialog, FormDialog } from "../../components/dialog.tsx"
import { useToasts } from "../../components/feedback.tsx"
import { formText, Refusal, SelectField, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { typedLine } from "../../i18n/figures.ts"
import { useFormat, texts } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import { useRoleText } from "../../shell/text.ts"

/** To hand over, where the gateway sends no mail. */
export interface Link {
  readonly path: string
  readonly email: string
}

interface InviteDialogProps {
  readonly onClose: () => void
  readonly onLink: (link: Link) => void
}

/** To what role, and the link where no mail takes it. */
export function InviteDialog({ onClose, onLink }: InviteDialogProps) {
  const text = useMembersText()
  const { roles, roleHints } = useRoleText()
  const toasts = useToasts()
  const client = useQueryClient()
  const [role, setRole] = useState<Role>("developer")
  const invite = useChange({
    mutationFn: (email: string) => unwrap(api.account.invitations.post({ email, role })),
    // What is refused may be for a member who has just come.
    onError: () => client.invalidateQueries(membersQuery),
    onSuccess: async ({ path, invitation: { email } }) => {
      await client.invalidateQueries(membersQuery)
      if (path !== null) return onLink({ path, email })
      toasts.done(text.sent(email))
      onClose()
    },
  })
  const refused = useRefusal(invite.error, invite.variables ?? "")
  return (
    <FormDialog
      title={text.inviteTitle}
      submit={text.send}
      busy={invite.isPending}
      error={refused === undefined ? invite.error : null}
      onClose={onClose}
      onSubmit={(form) => invite.mutate(typedLine(formText(form, "email")))}
    >
      <p className="settings-intro">{text.intro}</p>
      {refused !== undefined && <Refusal>{refused}</Refusal>}
      <TextField
        label={text.email}
        name="email"
        type="email"
        autoComplete="off"
        maxLength={254}
        required
        hint={text.emailHint}
        data-autofocus
      />
      <SelectField
        label={text.role}
        name="role"
        value={role}
        hint={roleHints[role]}
        onChange={({ target }) => setRole(roleWords.find((word) => word === target.value) ?? role)}
        options={roleWords.map((word) => ({ value: word, label: roles[word] }))}
      />
    </FormDialog>
  )
}

/** What the person can correct is told in words alone. */
function useRefusal(error: Error | null, address: string): string | undefined {
  const text = useMembersText()
  const { notInvited } = useRoleText()
  const format = useFormat()
  const { email: own, email_proved: isProved } = useAccount()
  const { data } = useQuery(membersQuery)
  if (!(error instanceof ApiFailure)) return undefined
  if (error.code === "rate_limit.mail") return text.tooMany(format.number(Math.ceil((error.retryAfterS ?? 60) / 60)))
  if (error.code !== "request.invalid") return undefined
  const is = ({ email }: { readonly email: string }) => email.toLowerCase() === address.toLowerCase()
  if (!isProved) return notInvited.unproved
  if (is({ email: own })) return notInvited.own
  if (data?.members.some(is) === true) return notInvited.member
  return LIKE_AN_ADDRESS.test(address) ? notInvited.full : notInvited.wrong
}

/** As the server has it, but for characters that nobody types. */
const LIKE_AN_ADDRESS = /^[^\s@<>]{1,64}@[^\s@.<>()[\],;:"\\]+(?:\.[^\s@.<>()[\],;:"\\]+)+$/u

/** Shown once. */
export function LinkDialog({ link: { path, email }, onClose }: { readonly link: Link; readonly onClose: () => void }) {
  const text = useMembersText()
  const url = `${location.origin}/dashboard/${path}`
  return (
    <Dialog
      title={text.linkTitle}
      onClose={onClose}
      insistent
      footer={
        <Button kind="primary" onClick={onClose}>
          {text.done}
        </Button>
      }
    >
      <p>{text.linkText(email)}</p>
      <p className="settings-copied">
        <code>{url}</code>
        <CopyButton text={url} what={text.link} />
      </p>
    </Dialog>
  )
}

/** Who has a role in the account, and who is invited. */
export const membersQuery = queryOptions({
  queryKey: ["members"],
  queryFn: () => unwrap(api.account.members.get()),
})
export type Members = Awaited<ReturnType<NonNullable<typeof membersQuery.queryFn>>>

export type Role = Account["member_role"]
export const roleWords = ["owner", "billing", "developer", "viewer"] as const satisfies readonly Role[]

type Membership = Awaited<ReturnType<NonNullable<typeof membershipsQuery.queryFn>>>[number]

/** Nothing for who has none. */
export function Memberships() {
  const text = useMembersText()
  const { roles } = useRoleText()
  const format = useFormat()
  const { data = [] } = useQuery(membershipsQuery)
  const [leaving, setLeaving] = useState<Membership>()
  if (data.length === 0) return null
  const columns: Column<Membership>[] = [
    { id: "who", head: text.who, names: true, cell: ({ email }) => <span className="settings-detail">{email}</span> },
    { id: "role", head: text.role, cell: ({ role }) => <Tag>{roles[role]}</Tag> },
    { id: "since", head: text.since, wide: true, cell: ({ since }) => format.date(since) },
    {
      id: "action",
      head: text.action,
      numeric: true,
      cell: (membership) => (
        <Button size="small" aria-label={text.leaveOf(membership.email)} onClick={() => setLeaving(membership)}>
          {text.leave}
        </Button>
      ),
    },
  ]
  return (
    <Card title={text.memberships} flush>
      <DataTable
        caption={text.memberships}
        columns={columns}
        rows={data}
        rowKey={({ account_id: id }) => id}
        error={null}
        empty={null}
      />
      {leaving !== undefined && <LeaveDialog membership={leaving} onClose={() => setLeaving(undefined)} />}
    </Card>
  )
}

interface LeaveDialogProps {
  readonly membership: Membership
  readonly onClose: () => void
}

function LeaveDialog({ membership: { account_id: id, email }, onClose }: LeaveDialogProps) {
  const text = useMembersText()
  const toasts = useToasts()
  const client = useQueryClient()
  const leave = useChange({
    mutationFn: () => unwrap(api.account.memberships({ id }).delete()),
    onSuccess: async () => {
      onClose()
      toasts.done(text.left)
      await client.invalidateQueries(membershipsQuery)
      // Where it was the one that is looked at, the page is about one's own again.
      await client.invalidateQueries(accountQuery)
    },
  })
  return (
    <FormDialog
      title={text.leaveTitle}
      submit={text.leave}
      danger
      busy={leave.isPending}
      error={leave.error}
      onClose={onClose}
      onSubmit={() => leave.mutate()}
    >
      <p>{text.leaveText(email)}</p>
    </FormDialog>
  )
}

export const useMembersText = texts({
  id: {
    title: "Anggota",
    intro: "Orang lain yang bekerja di akun ini, masing-masing dengan akun dan kata sandinya sendiri.",
    invite: "Undang",
    who: "Siapa",
    role: "Peran",
    since: "Sejak",
    action: "Tindakan",
    none: "Belum ada anggota. Undang rekan Anda dengan alamat e-mailnya.",
    roleOf: (email: string) => `Peran ${email}`,
    roleSaved: "Peran diubah. Berlaku mulai sekarang.",
    remove: "Keluarkan",
    removeOf: (email: string) => `Keluarkan ${email}`,
    removeTitle: "Keluarkan anggota?",
    removeText: (email: string) =>
      `${email} langsung kehilangan akses ke akun ini. Rotasi kunci API yang rahasianya diketahui anggota itu.`,
    removed: "Anggota dikeluarkan.",
    invitations: "Undangan yang belum dijawab",
    until: "Berlaku sampai",
    again: "Kirim lagi",
    againTo: (email: string) => `Kirim lagi ke ${email}`,
    takeBack: "Tarik kembali",
    takeBackFrom: (email: string) => `Tarik kembali undangan ${email}`,
    takenBack: "Undangan ditarik kembali.",
    inviteTitle: "Undang anggota",
    email: "Alamat e-mail",
    emailHint: "Undangan berlaku 7 hari, untuk akun dengan alamat ini.",
    send: "Kirim undangan",
    sent: (email: string) => `Undangan sedang dikirim ke ${email}.`,
    linkTitle: "Berikan tautan ini",
    linkText: (email: string) =>
      `Layanan ini tidak mengirim e-mail. Berikan tautan ini hanya kepada ${email}; hanya akun dengan alamat itu yang dapat memakainya. Tautan tidak ditampilkan lagi.`,
    link: "Tautan undangan",
    done: "Selesai",
    memberships: "Akun lain tempat Anda anggota",
    leave: "Keluar",
    leaveOf: (email: string) => `Keluar dari akun ${email}`,
    leaveTitle: "Keluar dari akun ini?",
    leaveText: (email: string) =>
      `Anda kehilangan akses ke akun ${email}. Hanya pemiliknya dapat mengundang Anda lagi.`,
    left: "Anda bukan lagi anggota akun itu.",
    tooMany: (minutes: string) => `Terlalu banyak undangan. Coba lagi dalam ${minutes} menit.`,
  },
  en: {
    title: "Members",
    intro: "Others who work on this account, each with an account and a password of their own.",
    invite: "Invite",
    who: "Who",
    role: "Role",
    since: "Since",
    action: "Action",
    none: "No members yet. Invite a colleague by e-mail address.",
    roleOf: (email: string) => `Role of ${email}`,
    roleSaved: "Role changed. It holds from now on.",
    remove: "Remove",
    removeOf: (email: string) => `Remove ${email}`,
    removeTitle: "Remove this member?",
    removeText: (email: string) =>
      `${email} loses access to this account at once. Rotate the API keys whose secret that member knew.`,
    removed: "Member removed.",
    invitations: "Invitations without an answer",
    until: "Good until",
    again: "Send again",
    againTo: (email: string) => `Send again to ${email}`,
    takeBack: "Take back",
    takeBackFrom: (email: string) => `Take back the invitation of ${email}`,
    takenBack: "Invitation taken back.",
    inviteTitle: "Invite a member",
    email: "E-mail address",
    emailHint: "The invitation is good for 7 days, for an account with this address.",
    send: "Send invitation",
    sent: (email: string) => `An invitation is on its way to ${email}.`,
    linkTitle: "Hand over this link",
    linkText: (email: string) =>
      `This service sends no mail. Give this link to ${email} alone; only an account with that address can use it. It is not shown again.`,
    link: "Invitation link",
    done: "Done",
    memberships: "Other accounts of which you are a member",
    leave: "Leave",
    leaveOf: (email: string) => `Leave the account ${email}`,
    leaveTitle: "Leave this account?",
    leaveText: (email: string) => `You lose access to the account ${email}. Only its owner can invite you again.`,
    left: "You are no member of that account any more.",
    tooMany: (minutes: string) =>
      `Too many invitations. Try again in ${minutes} ${minutes === "1" ? "minute" : "minutes"}.`,
  },
})
