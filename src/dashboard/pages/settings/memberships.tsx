/** The accounts of others in which whoever is signed in has a role, and leaving them. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, unwrap } from "../../api/client.ts"
import { accountQuery, membershipsQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { useToasts } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useRoleText } from "../../shell/role-text.ts"
import { useMembersText } from "./members-text.ts"

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
