/**
 * What a list is narrowed to, as it stands in the page's address: a link shows the same to whoever opens it. What makes no
 * sense counts as not said.
 */
import { useCallback, useMemo } from "react"
import { useSearchParams } from "wouter"
import { type Days, dayIn, lastDays } from "../../i18n/days.ts"
import { useTimeZone } from "../../i18n/time-zone.ts"

/** One parameter, empty when it is not there. */
export function useParameter(name: string): readonly [string, (value: string) => void] {
  const [query, setQuery] = useSearchParams()
  const set = useCallback(
    (value: string) =>
      setQuery(
        (now) => {
          const next = new URLSearchParams(now)
          if (value === "") next.delete(name)
          else next.set(name, value)
          return next
        },
        { replace: true },
      ),
    [setQuery, name],
  )
  return [query.get(name) ?? "", set]
}

const USUAL_DAYS = 7
const DAY = /^\d{4}-\d{2}-\d{2}$/
const isDay = (text: string): boolean => DAY.test(text) && !Number.isNaN(Date.parse(text))

/** Days up to today are written as so many days, which go on with the calendar. */
export function useDays(): { readonly days: Days; readonly today: string; readonly choose: (days: Days) => void } {
  const [query, setQuery] = useSearchParams()
  const today = dayIn(useTimeZone(), Date.now())
  const days = useMemo(() => readDays(query, today), [query, today])
  const choose = useCallback(
    ({ from, to }: Days) => {
      const count = Math.round((Date.parse(to) - Date.parse(from)) / 86_400_000) + 1
      setQuery(to === today ? { days: String(count) } : { from, to }, { replace: true })
    },
    [setQuery, today],
  )
  return { days, today, choose }
}

function readDays(query: URLSearchParams, today: string): Days {
  const [from, to] = [query.get("from") ?? "", query.get("to") ?? ""]
  if (isDay(from) && isDay(to) && from <= to) return { from, to }
  const count = Number(query.get("days") ?? USUAL_DAYS)
  return lastDays(today, Number.isInteger(count) && count >= 1 && count <= 366 ? count : USUAL_DAYS)
}
