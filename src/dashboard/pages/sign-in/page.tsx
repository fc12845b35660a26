/** Signing in. The server slows guessing down: by answering late, and then by refusing for a while. */
import { useMutation } from "@tanstack/react-query"
import { type FormEvent, useEffect, useState } from "react"
import { Link } from "wouter"
import { api } from "../../api/client.ts"
import { ApiFailure, isSignedOut, told } from "../../api/failure.ts"
import { AuthForm, Refusal } from "../../components/auth-form.tsx"
import { Button } from "../../components/button.tsx"
import { formText } from "../../components/form-text.ts"
import { PasswordField, TextField } from "../../components/field.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useSession } from "../../shell/session.tsx"
import { useSignInText } from "./text.ts"

/** From here on an answer is late on purpose. */
const LATE_MS = 1_500

export default function SignInPage() {
  const text = useSignInText()
  const { signedIn } = useSession()
  const signIn = useMutation({
    mutationFn: (credentials: { email: string; password: string }) => told(api.auth["sign-in"].post(credentials)),
    onSuccess: ({ account }) => signedIn(account),
  })
  const late = useLate(signIn.isPending)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (signIn.isPending) return
    const form = new FormData(event.currentTarget)
    signIn.mutate({ email: formText(form, "email"), password: formText(form, "password") })
  }
  return (
    <AuthForm
      title={text.title}
      intro={text.intro}
      onSubmit={submit}
      foot={
        <>
          {text.noAccount} <Link href={`/sign-up${location.search}`}>{text.signUp}</Link>
        </>
      }
    >
      {signIn.error && <SignInError error={signIn.error} />}
      <TextField
        label={text.email}
        name="email"
        type="email"
        autoComplete="username"
        maxLength={254}
        required
        autoFocus
      />
      <PasswordField label={text.password} name="password" autoComplete="current-password" maxLength={256} required />
      <Button type="submit" kind="primary" busy={signIn.isPending}>
        {text.submit}
      </Button>
      <p className="auth-note" role="status">
        {late ? text.slow : ""}
      </p>
    </AuthForm>
  )
}

function SignInError({ error }: { readonly error: Error }) {
  const text = useSignInText()
  const format = useFormat()
  if (!isSignedOut(error)) return <ErrorState error={error} />
  const wait = error instanceof ApiFailure ? error.retryAfterS : undefined
  return <Refusal>{wait === undefined ? text.wrong : text.tooMany(format.number(wait))}</Refusal>
}

function useLate(pending: boolean): boolean {
  const [late, setLate] = useState(false)
  useEffect(() => {
    if (!pending) return setLate(false)
    const timer = setTimeout(() => setLate(true), LATE_MS)
    return () => clearTimeout(timer)
  }, [pending])
  return late
}
