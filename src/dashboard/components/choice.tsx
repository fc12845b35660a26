/** One of a few, all in sight. */
import { useId } from "react"

interface ChoiceProps<Value extends string> {
  readonly label: string
  readonly values: readonly Value[]
  readonly chosen: Value
  readonly nameOf: (value: Value) => string
  readonly onChoose: (value: Value) => void
}

export function Choice<Value extends string>({ label, values, chosen, nameOf, onChoose }: ChoiceProps<Value>) {
  const name = useId()
  return (
    <fieldset className="choice">
      <legend>{label}</legend>
      <div className="choice-options">
        {values.map((value) => (
          <label key={value}>
            <input type="radio" name={name} checked={value === chosen} onChange={() => onChoose(value)} />
            <span>{nameOf(value)}</span>
          </label>
        ))}
      </div>
    </fieldset>
  )
}
