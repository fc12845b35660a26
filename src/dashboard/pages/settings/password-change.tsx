/**
 * A new password. The server ends every session with the old one, this one too, so that nobody is left who should not be;
 * here the new password signs in again at once.
 */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import { accountQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { PasswordField } from "../../components/field.tsx"
import { useToasts } from "../../components/toast.tsx"
import { useAccount } from "../../shell/session.tsx"
import { sessionsQuery } from "./data.ts"
import { usePasswordError } from "./password-error.ts"
import { useSettingsText } from "./text.ts"

/** As the server counts: characters, an emoji once. */
const NEW_PASSWORD = /^[^]{10,256}$/u

export function PasswordChange() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const passwordError = usePasswordError()
  const { email } = useAccount()
  const [current, setCurrent] = useState("")
  const [replacement, setReplacement] = useState("")
  const [tooShort, setTooShort] = useState(false)
  const change = useMutation({
    mutationFn: async () => {
      await told(api.auth.password.post({ current, new: replacement }))
      return await told(api.auth["sign-in"].post({ email, password: replacement }))
    },
    onSuccess: async ({ account }) => {
      client.setQueryData(accountQuery.queryKey, account)
      setCurrent("")
      setReplacement("")
      await client.invalidateQueries(sessionsQuery)
      toasts.done(text.passwordChanged)
    },
  })
  const wrong = passwordError(change.error)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const isShort = !NEW_PASSWORD.test(replacement)
    setTooShort(isShort)
    if (!isShort && !change.isPending) change.mutate()
  }
  return (
    <Card title={text.password}>
      <form className="settings-form" onSubmit={submit}>
        <p className="settings-intro">{text.passwordIntro}</p>
        {change.error !== null && wrong === undefined && <ErrorState error={change.error} />}
        {/* For password managers, which keep a password by its account. */}
        <input type="text" autoComplete="username" value={email} readOnly hidden />
        <PasswordField
          label={text.currentPassword}
          autoComplete="current-password"
          maxLength={256}
          required
          error={wrong}
          value={current}
          onChange={({ target }) => setCurrent(target.value)}
        />
        <PasswordField
          label={text.newPassword}
          autoComplete="new-password"
          maxLength={256}
          required
          hint={text.newPasswordHint}
          error={tooShort ? text.passwordShort : undefined}
          value={replacement}
          onChange={({ target }) => setReplacement(target.value)}
        />
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {text.changePassword}
          </Button>
        </div>
      </form>
    </Card>
  )
}
