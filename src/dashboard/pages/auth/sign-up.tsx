/** Opening an account, which signs its owner in. */
import { useState } from "react"
import { Link } from "wouter"
import { useChange } from "../../api/change.ts"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import { ErrorState } from "../../components/feedback.tsx"
import { Refusal } from "../../components/form.tsx"
import { texts, useLanguage } from "../../i18n/language.tsx"
import { useSession } from "../../shell/session.tsx"
import { AuthForm, type Credentials } from "./auth-form.tsx"

const SHORTEST_PASSWORD = 10

export default function SignUpPage() {
  const text = useSignUpText()
  const { signedIn } = useSession()
  const { language } = useLanguage()
  const [tooShort, setTooShort] = useState(false)
  const signUp = useChange({
    mutationFn: async (credentials: Credentials) => {
      const { account } = await unwrap(api.auth["sign-up"].post(credentials))
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
      if (account.language === language && account.time_zone === timeZone) return account
      // The new account gets the browser's language and time zone. If that fails, the account exists all the same.
      return await unwrap(api.account.patch({ language, time_zone: timeZone })).catch(() => account)
    },
    onSuccess: signedIn,
  })
  const submit = (credentials: Credentials) => {
    const isShort = credentials.password.length < SHORTEST_PASSWORD
    setTooShort(isShort)
    if (!isShort) signUp.mutate(credentials)
  }
  return (
    <AuthForm
      text={text}
      newPassword={{ hint: text.passwordHint, error: tooShort ? text.passwordShort : undefined }}
      error={signUp.error && <SignUpError error={signUp.error} />}
      busy={signUp.isPending}
      onSubmit={submit}
      foot={
        <>
          {text.haveAccount} <Link href={`/sign-in${location.search}`}>{text.signIn}</Link>
        </>
      }
    />
  )
}

/** A refused value can be corrected by the person, so no request id is shown. */
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
