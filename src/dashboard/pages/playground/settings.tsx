/** Which model answers, how it is told to, and how much it may say. */
import type { CatalogueModel } from "../../api/queries.ts"
import { Field, SelectField, TextField } from "../../components/field.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/parse.ts"
import { perMillion } from "../models/choose.ts"
import { usePlaygroundText } from "./text.ts"

export interface WrittenSettings {
  /** Undefined for the first that there is. */
  readonly model: string | undefined
  readonly system: string
  readonly limit: string
}

/** An answer limit as it is written, or undefined where it is none for this model. */
export function useLimit({ limit }: WrittenSettings, model: CatalogueModel): number | undefined {
  const { language } = useLanguage()
  const tokens = parseWhole(limit, language)
  return tokens === undefined || tokens < 1 || tokens > model.max_output_tokens ? undefined : tokens
}

interface SettingsProps {
  readonly models: readonly CatalogueModel[]
  readonly model: CatalogueModel
  readonly written: WrittenSettings
  readonly onChange: (written: WrittenSettings) => void
}

export function Settings({ models, model, written, onChange }: SettingsProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const limit = useLimit(written, model)
  const set = (change: Partial<WrittenSettings>) => onChange({ ...written, ...change })
  return (
    <>
      <SelectField
        label={text.model}
        hint={text.price(format.rupiah(perMillion(model.input_micro)), format.rupiah(perMillion(model.output_micro)))}
        value={model.model}
        options={models.map((candidate) => ({ value: candidate.model, label: candidate.display_name }))}
        onChange={({ target }) => set({ model: target.value })}
      />
      <Field label={text.system} optional>
        {(attributes) => (
          <span className="input">
            <textarea
              rows={3}
              placeholder={text.systemPlaceholder}
              value={written.system}
              onChange={({ target }) => set({ system: target.value })}
              {...attributes}
            />
          </span>
        )}
      </Field>
      <TextField
        label={text.limit}
        inputMode="numeric"
        autoComplete="off"
        after={text.limitUnit}
        error={limit === undefined ? text.limitWrong(format.number(model.max_output_tokens)) : undefined}
        value={written.limit}
        onChange={({ target }) => set({ limit: target.value })}
      />
    </>
  )
}
