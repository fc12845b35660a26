/** Opening an account, which signs its owner in. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { Link } from "wouter"
import { useChange } from "../../api/change.ts"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import { aboutQuery } from "../../api/queries.ts"
import { ErrorState } from "../../components/feedback.tsx"
import { Refusal } from "../../components/form.tsx"
import { texts, useLanguage } from "../../i18n/language.tsx"
import { LegalList } from "../../shell/legal.tsx"
import { useSession } from "../../shell/session.tsx"
import { AuthForm, type Credentials } from "./auth-form.tsx"

const SHORTEST_PASSWORD = 10

export default function SignUpPage() {
  const text = useSignUpText()
  const { signedIn } = useSession()
  const { language } = useLanguage()
  const [tooShort, setTooShort] = useState(false)
  const client = useQueryClient()
  const about = useQuery(aboutQuery)
  const version = about.data?.legal_version
  const signUp = useChange({
    mutationFn: async ({ shown, ...credentials }: Credentials & { readonly shown: string | undefined }) => {
      const agreement = shown === undefined ? {} : { agreed_version: shown }
      const { account } = await unwrap(api.auth["sign-up"].post({ ...credentials, ...agreement }))
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
      if (account.language === language && account.time_zone === timeZone) return account
      // The new account gets the browser's language and time zone. If that fails, the account exists all the same.
      return await unwrap(api.account.patch({ language, time_zone: timeZone })).catch(() => account)
    },
    onSuccess: signedIn,
    // The texts may be others by now.
    onError: () => void client.invalidateQueries(aboutQuery),
  })
  const submit = (credentials: Credentials) => {
    const isShort = credentials.password.length < SHORTEST_PASSWORD
    setTooShort(isShort)
    if (!isShort) signUp.mutate({ ...credentials, shown: version })
  }
  const sent = signUp.error === null ? undefined : signUp.variables.shown
  const isOutdated = sent !== undefined && sent !== version
  return (
    <AuthForm
      text={text}
      newPassword={{ hint: text.passwordHint, error: tooShort ? text.passwordShort : undefined }}
      error={isOutdated ? <Refusal>{text.outdated}</Refusal> : signUp.error && <SignUpError error={signUp.error} />}
      busy={signUp.isPending}
      onSubmit={submit}
      foot={
        <>
          {text.haveAccount} <Link href={`/sign-in${location.search}${location.hash}`}>{text.signIn}</Link>
        </>
      }
    >
      {(version !== undefined || about.isPending) && (
        <p className={about.isPending ? "auth-note is-waiting" : "auth-note"}>
          {text.agreeing} <LegalList />.
        </p>
      )}
    </AuthForm>
  )
}

/** A refused value can be corrected by the person, so no request id is shown. */
function SignUpError({ error }: { readonly error: Error }) {
  const text = useSignUpText()
  return error instanceof ApiFailure && error.code === "request.invalid" ? (
    <Refusal>{text.refused(error.message)}</Refusal>
  ) : (
    <ErrorState error={error} />
  )
}

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
    agreeing: "Dengan mendaftar Anda menyetujui",
    refused: (_message: string) =>
      "Alamat ini tidak dapat dipakai. Mungkin sudah ada akunnya: masuk saja, atau periksa penulisannya.",
    outdated: "Ketentuan kami baru saja berubah. Mohon baca lagi, lalu tekan Daftar.",
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
    agreeing: "By signing up you agree to our",
    refused: (message: string) => message,
    outdated: "Our terms have just changed. Please read them again, then press Sign up.",
    haveAccount: "Already have an account?",
    signIn: "Sign in",
  },
})
