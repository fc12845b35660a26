/** All models, retired ones too, with their current prices. */
import { useQuery } from "@tanstack/react-query"
import { SearchX } from "lucide-react"
import { useLocation } from "wouter"
import { Choice } from "../../components/form.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { addressOf, currentPrice, modelsQuery, ModelTags, type OperatorModel, useModelsText } from "./catalogue.tsx"
import { OperatorPage, SearchForm, useParameter } from "./frame.tsx"

const states = ["on_sale", "retiring", "retired"] as const

export default function ModelsPage() {
  const text = useModelsText()
  const format = useFormat()
  const [, navigate] = useLocation()
  const [query, setQuery] = useParameter("query")
  const [asked, setState] = useParameter("state")
  const state = states.find((known) => known === asked)
  const { data, error, refetch } = useQuery(modelsQuery)
  const shown = data?.filter((model) => (state === undefined || model.status === state) && matches(model, query))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <div className="operator-filters">
        <SearchForm label={text.search} placeholder={text.searchHint} value={query} onSearch={setQuery} />
        <Choice
          label={text.state}
          values={["", ...states]}
          chosen={state ?? ""}
          nameOf={(value) => (value === "" ? text.any : text.states[value])}
          onChoose={setState}
        />
      </div>
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          rows={shown}
          rowKey={({ model }) => model}
          error={error}
          retry={refetch}
          onOpen={({ model }) => navigate(addressOf(model))}
          empty={
            <EmptyState icon={<SearchX />} title={text.none}>
              {text.noneHint}
            </EmptyState>
          }
        />
      </Card>
      {shown !== undefined && (
        <p className="operator-count" role="status">
          {text.shown(format.number(shown.length), format.number(data?.length ?? 0))}
        </p>
      )}
    </OperatorPage>
  )
}

function matches(model: OperatorModel, query: string): boolean {
  const backends = model.upstreams.flatMap(({ provider, format, model: upstream }) => [provider, format, upstream])
  const words = [model.model, model.display_name, model.tier, model.provider, ...backends]
  const haystack = words.join(" ").toLowerCase()
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => haystack.includes(word))
}

function useColumns(): readonly Column<OperatorModel>[] {
  const text = useModelsText()
  const format = useFormat()
  const { columns: heads } = text
  return [
    {
      id: "model",
      head: heads.model,
      names: true,
      cell: ({ display_name: name, model }) => (
        <span className="operator-name">
          <span>{name}</span>
          <code>{model}</code>
        </span>
      ),
    },
    { id: "state", head: heads.state, cell: (model) => <ModelTags model={model} /> },
    { id: "tier", head: heads.tier, cell: ({ tier }) => tier },
    {
      id: "upstream",
      head: heads.upstream,
      wide: true,
      cell: ({ upstreams }) => upstreams.map(({ provider, format }) => `${provider} · ${format}`).join(", "),
    },
    { id: "input", head: heads.input, numeric: true, cell: rate("input_micro") },
    { id: "output", head: heads.output, numeric: true, cell: rate("output_micro") },
    { id: "cap", head: heads.cap, numeric: true, cell: ({ max_concurrency: cap }) => format.number(cap) },
  ]
}

const rate = (name: "input_micro" | "output_micro") => (model: OperatorModel) => {
  const price = currentPrice(model)
  return price === undefined ? "–" : <Money micro={BigInt(price[name]) * 1_000_000n} />
}
