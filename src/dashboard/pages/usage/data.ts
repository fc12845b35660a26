/** The queries of the usage page, with the filters of its address, and the names of keys and formats. */
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { useCallback, useMemo } from "react"
import { api, unwrap } from "../../api/client.ts"
import { namedKeysQuery } from "../../api/queries.ts"
import { formats, type Split, type View } from "./address.ts"
import { type CallList, joined } from "./call-list.ts"
import { useUsageText } from "./text.ts"

/** The filters as the API takes them. */
const filterOf = ({ days, model, key, format, status }: View) => ({
  ...days,
  ...(model !== undefined && { model }),
  ...(key !== undefined && { key_id: key }),
  ...(format !== undefined && { format }),
  ...(status !== undefined && { status }),
})

export const listFilterOf = (view: View) => ({
  ...filterOf(view),
  ...(view.error !== undefined && { error_code: view.error }),
})
type ListFilter = ReturnType<typeof listFilterOf>

const PAGE = 50

/** The newest calls, or the calls after a cursor. */
export const callsPage = (filter: ListFilter, cursor?: string) =>
  unwrap(api.usage.get({ query: { ...filter, limit: PAGE, ...(cursor !== undefined && { cursor }) } }))
export type Call = Awaited<ReturnType<typeof callsPage>>["data"][number]

export const exportAddress = (view: View): string => `/usage/export.csv?${new URLSearchParams(listFilterOf(view))}`

/** Sums over time with their total: for the figures and the chart. */
export const seriesQuery = (view: View) => {
  const { step, split } = view
  const query = { ...filterOf(view), group_by: step, ...(split !== undefined && { split_by: split }) }
  return queryOptions({
    queryKey: ["sums", query],
    queryFn: () => unwrap(api.usage.summary.get({ query })),
  })
}
export type Series = Awaited<ReturnType<NonNullable<ReturnType<typeof seriesQuery>["queryFn"]>>>
export type Sum = Series["data"][number]

export const breakdownQuery = (view: View, by: Split) => {
  const query = { ...filterOf(view), group_by: by }
  return queryOptions({
    queryKey: ["sums", query],
    queryFn: () => unwrap(api.usage.summary.get({ query })),
  })
}

export const errorsQuery = (view: View) => {
  const query = filterOf(view)
  return queryOptions({
    queryKey: ["sums", "errors", query],
    queryFn: async () => (await unwrap(api.usage.errors.get({ query }))).data,
  })
}

/** A final record does not change. */
export const callQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["call", requestId],
    queryFn: () => unwrap(api.usage({ request_id: requestId }).get()),
    staleTime: Number.POSITIVE_INFINITY,
  })
export type CallDetail = Awaited<ReturnType<NonNullable<ReturnType<typeof callQuery>["queryFn"]>>>

/**
 * The list of calls, the newest first. Only its first page is refetched when a call has ended; older pages are kept as they
 * came. So a long list follows live calls with one small query.
 */
export const callsQuery = (filter: ListFilter) => {
  const queryKey = ["calls", filter]
  return queryOptions({
    queryKey,
    queryFn: async ({ client }): Promise<CallList<Call>> => {
      const page = await callsPage(filter)
      // Read after the request, because older calls may have been added meanwhile.
      return joined(client.getQueryData<CallList<Call>>(queryKey), page)
    },
  })
}

/** Loads the page after the known ones. */
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

/** A key's name; its id while the names are loading. */
export function useKeyName(): (id: string) => string {
  const { data: keys } = useQuery(namedKeysQuery)
  const names = useMemo(() => new Map(keys?.map(({ id, name }) => [id, name])), [keys])
  return useCallback((id) => names.get(id) ?? id, [names])
}

export function useFormatName(): (format: string) => string {
  const text = useUsageText()
  return useCallback(
    (format) => {
      const known = formats.find((one) => one === format)
      return known === undefined ? format : text.formats[known]
    },
    [text],
  )
}

/** The name of a group: of a model, a key or a format. */
export function useGroupName(split: Split | undefined): (group: string) => string {
  const keyName = useKeyName()
  const formatName = useFormatName()
  return useCallback(
    (group) => (split === "key" ? keyName(group) : split === "format" ? formatName(group) : group),
    [split, keyName, formatName],
  )
}
