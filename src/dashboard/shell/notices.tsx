/** What is shown whatever the page: notices about the account, and that a page has crashed. */
import { useQuery } from "@tanstack/react-query"
import { CircleAlert, CloudOff } from "lucide-react"
import { Component, type ReactNode, useEffect } from "react"
import { Link } from "wouter"
import { useConnection } from "../api/live.ts"
import { aboutQuery } from "../api/queries.ts"
import { Button, ContactLink } from "../components/button.tsx"
import { EmptyState, useLate } from "../components/feedback.tsx"
import { useFormat } from "../i18n/format.ts"
import { useSession } from "./session.tsx"
import { useShellText } from "./text.ts"

/** What must be known on every page: that it may be out of date, and what is up with the account. */
export const Notices = () => (
  <>
    <LostConnection />
    <AccountNotice />
  </>
)

/** A shorter loss is not worth a word. */
const LOST_MS = 3_000

function LostConnection() {
  const text = useShellText()
  const format = useFormat()
  const { account } = useSession()
  const { connection, since } = useConnection()
  const isLost = account !== undefined && connection !== "live"
  const isLong = useLate(isLost, LOST_MS)
  if (!isLost || !isLong) return null
  return (
    <Notice tone="warn">
      {connection === "offline" ? text.offline : text.disconnected} {text.asOf(format.time(since))}
    </Notice>
  )
}

/** Whether the page follows its account, in a dot and a word. */
export function ConnectionSign() {
  const text = useShellText()
  const { connection } = useConnection()
  return (
    <span className={`connection connection-${connection}`} title={text.connections[connection]}>
      <span className="connection-dot" aria-hidden="true" />
      <span className="connection-word">{text.connections[connection]}</span>
    </span>
  )
}

function AccountNotice() {
  const text = useShellText()
  const format = useFormat()
  const { account } = useSession()
  if (account === undefined) return null
  const { frozen, balance_micro: balance, held_micro: held, low_balance_threshold_micro: threshold } = account
  if (frozen) return <Frozen />
  if (threshold === null || balance - held >= threshold) return null
  return (
    <Notice tone="warn">
      {text.low(format.rupiah(threshold))} <Link href="/wallet">{text.topUp}</Link>
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

const Notice = ({ tone, children }: { readonly tone: "warn" | "bad"; readonly children: ReactNode }) => (
  <p className={`notice notice-${tone}`} role="status">
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)

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

/** The code of a page could not be had: the network or the gateway is away, or a newer version has other files. */
export class NotLoaded extends Error {
  override readonly name = "NotLoaded"
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
