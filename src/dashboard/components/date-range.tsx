/**
 * A range of days, both ends included: a usual span up to today, or two dates. Days are those of the account's time zone,
 * such as 2026-11-21.
 */
import { useFormat, useTimeZone } from "../i18n/format.ts"
import { dayIn, type Days, lastDays } from "../i18n/time.ts"
import { Choice } from "./choice.tsx"
import { DateField } from "./date-field.tsx"
import { useComponentText } from "./text.ts"

interface DateRangeProps {
  readonly value: Days
  /** The current day in the account's time zone. */
  readonly today: string
  readonly onChange: (days: Days) => void
}

/** Days, today among them. */
const SPANS = [1, 7, 30, 90] as const

export function DateRange({ value, today, onChange }: DateRangeProps) {
  const text = useComponentText()
  const span = spanOf(value, today)
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
        <DateField
          label={text.from}
          required
          value={value.from}
          max={value.to}
          onChange={(from) => onChange({ ...value, from })}
        />
        <DateField
          label={text.to}
          required
          value={value.to}
          min={value.from}
          max={today}
          onChange={(to) => onChange({ ...value, to })}
        />
      </div>
    </div>
  )
}

const spanOf = ({ from, to }: Days, today: string) =>
  SPANS.find((count) => to === today && lastDays(today, count).from === from)

/** A range in words: "7 days", or its first and its last day. */
export function useRangeName(): (days: Days) => string {
  const text = useComponentText()
  const format = useFormat()
  const timeZone = useTimeZone()
  return (days) => {
    const span = spanOf(days, dayIn(timeZone, Date.now()))
    if (span !== undefined) return span === 1 ? text.today : text.days(span)
    return days.from === days.to
      ? format.shortDay(days.from)
      : `${format.shortDay(days.from)} – ${format.shortDay(days.to)}`
  }
}
