/** What is searched for, wanted, and sorted by. */
import { Search } from "lucide-react"
import { SelectField, TextField } from "../../components/field.tsx"
import { sortings, type ModelFormat, type Wish } from "./choose.ts"
import { useModelsText } from "./text.ts"

/** As their makers name them. */
const FORMATS: Readonly<Record<ModelFormat, string>> = {
  chat: "Chat completions",
  messages: "Messages",
  responses: "Responses",
}
const formats = Object.keys(FORMATS) as ModelFormat[]
export const formatName = (format: ModelFormat): string => FORMATS[format]

interface FiltersProps {
  readonly wish: Wish
  readonly onChange: (wish: Wish) => void
}

export function Filters({ wish, onChange }: FiltersProps) {
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
