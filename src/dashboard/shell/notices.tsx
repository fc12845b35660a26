/** What is shown whatever the page: notices about the account, and that a page has crashed. */
import { useQuery } from "@tanstack/react-query"
import { CircleAlert } from "lucide-react"
import { Component, type ReactNode } from "react"
import { Link } from "wouter"
import { aboutQuery } from "../api/queries.ts"
import { Button, ContactLink } from "../components/button.tsx"
import { EmptyState } from "../components/feedback.tsx"
import { useFormat } from "../i18n/format.ts"
import { useSession } from "./session.tsx"
import { useShellText } from "./text.ts"

/** What the owner of the account must know on every page. */
export function Notices() {
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
export class CrashBoundary extends Component<CrashBoundaryProps, { readonly crashedAt: string | undefined }> {
  override state: { readonly crashedAt: string | undefined } = { crashedAt: undefined }

  static getDerivedStateFromError() {
    return { crashedAt: location.pathname }
  }

  override render() {
    return this.state.crashedAt === location.pathname ? <Crashed /> : this.props.children
  }
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
