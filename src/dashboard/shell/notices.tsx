/** What the account's owner must know on whatever page they are. */
import { useQuery } from "@tanstack/react-query"
import { CircleAlert } from "lucide-react"
import type { ReactNode } from "react"
import { Link } from "wouter"
import { aboutQuery } from "../api/queries.ts"
import { ContactLink } from "../components/contact-link.tsx"
import { useFormat } from "../i18n/format.ts"
import { useSession } from "./session.tsx"
import { useShellText } from "./text.ts"

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

/** Whoever asks the operator has to say for which account. */
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
