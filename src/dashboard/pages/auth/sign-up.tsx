/**
 * Becoming a customer: opening an account, which signs its owner in, or accepting an invitation to somebody else's.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useState, type ReactNode } from "react"
import { Link } from "wouter"
import { api, isInvalid, unwrap } from "../../api/client.ts"
import { aboutQuery, useChange, lookAt } from "../../api/queries.ts"
import { Button, ButtonLink } from "../../components/button.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { AuthForm, type Credentials, isNewPassword, Refusal } from "../../components/form.tsx"
import { FormError } from "../../components/layout.tsx"
import { useFormat, texts, useLanguage } from "../../i18n/language.tsx"
import { leaveFor, useSession } from "../../shell/session.tsx"
import { useRoleText } from "../../shell/text.ts"
import { LegalList } from "../../shell/appearance.tsx"

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
    const isShort = !isNewPassword(credentials.password)
    setTooShort(isShort)
    if (!isShort) signUp.mutate({ ...credentials, shown: version })
  }
  const sent = signUp.error === null ? undefined : signUp.variables.shown
  const isOutdated = sent !== undefined && sent !== version
  return (
    <AuthForm
      text={text}
      newPassword={{ hint: text.passwordHint, error: tooShort ? text.passwordShort : undefined }}
      error={
        isOutdated ? (
          <Refusal>{text.outdated}</Refusal>
        ) : (
          signUp.error && <FormError error={signUp.error} refused={text.refused} />
        )
      }
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

const useSignUpText = texts({
  id: {
    title: "Buat akun",
    intro: "Tanpa langganan. Isi saldo mulai Rp\u00a010.000, saldo tidak pernah hangus.",
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
    intro: "No subscription. Top up from Rp\u00a010,000; your balance never expires.",
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

/**
 * An invitation's link: who invites to what, and accepting it with the account of the invited address. Its token is in the fragment, which is
 * never sent with the page's address.
 */
