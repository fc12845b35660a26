/** Opening an account, which signs its owner in. */
import { useMutation } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { ApiFailure } from "../../api/failure.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState } from "../../components/feedback.tsx"
import { AuthForm, formText, PasswordField, Refusal, TextField } from "../../components/form.tsx"
import { texts, useLanguage } from "../../i18n/language.tsx"
import { useSession } from "../../shell/session.tsx"

const SHORTEST_PASSWORD = 10

export default function SignUpPage() {
  const text = useSignUpText()
  const { signedIn } = useSession()
  const { language } = useLanguage()
  const [tooShort, setTooShort] = useState(false)
  const signUp = useMutation({
    mutationFn: async (credentials: { email: string; password: string }) => {
      const { account } = await unwrap(api.auth["sign-up"].post(credentials))
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
      if (account.language === language && account.time_zone === timeZone) return account
      // Whoever signs up is at home where they do it; an account that could not be told so is one all the same.
      return await unwrap(api.account.patch({ language, time_zone: timeZone })).catch(() => account)
    },
    onSuccess: signedIn,
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (signUp.isPending) return
    const form = new FormData(event.currentTarget)
    const password = formText(form, "password")
    setTooShort(password.length < SHORTEST_PASSWORD)
    if (password.length >= SHORTEST_PASSWORD) signUp.mutate({ email: formText(form, "email"), password })
  }
  return (
    <AuthForm
      title={text.title}
      intro={text.intro}
      onSubmit={submit}
      foot={
        <>
          {text.haveAccount} <Link href={`/sign-in${location.search}`}>{text.signIn}</Link>
        </>
      }
    >
      {signUp.error && <SignUpError error={signUp.error} />}
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
        autoComplete="new-password"
        maxLength={256}
        required
        hint={text.passwordHint}
        error={tooShort ? text.passwordShort : undefined}
      />
      <Button type="submit" kind="primary" busy={signUp.isPending}>
        {text.submit}
      </Button>
    </AuthForm>
  )
}

/** A value that was refused is the person's to mend, and needs no request id. */
const SignUpError = ({ error }: { readonly error: Error }) =>
  error instanceof ApiFailure && error.code === "request.invalid" ? (
    <Refusal>{error.message}</Refusal>
  ) : (
    <ErrorState error={error} />
  )

const useSignUpText = texts({
  id: {
    title: "Buat akun",
    intro: "Tanpa langganan. Isi saldo mulai Rp 10.000, saldo tidak pernah hangus.",
    email: "Alamat e-mail",
    password: "Kata sandi",
    passwordHint:
      "Paling sedikit 10 karakter. Beberapa kata yang mudah Anda ingat lebih kuat daripada satu kata rumit.",
    passwordShort: "Kata sandi harus 10 sampai 256 karakter.",
    submit: "Daftar",
    haveAccount: "Sudah punya akun?",
    signIn: "Masuk",
  },
  en: {
    title: "Create an account",
    intro: "No subscription. Top up from Rp 10,000; your balance never expires.",
    email: "E-mail address",
    password: "Password",
    passwordHint: "At least 10 characters. A few words that you remember are stronger than one that is hard to type.",
    passwordShort: "The password must have 10 to 256 characters.",
    submit: "Sign up",
    haveAccount: "Already have an account?",
    signIn: "Sign in",
  },
})
