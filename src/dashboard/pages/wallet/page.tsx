/** The balance, how to add to it, what is still to be paid, and what was. */
import { useQuery } from "@tanstack/react-query"
import { Clock } from "lucide-react"
import { ButtonLink } from "../../components/button.tsx"
import { Stat, Stats } from "../../components/card.tsx"
import { Money } from "../../components/money.tsx"
import { Page } from "../../components/page.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useAccount } from "../../shell/session.tsx"
import { topUpsQuery } from "./data.ts"
import { History } from "./history.tsx"
import { useWalletText } from "./text.ts"
import { TopUpForm } from "./top-up-form.tsx"

export default function WalletPage() {
  const text = useWalletText()
  const { balance_micro: balance, held_micro: held } = useAccount()
  return (
    <Page title={text.title} intro={text.intro}>
      <Pending />
      <Stats>
        <Stat label={text.available} note={text.availableNote}>
          <Money micro={BigInt(balance) - BigInt(held)} />
        </Stat>
        <Stat label={text.held} note={text.heldNote}>
          <Money micro={held} />
        </Stat>
      </Stats>
      <TopUpForm />
      <History />
    </Page>
  )
}

/** Payments that were begun and may still be made: after a reload they are not lost. */
function Pending() {
  const text = useWalletText()
  const format = useFormat()
  const { data: topUps = [] } = useQuery(topUpsQuery)
  const pending = topUps.filter(({ status }) => status === "pending")
  if (pending.length === 0) return null
  return (
    <ul className="pending-top-ups" aria-label={text.pending}>
      {pending.map(({ id, breakdown, expires_at: until }) => (
        <li key={id}>
          <Clock aria-hidden="true" />
          <p>
            <strong>
              {text.pending}: <Money micro={breakdown.total_micro} />
            </strong>
            <span>{text.pendingUntil(format.time(until))}</span>
          </p>
          <ButtonLink to={`/wallet/${id}`} size="small">
            {text.resume}
          </ButtonLink>
        </li>
      ))}
    </ul>
  )
}