export function JoinPage() {
  const text = useText()
  const [token] = useState(() => location.hash.slice(1))
  const invitation = useQuery({
    queryKey: ["invitation", token],
    queryFn: () => unwrap(api.invitations.open.post({ token })),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const isOver = invitation.error !== null && isInvalid(invitation.error)
  if (invitation.data !== undefined && !isOver)
    return <Open invitation={invitation.data} token={token} lookAgain={invitation.refetch} />
  return (
    <Frame title={text.title}>
      {invitation.error === null ? (
        <Skeleton lines={3} />
      ) : isOver ? (
        <Refusal>{text.dead}</Refusal>
      ) : (
        <ErrorState error={invitation.error} retry={invitation.refetch} />
      )}
    </Frame>
  )
}

interface OpenProps {
  readonly invitation: {
    readonly email: string
    readonly from: string
    readonly role: "owner" | "billing" | "developer" | "viewer"
    readonly expires_at: string
  }
  readonly token: string
  /** Whether the link is still good. */
  readonly lookAgain: () => Promise<unknown>
}

function Open({ invitation: { email, from, role, expires_at: until }, token, lookAgain }: OpenProps) {
  const text = useText()
  const format = useFormat()
  const { roles, roleHints } = useRoleText()
  const { account, signOut } = useSession()
  const accept = useChange({
    mutationFn: async () => lookAt((await unwrap(api.account.memberships.post({ token }))).account_id),
    onSuccess: () => leaveFor("/dashboard/"),
    onError: lookAgain,
  })
  const leave = useChange({ mutationFn: signOut })
  const here = `next=${encodeURIComponent("/join")}#${token}`
  const signedIn = account?.signed_in.email
  return (
    <Frame title={text.title} intro={text.intro(from, roles[role])} foot={text.until(format.dateTime(until))}>
      <div className="card auth-form">
        <p>
          <strong>{roles[role]}</strong>: {roleHints[role]}
        </p>
        {accept.error !== null && (
          <NotAccepted
            error={accept.error}
            isProved={account?.email_proved !== false || account.id !== account.signed_in.id}
          />
        )}
        {signedIn === undefined ? (
          <>
            <p>{text.signInAs(email)}</p>
            <ButtonLink to={`/sign-up?${here}`} kind="primary">
              {text.signUp}
            </ButtonLink>
            <ButtonLink to={`/sign-in?${here}`}>{text.signIn}</ButtonLink>
          </>
        ) : signedIn.toLowerCase() === email.toLowerCase() ? (
          <>
            <p>{text.signedInAs(signedIn)}</p>
            <Button kind="primary" busy={accept.isPending} onClick={() => accept.mutate()}>
              {text.accept}
            </Button>
          </>
        ) : (
          <>
            <Refusal>{text.other(email, signedIn)}</Refusal>
            <Button busy={leave.isPending} onClick={() => leave.mutate()}>
              {text.signOut}
            </Button>
          </>
        )}
      </div>
    </Frame>
  )
}

/** Why a link that is good is not taken of the person whose address it is for. */
function NotAccepted({ error, isProved }: { readonly error: Error; readonly isProved: boolean }) {
  const text = useText()
  return isInvalid(error) ? <Refusal>{isProved ? text.full : text.unproved}</Refusal> : <ErrorState error={error} />
}

interface FrameProps {
  readonly title: string
  readonly intro?: string
  readonly foot?: string
  readonly children: ReactNode
}

const Frame = ({ title, intro, foot, children }: FrameProps) => (
  <>
    <title>{`${title} · Loket`}</title>
    <div className="auth">
      <h1>{title}</h1>
      {intro !== undefined && <p className="auth-intro">{intro}</p>}
      {children}
      {foot !== undefined && <p className="auth-foot">{foot}</p>}
    </div>
  </>
)

const useText = texts({
  id: {
    title: "Undangan ke sebuah akun",
    intro: (from: string, role: string) => `Pemilik akun ${from} mengundang Anda sebagai ${role}.`,
    signInAs: (email: string) => `Undangan ini untuk ${email}. Masuk atau buat akun dengan alamat itu, lalu terima.`,
    signUp: "Buat akun",
    signIn: "Masuk",
    signedInAs: (email: string) => `Anda masuk sebagai ${email}.`,
    accept: "Terima undangan",
    other: (email: string, other: string) => `Undangan ini untuk ${email}; Anda masuk sebagai ${other}.`,
    signOut: "Keluar",
    until: (time: string) => `Berlaku sampai ${time}.`,
    dead: "Undangan ini sudah dipakai, sudah ditarik kembali, atau sudah lewat waktunya. Mintalah undangan baru kepada pengundangnya.",
    full: "Anda sudah menjadi anggota akun sebanyak yang diizinkan. Keluarlah dahulu dari salah satunya, di Pengaturan.",
    unproved: "Konfirmasi dahulu alamat e-mail akun Anda, lewat tautan yang dikirim ke sana.",
  },
  en: {
    title: "Invitation to an account",
    intro: (from: string, role: string) => `The owner of the account ${from} invites you as ${role}.`,
    signInAs: (email: string) =>
      `This invitation is for ${email}. Sign in or make an account with that address, then accept.`,
    signUp: "Create an account",
    signIn: "Sign in",
    signedInAs: (email: string) => `You are signed in as ${email}.`,
    accept: "Accept the invitation",
    other: (email: string, other: string) => `This invitation is for ${email}; you are signed in as ${other}.`,
    signOut: "Sign out",
    until: (time: string) => `Good until ${time}.`,
    dead: "This invitation was used, taken back, or is over. Ask whoever invited you for another one.",
    full: "You are a member of as many accounts as one person may be. Leave one of them first, in Settings.",
    unproved: "Confirm your account's e-mail address first, by the link that was sent there.",
  },
})
