/** The form of the sign-in and sign-up pages: an e-mail address and a password, alone in the middle of the page. */
import type { FormEvent, ReactNode } from "react"
import { Button } from "../../components/button.tsx"
import { formText, PasswordField, TextField } from "../../components/form.tsx"

export interface Credentials {
  readonly email: string
  readonly password: string
}

interface AuthFormProps {
  readonly text: Readonly<Record<"title" | "intro" | "email" | "password" | "submit", string>>
  readonly newPassword?: { readonly hint: string; readonly error: string | undefined }
  /** What went wrong, above the fields. */
  readonly error: ReactNode
  readonly busy: boolean
  /** Not called while the form is busy. */
  readonly onSubmit: (credentials: Credentials) => void
  /** Below the button. */
  readonly children?: ReactNode
  readonly foot: ReactNode
}

export function AuthForm({ text, newPassword, error, busy, onSubmit, children, foot }: AuthFormProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (busy) return
    const form = new FormData(event.currentTarget)
    onSubmit({ email: formText(form, "email"), password: formText(form, "password") })
  }
  return (
    <>
      <title>{`${text.title} · Loket`}</title>
      <div className="auth">
        <h1>{text.title}</h1>
        <p className="auth-intro">{text.intro}</p>
        <form className="card auth-form" onSubmit={submit}>
          {error}
          <TextField
            label={text.email}
            name="email"
            type="email"
            autoComplete="username"
            maxLength={254}
            required
            autoFocus
          />
          <PasswordField
            label={text.password}
            name="password"
            autoComplete={newPassword === undefined ? "current-password" : "new-password"}
            maxLength={256}
            required
            {...newPassword}
          />
          <Button type="submit" kind="primary" busy={busy}>
            {text.submit}
          </Button>
          {children}
        </form>
        <p className="auth-foot">{foot}</p>
      </div>
    </>
  )
}
