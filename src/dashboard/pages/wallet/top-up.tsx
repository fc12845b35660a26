/** The parts of a top-up that several pages show: its status, its payment method, and its costs. */
import { Money, Tag, type Tone } from "../../components/values.tsx"
import type { Breakdown, ListedTopUp } from "./data.ts"
import { useWalletText } from "./text.ts"

const TONES: Readonly<Record<ListedTopUp["status"], Tone>> = { pending: "warn", paid: "good", expired: "neutral" }

/** The status of a top-up, as a tag. */
export function TopUpStatus({ status }: Pick<ListedTopUp, "status">) {
  const text = useWalletText()
  return <Tag tone={TONES[status]}>{text.statuses[status]}</Tag>
}

/** The name of a payment method; a provider that is not known is shown by its own name. */
export function useMethodName(): (provider: string) => string {
  const { methods } = useWalletText()
  return (provider) => (provider === "midtrans" || provider === "simulated" ? methods[provider] : provider)
}

/** What a top-up costs, line by line (gateway-api.md, "Billing rules" 7). */
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
