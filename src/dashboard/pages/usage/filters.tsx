/** Of when, and of which calls everything on the page is. */
import { useQuery } from "@tanstack/react-query"
import { X } from "lucide-react"
import { modelsQuery, namedKeysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { DateRange } from "../../components/date-range.tsx"
import { SelectField } from "../../components/field.tsx"
import { callStatuses, useStatusText } from "../../components/status-tag.tsx"
import { type AddressedView, formats, isFiltered, nothingFiltered } from "./address.ts"
import { useUsageText } from "./text.ts"

export function Filters({ view, today, change }: AddressedView) {
  const text = useUsageText()
  const statusText = useStatusText()
  const models = useQuery(modelsQuery)
  const keys = useQuery(namedKeysQuery)
  return (
    <search className="usage-filters" aria-label={text.filters}>
      <DateRange value={view.days} today={today} onChange={(days) => change({ days })} />
      <div className="usage-selects">
        <SelectField
          label={text.model}
          value={view.model ?? ""}
          options={choice(
            text.anyModel,
            models.data?.map(({ model, display_name: label }) => ({ value: model, label })) ?? [],
            view.model,
          )}
          onChange={({ target }) => change({ model: target.value || undefined })}
        />
        <SelectField
          label={text.key}
          value={view.key ?? ""}
          options={choice(text.anyKey, keys.data?.map(({ id, name }) => ({ value: id, label: name })) ?? [], view.key)}
          onChange={({ target }) => change({ key: target.value || undefined })}
        />
        <SelectField
          label={text.format}
          value={view.format ?? ""}
          options={choice(
            text.anyFormat,
            formats.map((format) => ({ value: format, label: text.formats[format] })),
            view.format,
          )}
          onChange={({ target }) => change({ format: formats.find((format) => format === target.value) })}
        />
        <SelectField
          label={text.status}
          value={view.status ?? ""}
          options={choice(
            text.anyStatus,
            callStatuses.map((status) => ({ value: status, label: statusText[status] })),
            view.status,
          )}
          onChange={({ target }) => change({ status: callStatuses.find((status) => status === target.value) })}
        />
      </div>
      {isFiltered(view) && (
        <div className="usage-filtered">
          {view.error !== undefined && (
            <Button
              size="small"
              icon={<X />}
              aria-label={text.errorFilter(view.error)}
              onClick={() => change({ error: undefined })}
            >
              <code>{view.error}</code>
            </Button>
          )}
          <Button size="small" kind="quiet" onClick={() => change(nothingFiltered)}>
            {text.clear}
          </Button>
        </div>
      )}
    </search>
  )
}

interface Option {
  readonly value: string
  readonly label: string
}

/** A model that is served no longer, or whatever the address says, is there too. */
const choice = (any: string, known: readonly Option[], chosen: string | undefined): readonly Option[] => [
  { value: "", label: any },
  ...known,
  ...(chosen === undefined || known.some(({ value }) => value === chosen) ? [] : [{ value: chosen, label: chosen }]),
]
