/** Signing in. The server slows down guessing: it answers late, and later refuses for a while. */
import { useQuery } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { Link } from "wouter"
import { aboutQuery, useChange } from "../../api/queries.ts"
import { api, ApiFailure, isSignedOut, unwrap } from "../../api/client.ts"
import { canUsePasskeys, signByPasskey, usePasskeyError } from "../../api/browser.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, useLate } from "../../components/feedback.tsx"
import { AuthForm, type Credentials, formText, Refusal, TextField } from "../../components/form.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { useSession } from "../../shell/session.tsx"

/** An answer that takes longer is delayed on purpose. */
const LATE_MS = 1_500

export default function SignInPage() {
  const text = useSignInText()
  const { signedIn, isLost, isHeld } = useSession()
  const [typed, setTyped] = useState<string>()
  const signIn = useChange({
    mutationFn: (credentials: Credentials) => unwrap(api.auth["sign-in"].post(credentials)),
    onSuccess: (answer) => {
      if ("account" in answer) signedIn(answer.account)
    },
  })
  const about = useQuery(aboutQuery)
  const passkey = useChange({
    mutationFn: async () => {
      const signed = await signByPasskey(await unwrap(api.auth["sign-in"].passkey.options.post()))
      return await unwrap(api.auth["sign-in"].passkey.post({ passkey: signed }))
    },
    onSuccess: ({ account }) => signedIn(account),
  })
  const late = useLate(signIn.isPending, LATE_MS)
  if (signIn.data !== undefined && "second_factor" in signIn.data)
    return <SecondStep step={signIn.data.second_factor} onBack={() => signIn.reset()} />
  return (
    <AuthForm
      text={text}
      error={
        <>
          {signIn.error && <SignInError error={signIn.error} />}
          {passkey.error && <PasskeyTrouble error={passkey.error} />}
        </>
      }
      busy={signIn.isPending}
      email={typed}
      onSubmit={(credentials) => {
        setTyped(credentials.email)
        passkey.reset()
        signIn.mutate(credentials)
      }}
      foot={
        isHeld ? (
          // A page of its own: nothing of this one is left.
          <a href="/dashboard/sign-in">{text.discard}</a>
        ) : (
          <>
            {text.noAccount} <Link href={`/sign-up${location.search}${location.hash}`}>{text.signUp}</Link>
          </>
        )
      }
    >
      {canUsePasskeys(about.data?.passkey_origin) && (
        <Button
          busy={passkey.isPending}
          onClick={() => {
            signIn.reset()
            passkey.mutate()
          }}
        >
          {text.byPasskey}
        </Button>
      )}
      {!isHeld && (
        <p className="auth-note">
          <Link href="/forgotten-password">{text.forgotten}</Link>
        </p>
      )}
      <p className="auth-note" role="status">
        {late ? text.slow : isHeld ? text.held : isLost ? text.lost : ""}
      </p>
    </AuthForm>
  )
}

interface SecondStepProps {
  readonly step: { readonly token: string; readonly has_passkey: boolean }
  readonly onBack: () => void
}

