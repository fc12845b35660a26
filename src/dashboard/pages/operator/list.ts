/** The operator's lists: a page at a time, narrowed by what the page's address says. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query"
import { useCallback, useMemo } from "react"
import { useSearchParams } from "wouter"
import { dayCount, dayIn, type Days, daysIn } from "../../i18n/time.ts"
import { useTimeZone } from "../../i18n/format.ts"

interface ListPage<Row> {
  readonly data: readonly Row[]
  readonly next_cursor: string | null
}

/** A query string with a cursor where there is one. */
export const at = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor })

/** A list as the props of a `DataTable`. Its query key begins with `operator`. It is read again every so many milliseconds, where that is said. */
export function useList<Row, Page extends ListPage<Row>>(
  key: readonly unknown[],
  ask: (cursor: string | undefined) => Promise<Page & ListPage<Row>>,
  everyMs?: number,
) {
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["operator", ...key],
    queryFn: ({ pageParam }) => ask(pageParam),
    ...(everyMs !== undefined && { refetchInterval: everyMs }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: ListPage<Row>) => last.next_cursor ?? undefined,
  })
  return {
    first: data?.pages[0],
    table: {
      rows: data?.pages.flatMap((page) => page.data),
      error,
      retry: refetch,
      more: hasNextPage ? { load: fetchNextPage, busy: isFetchingNextPage } : undefined,
    },
  }
}

/** After an action: refetches what the operator's pages show, and the catalogue. */
export function useRefetchAll(): () => Promise<void> {
  const client = useQueryClient()
  return useCallback(async () => {
    await Promise.all(["operator", "models"].map((key) => client.invalidateQueries({ queryKey: [key] })))
  }, [client])
}

/** One parameter of the page's address, empty when it is not there. A link shows the same list to everyone. */
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

/** The days in the page's address. A range up to today is written as a number of days, so that it moves with the calendar. */
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
