/**
 * A day, or a day and a clock time, typed as people write it or picked from a month, and a range of days. The browser's own
 * fields for them speak the browser's language and not the page's. Values are text: `2026-11-21`, `2026-11-21T14:30:00`, or empty.
 */
import { CalendarDays, ChevronLeft, ChevronRight } from "lucide-react"
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react"
import { useFormat, useTimeZone, useToday, type Language, useLanguage } from "../i18n/language.tsx"
import { dayIn, type Days, daysOf, earliest, lastDays, later, momentText, parseMoment } from "../i18n/figures.ts"
import { IconButton } from "./button.tsx"
import { Choice, type FieldLook, TextField } from "./form.tsx"
import { useComponentText } from "./text.ts"

interface DateFieldProps extends FieldLook {
  readonly value: string
  /** Called with whole values within the bounds alone, or with an empty one. */
  readonly onChange: (value: string) => void
  readonly timed?: boolean
  readonly required?: boolean
  /** Days. */
  readonly min?: string
  readonly max?: string
}

/** Picked where there was no time before: the day is still in it. */
const END_OF_DAY = "23:59:00"

export function DateField(props: DateFieldProps) {
  const { value, onChange, timed = false, required = false, min = "", max = "9999", error, ...look } = props
  const text = useComponentText()
  const { language } = useLanguage()
  const today = useToday()
  const input = useRef<HTMLInputElement>(null)
  // What is being typed, as long as the value has not changed otherwise.
  const [draft, setDraft] = useState<{ readonly text: string; readonly of: string }>()
  const [isLeft, setLeft] = useState(false)
  const typed = draft?.of === value ? draft.text : undefined
  const faultOf = (written: string): string | undefined => {
    const moment = parseMoment(written, timed)
    if (moment === undefined) return text.dateWrong(momentText(timed ? `${today}T14:30:00` : today, language))
    if (moment.slice(0, 10) < min) return text.dateTooEarly(momentText(min, language))
    return moment.slice(0, 10) > max ? text.dateTooLate(momentText(max, language)) : undefined
  }
  const fault = typed === undefined || typed === "" ? undefined : faultOf(typed)
  useEffect(() => input.current?.setCustomValidity(fault ?? ""), [fault])
  const type = (written: string) => {
    const moment = written === "" && !required ? "" : parseMoment(written, timed)
    const isWhole = moment !== undefined && (moment === "" || faultOf(written) === undefined)
    setDraft({ text: written, of: isWhole ? moment : value })
    setLeft(false)
    if (isWhole && moment !== value) onChange(moment)
  }
  const leave = () => {
    if (fault === undefined && typed !== "") setDraft(undefined)
    setLeft(true)
  }
  const [, time = END_OF_DAY] = value.split("T")
  return (
    <div className={timed ? "date-field is-timed" : "date-field"}>
      <TextField
        {...look}
        ref={input}
        error={(isLeft ? fault : undefined) ?? error}
        required={required}
        autoComplete="off"
        spellCheck={false}
        placeholder={momentText(timed ? `${today}T14:30:00` : today, language)}
        value={typed ?? momentText(value, language)}
        onChange={({ target }) => type(target.value)}
        onBlur={leave}
        after={
          <Calendar
            label={look.label}
            day={value.slice(0, 10)}
            today={today}
            min={min}
            max={max}
            onPick={(day) => {
              setDraft(undefined)
              onChange(timed ? `${day}T${time}` : day)
              input.current?.focus()
            }}
          />
        }
      />
    </div>
  )
}

interface CalendarProps {
  readonly label: string
  /** The chosen day, or empty. */
  readonly day: string
  readonly today: string
  readonly min: string
  readonly max: string
  readonly onPick: (day: string) => void
}

const WIDTH_PX = 288
const HEIGHT_PX = 330

/** A button, and the month that it opens. Its place is found when it opens: beside the button, inside of the window. */
function Calendar({ label, onPick, ...of }: CalendarProps) {
  const text = useComponentText()
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const popover = useRef<HTMLDivElement>(null)
  const [place, setPlace] = useState<{ readonly left: number; readonly top: number }>()
  const toggled = (isOpen: boolean) => {
    if (!isOpen) return setPlace(undefined)
    const { left = 0, top = 0, bottom = 0 } = button.current?.getBoundingClientRect() ?? {}
    const fits = bottom + HEIGHT_PX < innerHeight
    setPlace({
      left: Math.max(8, Math.min(left, innerWidth - WIDTH_PX - 8)),
      top: fits ? bottom + 4 : Math.max(8, top - HEIGHT_PX),
    })
  }
  const pick = (day: string) => {
    popover.current?.hidePopover()
    onPick(day)
  }
  return (
    <>
      <IconButton size="small" ref={button} label={text.calendarOf(label)} popoverTarget={id}>
        <CalendarDays />
      </IconButton>
      <div
        id={id}
        ref={popover}
        popover="auto"
        className="calendar"
        style={place}
        onToggle={({ newState }) => toggled(newState === "open")}
      >
        {place !== undefined && <Month {...of} onPick={pick} />}
      </div>
    </>
  )
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -7, ArrowDown: 7 }
const WEEKS = 6