/** The second step: a code of the authenticator app, one for recovery, or a passkey. */
function SecondStep({ step: { token, has_passkey: hasPasskey }, onBack }: SecondStepProps) {
  const text = useSignInText()
  const format = useFormat()
  const { signedIn } = useSession()
  const show = useChange({
    mutationFn: (code: string) => unwrap(api.auth["sign-in"]["second-factor"].post({ token, code })),
    onSuccess: ({ account }) => signedIn(account),
  })
  const about = useQuery(aboutQuery)
  const passkey = useChange({
    mutationFn: async () => {
      const signed = await signByPasskey(await unwrap(api.auth["sign-in"]["second-factor"].options.post({ token })))
      return await unwrap(api.auth["sign-in"]["second-factor"].post({ token, passkey: signed }))
    },
    onSuccess: ({ account }) => signedIn(account),
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    passkey.reset()
    show.mutate(formText(new FormData(event.currentTarget), "code"))
  }
  const { error } = show
  const wait = error instanceof ApiFailure ? error.retryAfterS : undefined
  return (
    <>
      <title>{`${text.stepTitle} · Loket`}</title>
      <div className="auth">
        <h1>{text.stepTitle}</h1>
        <p className="auth-intro">{hasPasskey ? text.stepIntroPasskey : text.stepIntro}</p>
        <form className="card auth-form" onSubmit={submit}>
          {passkey.error && <PasskeyTrouble error={passkey.error} />}
          {error !== null && !isSignedOut(error) && <ErrorState error={error} />}
          {isSignedOut(error) && (
            <Refusal>
              {wait === undefined ? text.wrongCode : text.tooManyCodes(format.number(Math.ceil(wait / 60)))}
            </Refusal>
          )}
          <TextField
            label={text.code}
            name="code"
            autoComplete="one-time-code"
            autoCapitalize="characters"
            spellCheck={false}
            maxLength={40}
            required
            autoFocus
          />
          <Button type="submit" kind="primary" busy={show.isPending}>
            {text.submit}
          </Button>
          {hasPasskey && canUsePasskeys(about.data?.passkey_origin) && (
            <Button
              busy={passkey.isPending}
              onClick={() => {
                show.reset()
                passkey.mutate()
              }}
            >
              {text.usePasskey}
            </Button>
          )}
        </form>
        <p className="auth-foot">
          <Button kind="quiet" onClick={onBack}>
            {text.again}
          </Button>
        </p>
      </div>
    </>
  )
}

/** The device has not signed, or the server did not take what it signed. */
function PasskeyTrouble({ error }: { readonly error: Error }) {
  const text = useSignInText()
  const format = useFormat()
  const trouble = usePasskeyError()(error)
  if (trouble !== undefined) return <Refusal>{trouble}</Refusal>
  if (!isSignedOut(error)) return <ErrorState error={error} />
  const wait = error instanceof ApiFailure ? error.retryAfterS : undefined
  return <Refusal>{wait === undefined ? text.wrongPasskey : text.tooMany(format.number(wait))}</Refusal>
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
    forgotten: "Lupa kata sandi?",
    stepTitle: "Verifikasi dua langkah",
    stepIntro: "Tulis enam angka dari aplikasi autentikator Anda. Tanpa ponsel? Pakai salah satu kode pemulihan.",
    stepIntroPasskey: "Pakai passkey Anda, atau tulis kode dari aplikasi autentikator atau salah satu kode pemulihan.",
    byPasskey: "Masuk dengan passkey",
    usePasskey: "Pakai passkey",
    wrongPasskey: "Passkey ini tidak diterima. Mungkin sudah dihapus dari akun, atau waktunya habis. Coba lagi.",
    code: "Kode",
    wrongCode:
      "Kode ini salah, sudah dipakai, atau sudah lewat waktunya. Setelah sepuluh menit, mulailah lagi dari awal.",
    tooManyCodes: (minutes: string) => `Terlalu banyak kode salah. Coba lagi dalam ${minutes} menit.`,
    again: "Mulai lagi dari awal",
    noAccount: "Belum punya akun?",
    signUp: "Daftar",
    wrong: "Alamat e-mail atau kata sandi salah.",
    tooMany: (seconds: string) => `Terlalu banyak percobaan yang gagal. Coba lagi dalam ${seconds} detik.`,
    held: "Sesi Anda telah berakhir. Masuk lagi: yang sedang Anda tulis masih ada.",
    discard: "Buang yang sedang ditulis, dan masuk dari awal",
    lost: "Sesi Anda telah berakhir. Masuk lagi untuk kembali ke halaman tadi.",
    slow: "Karena ada percobaan yang gagal sebelumnya, ini memerlukan beberapa detik.",
  },
  en: {
    title: "Sign in",
    intro: "One Rupiah balance for every AI model.",
    email: "E-mail address",
    password: "Password",
    submit: "Sign in",
    forgotten: "Forgot your password?",
    stepTitle: "Two-step verification",
    stepIntro: "Enter the six digits from your authenticator app. Without your phone? Use one of your recovery codes.",
    stepIntroPasskey: "Use your passkey, or enter a code of your authenticator app or one of your recovery codes.",
    byPasskey: "Sign in with a passkey",
    usePasskey: "Use a passkey",
    wrongPasskey:
      "This passkey was not accepted. It may have been removed from the account, or the time ran out. Try again.",
    code: "Code",
    wrongCode: "This code is wrong, was used before, or is over. After ten minutes, begin again.",
    tooManyCodes: (minutes: string) =>
      `Too many wrong codes. Try again in ${minutes} ${minutes === "1" ? "minute" : "minutes"}.`,
    again: "Begin again",
    noAccount: "No account yet?",
    signUp: "Sign up",
    wrong: "The e-mail address or the password is wrong.",
    tooMany: (seconds: string) =>
      `Too many failed attempts. Try again in ${seconds} ${seconds === "1" ? "second" : "seconds"}.`,
    held: "Your session has ended. Sign in again: what you were writing is still here.",
    discard: "Discard what you were writing, and start from the sign-in page",
    lost: "Your session has ended. Sign in to return to where you were.",
    slow: "Because of failed attempts before, this takes a few seconds.",
  },
})
