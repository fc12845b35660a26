/** A forgotten password: asking for the link, and setting a new one by it. The server does not tell who has an account. */
import { useQuery } from "@tanstack/react-query"
import { type FormEvent, type ReactNode, useState } from "react"
import { Link } from "wouter"
import { aboutQuery, useChange } from "../../api/queries.ts"
import { api, ApiFailure, isInvalid, unwrap } from "../../api/client.ts"
import { Button, ButtonLink, ContactLink } from "../../components/button.tsx"
import { ErrorState } from "../../components/feedback.tsx"
import { formText, isNewPassword, PasswordField, Refusal, TextField } from "../../components/form.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { useSession } from "../../shell/session.tsx"

/** Asks for the link; where no mail is sent, says who to ask. */
export default function ForgottenPage() {
  const text = useText()
  const about = useQuery(aboutQuery)
  const [asked, setAsked] = useState("")
  const ask = useChange({
    mutationFn: (email: string) => unwrap(api.auth.password.forgotten.post({ email })),
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const email = formText(new FormData(event.currentTarget), "email")
    setAsked(email)
    ask.mutate(email)
  }
  const back = <Link href="/sign-in">{text.back}</Link>
  if (about.data?.sends_links === false) return <Ask contact={about.data.support_contact ?? undefined} foot={back} />
  if (ask.isSuccess)
    return (
      <Frame title={text.sentTitle} intro={text.sent(ask.variables)} foot={back}>
        <div className="card auth-form">
          <p>{text.sentHint}</p>
          <Button onClick={() => ask.reset()}>{text.again}</Button>
        </div>
      </Frame>
    )
  return (
    <Frame title={text.title} intro={text.intro} foot={back}>
      <form className="card auth-form" onSubmit={submit}>
        {ask.error && <Trouble error={ask.error} />}
        <TextField
          label={text.email}
          name="email"
          type="email"
          autoComplete="username"
          maxLength={254}
          required
          autoFocus
          defaultValue={asked}
        />
        <Button type="submit" kind="primary" busy={ask.isPending}>
          {text.send}
        </Button>
      </form>
    </Frame>
  )
}

function Ask({ contact, foot }: { readonly contact: string | undefined; readonly foot: ReactNode }) {
  const text = useText()
  return (
    <Frame title={text.title} intro={text.noMail} foot={foot}>
      <p className="card">
        {contact === undefined ? text.askOperator : <ContactLink contact={contact}>{text.contactOperator}</ContactLink>}
      </p>
    </Frame>
  )
}

/** The link's token is in the fragment, which is never sent with the page's address. */
export function ResetPage() {
  const text = useText()
  const { account, ended } = useSession()
  const [token] = useState(() => location.hash.slice(1))
  const [tooShort, setTooShort] = useState(false)
  const reset = useChange({
    mutationFn: (password: string) => unwrap(api.auth.password.reset.post({ token, new: password })),
    onSuccess: async () => {
      history.replaceState(null, "", location.pathname)
      if (account !== undefined) await ended()
    },
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const password = formText(new FormData(event.currentTarget), "password")
    const isShort = !isNewPassword(password)
    setTooShort(isShort)
    if (!isShort) reset.mutate(password)
  }
  const again = <Link href="/forgotten-password">{text.newLink}</Link>
  if (reset.isSuccess)
    return (
      <Frame title={text.doneTitle} intro={text.done}>
        <ButtonLink to="/sign-in" kind="primary">
          {text.signIn}
        </ButtonLink>
      </Frame>
    )
  return (
    <Frame title={text.resetTitle} intro={text.resetIntro} foot={again}>
      <form className="card auth-form" onSubmit={submit}>
        {reset.error && <Trouble error={reset.error} />}
        <PasswordField
          label={text.newPassword}
          name="password"
          autoComplete="new-password"
          maxLength={256}
          required
          autoFocus
          hint={text.passwordHint}
          error={tooShort ? text.passwordShort : undefined}
        />
        <Button type="submit" kind="primary" busy={reset.isPending}>
          {text.set}
        </Button>
      </form>
    </Frame>
  )
}

/** Proves the address, on the account that is signed in. */
export function ProvePage() {
  const text = useText()
  const { account, signedIn } = useSession()
  const [token] = useState(() => location.hash.slice(1))
  const prove = useChange({
    mutationFn: () => unwrap(api.auth.email.prove.post({ token })),
    onSuccess: (proved) => {
      history.replaceState(null, "", location.pathname)
      signedIn(proved)
    },
  })
  return (
    <Frame
      title={prove.isSuccess ? text.provedTitle : text.proveTitle}
      intro={prove.isSuccess ? text.proved(prove.data.email) : text.proveIntro(account?.email ?? "")}
    >
      <div className="card auth-form">
        {prove.error && <Trouble error={prove.error} dead={text.unproved} />}
        {prove.isSuccess ? (
          <ButtonLink to="/" kind="primary">
            {text.toHome}
          </ButtonLink>
        ) : (
          <Button kind="primary" busy={prove.isPending} onClick={() => prove.mutate()}>
            {text.prove}
          </Button>
        )}
      </div>
    </Frame>
  )
}

interface FrameProps {
  readonly title: string
  readonly intro: string
  readonly children: ReactNode
  readonly foot?: ReactNode
}

const Frame = ({ title, intro, children, foot }: FrameProps) => (
  <>
    <title>{`${title} · Loket`}</title>
    <div className="auth">
      <h1>{title}</h1>
      <p className="auth-intro">{intro}</p>
      {children}
      {foot !== undefined && <p className="auth-foot">{foot}</p>}
    </div>
  </>
)

/** `dead` says what the link's refusal may mean. */
function Trouble({ error, dead }: { readonly error: Error; readonly dead?: string }) {
  const text = useText()
  const format = useFormat()
  if (!(error instanceof ApiFailure)) return <ErrorState error={error} />
  if (error.code === "rate_limit.mail")
    return <Refusal>{text.tooMany(format.number(Math.ceil((error.retryAfterS ?? 60) / 60)))}</Refusal>
  return isInvalid(error) ? <Refusal>{dead ?? text.dead}</Refusal> : <ErrorState error={error} />
}

const useText = texts({
  id: {
    title: "Lupa kata sandi",
    intro: "Tulis alamat e-mail akun Anda. Kami mengirim tautan untuk membuat kata sandi baru.",
    email: "Alamat e-mail",
    send: "Kirim tautan",
    back: "Kembali ke halaman masuk",
    sentTitle: "Periksa e-mail Anda",
    sent: (email: string) => `Jika ${email} memiliki akun, tautan sedang dikirim ke sana.`,
    sentHint: "Tautan berlaku 30 menit. Belum ada setelah beberapa menit? Lihat juga folder spam.",
    again: "Kirim lagi",
    noMail: "Layanan ini tidak mengirim e-mail, jadi kata sandi baru dibuat oleh operatornya.",
    contactOperator: "Hubungi operator",
    askOperator: "Hubungi operator layanan ini, dan sebutkan alamat e-mail akun Anda.",
    resetTitle: "Buat kata sandi baru",
    resetIntro: "Semua perangkat yang sedang masuk akan dikeluarkan.",
    newPassword: "Kata sandi baru",
    passwordHint: "Paling sedikit 10 karakter.",
    passwordShort: "Kata sandi harus 10 sampai 256 karakter.",
    set: "Simpan kata sandi",
    newLink: "Minta tautan baru",
    doneTitle: "Kata sandi diganti",
    done: "Masuklah dengan kata sandi yang baru.",
    signIn: "Masuk",
    proveTitle: "Konfirmasi alamat e-mail",
    proveIntro: (email: string) => `Anda masuk sebagai ${email}.`,
    prove: "Konfirmasi",
    provedTitle: "Alamat e-mail dikonfirmasi",
    proved: (email: string) => `Alamat akun ini: ${email}.`,
    toHome: "Ke beranda",
    dead: "Tautan ini sudah dipakai, sudah kedaluwarsa, atau milik akun lain. Minta tautan baru.",
    unproved:
      "Tautan ini sudah dipakai atau kedaluwarsa, atau milik akun lain. Bisa juga alamat yang dikonfirmasi sudah dipakai akun lain. Minta tautan baru, atau pilih alamat lain.",
    tooMany: (minutes: string) => `Terlalu banyak e-mail diminta. Coba lagi dalam ${minutes} menit.`,
  },
  en: {
    title: "Forgot your password",
    intro: "Enter your account's e-mail address. We send a link to set a new password.",
    email: "E-mail address",
    send: "Send the link",
    back: "Back to sign in",
    sentTitle: "Look into your mailbox",
    sent: (email: string) => `If ${email} has an account, a link is on its way there.`,
    sentHint: "The link works for 30 minutes. Nothing there after some minutes? Look into the spam folder too.",
    again: "Send again",
    noMail: "This service sends no mail, so whoever runs it sets a new password.",
    contactOperator: "Contact the operator",
    askOperator: "Ask whoever runs this service, and mention your account's e-mail address.",
    resetTitle: "Set a new password",
    resetIntro: "Every device that is signed in will be signed out.",
    newPassword: "New password",
    passwordHint: "At least 10 characters.",
    passwordShort: "The password must have 10 to 256 characters.",
    set: "Set password",
    newLink: "Ask for a new link",
    doneTitle: "Password changed",
    done: "Sign in with your new password.",
    signIn: "Sign in",
    proveTitle: "Confirm your e-mail address",
    proveIntro: (email: string) => `You are signed in as ${email}.`,
    prove: "Confirm",
    provedTitle: "E-mail address confirmed",
    proved: (email: string) => `This account's address: ${email}.`,
    toHome: "Go to home",
    dead: "This link was used, is over, or is another account's. Ask for a new one.",
    unproved:
      "This link was used, is over, or is another account's. Or the address that it confirms belongs to another account by now. Ask for a new link, or choose another address.",
    tooMany: (minutes: string) =>
      `Too many mails were asked for. Try again in ${minutes} ${minutes === "1" ? "minute" : "minutes"}.`,
  },
})