function Month({ day, today, min, max, onPick }: Omit<CalendarProps, "label">) {
  const text = useComponentText()
  const { language } = useLanguage()
  const names = useMemo(() => namesIn(language), [language])
  const within = (other: string) => (other < min ? min : other > max ? max : other)
  const [at, setAt] = useState(within(day === "" ? today : day))
  const grid = useRef<HTMLTableElement>(null)
  const head = useRef<HTMLDivElement>(null)
  useEffect(() => {
    // Who turns months with an arrow goes on with it.
    if (head.current?.contains(document.activeElement) === true) return
    grid.current?.querySelector<HTMLElement>(`[data-day="${at}"]`)?.focus()
  }, [at])
  const first = firstOfMonth(at, 0)
  // Weeks begin on Monday.
  const start = later(first, -((new Date(first).getUTCDay() + 6) % 7))
  const days = daysOf(start, WEEKS * 7)
  const turn = (months: number) => setAt(within(firstOfMonth(at, months)))
  const press = (event: KeyboardEvent) => {
    const step = STEPS[event.key]
    if (step === undefined && event.key !== "PageUp" && event.key !== "PageDown") return
    event.preventDefault()
    if (step === undefined) turn(event.key === "PageUp" ? -1 : 1)
    else setAt(within(later(at, step)))
  }
  return (
    <>
      <div ref={head} className="calendar-head">
        <IconButton label={text.monthBefore} atEnd={first <= min} onClick={() => turn(-1)}>
          <ChevronLeft />
        </IconButton>
        <span aria-live="polite">{names.month(first)}</span>
        <IconButton label={text.monthAfter} atEnd={firstOfMonth(at, 1) > max} onClick={() => turn(1)}>
          <ChevronRight />
        </IconButton>
      </div>
      <table ref={grid} onKeyDown={press}>
        <thead>
          <tr>
            {days.slice(0, 7).map((one) => (
              <th key={one} scope="col">
                {names.weekday(one)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: WEEKS }, (_, week) => (
            <tr key={days[week * 7]}>
              {days.slice(week * 7, week * 7 + 7).map((one) => (
                <td key={one}>
                  <button
                    type="button"
                    data-day={one}
                    className={one.startsWith(at.slice(0, 7)) ? "calendar-day" : "calendar-day is-outside"}
                    aria-pressed={one === day}
                    aria-current={one === today ? "date" : undefined}
                    tabIndex={one === at ? 0 : -1}
                    disabled={one !== within(one)}
                    onClick={() => onPick(one)}
                  >
                    <span aria-hidden="true">{Number(one.slice(8))}</span>
                    <span className="visually-hidden">{names.whole(one)}</span>
                  </button>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  )
}

/** The first day of a day's month, or of one so many months later. */
function firstOfMonth(day: string, months: number): string {
  const [year = 0, month = 0] = day.split("-").map(Number)
  return new Date(Date.UTC(year, month - 1 + months, 1)).toISOString().slice(0, 10)
}

function namesIn(language: Language) {
  const name = (options: Intl.DateTimeFormatOptions) => {
    const format = new Intl.DateTimeFormat(language === "id" ? "id-ID" : "en-GB", { ...options, timeZone: "UTC" })
    return (day: string) => format.format(new Date(day))
  }
  return {
    month: name({ month: "long", year: "numeric" }),
    weekday: name({ weekday: "short" }),
    whole: name({ dateStyle: "full" }),
  }
}

interface DateRangeProps {
  readonly value: Days
  /** The current day in the account's time zone. */
  readonly today: string
  readonly onChange: (days: Days) => void
}

/** Days, today among them. */
const SPANS = [1, 7, 30, 90] as const

/**
 * A range of days, both ends included: a usual span up to today, or two dates. Days are those of the account's time
 * zone, such as 2026-11-21.
 */
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
          min={earliest(today)}
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
