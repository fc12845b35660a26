/** The catalogue: the models, what they can do, and what they cost. It is public. */
import { useQuery } from "@tanstack/react-query"
import { Search, SearchX } from "lucide-react"
import { useMemo } from "react"
import { useSearchParams } from "wouter"
import { type CatalogueModel, modelsQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { useOpened } from "../../components/dialog.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { SelectField, TextField } from "../../components/form.tsx"
import { Card, Page } from "../../components/layout.tsx"
import { Money, Tag, callFormat, callFormats, formatName } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { capabilities, noFilter, chosen, perMillion, type RateName, sortings, type ModelFilter } from "./choose.ts"
import { ModelDrawer, useModelsText } from "./model-drawer.tsx"

export default function ModelsPage() {
  const text = useModelsText()
  const format = useFormat()
  const models = useQuery(modelsQuery)
  const [filter, setFilter] = useFilter()
  const { id, open, close } = useOpened("model")
  const opened = models.data?.find(({ model }) => model === id)
  const shown = useMemo(() => models.data && chosen(models.data, filter), [models.data, filter])
  return (
    <Page title={text.title} intro={text.intro} wide>
      <Filters models={models.data ?? []} filter={filter} onChange={setFilter} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          rows={shown}
          rowKey={({ model }) => model}
          error={models.error}
          retry={models.refetch}
          onOpen={({ model }) => open(model)}
          empty={
            <EmptyState
              icon={<SearchX />}
              title={text.none}
              action={<Button onClick={() => setFilter(noFilter)}>{text.reset}</Button>}
            >
              {text.noneHint}
            </EmptyState>
          }
        />
      </Card>
      {shown !== undefined && (
        <p className="models-count" role="status">
          {text.shown(format.number(shown.length), format.number(models.data?.length ?? 0))}
        </p>
      )}
      {opened !== undefined && <ModelDrawer model={opened} onClose={close} />}
    </Page>
  )
}

/** In the page's address, so that a link, a reload and the way back show the same. What makes no sense there is ignored. */
function useFilter(): readonly [ModelFilter, (filter: ModelFilter) => void] {
  const [query, setQuery] = useSearchParams()
  const filter = useMemo((): ModelFilter => {
    const can = query.get("can")?.split(",") ?? []
    return {
      words: query.get("q") ?? "",
      can: capabilities.filter((capability) => can.includes(capability)),
      format: callFormat(query.get("format") ?? ""),
      sorting: sortings.find((sorting) => sorting === query.get("sort")) ?? noFilter.sorting,
    }
  }, [query])
  const set = ({ words, can, format, sorting }: ModelFilter) =>
    setQuery(
      (now) => {
        const written = new URLSearchParams(now)
        const values = { q: words, format, can: can.join(","), sort: sorting === noFilter.sorting ? "" : sorting }
        for (const [name, value] of Object.entries(values)) {
          if (value) written.set(name, value)
          else written.delete(name)
        }
        return written
      },
      { replace: true },
    )
  return [filter, set]
}

function useColumns(): readonly Column<CatalogueModel>[] {
  const text = useModelsText()
  const format = useFormat()
  return [
    {
      id: "model",
      head: text.columns.model,
      names: true,
      cell: ({ display_name: name, model }) => (
        <span className="model-name">
          <span>{name}</span>
          <code>{model}</code>
        </span>
      ),
    },
    {
      id: "context",
      head: text.columns.context,
      numeric: true,
      cell: ({ context_window: size }) => (size === null ? "–" : format.compact(size)),
    },
    price("input", text.columns.input, "input_micro"),
    price("output", text.columns.output, "output_micro"),
    price("cache-read", text.columns.cacheRead, "cache_read_micro", true),
    price("cache-write", text.columns.cacheWrite, "cache_write_micro", true),
    {
      id: "can",
      head: text.columns.can,
      cell: (model) => (
        <span className="model-tags">
          {model.supports_vision && <Tag>{text.capabilities.vision}</Tag>}
          {model.supports_tools && <Tag>{text.capabilities.tools}</Tag>}
        </span>
      ),
    },
  ]
}

const price = (id: string, head: string, rate: RateName, wide = false): Column<CatalogueModel> => ({
  id,
  head,
  numeric: true,
  wide,
  cell: (model) => <Price model={model} rate={rate} />,
})

const isThisYear = (time: string) => new Date(time).getFullYear() === new Date().getFullYear()

/** Today's, and under it the one that is to come. */
function Price({ model, rate }: { readonly model: CatalogueModel; readonly rate: RateName }) {
  const text = useModelsText()
  const format = useFormat()
  const next = model.next_price
  if (next === undefined || next[rate] === model[rate]) return <Money micro={perMillion(model[rate])} />
  return (
    <span className="model-price">
      <Money micro={perMillion(model[rate])} />
      <span className="model-next">
        {text.from(isThisYear(next.effective_at) ? format.day(next.effective_at) : format.date(next.effective_at))}{" "}
        <Money micro={perMillion(next[rate])} />
      </span>
    </span>
  )
}

interface FiltersProps {
  readonly models: readonly CatalogueModel[]
  readonly filter: ModelFilter
  readonly onChange: (filter: ModelFilter) => void
}

/** Search, filters and order. */
function Filters({ models, filter, onChange }: FiltersProps) {
  const text = useModelsText()
  const served = callFormats.filter((format) => models.some(({ endpoints }) => endpoints.includes(format)))
  return (
    <search className="models-filters">
      <TextField
        label={text.search}
        type="search"
        placeholder={text.searchHint}
        before={<Search aria-hidden="true" />}
        value={filter.words}
        onChange={({ target }) => onChange({ ...filter, words: target.value })}
      />
      <SelectField
        label={text.format}
        value={filter.format ?? ""}
        options={[
          { value: "", label: text.anyFormat },
          ...served.map((format) => ({ value: format, label: formatName(format) })),
        ]}
        onChange={({ target }) => onChange({ ...filter, format: callFormat(target.value) })}
      />
      <SelectField
        label={text.sort}
        value={filter.sorting}
        options={sortings.map((sorting) => ({ value: sorting, label: text.sorts[sorting] }))}
        onChange={({ target }) =>
          onChange({ ...filter, sorting: sortings.find((sorting) => sorting === target.value) ?? noFilter.sorting })
        }
      />
      <fieldset className="models-can">
        <legend>{text.can}</legend>
        {capabilities.map((capability) => (
          <label key={capability} className="check">
            <input
              type="checkbox"
              checked={filter.can.includes(capability)}
              onChange={({ target }) => {
                const others = filter.can.filter((one) => one !== capability)
                onChange({ ...filter, can: target.checked ? [...others, capability] : others })
              }}
            />
            {text.capabilities[capability]}
          </label>
        ))}
      </fieldset>
    </search>
  )
}
