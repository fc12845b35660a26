/** The part of a key's form that says how long it works, and what it may be used for and from where. */
import { useQuery } from "@tanstack/react-query"
import { useId } from "react"
import { modelsQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Choice, Field, TextField } from "../../components/form.tsx"
import { DateField } from "../../components/date-field.tsx"
import { useFormat, useTimeZone } from "../../i18n/language.tsx"
import { instantOf, wallTimeIn } from "../../i18n/figures.ts"
import { useBindingText } from "./key-detail.tsx"
import { callFormats, formatName } from "../../components/values.tsx"
import { type KeyDraft, type WrongField } from "./draft.ts"

const DAYS = [7, 30, 90] as const
const DAY_MS = 86_400_000

interface BindingFieldsProps {
  readonly draft: KeyDraft
  readonly wrong: ReadonlySet<WrongField>
  /** What the gateway refused, which begins with the name of a field. */
  readonly refusal: string
  readonly onChange: (change: Partial<KeyDraft>) => void
}

/** Folded away for a key that is not bound. */
export function BindingFields({ draft, wrong, refusal, onChange }: BindingFieldsProps) {
  const text = useBindingText()
  const isBound =
    draft.expiresAt !== null ||
    draft.models !== null ||
    draft.endpoints.length < callFormats.length ||
    draft.networks !== "" ||
    draft.origins !== "" ||
    draft.maxRate !== ""
  const bad = /"(.*)" is none/.exec(refusal)?.[1]
  const isOrigins = wrong.has("origins") || refusal.startsWith("'origins'")
  const isNetworks = wrong.has("networks") || refusal.startsWith("'networks'")
  return (
    <details className="key-bindings" open={isBound || wrong.size > 0 || undefined}>
      <summary>{text.title}</summary>
      <div className="key-binding-fields">
        <Expiry
          at={draft.expiresAt}
          error={refusal.startsWith("'expires_at'") ? text.expiryWrong : undefined}
          onChange={(expiresAt) => onChange({ expiresAt })}
        />
        <Models
          chosen={draft.models}
          error={wrong.has("models") || refusal.startsWith("'models'") ? text.modelsWrong : undefined}
          onChange={(models) => onChange({ models })}
        />
        <Checks
          label={text.endpoints}
          values={callFormats}
          chosen={draft.endpoints}
          nameOf={formatName}
          error={wrong.has("endpoints") ? text.endpointsWrong : undefined}
          onChange={(chosen) => onChange({ endpoints: chosen })}
        />
        <Lines
          label={text.networks}
          hint={text.networksHint}
          error={isNetworks ? text.networksWrong(bad ?? "") : undefined}
          value={draft.networks}
          onChange={(networks) => onChange({ networks })}
        />
        <Lines
          label={text.origins}
          hint={text.originsHint}
          error={isOrigins ? text.originsWrong(bad ?? "") : undefined}
          value={draft.origins}
          onChange={(origins) => onChange({ origins })}
        />
        <TextField
          label={text.rate}
          optional
          hint={text.rateHint}
          error={wrong.has("rate") ? text.rateWrong : undefined}
          before="Rp"
          after={text.rateUnit}
          inputMode="numeric"
          autoComplete="off"
          value={draft.maxRate}
          onChange={({ target }) => onChange({ maxRate: target.value })}
        />
      </div>
    </details>
  )
}

interface LinesProps {
  readonly label: string
  readonly hint: string
  readonly error: string | undefined
  readonly value: string
  readonly onChange: (value: string) => void
}

/** Several values, one a line. */
const Lines = ({ label, hint, error, value, onChange }: LinesProps) => (
  <Field label={label} optional hint={hint} error={error}>
    {(attributes) => (
      <span className="input">
        <textarea
          {...attributes}
          rows={2}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={({ target }) => onChange(target.value)}
        />
      </span>
    )}
  </Field>
)

interface ExpiryProps {
  /** ISO 8601; null for none. */
  readonly at: string | null
  readonly error: string | undefined
  readonly onChange: (at: string | null) => void
}

function Expiry({ at, error, onChange }: ExpiryProps) {
  const text = useBindingText()
  const format = useFormat()
  const timeZone = useTimeZone()
  const typed = (wall: string) => {
    const ms = wall === "" ? undefined : instantOf(wall, timeZone)
    onChange(ms === undefined ? null : new Date(ms).toISOString())
  }
  return (
    <div className="key-limit">
      <DateField
        label={text.expiry}
        optional
        timed
        hint={text.expiryHint(timeZone)}
        error={error}
        value={at === null ? "" : wallTimeIn(timeZone, Date.parse(at))}
        onChange={typed}
      />
      <div className="key-presets" role="group" aria-label={text.expiryOf}>
        {DAYS.map((count) => (
          <Button
            key={count}
            size="small"
            onClick={() => onChange(new Date(Date.now() + count * DAY_MS).toISOString())}
          >
            {text.days(format.number(count))}
          </Button>
        ))}
        <Button size="small" aria-pressed={at === null} onClick={() => onChange(null)}>
          {text.never}
        </Button>
      </div>
    </div>
  )
}

interface ModelsProps {
  /** Null for all. */
  readonly chosen: readonly string[] | null
  readonly error: string | undefined
  readonly onChange: (chosen: readonly string[] | null) => void
}

function Models({ chosen, error, onChange }: ModelsProps) {
  const text = useBindingText()
  const models = useQuery(modelsQuery)
  const known = models.data?.map(({ model }) => model) ?? []
  const gone = chosen?.filter((model) => models.data !== undefined && !known.includes(model)) ?? []
  return (
    <>
      <Choice
        label={text.models}
        hint={text.modelsHint}
        values={["all", "some"] as const}
        chosen={chosen === null ? "all" : "some"}
        nameOf={(which) => text.modelsWhich[which]}
        onChoose={(which) => onChange(which === "all" ? null : (chosen ?? []))}
      />
      {chosen !== null && (
        <Checks
          label={text.modelsWhich.some}
          values={[...known, ...gone]}
          chosen={chosen}
          nameOf={(model) => (gone.includes(model) ? text.gone(model) : model)}
          error={error}
          onChange={onChange}
        />
      )}
    </>
  )
}

interface ChecksProps<Value extends string> {
  readonly label: string
  readonly values: readonly Value[]
  readonly chosen: readonly Value[]
  readonly nameOf: (value: Value) => string
  readonly error: string | undefined
  readonly onChange: (chosen: readonly Value[]) => void
}

/** Some of several values. */
function Checks<Value extends string>({ label, values, chosen, nameOf, error, onChange }: ChecksProps<Value>) {
  const id = useId()
  const toggle = (value: Value, isOn: boolean) =>
    onChange(isOn ? [...chosen, value] : chosen.filter((other) => other !== value))
  return (
    <fieldset className="key-checks" aria-describedby={error === undefined ? undefined : id}>
      <legend>{label}</legend>
      <div className="key-check-list">
        {values.map((value) => (
          <label className="check" key={value}>
            <input
              type="checkbox"
              checked={chosen.includes(value)}
              onChange={({ target }) => toggle(value, target.checked)}
            />
            <span>{nameOf(value)}</span>
          </label>
        ))}
      </div>
      {error !== undefined && (
        <p className="field-error" id={id}>
          {error}
        </p>
      )}
    </fieldset>
  )
}
