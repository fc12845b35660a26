/**
 * The list of calls, the newest first: a first page that is asked again when a call has ended, and older ones below that
 * are kept as they came. So a list of many pages follows live calls with one small question.
 */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query"
import { type CallList, joined } from "./call-list.ts"
import { callsPage, type ListFilter } from "./data.ts"

export const callsQuery = (filter: ListFilter) => {
  const queryKey = ["calls", filter]
  return queryOptions({
    queryKey,
    queryFn: async ({ client }): Promise<CallList> => {
      const page = await callsPage(filter)
      // Read only now: older calls may have been added meanwhile.
      return joined(client.getQueryData<CallList>(queryKey), page)
    },
  })
}

/** The page after what is known of the list. */
export function useOlderCalls(filter: ListFilter) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (cursor: string) => callsPage(filter, cursor),
    onSuccess: (page, cursor) =>
      client.setQueryData(callsQuery(filter).queryKey, (known) =>
        known?.nextCursor === cursor
          ? { ...known, calls: [...known.calls, ...page.data], nextCursor: page.next_cursor }
          : known,
      ),
  })
}
