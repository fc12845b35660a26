/** What a model is to answer with: the model, its prompt, and how it answers. */
import type { CatalogueModel } from "../../api/queries.ts"
import { Field, SelectField, TextField } from "../../components/form.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/parse.ts"
import { perMillion } from "../models/choose.ts"
import type { Manner } from "./stream.ts"
import { usePlaygroundText } from "./text.ts"

export interface WrittenSettings {
  /** Undefined for the first model. */
  readonly model: string | undefined
  readonly system: string
  readonly limit: string
  /** Empty for what the model does by itself. */
  readonly temperature: string
  readonly topP: string
}

export const unwritten: WrittenSettings = { model: undefined, system: "", limit: "1024", temperature: "", topP: "" }

const MOST_TEMPERATURE = 2
const MOST_TOP_P = 1

/** What is typed, or undefined and why where this model does not allow it. */
export function useManner(written: WrittenSettings, model: CatalogueModel) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { language } = useLanguage()
  const limit = parseWhole(written.limit, language)
  const wrong = {
    limit:
      limit === undefined || limit < 1 || limit > model.max_output_tokens
        ? text.limitWrong(format.number(model.max_output_tokens))
        : undefined,
    temperature: isFraction(written.temperature, MOST_TEMPERATURE) ? undefined : text.fractionWrong(MOST_TEMPERATURE),
    topP: isFraction(written.topP, MOST_TOP_P) ? undefined : text.fractionWrong(MOST_TOP_P),
  }
  const [name, why] = Object.entries(wrong).find(([, each]) => each !== undefined) ?? []
  const manner: Manner | undefined =
    limit === undefined || why !== undefined
      ? undefined
      : { limit, temperature: parseFraction(written.temperature), topP: parseFraction(written.topP) }
  return { wrong, manner, problem: why && `${text[name as keyof typeof wrong]}: ${why}` }
}

/** Both languages' marks mean the same here: no such number has groups of digits. */
const parseFraction = (typed: string): number | undefined =>
  /^\d(?:[.,]\d{1,2})?$/.test(typed.trim()) ? Number(typed.trim().replace(",", ".")) : undefined

const isFraction = (typed: string, most: number): boolean =>
  typed.trim() === "" || (parseFraction(typed) ?? Infinity) <= most

interface SettingsProps {
  readonly models: readonly CatalogueModel[]
  readonly model: CatalogueModel
  readonly written: WrittenSettings
  readonly onChange: (written: WrittenSettings) => void
}

export function Settings({ models, model, written, onChange }: SettingsProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { wrong } = useManner(written, model)
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
        error={wrong.limit}
        value={written.limit}
        onChange={({ target }) => set({ limit: target.value })}
      />
      {(["temperature", "topP"] as const).map((name) => (
        <TextField
          key={name}
          label={text[name]}
          optional
          inputMode="decimal"
          autoComplete="off"
          placeholder={text.byModel}
          error={wrong[name]}
          value={written[name]}
          onChange={({ target }) => set({ [name]: target.value })}
        />
      ))}
    </>
  )
}
