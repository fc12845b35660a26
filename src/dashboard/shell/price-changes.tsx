/** Coming prices of what the account uses, with what they would have made of its own last 30 days. */
import { useQuery } from "@tanstack/react-query"
import { TrendingUpDown } from "lucide-react"
import { Link } from "wouter"
import { priceChangesQuery } from "../api/queries.ts"
import { Money } from "../components/values.tsx"
import { useFormat, texts } from "../i18n/language.tsx"
import { useSession } from "./session.tsx"

/** The others are on the page of models. */
const MAX_SHOWN = 5

/** Shown where a person looks for what calls cost. Renders nothing while no price is to come. */
export function PriceChanges() {
  const text = usePriceChangesText()
  const format = useFormat()
  const { data: changes } = useQuery(priceChangesQuery)
  if (changes === undefined || changes.length === 0) return null
  const more = changes.length - MAX_SHOWN
  return (
    <section className="price-changes" aria-label={text.title}>
      <TrendingUpDown aria-hidden="true" />
      <div>
        <p>
          <strong>{text.title}</strong> <Link href="/models">{text.toModels}</Link>
        </p>
        <ul>
          {changes
            .slice(0, MAX_SHOWN)
            .map(({ model, display_name: name, effective_at: at, difference_micro: micro }) => (
              <li key={model}>
                {text.from(name, format.dateTime(at))} <Difference micro={micro} />
              </li>
            ))}
        </ul>
        {more > 0 && <p>{text.more(format.number(more), more === 1)}</p>}
      </div>
    </section>
  )
}

/** For one model; undefined for a visitor, and where nothing of it was used or is to change. */
export function useOwnDifference(model: string): number | undefined {
  const { account } = useSession()
  const { data } = useQuery({ ...priceChangesQuery, enabled: account !== undefined })
  return data?.find((change) => change.model === model)?.difference_micro
}

export function Difference({ micro }: { readonly micro: number }) {
  const text = usePriceChangesText()
  if (micro === 0) return text.same
  return (
    <strong className={micro > 0 ? "price-rise" : "price-fall"}>
      {micro > 0 && "+"}
      <Money micro={micro} />
    </strong>
  )
}

export const usePriceChangesText = texts({
  id: {
    title: "Harga model yang Anda pakai akan berubah",
    toModels: "Lihat harga baru",
    from: (model: string, at: string) => `${model}, mulai ${at}. Pemakaian 30 hari terakhir Anda dengan harga baru:`,
    own: "30 hari terakhir Anda",
    same: "tidak berubah",
    more: (count: string, _one: boolean) => `Dan ${count} model lagi.`,
  },
  en: {
    title: "Prices of models that you use are going to change",
    toModels: "See the new prices",
    from: (model: string, at: string) => `${model}, from ${at}. Your last 30 days at the new price:`,
    own: "Your last 30 days",
    same: "no change",
    more: (count: string, one: boolean) => `And ${count} more ${one ? "model" : "models"}.`,
  },
})
