/** Signing in. The server slows down guessing: it answers late, and later refuses for a while. */
import { Link } from "wouter"
import { useChange } from "../../api/change.ts"
import { api, ApiFailure, isSignedOut, unwrap } from "../../api/client.ts"
import { ErrorState, useLate } from "../../components/feedback.tsx"
import { Refusal } from "../../components/form.tsx"
import { useFormat } from "../../i18n/format.ts"
import { texts } from "../../i18n/language.tsx"
import { useSession } from "../../shell/session.tsx"
import { AuthForm, type Credentials } from "./auth-form.tsx"

/** An answer that takes longer is delayed on purpose. */
const LATE_MS = 1_500

export default function SignInPage() {
  const text = useSignInText()
  const { signedIn, isLost } = useSession()
  const signIn = useChange({
    mutationFn: (credentials: Credentials) => unwrap(api.auth["sign-in"].post(credentials)),
    onSuccess: ({ account }) => signedIn(account),
  })
  const late = useLate(signIn.isPending, LATE_MS)
  return (
    <AuthForm
      text={text}
      error={signIn.error && <SignInError error={signIn.error} />}
      busy={signIn.isPending}
      onSubmit={signIn.mutate}
      foot={
        <>
          {text.noAccount} <Link href={`/sign-up${location.search}`}>{text.signUp}</Link>
        </>
      }
    >
      <p className="auth-note" role="status">
        {late ? text.slow : isLost ? text.lost : ""}
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

const useSignInText = texts({
  id: {
    title: "Masuk",
    intro: "Satu saldo Rupiah untuk semua model AI.",
    email: "Alamat e-mail",
    password: "Kata sandi",
    submit: "Masuk",
    noAccount: "Belum punya akun?",
    signUp: "Daftar",
    wrong: "Alamat e-mail atau kata sandi salah.",
    tooMany: (seconds: string) => `Terlalu banyak percobaan yang gagal. Coba lagi dalam ${seconds} detik.`,
    lost: "Sesi Anda telah berakhir. Masuk lagi untuk kembali ke halaman tadi.",
    slow: "Karena ada percobaan yang gagal sebelumnya, ini memerlukan beberapa detik.",
  },
  en: {
    title: "Sign in",
    intro: "One Rupiah balance for every AI model.",
    email: "E-mail address",
    password: "Password",
    submit: "Sign in",
    noAccount: "No account yet?",
    signUp: "Sign up",
    wrong: "The e-mail address or the password is wrong.",
    tooMany: (seconds: string) => `Too many failed attempts. Try again in ${seconds} seconds.`,
    lost: "Your session has ended. Sign in to return to where you were.",
    slow: "Because of failed attempts before, this takes a few seconds.",
  },
})
