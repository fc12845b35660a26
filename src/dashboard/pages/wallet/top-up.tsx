/** The queries and changes of the wallet, and the parts of a top-up that several pages show: status, method, costs. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { untilNext } from "../../api/queries.ts"
import { Money, Tag, type Tone } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useWalletText } from "./text.ts"

/** Decisions §10. */
export const SMALLEST_RP = 10_000
export const LARGEST_RP = 100_000_000

/** A payment whose event is missed is seen after this time at the latest. */
const POLL_MS = 5_000

const topUpsPage = (cursor: string | undefined) =>
  unwrap(api["top-ups"].get({ query: cursor === undefined ? {} : { cursor } }))
export type TopUpsPage = Awaited<ReturnType<typeof topUpsPage>>
export type ListedTopUp = TopUpsPage["data"][number]

/** A page at a time; what can still be paid is in the first. */
export const topUpsQuery = infiniteQueryOptions({
  queryKey: ["top-ups"],
  queryFn: ({ pageParam }) => topUpsPage(pageParam),
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (page) => page.next_cursor ?? undefined,
  // The time to pay ends without an event.
  refetchInterval: ({ state }) =>
    untilNext(
      state.data?.pages.flatMap(({ data }) =>
        data.flatMap(({ status, expires_at: at }) => (status === "pending" ? [at] : [])),
      ) ?? [],
    ),
})
type Breakdown = ListedTopUp["breakdown"]

export const topUpQuery = (id: string) =>
  queryOptions({
    queryKey: ["top-ups", id],
    queryFn: () => unwrap(api["top-ups"]({ id }).get()),
    refetchInterval: ({ state }) => (state.data?.status === "pending" ? POLL_MS : false),
  })
export type TopUp = Awaited<ReturnType<NonNullable<ReturnType<typeof topUpQuery>["queryFn"]>>>

/** The cost of a top-up. Fees change only with the configuration. */
export const quoteQuery = (amountRp: number) =>
  queryOptions({
    queryKey: ["quote", amountRp],
    queryFn: async () => (await unwrap(api["top-ups"].quote.get({ query: { amount_rp: amountRp } }))).breakdown,
    staleTime: 60_000,
  })

export const openTopUp = (amountRp: number) => unwrap(api["top-ups"].post({ amount_rp: amountRp }))

/** Asks the payment provider now. */
export const checkTopUp = (id: string) => unwrap(api["top-ups"]({ id }).check.post())

const TONES: Readonly<Record<ListedTopUp["status"], Tone>> = { pending: "warn", paid: "good", expired: "neutral" }

/** The status of a top-up, as a tag: of one that went back, how much of it. */
export function TopUpStatus({ status, refund_status: refunded }: Pick<ListedTopUp, "status" | "refund_status">) {
  const text = useWalletText()
  if (refunded !== null)
    return <Tag tone={refunded === "disputed" ? "bad" : "neutral"}>{text.refundStatuses[refunded]}</Tag>
  return <Tag tone={TONES[status]}>{text.statuses[status]}</Tag>
}

/** What of a top-up went back, line by line; nothing while nothing did. */
export function RefundLines({ refunds }: Pick<TopUp, "refunds">) {
  const text = useWalletText()
  const format = useFormat()
  const shown = refunds.filter(({ status }) => status !== "cancelled")
  if (shown.length === 0) return null
  return (
    <dl className="breakdown went-back" aria-label={text.refunds}>
      {shown.map(({ id, kind, status, amount_micro: amount, created_at: at, claimed_micro: claimed }) => (
        <Line
          key={id}
          name={text.refundKinds[kind]}
          note={[
            format.dateTime(at),
            ...(kind === "refund" && status !== "paid_out" ? [text.notPaidOut] : []),
            ...(claimed > 0 ? [text.claimed(format.rupiah(claimed))] : []),
          ].join(" · ")}
          micro={-amount}
          {...(status === "paid_out" && { file: `/refunds/${id}/receipt.pdf`, fileName: text.refundReceipt })}
        />
      ))}
    </dl>
  )
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
      {breakdown.network_fee_micro > 0 && (
        <Line name={text.networkFee} note={text.networkFeeNote} micro={breakdown.network_fee_micro} />
      )}
      <Line name={text.total} micro={breakdown.total_micro} isTotal />
    </dl>
  )
}

interface LineProps {
  readonly name: string
  readonly note?: string
  readonly micro: number
  readonly isTotal?: boolean
  /** What can be downloaded of it. */
  readonly file?: string
  readonly fileName?: string
}

const Line = ({ name, note, micro, isTotal = false, file, fileName }: LineProps) => (
  <div className={isTotal ? "is-total" : undefined}>
    <dt>
      {name}
      {note !== undefined && <small>{note}</small>}
      {file !== undefined && (
        <small>
          <a href={file} download>
            {fileName}
          </a>
        </small>
      )}
    </dt>
    <dd>
      <Money micro={micro} form="exact" />
    </dd>
  </div>
)
