/** What became of a top-up that is no longer waited for. */
import { CircleCheck, Clock, QrCode } from "lucide-react"
import { ButtonLink } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useAccount } from "../../shell/session.tsx"
import { CheckPayment } from "./check-payment.tsx"
import type { TopUp } from "./data.ts"
import { useWalletText } from "./text.ts"

export function Paid({ topUp: { id, breakdown } }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const format = useFormat()
  const { balance_micro: balance, held_micro: held } = useAccount()
  return (
    <Card>
      <div className="outcome is-paid">
        <CircleCheck aria-hidden="true" />
        <div role="status">
          <h2>{text.paidTitle}</h2>
          <p>
            {text.paid(format.rupiah(breakdown.balance_purchased_micro))}{" "}
            {text.balanceNow(format.rupiah(BigInt(balance) - BigInt(held)))}
          </p>
        </div>
        <div className="outcome-actions">
          <ButtonLink to={`/wallet/${id}/receipt`}>{text.receipt}</ButtonLink>
          <ButtonLink to="/keys" kind="primary">
            {text.toKeys}
          </ButtonLink>
        </div>
      </div>
    </Card>
  )
}

export function Expired({ topUp }: { readonly topUp: TopUp }) {
  const text = useWalletText()
  const again = (
    <ButtonLink to={`/wallet?amount=${BigInt(topUp.breakdown.balance_purchased_micro) / 1_000_000n}`} kind="primary">
      {text.again}
    </ButtonLink>
  )
  if (topUp.qr === null) {
    return (
      <Card>
        <EmptyState icon={<QrCode />} title={text.notMade} action={again}>
          {text.notMadeHint}
        </EmptyState>
      </Card>
    )
  }
  return (
    <Card>
      <div className="outcome">
        <Clock aria-hidden="true" />
        <div role="status">
          <h2>{text.expiredTitle}</h2>
          <p>{text.expired}</p>
        </div>
        <div className="outcome-actions">
          <CheckPayment topUp={topUp} />
          {again}
        </div>
      </div>
    </Card>
  )
}
