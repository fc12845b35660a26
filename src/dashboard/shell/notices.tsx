/**
 * What is shown whatever the page: notices about the account, and that a page has crashed. And on the pages that are about
 * costs: the coming prices of what the account uses, with what they would have made of its own last 30 days.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { CloudOff, TrendingUpDown } from "lucide-react"
import { Component, type ReactNode, useEffect, useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../api/client.ts"
import { useConnection } from "../api/live.ts"
import { aboutQuery, accountQuery, membershipsQuery, priceChangesQuery, useChange } from "../api/queries.ts"
import { Button, ContactLink } from "../components/button.tsx"
import { EmptyState, NotLoaded, Notice, useLate } from "../components/feedback.tsx"
import { Money } from "../components/values.tsx"
import { texts, useFormat } from "../i18n/language.tsx"
import { AccountPaused, type Left, LEFT, LookedAt, Unusual, useIsOwn, useMay, useSession } from "./session.tsx"
import { useRoleText, useShellText } from "./text.ts"
import { LegalList } from "./appearance.tsx"

/** What must be known on every page: that it may be out of date, and what is up with the account. */
export const Notices = () => (
  <>
    <LostConnection />
    <Moved />
    <LookedAt />
    <AccountNotice />
    <AccountPaused />
    <Unusual />
    <Agreement />
  </>
)

/** A shorter loss is not worth a word. */
const LOST_MS = 3_000

function LostConnection() {
  const text = useShellText()
  const format = useFormat()
  const { account } = useSession()
  const { connection, isLost, since } = useConnection()
  const isMissed = account !== undefined && isLost
  const isLong = useLate(isMissed, LOST_MS)
  if (!isMissed || !isLong) return null
  return (
    <Notice tone="warn">
      {connection === "offline" ? text.offline : text.disconnected} {text.asOf(format.time(since))}
    </Notice>
  )
}

function AccountNotice() {
  const text = useShellText()
  const format = useFormat()
  const { account } = useSession()
  const isOwn = useIsOwn()
  const may = useMay()
  if (account === undefined) return null
  const { frozen, balance_micro: balance, held_micro: held, low_balance_threshold_micro: threshold } = account
  if (frozen) return <Frozen />
  if (isOwn && !account.email_proved) return <Unproved email={account.email} />
  if (threshold === null || balance - held >= threshold) return null
  return (
    <Notice tone="warn">
      {text.low(format.rupiah(threshold))} {may("pay") && <Link href="/wallet">{text.topUp}</Link>}
    </Notice>
  )
}

/** The address waits for its owner to open the link that was sent there. */
function Unproved({ email }: { readonly email: string }) {
  const text = useShellText()
  const again = useChange({ mutationFn: () => unwrap(api.auth.email["send-again"].post()) })
  return (
    <Notice tone="warn">
      {again.isSuccess ? text.proofSent(email) : text.unproved(email)} {again.error !== null && `${text.proofRefused} `}
      {!again.isSuccess && (
        <button type="button" className="notice-button" disabled={again.isPending} onClick={() => again.mutate()}>
          {text.sendAgain}
        </button>
      )}
    </Notice>
  )
}

/** Customers agree to the texts in force: to the first ones that they see, and to others when they have changed. */
function Agreement() {
  const text = useShellText()
  const client = useQueryClient()
  const { account } = useSession()
  const version = useQuery(aboutQuery).data?.legal_version
  const agree = useChange({
    mutationFn: (to: string) => unwrap(api.account.agreement.post({ version: to })),
    onSuccess: (agreed) => client.setQueryData(accountQuery.queryKey, agreed),
    // The gateway may have other texts by now.
    onError: () => void client.invalidateQueries(aboutQuery),
  })
  const isOwn = useIsOwn()
  if (!isOwn || account?.role !== "customer" || version === undefined || account.agreed_version === version) return null
  return (
    <Notice tone="warn">
      {account.agreed_version !== null && `${text.termsChanged} `}
      {text.readAndAgree} <LegalList />. {agree.error !== null && `${text.notAgreed} `}
      <button type="button" className="notice-button" disabled={agree.isPending} onClick={() => agree.mutate(version)}>
        {text.agree}
      </button>
    </Notice>
  )
}

/** The operator needs the account's id, so the notice has it. */
function Frozen() {
  const text = useShellText()
  const { account } = useSession()
  const contact = useQuery(aboutQuery).data?.support_contact ?? undefined
  return (
    <Notice tone="bad">
      {text.frozen(account?.id ?? "")}{" "}
      {contact === undefined ? text.askOperator : <ContactLink contact={contact}>{text.contactOperator}</ContactLink>}
    </Notice>
  )
}

