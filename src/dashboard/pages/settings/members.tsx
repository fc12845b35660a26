/** Who works on the account, and who is invited to: for its owners. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { UserPlus } from "lucide-react"
import { useState } from "react"
import { useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useRoleText } from "../../shell/text.ts"
import {
  InviteDialog,
  type Link,
  LinkDialog,
  type Members,
  membersQuery,
  type Role,
  roleWords,
  useMembersText,
} from "./memberships.tsx"

type Member = Members["members"][number]
type Invitation = Members["invitations"][number]

export function MembersCard() {
  const text = useMembersText()
  const list = useQuery(membersQuery)
  const [inviting, setInviting] = useState(false)
  const [link, setLink] = useState<Link>()
  const invitations = list.data?.invitations ?? []
  return (
    <Card
      title={text.title}
      flush
      action={
        <Button size="small" icon={<UserPlus />} onClick={() => setInviting(true)}>
          {text.invite}
        </Button>
      }
    >
      <MemberTable members={list.data?.members} error={list.error} retry={list.refetch} />
      {invitations.length > 0 && <InvitationTable invitations={invitations} onLink={setLink} />}
      {inviting && (
        <InviteDialog
          onClose={() => setInviting(false)}
          onLink={(made) => {
            setInviting(false)
            setLink(made)
          }}
        />
      )}
      {link !== undefined && <LinkDialog link={link} onClose={() => setLink(undefined)} />}
    </Card>
  )
}

interface MemberTableProps {
  readonly members: readonly Member[] | undefined
  readonly error: Error | null
  readonly retry: () => unknown
}

function MemberTable({ members, error, retry }: MemberTableProps) {
  const text = useMembersText()
  const format = useFormat()
  const [removing, setRemoving] = useState<Member>()
  const columns: Column<Member>[] = [
    { id: "who", head: text.who, names: true, cell: ({ email }) => <span className="settings-detail">{email}</span> },
    { id: "role", head: text.role, cell: (member) => <RoleChoice member={member} /> },
    { id: "since", head: text.since, wide: true, cell: ({ since }) => format.date(since) },
    {
      id: "action",
      head: text.action,
      numeric: true,
      cell: (member) => (
        <Button size="small" aria-label={text.removeOf(member.email)} onClick={() => setRemoving(member)}>
          {text.remove}
        </Button>
      ),
    },
  ]
  return (
    <>
      <DataTable
        caption={text.title}
        columns={columns}
        rows={members}
        rowKey={({ id }) => id}
        error={error}
        retry={retry}
        empty={text.none}
      />
      {removing !== undefined && <RemoveDialog member={removing} onClose={() => setRemoving(undefined)} />}
    </>
  )
}

/** Saved as soon as it is chosen. */
function RoleChoice({ member: { id, email, role } }: { readonly member: Member }) {
  const text = useMembersText()
  const { roles } = useRoleText()
  const toasts = useToasts()
  const client = useQueryClient()
  const change = useChange({
    mutationFn: (to: Role) => unwrap(api.account.members({ id }).patch({ role: to })),
    onSuccess: () => toasts.done(text.roleSaved),
    onSettled: () => client.invalidateQueries(membersQuery),
  })
  return (
    <>
      <span className="input input-select">
        <select
          aria-label={text.roleOf(email)}
          value={change.isPending ? change.variables : role}
          // Not disabled: it would lose the focus, with which the next role is chosen.
          aria-busy={change.isPending || undefined}
          onChange={({ target }) => {
            const to = roleWords.find((word) => word === target.value)
            if (to !== undefined) change.mutate(to)
          }}
        >
          {roleWords.map((word) => (
            <option key={word} value={word}>
              {roles[word]}
            </option>
          ))}
        </select>
      </span>
      {change.error !== null && <ErrorState error={change.error} />}
    </>
  )
}

function RemoveDialog({ member: { id, email }, onClose }: { readonly member: Member; readonly onClose: () => void }) {
  const text = useMembersText()
  const toasts = useToasts()
  const client = useQueryClient()
  const remove = useChange({
    mutationFn: () => unwrap(api.account.members({ id }).delete()),
    onSuccess: async () => {
      await client.invalidateQueries(membersQuery)
      toasts.done(text.removed)
      onClose()
    },
  })
  return (
    <FormDialog
      title={text.removeTitle}
      submit={text.remove}
      danger
      busy={remove.isPending}
      error={remove.error}
      onClose={onClose}
      onSubmit={() => remove.mutate()}
    >
      <p>{text.removeText(email)}</p>
    </FormDialog>
  )
}

interface InvitationTableProps {
  readonly invitations: readonly Invitation[]
  readonly onLink: (link: Link) => void
}

function InvitationTable({ invitations, onLink }: InvitationTableProps) {
  const text = useMembersText()
  const { roles } = useRoleText()
  const format = useFormat()
  const toasts = useToasts()
  const client = useQueryClient()
  const again = useChange({
    mutationFn: ({ id }: Invitation) => unwrap(api.account.invitations({ id })["send-again"].post()),
    onSuccess: async ({ path }, { email }) => {
      await client.invalidateQueries(membersQuery)
      if (path === null) toasts.done(text.sent(email))
      else onLink({ path, email })
    },
  })
  const takeBack = useChange({
    mutationFn: ({ id }: Invitation) => unwrap(api.account.invitations({ id }).delete()),
    onSuccess: async () => {
      await client.invalidateQueries(membersQuery)
      toasts.done(text.takenBack)
    },
  })
  const error = again.error ?? takeBack.error
  const columns: Column<Invitation>[] = [
    { id: "who", head: text.who, names: true, cell: ({ email }) => <span className="settings-detail">{email}</span> },
    { id: "role", head: text.role, cell: ({ role }) => <Tag>{roles[role]}</Tag> },
    { id: "until", head: text.until, wide: true, cell: ({ expires_at: at }) => format.dateTime(at) },
    {
      id: "action",
      head: text.action,
      numeric: true,
      cell: (each) => (
        <span className="member-actions">
          <Button
            size="small"
            aria-label={text.againTo(each.email)}
            busy={again.isPending && again.variables.id === each.id}
            onClick={() => {
              takeBack.reset()
              again.mutate(each)
            }}
          >
            {text.again}
          </Button>
          <Button
            size="small"
            aria-label={text.takeBackFrom(each.email)}
            busy={takeBack.isPending && takeBack.variables.id === each.id}
            onClick={() => {
              again.reset()
              takeBack.mutate(each)
            }}
          >
            {text.takeBack}
          </Button>
        </span>
      ),
    },
  ]
  return (
    <>
      {error !== null && <ErrorState error={error} />}
      <h3 className="member-invitations">{text.invitations}</h3>
      <DataTable
        caption={text.invitations}
        columns={columns}
        rows={invitations}
        rowKey={({ id }) => id}
        error={null}
        empty={null}
      />
    </>
  )
}
