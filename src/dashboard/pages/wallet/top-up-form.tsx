/** How much to buy, what it will cost, and the way to pay it. */
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { QrCode } from "lucide-react"
import { type FormEvent, useState } from "react"
import { useLocation, useSearchParams } from "wouter"
import { Refusal } from "../../components/auth-form.tsx"
import { Button } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { TextField } from "../../components/field.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { ApiFailure } from "../../api/failure.ts"
import { useFormat } from "../../i18n/format.ts"
import { type Language, useLanguage } from "../../i18n/language.tsx"
import { parseRupiah } from "../../i18n/parse.ts"
import { formatRupiah } from "../../i18n/rupiah.ts"
import { BreakdownLines } from "./breakdown.tsx"
import { LARGEST_RP, openTopUp, quoteQuery, SMALLEST_RP, topUpQuery, topUpsQuery } from "./data.ts"
import { useWalletText } from "./text.ts"

const PRESETS_RP = [10_000, 25_000, 50_000, 100_000, 250_000, 500_000]
const FIRST_RP = 50_000
const MICRO = 1_000_000n

/** Grouped digits, as the field shows them. */
const written = (amountRp: number, language: Language) =>
  formatRupiah(BigInt(amountRp) * MICRO, language, "whole").replace(/^Rp\s/, "")

type Reading = number | "wrong" | "too-small" | "too-large"

function read(typed: string, language: Language): Reading {
  const micro = parseRupiah(typed, language)
  if (micro === undefined || micro % MICRO !== 0n) return "wrong"
  const amountRp = Number(micro / MICRO)
  if (amountRp < SMALLEST_RP) return "too-small"
  return amountRp > LARGEST_RP ? "too-large" : amountRp
}

export function TopUpForm() {
  const text = useWalletText()
  const format = useFormat()
  const { language } = useLanguage()
  const [, navigate] = useLocation()
  const [search] = useSearchParams()
  const client = useQueryClient()
  const [typed, setTyped] = useState(() => written(wishedRp(search.get("amount")), language))
  // A mistake is told when the field is left, and not while it is still being written.
  const [left, setLeft] = useState(false)
  const amount = read(typed, language)
  const quote = useQuery({
    ...quoteQuery(typeof amount === "number" ? amount : 0),
    enabled: typeof amount === "number",
    placeholderData: keepPreviousData,
  })
  const open = useMutation({
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
  const settled = typeof amount === "number" && !quote.isPlaceholderData ? quote.data : undefined
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
          {quote.data === undefined && quote.isFetching && <Skeleton lines={5} />}
          {quote.error !== null && <PaymentError error={quote.error} retry={quote.refetch} />}
          {open.error !== null && <PaymentError error={open.error} />}
          <Button type="submit" kind="primary" icon={<QrCode />} busy={open.isPending}>
            {settled === undefined ? text.payAny : text.pay(format.rupiah(settled.total_micro))}
          </Button>
        </section>
      </form>
    </Card>
  )
}

/** An amount that is in order and refused all the same is more than the provider takes in one payment. */
function PaymentError({ error, retry }: { readonly error: Error; readonly retry?: () => unknown }) {
  const text = useWalletText()
  if (error instanceof ApiFailure && error.code === "request.invalid") return <Refusal>{text.tooLargeToPay}</Refusal>
  return <ErrorState error={error} {...(retry && { retry })} />
}

/** The amount that a link asks for. */
function wishedRp(text: string | null): number {
  const amountRp = /^\d{5,9}$/.test(text ?? "") ? Number(text) : FIRST_RP
  return amountRp >= SMALLEST_RP && amountRp <= LARGEST_RP ? amountRp : FIRST_RP
}
