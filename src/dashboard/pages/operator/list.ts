/** The operator's lists, a page at a time: what `DataTable` wants. Their keys begin with `operator`. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query"
import { useCallback } from "react"

interface ListPage<Row> {
  readonly data: readonly Row[]
  readonly next_cursor: string | null
}

/** A query string with a cursor where there is one. */
export const at = (cursor: string | undefined) => (cursor === undefined ? {} : { cursor })

export function useList<Row, Page extends ListPage<Row>>(
  key: readonly unknown[],
  ask: (cursor: string | undefined) => Promise<Page & ListPage<Row>>,
) {
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["operator", ...key],
    queryFn: ({ pageParam }) => ask(pageParam),
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

/** After an act: whatever any of these pages shows may be another now, and so may the catalogue. */
export function useOutdate(): () => Promise<void> {
  const client = useQueryClient()
  return useCallback(async () => {
    await Promise.all(["operator", "models"].map((key) => client.invalidateQueries({ queryKey: [key] })))
  }, [client])
}
