/** All models as operators see them, with their prices. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { untilNext } from "../../api/queries.ts"
import { Tag, type Tone } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { texts } from "../../i18n/language.tsx"

export const modelsQuery = queryOptions({
  queryKey: ["operator", "models"],
  queryFn: async () => (await unwrap(api.operator.models.get())).data,
  // Refetched when the next price begins.
  refetchInterval: ({ state: { data } }) =>
    untilNext(
      data?.flatMap(({ prices }) => prices.flatMap(({ state, effective_at: at }) => (state === "coming" ? at : []))) ??
        [],
    ),
})
export type OperatorModel = Awaited<ReturnType<NonNullable<typeof modelsQuery.queryFn>>>[number]
export type Price = OperatorModel["prices"][number]

/** Model ids have slashes, which are `%2F` in an address. */
export const addressOf = (model: string): string => `/operator/models/${encodeURIComponent(model)}`

/** Whether the router's parameter is this model. The router leaves reserved characters encoded. */
export const isMeant = (model: string, parameter: string): boolean => decodeURI(encodeURIComponent(model)) === parameter

export const currentPrice = ({ prices }: OperatorModel): Price | undefined =>
  prices.find(({ state }) => state === "current")

/** The next one first. */
export const comingPrices = ({ prices }: OperatorModel): readonly Price[] =>
  prices.filter(({ state }) => state === "coming")

const TONES: Readonly<Record<OperatorModel["status"], Tone>> = { on_sale: "good", retiring: "warn", retired: "neutral" }

/** Whether a model is on sale, as tags. */
export function ModelTags({ model }: { readonly model: OperatorModel }) {
  const text = useModelsText()
  const format = useFormat()
  const coming = comingPrices(model).length
  return (
    <span className="operator-tags">
      <Tag tone={TONES[model.status]}>{text.states[model.status]}</Tag>
      {coming > 0 && <Tag tone="accent">{text.coming(format.number(coming))}</Tag>}
      {!model.configured && <Tag tone="bad">{text.unconfigured}</Tag>}
    </span>
  )
}

export const useModelsText = texts({
  id: {
    title: "Model dan harga",
    intro: "Semua model, juga yang ditarik. Harga dalam rupiah per satu juta token.",
    search: "Saring model",
    searchHint: "Nama, ID, kelas, atau penyedia",
    state: "Status",
    any: "Semua",
    states: { on_sale: "Dijual", retiring: "Akan ditarik", retired: "Ditarik" },
    unconfigured: "Penyedia tanpa kunci",
    coming: (count: string) => `${count} harga menunggu`,
    none: "Tidak ada model yang cocok",
    noneHint: "Ubah pencarian atau lepaskan saringan.",
    shown: (count: string, all: string) => `${count} dari ${all} model`,
    columns: {
      model: "Model",
      state: "Status",
      tier: "Kelas",
      upstream: "Backend",
      input: "Masukan",
      output: "Keluaran",
      cap: "Serentak",
    },
  },
  en: {
    title: "Models and prices",
    intro: "Every model, retired ones too. Prices are rupiah per million tokens.",
    search: "Filter models",
    searchHint: "Name, ID, tier or provider",
    state: "State",
    any: "All",
    states: { on_sale: "On sale", retiring: "Retiring", retired: "Retired" },
    unconfigured: "Provider without key",
    coming: (count: string) => `${count} to come`,
    none: "No model matches",
    noneHint: "Change the search or take filters away.",
    shown: (count: string, all: string) => `${count} of ${all} models`,
    columns: {
      model: "Model",
      state: "State",
      tier: "Tier",
      upstream: "Backend",
      input: "Input",
      output: "Output",
      cap: "Concurrent",
    },
  },
})
