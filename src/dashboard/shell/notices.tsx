/** What the account's owner must know on whatever page they are. */
import { CircleAlert } from "lucide-react"
import type { ReactNode } from "react"
import { Link } from "wouter"
import { useFormat } from "../i18n/format.ts"
import { useSession } from "./session.tsx"
import { useShellText } from "./text.ts"

export function Notices() {
  const text = useShellText()
  const format = useFormat()
  const { account } = useSession()
  if (account === undefined) return null
  const { frozen, balance_micro: balance, held_micro: held, low_balance_threshold_micro: threshold } = account
  if (frozen) return <Notice tone="bad">{text.frozen}</Notice>
  if (threshold === null || balance - held >= threshold) return null
  return (
    <Notice tone="warn">
      {text.low(format.rupiah(threshold))} <Link href="/wallet">{text.topUp}</Link>
    </Notice>
  )
}

const Notice = ({ tone, children }: { readonly tone: "warn" | "bad"; readonly children: ReactNode }) => (
  <p className={`notice notice-${tone}`} role="status">
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)
