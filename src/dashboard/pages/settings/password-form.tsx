/** A card with a form that takes the account's password, and what else its children ask for. */
import { type FormEvent, type ReactNode } from "react"
import { Button } from "../../components/button.tsx"
import { ErrorState } from "../../components/feedback.tsx"
import { PasswordField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { usePasswordError } from "./security.tsx"

interface PasswordFormProps {
  readonly title: string
  readonly intro: string
  /** Of the password's field. */
  readonly label: string
  /** The word on the button. */
  readonly submit: string
  readonly password: string
  readonly onPassword: (password: string) => void
  readonly change: { readonly isPending: boolean; readonly error: Error | null; readonly mutate: () => void }
  /** Whether one of the children's fields shows what is wrong. */
  readonly isShown?: boolean
  readonly children?: ReactNode
}

export function PasswordForm(props: PasswordFormProps) {
  const { title, intro, label, submit, password, onPassword, change, isShown = false, children } = props
  const wrong = usePasswordError()(change.error)
  const send = (event: FormEvent) => {
    event.preventDefault()
    change.mutate()
  }
  return (
    <Card title={title}>
      <form className="settings-form" onSubmit={send}>
        <p className="settings-intro">{intro}</p>
        {change.error !== null && wrong === undefined && !isShown && <ErrorState error={change.error} />}
        {children}
        <PasswordField
          label={label}
          autoComplete="current-password"
          maxLength={256}
          required
          error={wrong}
          value={password}
          onChange={({ target }) => onPassword(target.value)}
        />
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {submit}
          </Button>
        </div>
      </form>
    </Card>
  )
}
