/** A choice of one value, with all values visible. */
import { useId } from "react"

interface ChoiceProps<Value extends string> {
  readonly label: string
  /** The meaning of the chosen value. */
  readonly hint?: string
  readonly values: readonly Value[]
  readonly chosen: Value
  readonly nameOf: (value: Value) => string
  readonly onChoose: (value: Value) => void
}

export function Choice<Value extends string>({ label, hint, values, chosen, nameOf, onChoose }: ChoiceProps<Value>) {
  const name = useId()
  return (
    <fieldset className="choice" aria-describedby={hint === undefined ? undefined : `${name}-hint`}>
      <legend>{label}</legend>
      <div className="choice-options">
        {values.map((value) => (
          <label key={value}>
            <input type="radio" name={name} checked={value === chosen} onChange={() => onChoose(value)} />
            <span>{nameOf(value)}</span>
          </label>
        ))}
      </div>
      {hint !== undefined && (
        <p className="field-hint" id={`${name}-hint`} aria-live="polite">
          {hint}
        </p>
      )}
    </fieldset>
  )
}
