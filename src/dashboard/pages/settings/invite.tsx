/** Inviting somebody: to what role, and the link where no mail takes it. */
import { queryOptions, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import type { Account } from "../../api/queries.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { Dialog, FormDialog } from "../../components/dialog.tsx"
import { useToasts } from "../../components/feedback.tsx"
import { formText, Refusal, SelectField, TextField } from "../../components/form.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useRoleText } from "../../shell/role-text.ts"
import { useMembersText } from "./members-text.ts"

/** To hand over, where the gateway sends no mail. */
export interface Link {
  readonly path: string
  readonly email: string
}

interface InviteDialogProps {
  readonly onClose: () => void
  readonly onLink: (link: Link) => void
}

export function InviteDialog({ onClose, onLink }: InviteDialogProps) {
  const text = useMembersText()
  const { roles, roleHints } = useRoleText()
  const toasts = useToasts()
  const client = useQueryClient()
  const [role, setRole] = useState<Role>("developer")
  const invite = useChange({
    mutationFn: (email: string) => unwrap(api.account.invitations.post({ email, role })),
    onSuccess: async ({ path, invitation: { email } }) => {
      await client.invalidateQueries(membersQuery)
      if (path !== null) return onLink({ path, email })
      toasts.done(text.sent(email))
      onClose()
    },
  })
  const refused = useRefusal(invite.error)
  return (
    <FormDialog
      title={text.inviteTitle}
      submit={text.send}
      busy={invite.isPending}
      error={refused === undefined ? invite.error : null}
      onClose={onClose}
      onSubmit={(form) => invite.mutate(formText(form, "email").trim())}
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
function useRefusal(error: Error | null): string | undefined {
  const text = useMembersText()
  const format = useFormat()
  if (!(error instanceof ApiFailure)) return undefined
  if (error.code === "rate_limit.mail") return text.tooMany(format.number(Math.ceil((error.retryAfterS ?? 60) / 60)))
  return error.code === "request.invalid" ? error.message : undefined
}

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
