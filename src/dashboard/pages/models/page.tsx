/** The catalogue: what there is, what it can do, and what it costs. For everybody, signed in or not. */
import { useQuery } from "@tanstack/react-query"
import { Search, SearchX } from "lucide-react"
import { useMemo, useState } from "react"
import { type CatalogueModel, modelsQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { SelectField, TextField } from "../../components/form.tsx"
import { Card, Page } from "../../components/layout.tsx"
import { Money, Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { anyModel, chosen, formatName, formats, perMillion, sortings, type Wish } from "./choose.ts"
import { ModelDrawer } from "./model-drawer.tsx"
import { useModelsText } from "./text.ts"

export default function ModelsPage() {
  const text = useModelsText()
  const format = useFormat()
  const models = useQuery(modelsQuery)
  const [wish, setWish] = useState(anyModel)
  const [opened, setOpened] = useState<CatalogueModel>()
  const shown = useMemo(() => models.data && chosen(models.data, wish), [models.data, wish])
  return (
    <Page title={text.title} intro={text.intro}>
      <Filters wish={wish} onChange={setWish} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          rows={shown}
          rowKey={({ model }) => model}
          error={models.error}
          retry={models.refetch}
          onOpen={setOpened}
          empty={
            <EmptyState
              icon={<SearchX />}
              title={text.none}
              action={<Button onClick={() => setWish(anyModel)}>{text.reset}</Button>}
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
      {opened !== undefined && <ModelDrawer model={opened} onClose={() => setOpened(undefined)} />}
    </Page>
  )
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
    price("input", text.columns.input, (model) => model.input_micro),
    price("output", text.columns.output, (model) => model.output_micro),
    price("cache-read", text.columns.cacheRead, (model) => model.cache_read_micro, true),
    price("cache-write", text.columns.cacheWrite, (model) => model.cache_write_micro, true),
    {
      id: "can",
      head: text.columns.can,
      cell: (model) => (
        <span className="model-tags">
          {model.supports_vision && <Tag>{text.vision}</Tag>}
          {model.supports_tools && <Tag>{text.tools}</Tag>}
        </span>
      ),
    },
  ]
}

const price = (id: string, head: string, of: (model: CatalogueModel) => number, wide = false) => ({
  id,
  head,
  numeric: true,
  wide,
  cell: (model: CatalogueModel) => <Money micro={perMillion(of(model))} />,
})

interface FiltersProps {
  readonly wish: Wish
  readonly onChange: (wish: Wish) => void
}

/** What is searched for, wanted, and sorted by. */
function Filters({ wish, onChange }: FiltersProps) {
  const text = useModelsText()
  return (
    <search className="models-filters">
      <TextField
        label={text.search}
        type="search"
        placeholder={text.searchHint}
        before={<Search aria-hidden="true" />}
        value={wish.words}
        onChange={({ target }) => onChange({ ...wish, words: target.value })}
      />
      <SelectField
        label={text.format}
        value={wish.format ?? ""}
        options={[
          { value: "", label: text.anyFormat },
          ...formats.map((format) => ({ value: format, label: formatName(format) })),
        ]}
        onChange={({ target }) => onChange({ ...wish, format: formats.find((format) => format === target.value) })}
      />
      <SelectField
        label={text.sort}
        value={wish.sorting}
        options={sortings.map((sorting) => ({ value: sorting, label: text.sorts[sorting] }))}
        onChange={({ target }) =>
          onChange({ ...wish, sorting: sortings.find((sorting) => sorting === target.value) ?? "name" })
        }
      />
      <fieldset className="models-can">
        <legend>{text.can}</legend>
        <label className="check">
          <input
            type="checkbox"
            checked={wish.vision}
            onChange={({ target }) => onChange({ ...wish, vision: target.checked })}
          />
          {text.vision}
        </label>
        <label className="check">
          <input
            type="checkbox"
            checked={wish.tools}
            onChange={({ target }) => onChange({ ...wish, tools: target.checked })}
          />
          {text.tools}
        </label>
      </fieldset>
    </search>
  )
}
