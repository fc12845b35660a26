/** What one answer cost: tokens × rates, as the record says, and where the whole record is. */
import { Link } from "wouter"
import { Money } from "../../components/money.tsx"
import { useFormat } from "../../i18n/format.ts"
import type { Receipt } from "./receipts.ts"
import { usePlaygroundText } from "./text.ts"

interface CostProps {
  readonly requestId: string
  readonly receipt: { readonly data: Receipt | undefined; readonly error: Error | null } | undefined
}

export function Cost({ requestId, receipt }: CostProps) {
  const text = usePlaygroundText()
  return (
    <div className="exchange-cost">
      {receipt?.data !== undefined ? (
        <Charged receipt={receipt.data} />
      ) : (
        <p>{receipt?.error ? text.unknownCost : text.pending}</p>
      )}
      <Link href={`/usage?request=${encodeURIComponent(requestId)}`}>{text.inUsage}</Link>
    </div>
  )
}

function Charged({ receipt }: { readonly receipt: Receipt }) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { rates, amounts } = receipt
  const buckets = [
    { name: "input", tokens: receipt.input_tokens, rate: rates.input_micro, amount: amounts.input_micro },
    {
      name: "cacheRead",
      tokens: receipt.cache_read_tokens,
      rate: rates.cache_read_micro,
      amount: amounts.cache_read_micro,
    },
    {
      name: "cacheWrite",
      tokens: receipt.cache_write_tokens,
      rate: rates.cache_write_micro,
      amount: amounts.cache_write_micro,
    },
    { name: "output", tokens: receipt.output_tokens, rate: rates.output_micro, amount: amounts.output_micro },
  ] as const
  if (receipt.charge_micro === 0) return <p>{text.free}</p>
  const input = receipt.input_tokens + receipt.cache_read_tokens + receipt.cache_write_tokens
  return (
    <>
      <p>
        <strong>
          <Money micro={receipt.charge_micro} />
        </strong>
      </p>
      <p>{text.tokens(format.number(input), format.number(receipt.output_tokens))}</p>
      <p>{format.duration(receipt.duration_ms)}</p>
      <details>
        <summary>{text.breakdown}</summary>
        <dl>
          {buckets
            .filter(({ tokens }) => tokens > 0)
            .map(({ name, tokens, rate, amount }) => (
              <div key={name}>
                <dt>{text.buckets[name]}</dt>
                <dd>
                  {format.number(tokens)} × {format.rupiah(rate, "exact")} = {format.rupiah(amount, "exact")}
                </dd>
              </div>
            ))}
        </dl>
      </details>
    </>
  )
}
