/** What a top-up costs, line by line (gateway-api.md, "Billing rules" 7). */
import { Money } from "../../components/money.tsx"
import type { Breakdown } from "./data.ts"
import { useWalletText } from "./text.ts"

export function BreakdownLines({ breakdown }: { readonly breakdown: Breakdown }) {
  const text = useWalletText()
  return (
    <dl className="breakdown">
      <Line name={text.balancePurchased} note={text.creditedInFull} micro={breakdown.balance_purchased_micro} />
      <Line name={text.serviceFee} micro={breakdown.service_fee_micro} />
      <Line name={text.paymentFee} micro={breakdown.payment_fee_micro} />
      <Line name={text.networkFee} note={text.networkFeeNote} micro={breakdown.network_fee_micro} />
      <Line name={text.total} micro={breakdown.total_micro} isTotal />
    </dl>
  )
}

interface LineProps {
  readonly name: string
  readonly note?: string
  readonly micro: number
  readonly isTotal?: boolean
}

const Line = ({ name, note, micro, isTotal = false }: LineProps) => (
  <div className={isTotal ? "is-total" : undefined}>
    <dt>
      {name}
      {note !== undefined && <small>{note}</small>}
    </dt>
    <dd>
      <Money micro={micro} form="exact" />
    </dd>
  </div>
)
