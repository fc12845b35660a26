/** The fields of a key: its name and its limits, with values to choose from that suit most. */
import { Button } from "../../components/button.tsx"
import { Choice } from "../../components/choice.tsx"
import { TextField } from "../../components/field.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { useKeysText } from "./text.ts"
import { fallbacks, periods, type WrittenWishes, writtenAmount, writtenWhole, type WrongField } from "./wishes.ts"

/** Rupiah: from trying out to a team's month. */
const AMOUNTS = [10_000n, 50_000n, 100_000n, 500_000n] as const
const REQUESTS = [20, 60, 300] as const
const TOKENS = [50_000, 200_000, 1_000_000] as const

interface KeyFieldsProps {
  readonly written: WrittenWishes
  readonly wrong: ReadonlySet<WrongField>
  readonly onChange: (written: WrittenWishes) => void
}

export function KeyFields({ written, wrong, onChange }: KeyFieldsProps) {
  const text = useKeysText()
  const format = useFormat()
  const { language } = useLanguage()
  const set = (change: Partial<WrittenWishes>) => onChange({ ...written, ...change })
  const amountError = wrong.has("amount") ? text.amountWrong : wrong.has("too-much") ? text.amountTooMuch : undefined
  const wrongNumber = (field: WrongField) => (wrong.has(field) ? text.perMinuteWrong : undefined)
  return (
    <>
      <TextField
        label={text.name}
        hint={text.nameHint}
        error={wrong.has("name") ? text.nameMissing : undefined}
        placeholder={text.namePlaceholder}
        autoComplete="off"
        maxLength={200}
        data-autofocus
        value={written.name}
        onChange={({ target }) => set({ name: target.value })}
      />
      <Limit
        label={text.spendingLimit}
        hint={text.spendingHint}
        error={amountError}
        before="Rp"
        value={written.spendingLimit}
        presets={AMOUNTS.map((rupiah) => writtenAmount(rupiah * 1_000_000n, language))}
        onChange={(spendingLimit) => set({ spendingLimit })}
      />
      {written.spendingLimit.trim() !== "" && (
        <Choice
          label={text.period}
          values={periods}
          chosen={written.period}
          nameOf={(period) => text.periods[period]}
          onChoose={(period) => set({ period })}
        />
      )}
      <Limit
        label={text.requests}
        error={wrongNumber("requests")}
        value={written.requestsPerMinute}
        presets={REQUESTS.map((value) => writtenWhole(value, language))}
        onChange={(requestsPerMinute) => set({ requestsPerMinute })}
      />
      <Limit
        label={text.tokens}
        hint={text.tokensHint}
        error={wrongNumber("tokens")}
        value={written.tokensPerMinute}
        presets={TOKENS.map((value) => writtenWhole(value, language))}
        presetName={(value) => format.compact(TOKENS.find((known) => writtenWhole(known, language) === value) ?? 0)}
        onChange={(tokensPerMinute) => set({ tokensPerMinute })}
      />
      <Choice
        label={text.fallback}
        hint={text.fallbackHints[written.fallback]}
        values={fallbacks}
        chosen={written.fallback}
        nameOf={(fallback) => text.fallbacks[fallback]}
        onChoose={(fallback) => set({ fallback })}
      />
    </>
  )
}

interface LimitProps {
  readonly label: string
  readonly hint?: string
  readonly error: string | undefined
  readonly before?: string
  readonly value: string
  /** As they are written into the field. */
  readonly presets: readonly string[]
  readonly presetName?: (preset: string) => string
  readonly onChange: (value: string) => void
}

function Limit({ label, hint, error, before, value, presets, presetName = (preset) => preset, onChange }: LimitProps) {
  const text = useKeysText()
  return (
    <div className="key-limit">
      <TextField
        label={label}
        hint={hint}
        error={error}
        optional
        before={before}
        inputMode="decimal"
        autoComplete="off"
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
      <div className="key-presets" role="group" aria-label={text.presetsOf(label)}>
        {presets.map((preset) => (
          <Button key={preset} size="small" aria-pressed={value === preset} onClick={() => onChange(preset)}>
            {presetName(preset)}
          </Button>
        ))}
        <Button size="small" aria-pressed={value.trim() === ""} onClick={() => onChange("")}>
          {text.noLimit}
        </Button>
      </div>
    </div>
  )
}
