/**
 * A range of days, both ends included: a usual span up to today, or two dates. Days are those of the account's time zone,
 * such as 2026-11-21.
 */
import { useId } from "react"
import { type Days, lastDays } from "../i18n/time.ts"
import { Choice } from "./choice.tsx"
import { useComponentText } from "./text.ts"

interface DateRangeProps {
  readonly value: Days
  /** The day that it is in the account's time zone. */
  readonly today: string
  readonly onChange: (days: Days) => void
}

/** Days, today among them. */
const SPANS = [1, 7, 30, 90] as const

export function DateRange({ value, today, onChange }: DateRangeProps) {
  const text = useComponentText()
  const fromId = useId()
  const toId = useId()
  const span = SPANS.find((count) => value.to === today && lastDays(today, count).from === value.from)
  return (
    <div className="date-range">
      <Choice
        label={text.range}
        values={SPANS.map(String)}
        chosen={String(span ?? "")}
        nameOf={(count) => (count === "1" ? text.today : text.days(Number(count)))}
        onChoose={(count) => onChange(lastDays(today, Number(count)))}
      />
      <div className="date-range-days">
        <label htmlFor={fromId}>{text.from}</label>
        <span className="input">
          <input
            id={fromId}
            type="date"
            value={value.from}
            max={value.to}
            onChange={({ target }) => target.value !== "" && onChange({ ...value, from: target.value })}
          />
        </span>
        <label htmlFor={toId}>{text.to}</label>
        <span className="input">
          <input
            id={toId}
            type="date"
            value={value.to}
            min={value.from}
            max={today}
            onChange={({ target }) => target.value !== "" && onChange({ ...value, to: target.value })}
          />
        </span>
      </div>
    </div>
  )
}
