/**
 * A call's cost as a sum that can be checked by hand: tokens × rate of each bucket, less what the house bore. Every digit is
 * shown. Of a call that cost nobody anything there are only the counts.
 */
import { Facts } from "../../components/facts.tsx"
import { Money } from "../../components/money.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useCallText } from "./call-text.ts"
import type { CallDetail } from "./data.ts"

const buckets = [
  { name: "input", tokens: "input_tokens", money: "input_micro" },
  { name: "cacheRead", tokens: "cache_read_tokens", money: "cache_read_micro" },
  { name: "cacheWrite", tokens: "cache_write_tokens", money: "cache_write_micro" },
  { name: "output", tokens: "output_tokens", money: "output_micro" },
] as const

const MILLION = 1_000_000n

export function Receipt({ call }: { readonly call: CallDetail }) {
  const text = useCallText()
  const format = useFormat()
  if (call.status !== "ok" && call.absorbed_micro === 0) return <Counts call={call} />
  return (
    <section className="facts">
      <h3 id="call-sum-title">{text.sum}</h3>
      <table className="call-sum" aria-labelledby="call-sum-title">
        <thead>
          <tr>
            <th scope="col">{text.bucket}</th>
            <th scope="col">
              {text.rate}
              <span>{text.rateOfOne}</span>
            </th>
            <th scope="col">{text.amount}</th>
          </tr>
        </thead>
        <tbody>
          {buckets.map(({ name, tokens, money }) => (
            <tr key={name} className={call[tokens] === 0 ? "is-nothing" : undefined}>
              <th scope="row">
                {text.buckets[name]}
                <span>{text.tokens(format.number(call[tokens]), call[tokens] === 1)}</span>
              </th>
              <td>
                <Money micro={BigInt(call.rates[money]) * MILLION} form="exact" />
                <span>{format.rupiah(call.rates[money], "exact")}</span>
              </td>
              <td>
                <Money micro={call.amounts[money]} form="exact" />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          {call.absorbed_micro > 0 && (
            <>
              <Line name={text.subtotal} micro={BigInt(call.charge_micro) + BigInt(call.absorbed_micro)} />
              <Line name={text.absorbed} micro={-BigInt(call.absorbed_micro)} />
            </>
          )}
          <Line name={text.total} micro={BigInt(call.charge_micro)} total />
        </tfoot>
      </table>
    </section>
  )
}

interface LineProps {
  readonly name: string
  readonly micro: bigint
  readonly total?: boolean
}

const Line = ({ name, micro, total = false }: LineProps) => (
  <tr className={total ? "is-total" : undefined}>
    <th scope="row" colSpan={2}>
      {name}
    </th>
    <td>
      <Money micro={micro} form="exact" />
    </td>
  </tr>
)

function Counts({ call }: { readonly call: CallDetail }) {
  const text = useCallText()
  const format = useFormat()
  if (buckets.every(({ tokens }) => call[tokens] === 0)) return null
  return (
    <Facts
      title={text.tokensUncharged}
      facts={buckets.map(({ name, tokens }) => ({ name: text.buckets[name], value: format.number(call[tokens]) }))}
    />
  )
}
