/**
 * What a list is narrowed to, as it stands in the page's address: a link shows the same to whoever opens it. What makes no
 * sense counts as not said.
 */
import { useCallback, useMemo } from "react"
import { useSearchParams } from "wouter"
import { dayCount, type Days, dayIn, daysIn } from "../../i18n/days.ts"
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

/** Days up to today are written as so many days, which go on with the calendar. */
export function useDays(): { readonly days: Days; readonly today: string; readonly choose: (days: Days) => void } {
  const [query, setQuery] = useSearchParams()
  const today = dayIn(useTimeZone(), Date.now())
  const days = useMemo(() => daysIn(query, today), [query, today])
  const choose = useCallback(
    (chosen: Days) => {
      const { from, to } = chosen
      setQuery(to === today ? { days: String(dayCount(chosen)) } : { from, to }, { replace: true })
    },
    [setQuery, today],
  )
  return { days, today, choose }
}
