/** The balance, a form to top it up, payments to be made, and past top-ups. */
import {
  type InfiniteData,
  useInfiniteQuery,
  type UseInfiniteQueryResult,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query"
import { Clock, QrCode, ReceiptText } from "lucide-react"
import { type FormEvent, useEffect, useState } from "react"
import { useLocation, useSearchParams } from "wouter"
import { useChange } from "../../api/queries.ts"
import { isInvalid } from "../../api/client.ts"
import { Button, ButtonLink } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Refusal, TextField } from "../../components/form.tsx"
import { Card, Page, Stat, Stats } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat, type Language, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { amountIn, amountText, parseRupiah } from "../../i18n/figures.ts"
import { useAccount, useMay } from "../../shell/session.tsx"
import { useWalletText } from "./text.ts"
import {
  BreakdownLines,
  LARGEST_RP,
  type ListedTopUp,
  openTopUp,
  quoteQuery,
  SMALLEST_RP,
  topUpQuery,
  type TopUpsPage,
  topUpsQuery,
  TopUpStatus,
  useMethodName,
} from "./top-up.tsx"

export default function WalletPage() {
  const text = useWalletText()
  const { balance_micro: balance, held_micro: held, claim_micro: claim } = useAccount()
  const may = useMay()
  const actions = <ButtonLink to="/wallet/statement">{text.statement}</ButtonLink>
  const [search] = useSearchParams()
  // Asked for at once; shown in the form.
  useQuery({ ...quoteQuery(requestedRp(search.get("amount"))), enabled: may("pay") })
  // Its parts are given what it has: one that asks by itself, when it comes after an error, asks anew, and is taken away for that.
  const topUps = useInfiniteQuery(topUpsQuery)
  // A payment that can still be made stands above all else.
  if (topUps.isPending && topUps.errorUpdateCount === 0) {
    return (
      <Page title={text.title} intro={text.intro} actions={actions}>
        <Skeleton lines={16} />
      </Page>
    )
  }
  return (
    <Page title={text.title} intro={text.intro} actions={actions}>
      {may("pay") && <Pending topUps={topUps.data?.pages[0]?.data ?? []} />}
      <Stats>
        <Stat label={text.available} note={text.availableNote}>
          <Money micro={BigInt(balance) - BigInt(held)} />
        </Stat>
        <Stat label={text.held} note={text.heldNote}>
          <Money micro={held} />
        </Stat>
        {claim > 0 && (
          <Stat label={text.claim} note={text.claimNote}>
            <Money micro={-claim} />
          </Stat>
        )}
      </Stats>
      {may("pay") && <TopUpForm />}
      <History topUps={topUps} />
    </Page>
  )
}

/** Payments that were begun and can still be made. */
function Pending({ topUps }: { readonly topUps: readonly ListedTopUp[] }) {
  const text = useWalletText()
  const format = useFormat()
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

const PRESETS_RP = [10_000, 25_000, 50_000, 100_000, 250_000, 500_000]
const FIRST_RP = 50_000
const MICRO = 1_000_000n

/** The field's text for an amount. */
const written = (amountRp: number, language: Language) => amountText(BigInt(amountRp) * MICRO, language)

type Reading = number | "wrong" | "too-small" | "too-large"

function read(typed: string, language: Language): Reading {
  const micro = parseRupiah(typed, language)
  if (micro === undefined || micro % MICRO !== 0n) return "wrong"
  const amountRp = Number(micro / MICRO)
  if (amountRp < SMALLEST_RP) return "too-small"
  return amountRp > LARGEST_RP ? "too-large" : amountRp
}

/** How much to buy, what it will cost, and the way to pay it. */
function TopUpForm() {
  const text = useWalletText()
  const format = useFormat()
  const { language } = useLanguage()
  const [, navigate] = useLocation()
  const [search] = useSearchParams()
  const client = useQueryClient()
  const [typed, setTyped] = useState(() => written(requestedRp(search.get("amount")), language))
  useLanguageChange((was) => setTyped(amountIn(language, typed, was)))
  // An error is shown when the field is left, and not while somebody types.
  const [left, setLeft] = useState(false)
  const amount = read(typed, language)
  const quote = useQuote(amount)
  const open = useChange({
    mutationFn: openTopUp,
    onSuccess: (topUp) => {
      client.setQueryData(topUpQuery(topUp.id).queryKey, topUp)
      void client.invalidateQueries({ ...topUpsQuery, exact: true })
      navigate(`/wallet/${topUp.id}`)
    },
  })
  const errors = { wrong: text.amountWrong, "too-small": text.amountTooSmall, "too-large": text.amountTooLarge }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setLeft(true)
    if (typeof amount === "number" && !open.isPending) open.mutate(amount)
  }
  return (
    <Card title={text.topUp}>
      <form className="top-up-form" onSubmit={submit} noValidate>
        <div className="top-up-amount">
          <div className="presets" role="group" aria-label={text.amounts}>
            {PRESETS_RP.map((amountRp) => (
              <Button
                key={amountRp}
                aria-pressed={amount === amountRp}
                onClick={() => setTyped(written(amountRp, language))}
              >
                {format.rupiah(BigInt(amountRp) * MICRO)}
              </Button>
            ))}
          </div>
          <TextField
            label={text.amount}
            hint={text.amountHint}
            error={typeof amount === "string" && left ? errors[amount] : undefined}
            before="Rp"
            inputMode="numeric"
            autoComplete="off"
            maxLength={20}
            value={typed}
            onChange={({ target }) => {
              setLeft(false)
              setTyped(target.value)
            }}
            onBlur={() => {
              setLeft(true)
              if (typeof amount === "number") setTyped(written(amount, language))
            }}
          />
        </div>
        <section className="top-up-cost" aria-label={text.breakdown}>
          <h3>{text.breakdown}</h3>
          {quote.data !== undefined && <BreakdownLines breakdown={quote.data} />}
          {quote.isAwaited && <Skeleton lines={5} />}
          {quote.error !== null && <PaymentError error={quote.error} retry={quote.refetch} />}
          {open.error !== null && open.variables === amount && <PaymentError error={open.error} />}
          <Button type="submit" kind="primary" icon={<QrCode />} busy={open.isPending}>
            {quote.data === undefined ? text.payAny : text.pay(format.rupiah(quote.data.total_micro))}
          </Button>
        </section>
      </form>
    </Card>
  )
}

