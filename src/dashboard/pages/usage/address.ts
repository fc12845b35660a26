/**
 * What the page shows is in its address: a link shows the same to everyone, and a reload changes nothing. Invalid values in an
 * address are ignored.
 */
import { useCallback, useMemo } from "react"
import { useSearchParams } from "wouter"
import { useOpened } from "../../components/dialog.tsx"
import { type CallFormat, callFormats } from "../../components/values.tsx"
import { type CallStatus, callStatuses } from "../../components/values.tsx"
import { dayCount, type Days, daysIn, isCounted, USUAL_DAYS } from "../../i18n/figures.ts"
import { useToday } from "../../i18n/language.tsx"

export const shows = ["spend", "tokens", "calls", "cache", "latency"] as const
export type Show = (typeof shows)[number]
export const splits = ["model", "key", "format"] as const
export type Split = (typeof splits)[number]
/** Of a record, or of a call that was refused and has none. */
export const statuses = [...callStatuses, "refused"] as const
type Status = CallStatus | "refused"
type Step = "hour" | "day"

export interface View {
  readonly days: Days
  readonly model: string | undefined
  readonly key: string | undefined
  readonly format: CallFormat | undefined
  readonly status: Status | undefined
  readonly error: string | undefined
  /** The id of a run. */
  readonly run: string | undefined
  readonly show: Show
  readonly split: Split | undefined
  readonly step: Step
  /** The call whose receipt is open. */
  readonly request: string | undefined
}

/** Days. A longer range has too many bars by the hour. */
const LONGEST_BY_HOUR = 7

export const nothingFiltered = {
  model: undefined,
  key: undefined,
  format: undefined,
  status: undefined,
  error: undefined,
  run: undefined,
} satisfies Partial<View>

export const isFiltered = ({ model, key, format, status, error, run }: View): boolean =>
  [model, key, format, status, error, run].some((filter) => filter !== undefined)

/** Sums contain only final records, and have no error codes and no runs. */
export const canBeSummed = ({ status, error, run }: View): boolean =>
  error === undefined && run === undefined && status !== "refused" && status?.startsWith("fallback_") !== true

export const mayShowHours = (days: Days): boolean => dayCount(days) <= LONGEST_BY_HOUR

export function readView(query: URLSearchParams, today: string): View {
  const given = (name: string) => query.get(name) || undefined
  const among = <T extends string>(name: string, known: readonly T[]) => known.find((one) => one === query.get(name))
  const days = daysIn(query, today)
  const step = among("step", ["hour", "day"]) ?? (dayCount(days) <= 2 ? "hour" : "day")
  return {
    days,
    model: given("model"),
    key: given("key"),
    format: among("format", callFormats),
    status: among("status", statuses),
    error: given("error"),
    run: given("run"),
    show: among("show", shows) ?? "spend",
    split: among("split", splits),
    step: mayShowHours(days) ? step : "day",
    request: given("request"),
  }
}

/** Undefined is what it is where the address says nothing. */
type ViewChange = { readonly [Name in keyof View]?: View[Name] | undefined }

/** A range up to today is written as a number of days, so that it moves with the calendar. */
export function writeView(query: URLSearchParams, change: ViewChange, today: string): URLSearchParams {
  const written = new URLSearchParams(query)
  const { days, ...rest } = change
  if (days !== undefined) {
    for (const name of ["days", "from", "to"]) written.delete(name)
    if (!isCounted(days, today)) {
      written.set("from", days.from)
      written.set("to", days.to)
    } else if (dayCount(days) !== USUAL_DAYS) written.set("days", String(dayCount(days)))
  }
  for (const [name, value] of Object.entries(rest)) {
    if (value === undefined) written.delete(name)
    else written.set(name, value)
  }
  return written
}

export interface AddressedView {
  readonly view: View
  readonly today: string
  readonly change: (change: Partial<View>) => void
  /** Shows these days alone, until the back button is pressed. */
  readonly zoom: (days: Days) => void
  readonly open: (request: string) => void
  readonly close: () => void
}

export function useView(): AddressedView {
  const [query, setQuery] = useSearchParams()
  const today = useToday()
  const view = useMemo(() => readView(query, today), [query, today])
  const change = useCallback(
    (changed: Partial<View>) => setQuery((now) => writeView(now, changed, today), { replace: true }),
    [setQuery, today],
  )
  const zoom = useCallback(
    (days: Days) => setQuery((now) => writeView(now, { days, step: undefined }, today)),
    [setQuery, today],
  )
  const { open, close } = useOpened("request")
  return { view, today, change, zoom, open, close }
}
