/** What the page asks: only what is in sight, narrowed as the address says. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import type { Split, View } from "./address.ts"

/** As the API has it. */
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
export type ListFilter = ReturnType<typeof listFilterOf>

const PAGE = 50

/** The newest calls, or those after a cursor. */
export const callsPage = (filter: ListFilter, cursor?: string) =>
  told(api.usage.get({ query: { ...filter, limit: PAGE, ...(cursor !== undefined && { cursor }) } }))
export type Call = Awaited<ReturnType<typeof callsPage>>["data"][number]

export const exportAddress = (view: View): string => `/usage/export.csv?${new URLSearchParams(listFilterOf(view))}`

/** Over time, with all of it together: what the numbers and the chart show. */
export const seriesQuery = (view: View) => {
  const { step, split } = view
  const query = { ...filterOf(view), group_by: step, ...(split !== undefined && { split_by: split }) }
  return queryOptions({
    queryKey: ["sums", query],
    queryFn: () => told(api.usage.summary.get({ query })),
  })
}
export type Series = Awaited<ReturnType<NonNullable<ReturnType<typeof seriesQuery>["queryFn"]>>>
export type Sum = Series["data"][number]

export const breakdownQuery = (view: View, by: Split) => {
  const query = { ...filterOf(view), group_by: by }
  return queryOptions({
    queryKey: ["sums", query],
    queryFn: () => told(api.usage.summary.get({ query })),
  })
}

export const errorsQuery = (view: View) => {
  const query = filterOf(view)
  return queryOptions({
    queryKey: ["sums", "errors", query],
    queryFn: async () => (await told(api.usage.errors.get({ query }))).data,
  })
}

/** A final record does not change. */
export const callQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["call", requestId],
    queryFn: () => told(api.usage({ request_id: requestId }).get()),
    staleTime: Number.POSITIVE_INFINITY,
  })
export type CallDetail = Awaited<ReturnType<NonNullable<ReturnType<typeof callQuery>["queryFn"]>>>