/** Why the page is about another account than a moment ago, until it is dismissed. What was being written is gone. */
function Moved() {
  const text = useRoleText()
  const { account } = useSession()
  const [left, setLeft] = useState(() => {
    const kept = sessionStorage.getItem(LEFT)
    return kept === null ? undefined : (JSON.parse(kept) as Left)
  })
  const isHere = left !== undefined && account !== undefined
  const { data: memberships, isPending } = useQuery({ ...membershipsQuery, enabled: isHere })
  if (!isHere || isPending) return null
  const { id, email, wasOwn, wasSeen } = left
  const isMember = wasOwn || memberships?.some(({ account_id: of }) => of === id) !== false
  const dismiss = () => {
    sessionStorage.removeItem(LEFT)
    setLeft(undefined)
  }
  return (
    <Notice tone="warn">
      {wasSeen ? text.seenOver(email) : isMember ? text.movedFrom(email) : text.noMember(email)}{" "}
      {text.nowAbout(account.email)}{" "}
      <button type="button" className="notice-button" onClick={dismiss}>
        {text.understood}
      </button>
    </Notice>
  )
}

interface CrashBoundaryProps {
  /** The path of the page. Another page is rendered again. */
  readonly place: string
  readonly children: ReactNode
}

/** When a page throws, the frame stays and shows a message. */
export class CrashBoundary extends Component<CrashBoundaryProps, CrashState> {
  override state: CrashState = { crashedAt: undefined, error: undefined }

  static getDerivedStateFromError(error: unknown): CrashState {
    return { crashedAt: location.pathname, error }
  }

  override render() {
    if (this.state.crashedAt !== location.pathname) return this.props.children
    return this.state.error instanceof NotLoaded ? <NotThere /> : <Crashed />
  }
}

interface CrashState {
  readonly crashedAt: string | undefined
  readonly error: unknown
}

const LOOK_MS = 2_000
/** A page that is missing after a reload too is not to be reloaded for ever. */
const RELOADED = "loket-reloaded"
const RELOAD_AGAIN_MS = 15_000

/** Loads the page as soon as the gateway answers: a browser keeps a module that failed. */
function NotThere() {
  const text = useShellText()
  useEffect(() => {
    if (Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < RELOAD_AGAIN_MS) return undefined
    const look = async () => {
      const answer = await fetch(location.href, { method: "HEAD", cache: "no-store" }).catch(() => undefined)
      if (answer?.ok !== true) return
      sessionStorage.setItem(RELOADED, String(Date.now()))
      location.reload()
    }
    const looking = setInterval(() => void look(), LOOK_MS)
    return () => clearInterval(looking)
  }, [])
  return (
    <EmptyState
      isPage
      icon={<CloudOff />}
      title={text.notLoaded}
      action={
        <Button kind="primary" onClick={() => location.reload()}>
          {text.reload}
        </Button>
      }
    >
      {text.notLoadedHint}
    </EmptyState>
  )
}

function Crashed() {
  const text = useShellText()
  return (
    <EmptyState
      isPage
      title={text.crashed}
      action={
        <Button kind="primary" onClick={() => location.reload()}>
          {text.reload}
        </Button>
      }
    >
      {text.crashedHint}
    </EmptyState>
  )
}

/** The others are on the page of models. */
const MAX_SHOWN = 5

/** Shown where a person looks for what calls cost. Renders nothing while no price is to come. */
export function PriceChanges() {
  const text = usePriceChangesText()
  const format = useFormat()
  const { data: changes } = useQuery(priceChangesQuery)
  if (changes === undefined || changes.length === 0) return null
  const more = changes.length - MAX_SHOWN
  return (
    <section className="price-changes" aria-label={text.title}>
      <TrendingUpDown aria-hidden="true" />
      <div>
        <p>
          <strong>{text.title}</strong> <Link href="/models">{text.toModels}</Link>
        </p>
        <ul>
          {changes
            .slice(0, MAX_SHOWN)
            .map(({ model, display_name: name, effective_at: at, difference_micro: micro }) => (
              <li key={model}>
                {text.from(name, format.dateTime(at))} <Difference micro={micro} />
              </li>
            ))}
        </ul>
        {more > 0 && <p>{text.more(format.number(more), more === 1)}</p>}
      </div>
    </section>
  )
}

/** For one model; undefined for a visitor, and where nothing of it was used or is to change. */
export function useOwnDifference(model: string): number | undefined {
  const { account } = useSession()
  const { data } = useQuery({ ...priceChangesQuery, enabled: account !== undefined })
  return data?.find((change) => change.model === model)?.difference_micro
}

export function Difference({ micro }: { readonly micro: number }) {
  const text = usePriceChangesText()
  if (micro === 0) return text.same
  return (
    <strong className={micro > 0 ? "price-rise" : "price-fall"}>
      {micro > 0 && "+"}
      <Money micro={micro} />
    </strong>
  )
}

export const usePriceChangesText = texts({
  id: {
    title: "Harga model yang Anda pakai akan berubah",
    toModels: "Lihat harga baru",
    from: (model: string, at: string) => `${model}, mulai ${at}. Pemakaian 30 hari terakhir Anda dengan harga baru:`,
    own: "30 hari terakhir Anda",
    same: "tidak berubah",
    more: (count: string, _one: boolean) => `Dan ${count} model lagi.`,
  },
  en: {
    title: "Prices of models that you use are going to change",
    toModels: "See the new prices",
    from: (model: string, at: string) => `${model}, from ${at}. Your last 30 days at the new price:`,
    own: "Your last 30 days",
    same: "no change",
    more: (count: string, one: boolean) => `And ${count} more ${one ? "model" : "models"}.`,
  },
})