/** Somebody who types pauses for less. */
const TYPING_MS = 250

/** What an amount costs, once it has been left as it is for a moment. Never what another one costs. */
function useQuote(amount: Reading) {
  const [asked, setAsked] = useState(amount)
  useEffect(() => {
    const settling = setTimeout(() => setAsked(amount), TYPING_MS)
    return () => clearTimeout(settling)
  }, [amount])
  const isAmount = typeof amount === "number"
  const { data, error, refetch } = useQuery({
    ...quoteQuery(isAmount ? amount : 0),
    enabled: amount === asked && isAmount,
  })
  return { data, error, refetch, isAwaited: isAmount && data === undefined && error === null }
}

/** A valid amount that is refused exceeds what the payment provider takes at once. */
function PaymentError({ error, retry }: { readonly error: Error; readonly retry?: () => unknown }) {
  const text = useWalletText()
  if (isInvalid(error)) return <Refusal>{text.tooLargeToPay}</Refusal>
  return <ErrorState error={error} {...(retry && { retry })} />
}

/** The amount in a link. */
function requestedRp(text: string | null): number {
  const amountRp = /^\d{5,9}$/.test(text ?? "") ? Number(text) : FIRST_RP
  return amountRp >= SMALLEST_RP && amountRp <= LARGEST_RP ? amountRp : FIRST_RP
}

/** The account's top-ups, the newest first; each opens with its details. */
function History({ topUps }: { readonly topUps: UseInfiniteQueryResult<InfiniteData<TopUpsPage>> }) {
  const text = useWalletText()
  const format = useFormat()
  const methodName = useMethodName()
  const [, navigate] = useLocation()
  const { columns: heads } = text
  const columns: Column<ListedTopUp>[] = [
    { id: "time", head: heads.time, names: true, cell: (topUp) => format.dateTime(topUp.created_at) },
    { id: "status", head: heads.status, cell: (topUp) => <TopUpStatus {...topUp} /> },
    { id: "method", head: heads.method, wide: true, cell: ({ provider }) => methodName(provider) },
    {
      id: "total",
      head: heads.total,
      numeric: true,
      cell: ({ status, breakdown }) => (status === "paid" ? <Money micro={breakdown.total_micro} /> : "–"),
    },
    {
      id: "amount",
      head: heads.amount,
      numeric: true,
      cell: ({ breakdown }) => <Money micro={breakdown.balance_purchased_micro} />,
    },
  ]
  return (
    <Card title={text.history} flush>
      <DataTable
        caption={text.history}
        columns={columns}
        rows={topUps.data?.pages.flatMap(({ data }) => data)}
        rowKey={({ id }) => id}
        error={topUps.error}
        retry={topUps.refetch}
        more={topUps.hasNextPage ? { load: () => void topUps.fetchNextPage(), busy: topUps.isFetching } : undefined}
        onOpen={({ id }) => navigate(`/wallet/${id}`)}
        empty={
          <EmptyState icon={<ReceiptText />} title={text.none}>
            {text.noneHint}
          </EmptyState>
        }
      />
    </Card>
  )
}
