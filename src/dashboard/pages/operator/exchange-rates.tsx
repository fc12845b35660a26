/** The exchange rates that costs are counted at, and the dialog that sets one. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { Coins } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Money, Tag } from "../../components/values.tsx"
import { texts, useFormat, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { amountIn, parseRupiah } from "../../i18n/figures.ts"
import { Confirm, useAction, useDraft } from "./act-dialog.tsx"
import { RoleButton } from "./frame.tsx"
import { useProfitText } from "./margin.tsx"

const FOLLOW_MS = 10_000

export const ratesQuery = queryOptions({
  queryKey: ["operator", "exchange-rates"],
  queryFn: async () => (await unwrap(api.operator["exchange-rates"].get())).data,
  refetchInterval: FOLLOW_MS,
})
type Currency = Awaited<ReturnType<NonNullable<(typeof ratesQuery)["queryFn"]>>>[number]

export function ExchangeRates() {
  const text = useProfitText()
  const { data: currencies, error, refetch } = useQuery(ratesQuery)
  const [setting, setSetting] = useState(false)
  return (
    <Card
      title={text.rates}
      flush
      action={
        <RoleButton role="finance" size="small" onClick={() => setSetting(true)}>
          {text.setRate}
        </RoleButton>
      }
    >
      <DataTable
        caption={text.rates}
        columns={useColumns()}
        rows={currencies}
        error={error}
        retry={refetch}
        rowKey={({ currency }) => currency}
        empty={<EmptyState icon={<Coins />} title={text.noRates} />}
      />
      <p className="operator-foot">{text.ratesHint}</p>
      {setting && <RateDialog currencies={currencies ?? []} onClose={() => setSetting(false)} />}
    </Card>
  )
}

function useColumns(): readonly Column<Currency>[] {
  const text = useProfitText()
  const format = useFormat()
  const { rateColumns: heads } = text
  const current = ({ rates }: Currency) => rates.find(({ state }) => state === "current")
  return [
    { id: "currency", head: heads.currency, names: true, cell: ({ currency }) => <code>{currency}</code> },
    {
      id: "rupiah",
      head: heads.rupiah,
      numeric: true,
      cell: (currency) => {
        const coming = currency.rates.find(({ state }) => state === "coming")
        return (
          <span className="operator-name operator-amount">
            {currency.current === null ? (
              <Tag tone={currency.needed ? "bad" : "neutral"}>{text.missing}</Tag>
            ) : (
              <Money micro={microOf(currency.current)} form="exact" />
            )}
            {coming !== undefined && <small>{text.coming(format.rupiah(microOf(coming.rupiah), "exact"))}</small>}
          </span>
        )
      },
    },
    {
      id: "since",
      head: heads.since,
      cell: (currency) => {
        const since = current(currency)?.effective_at
        return since === undefined ? "–" : format.dateTime(since)
      },
    },
    {
      id: "source",
      head: heads.source,
      cell: (currency) => {
        const source = current(currency)?.source
        return source === undefined ? "–" : text.sources[source]
      },
    },
  ]
}

interface RateDialogProps {
  readonly currencies: readonly Currency[]
  readonly onClose: () => void
}

function RateDialog({ currencies, onClose }: RateDialogProps) {
  const text = useProfitText()
  const { reading, check, first, confirm } = useCheckText()
  const format = useFormat()
  const { language } = useLanguage()
  const missing = currencies.find(({ needed, current }) => needed && current === null)
  const { values, set, sent, send } = useDraft({
    currency: (missing ?? currencies[0])?.currency ?? "USD",
    rupiah: "",
    confirmed: false,
  })
  useLanguageChange((was) => set({ rupiah: amountIn(language, values.rupiah, was) }))
  const action = useAction({
    run: (body: { currency: string; rupiah: string; confirm_jump?: boolean }) =>
      unwrap(api.operator["exchange-rates"].post(body)),
    done: () => text.rateDone,
    onClose,
  })
  const currency = values.currency.trim().toUpperCase()
  const isCurrency = /^[A-Z]{3}$/.test(currency) && currency !== "IDR"
  const micro = parseRupiah(values.rupiah, language)
  const isRate = micro !== undefined && micro > 0n
  const last = currencies.find((one) => one.currency === currency)?.rates[0]
  // Of the first rate of a currency nothing tells whether it is off by a thousand: 16.000 is sixteen in English.
  const isUnsure = isCurrency && isRate && (last === undefined || isLarge(microOf(last.rupiah), micro))
  const read = isCurrency && isRate ? reading(currency, format.rupiah(micro, "exact")) : undefined
  return (
    <FormDialog
      title={text.rateTitle}
      submit={text.rateAct}
      busy={action.isPending}
      error={action.error}
      onSubmit={() => {
        send()
        if (!isCurrency || !isRate || (isUnsure && !values.confirmed)) return
        action.mutate({ currency, rupiah: decimalOf(micro), ...(isUnsure && { confirm_jump: true }) })
      }}
      onClose={onClose}
    >
      <TextField
        label={text.currency}
        maxLength={3}
        autoComplete="off"
        spellCheck={false}
        error={sent && !isCurrency ? text.currencyWrong : undefined}
        value={values.currency}
        // Another currency or amount is to be checked anew.
        onChange={({ target }) => set({ currency: target.value, confirmed: false })}
      />
      <TextField
        label={text.rupiah}
        before="Rp"
        inputMode="decimal"
        autoComplete="off"
        data-autofocus
        hint={read}
        error={
          sent && !isRate
            ? text.rupiahWrong
            : sent && isUnsure && !values.confirmed
              ? `${read} ${last === undefined ? first(currency) : check(format.rupiah(microOf(last.rupiah), "exact"))}`
              : undefined
        }
        value={values.rupiah}
        onChange={({ target }) => set({ rupiah: target.value, confirmed: false })}
      />
      {isUnsure && (
        <Confirm checked={values.confirmed} onChange={({ target }) => set({ confirmed: target.checked })}>
          {confirm(currency, format.rupiah(micro, "exact"))}
        </Confirm>
      )}
      <p className="operator-hint">{text.rateNow}</p>
    </FormDialog>
  )
}

/** As the server judges it: by more than a fifth. */
const isLarge = (from: bigint, to: bigint): boolean => (from < to ? to - from : from - to) * 5n > from

