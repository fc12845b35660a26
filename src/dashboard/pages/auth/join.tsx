/** An invitation's link: who invites to what, and accepting it with the account of the invited address. */
import { useQuery } from "@tanstack/react-query"
import { type ReactNode, useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import { lookAt } from "../../api/queries.ts"
import { Button, ButtonLink } from "../../components/button.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Refusal } from "../../components/form.tsx"
import { useFormat } from "../../i18n/format.ts"
import { texts } from "../../i18n/language.tsx"
import { useRoleText } from "../../shell/role-text.ts"
import { useSession } from "../../shell/session.tsx"

/** The link's token is in the fragment, which is never sent with the page's address. */
export default function JoinPage() {
  const text = useText()
  const [token] = useState(() => location.hash.slice(1))
  const invitation = useQuery({
    queryKey: ["invitation", token],
    queryFn: () => unwrap(api.invitations.open.post({ token })),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })
  if (invitation.data !== undefined) return <Open invitation={invitation.data} token={token} />
  return (
    <Frame title={text.title}>
      {invitation.error === null ? (
        <Skeleton lines={3} />
      ) : isDead(invitation.error) ? (
        <Refusal>{text.dead}</Refusal>
      ) : (
        <ErrorState error={invitation.error} retry={invitation.refetch} />
      )}
    </Frame>
  )
}

const isDead = (error: Error): boolean => error instanceof ApiFailure && error.code === "request.invalid"

interface OpenProps {
  readonly invitation: {
    readonly email: string
    readonly from: string
    readonly role: "owner" | "billing" | "developer" | "viewer"
    readonly expires_at: string
  }
  readonly token: string
}

function Open({ invitation: { email, from, role, expires_at: until }, token }: OpenProps) {
  const text = useText()
  const format = useFormat()
  const { roles, roleHints } = useRoleText()
  const { account, signOut } = useSession()
  const accept = useChange({
    mutationFn: async () => lookAt((await unwrap(api.account.memberships.post({ token }))).account_id),
    onSuccess: () => location.assign("/dashboard/"),
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
        {accept.error !== null &&
          (isDead(accept.error) ? <Refusal>{text.dead}</Refusal> : <ErrorState error={accept.error} />)}
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
  },
})
