/**
 * The arithmetic of margins, in bigint because sums of money are, and the margin of a price before it is saved: the same
 * calls as in the last days, at the rates that are typed.
 */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery } from "../../api/queries.ts"
import { Skeleton } from "../../components/feedback.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useProfitText } from "./profit-text.ts"

const mixQuery = (model: string) =>
  queryOptions({
    queryKey: ["operator", "mix", model],
    queryFn: () => unwrap(api.operator.models({ model: encodeURIComponent(model) }).mix.get()),
  })

interface CustomersProps {
  readonly model: string
  /** When they pay something else: those who do so at once are told nothing before. */
  readonly when: "now" | "later" | "retiring"
  /** When a price begins; milliseconds. */
  readonly beginsAt?: number | undefined
}

/** What has not stood for so long is told by no mail; milliseconds. */
const MAILED_AFTER = 10 * 60_000

/** How many used the model lately, and whether they learn of the change before it holds. */
export function PriceCustomers({ model, when, beginsAt }: CustomersProps) {
  const text = useProfitText()
  const format = useFormat()
  const { data: mix } = useQuery(mixQuery(model))
  const { data: about } = useQuery(aboutQuery)
  if (mix === undefined || mix.customers === 0) return null
  const isSoon = beginsAt !== undefined && beginsAt <= Date.now() + MAILED_AFTER
  const mailed = when === "now" ? undefined : text.customersMailed[when === "later" && isSoon ? "soon" : when]
  return (
    <p className={when === "later" ? "operator-hint" : "operator-warning"}>
      {text.customers(format.number(mix.customers), mix.customers === 1, format.number(mix.days))}{" "}
      {text.customersTold[when]} {about?.sends_mail === true && mailed}
    </p>
  )
}

interface PriceMarginProps {
  readonly model: string
  /** Undefined while a rate is no number. */
  readonly rates: Readonly<Record<(typeof rateNames)[number], number>> | undefined
}

export function PriceMargin({ model, rates }: PriceMarginProps) {
  const text = useProfitText()
  const format = useFormat()
  const { data: mix, error } = useQuery(mixQuery(model))
  if (error) return null
  if (mix === undefined) return <Skeleton lines={3} />
  const days = format.number(mix.days)
  if (mix.calls === 0) return <p className="operator-hint">{text.mixNone(days)}</p>
  if (mix.unknown_cost === mix.calls) return <p className="operator-hint">{text.mixUnknown}</p>
  const [was, cost] = [BigInt(mix.revenue_micro), BigInt(mix.cost_micro)]
  const then = rates === undefined ? undefined : revenueAt(mix, rates)
  const title = text.mix(days, format.number(mix.calls))
  return (
    <section aria-label={title}>
      <p className="operator-hint">{title}</p>
      <table className="changes">
        <thead>
          <tr>
            <td />
            <th scope="col">{text.mixColumns.now}</th>
            <th scope="col">{text.mixColumns.next}</th>
          </tr>
        </thead>
        <tbody>
          <Line name={text.revenue} now={was} then={then} />
          <Line name={text.cost} now={cost} then={cost} />
          <Line
            name={text.margin}
            now={was - cost}
            then={then === undefined ? undefined : then - cost}
            of={[was, then]}
          />
        </tbody>
      </table>
      {then !== undefined && then < cost && <p className="operator-warning">{text.mixLoss}</p>}
      {mix.unknown_cost > 0 && <p className="operator-hint">{text.mixPart(format.number(mix.unknown_cost))}</p>}
    </section>
  )
}

interface LineProps {
  readonly name: string
  readonly now: bigint
  readonly then: bigint | undefined
  /** What each is told as a share of. */
  readonly of?: readonly [bigint, bigint | undefined]
}

const Line = ({ name, now, then, of }: LineProps) => (
  <tr>
    <th scope="row">{name}</th>
    <td>
      <Money micro={now} /> <Share amount={now} of={of?.[0]} />
    </td>
    <td>
      {then === undefined ? "–" : <Money micro={then} />} <Share amount={then} of={of?.[1]} />
    </td>
  </tr>
)

function Share({ amount, of }: { readonly amount: bigint | undefined; readonly of: bigint | undefined }) {
  const format = useFormat()
  if (amount === undefined || of === undefined || of === 0n) return null
  return <>({format.percent(Number(amount) / Number(of))})</>
}

/** What the profit page divides by. */
export const profitGroups = ["day", "model", "member", "account"] as const
export type ProfitGroup = (typeof profitGroups)[number]

export const leaks = ["usage_missing", "failed", "retries", "rerouted", "searches", "voided"] as const

/** The margin as a share of the revenue; undefined without a revenue. */
export const shareOf = (sum: { readonly revenue_micro: number; readonly margin_micro: number }): number | undefined =>
  sum.revenue_micro === 0 ? undefined : sum.margin_micro / sum.revenue_micro

export const rateNames = ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const

/** What calls were made of, in tokens. */
export interface Mix {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
}

/** What a mix brings at rates of micro-rupiah for one token. */
const revenueAt = (mix: Mix, rates: Readonly<Record<(typeof rateNames)[number], number>>): bigint =>
  BigInt(mix.input_tokens) * BigInt(rates.input_micro) +
  BigInt(mix.output_tokens) * BigInt(rates.output_micro) +
  BigInt(mix.cache_read_tokens) * BigInt(rates.cache_read_micro) +
  BigInt(mix.cache_write_tokens) * BigInt(rates.cache_write_micro)