/** Micro-rupiah of the API's decimal. */
function microOf(rupiah: string): bigint {
  const [whole = "0", fraction = ""] = rupiah.split(".")
  return BigInt(whole + fraction.padEnd(6, "0"))
}

function decimalOf(micro: bigint): string {
  const digits = micro.toString().padStart(7, "0")
  return `${digits.slice(0, -6)}.${digits.slice(-6)}`
}

const useCheckText = texts({
  id: {
    reading: (currency: string, rupiah: string) => `Akan disimpan: 1 ${currency} = ${rupiah}.`,
    check: (last: string) => `Kurs terakhir ${last}. Periksa angkanya, dan centang di bawah ini jika memang benar.`,
    first: (currency: string) =>
      `Ini kurs pertama ${currency}. Periksa angkanya, dan centang di bawah ini jika memang benar.`,
    confirm: (currency: string, rupiah: string) => `Ya, 1 ${currency} memang ${rupiah}.`,
  },
  en: {
    reading: (currency: string, rupiah: string) => `To be saved: 1 ${currency} = ${rupiah}.`,
    check: (last: string) => `The last rate is ${last}. Check the figure, and tick below if it is meant.`,
    first: (currency: string) =>
      `It is the first rate of ${currency}. Check the figure, and tick below if it is meant.`,
    confirm: (currency: string, rupiah: string) => `Yes, 1 ${currency} is ${rupiah}.`,
  },
})
