/** The end of the account: what it takes with it is named, and it is asked for twice. */
import { useQuery } from "@tanstack/react-query"
import { type FormEvent, useId, useState } from "react"
import { useLocation } from "wouter"
import { useChange } from "../../api/change.ts"
import { api, unwrap } from "../../api/client.ts"
import { keysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { PasswordField, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useAccount, useSession } from "../../shell/session.tsx"
import { usePasswordError } from "./security.tsx"
import { useSettingsText } from "./text.ts"

export function DeleteAccount() {
  const text = useSettingsText()
  const [isOpen, setOpen] = useState(false)
  return (
    <Card title={text.danger}>
      <div className="settings-danger">
        <p className="settings-intro">{text.dangerIntro}</p>
        <Button onClick={() => setOpen(true)}>{text.delete}</Button>
      </div>
      {isOpen && <DeleteDialog onClose={() => setOpen(false)} />}
    </Card>
  )
}

function DeleteDialog({ onClose }: { readonly onClose: () => void }) {
  const text = useSettingsText()
  const toasts = useToasts()
  const { ended } = useSession()
  const { email } = useAccount()
  const [, navigate] = useLocation()
  const passwordError = usePasswordError()
  const form = useId()
  const [typed, setTyped] = useState("")
  const [password, setPassword] = useState("")
  const [isUnlike, setUnlike] = useState(false)
  const deletion = useChange({
    mutationFn: () => unwrap(api.account.delete({ password })),
    onSuccess: async () => {
      await ended()
      navigate("/sign-in")
      toasts.done(text.deleted)
    },
  })
  const wrong = passwordError(deletion.error)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const isConfirmed = typed.trim().toLowerCase() === email.toLowerCase()
    setUnlike(!isConfirmed)
    if (isConfirmed && !deletion.isPending) deletion.mutate()
  }
  return (
    <Dialog
      title={text.deleteTitle}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button type="submit" form={form} kind="danger" busy={deletion.isPending}>
            {text.deleteNow}
          </Button>
        </>
      }
    >
      <Consequences />
      <form id={form} className="settings-form" onSubmit={submit}>
        {deletion.error !== null && wrong === undefined && <ErrorState error={deletion.error} />}
        <TextField
          label={text.confirm(email)}
          error={isUnlike ? text.confirmWrong : undefined}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          required
          data-autofocus
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
        />
        <PasswordField
          label={text.deletePassword}
          autoComplete="current-password"
          maxLength={256}
          required
          error={wrong}
          value={password}
          onChange={({ target }) => setPassword(target.value)}
        />
      </form>
    </Dialog>
  )
}

function Consequences() {
  const text = useSettingsText()
  const format = useFormat()
  const { balance_micro: balance } = useAccount()
  const keys = useQuery(keysQuery)
  const active = keys.data?.keys.filter(({ status }) => status === "active").length
  return (
    <ul className="settings-consequences">
      {active !== undefined && (
        <li>{active === 0 ? text.deleteNoKeys : text.deleteKeys(format.number(active), active === 1)}</li>
      )}
      <li>{balance > 0 ? text.deleteBalance(format.rupiah(balance, "exact")) : text.deleteNoBalance}</li>
      <li>{text.deleteSessions}</li>
      <li>{text.deleteData}</li>
      <li>
        <strong>{text.deleteFinal}</strong>
      </li>
    </ul>
  )
}
