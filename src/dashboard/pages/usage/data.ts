/**
 * The queries of the usage page, with the filters of its address, and the names of keys, formats and series.
 *
 * Then the list of calls, the newest first. It is the newest page, which follows calls as they end, until somebody goes on to older
 * ones. Then it stays as it is, and says how many newer ones there are: rows do not move under a reader, and do not grow in
 * number.
 */
import { hashKey, type QueryKey, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { useCallback, useMemo } from "react"
import { api, unwrap } from "../../api/client.ts"
import { namedKeysQuery, runsPage } from "../../api/queries.ts"
import { useRangeName } from "../../components/date-field.tsx"
import { formatName, useStatusText } from "../../components/values.tsx"
import { daysBefore } from "../../i18n/figures.ts"
import { useFormat } from "../../i18n/language.tsx"
import type { Show, Split, View } from "./address.ts"
import { useUsageText } from "./text.ts"

/** The filters as the API takes them. */
const filterOf = ({ days, model, key, format, status }: View) => ({
  ...days,
  ...(model !== undefined && { model }),
  ...(key !== undefined && { key_id: key }),
  ...(format !== undefined && { format }),
  ...(status !== undefined && status !== "refused" && { status }),
})

const listFilterOf = (view: View) => ({
  ...filterOf(view),
  ...(view.error !== undefined && { error_code: view.error }),
  ...(view.run !== undefined && { run_id: view.run }),
})
type ListFilter = ReturnType<typeof listFilterOf>

/** Rows that the list asks for at once, and has while nobody goes on to older ones. */
export const PAGE = 50

/** The newest calls, or the calls after a cursor. */
export const callsPage = (filter: ListFilter, cursor?: string) =>
  unwrap(api.usage.get({ query: { ...filter, limit: PAGE, ...(cursor !== undefined && { cursor }) } }))
export type Call = Awaited<ReturnType<typeof callsPage>>["data"][number]

export const exportAddress = (view: View): string =>
  `/usage/${view.status === "refused" ? "refused/" : ""}export.csv?${new URLSearchParams(listFilterOf(view))}`

/** Answers say what they are of, because the page may have moved on before the next ones come. */
const of = async <Answer extends object>(view: View, answer: Promise<Answer>) => ({ ...(await answer), of: view })

/** Sums over time with their total: for the figures and the chart. */
export const seriesQuery = (view: View) => {
  const { step, split } = view
  const query = { ...filterOf(view), group_by: step, ...(split !== undefined && { split_by: split }) }
  return queryOptions({
    queryKey: ["sums", query],
    queryFn: () => of(view, unwrap(api.usage.summary.get({ query }))),
  })
}
/** The same of as many days before, of all groups together. */
export const seriesBeforeQuery = (view: View) => seriesQuery({ ...view, days: daysBefore(view.days), split: undefined })
export type Series = Awaited<ReturnType<NonNullable<ReturnType<typeof seriesQuery>["queryFn"]>>>
export type Sum = Series["data"][number]

export const breakdownQuery = (view: View, by: Split) => {
  const query = { ...filterOf(view), group_by: by }
  return queryOptions({
    queryKey: ["sums", query],
    queryFn: () => of(view, unwrap(api.usage.summary.get({ query }))),
  })
}

export const errorsQuery = (view: View) => {
  const query = filterOf(view)
  return queryOptions({
    queryKey: ["sums", "errors", query],
    queryFn: () => of(view, unwrap(api.usage.errors.get({ query }))),
  })
}

/** To choose from: the latest, of a key or of all. Older ones are in the list of their key. */
export const latestRunsQuery = (keyId: string | undefined) =>
  queryOptions({
    queryKey: ["runs", "latest", keyId],
    queryFn: async () => (await runsPage(keyId)).data,
    staleTime: 30_000,
  })

/** A final record does not change. */
export const callQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["call", requestId],
    queryFn: () => unwrap(api.usage({ request_id: requestId }).get()),
    staleTime: Number.POSITIVE_INFINITY,
  })
export type CallDetail = Awaited<ReturnType<NonNullable<ReturnType<typeof callQuery>["queryFn"]>>>

/**
 * The list of calls, the newest first. Only its first page is refetched when a call has ended, and older pages are kept as they
 * came. So a list follows live calls with one small query.
 */
export const callsQuery = (view: View) => {
  const filter = listFilterOf(view)
  const queryKey = ["calls", filter]
  return queryOptions({
    queryKey,
    queryFn: async ({
      client,
    }): Promise<CallList<Call> & { readonly archivedUntil: string | undefined; readonly of: View }> => {
      const page = await callsPage(filter)
      // Read after the request, because older calls may have been added meanwhile.
      return {
        ...joined(client.getQueryData<CallList<Call>>(queryKey), page),
        archivedUntil: page.archived_until,
        of: view,
      }
    },
  })
}

/** What older calls are asked for of: the page may be narrowed to others before they come. */
interface Older {
  readonly of: View
  readonly cursor: string
}

/** Loads the page after the known ones, and returns to the newest ones. */
function useOlder<Call extends Identity>(
  view: View,
  keyOf: (view: View) => QueryKey,
  pageOf: (filter: ListFilter, cursor: string) => Promise<CallPage<Call>>,
) {
  const client = useQueryClient()
  const change = (of: View, to: (known: CallList<Call>) => CallList<Call>) =>
    void client.setQueryData<CallList<Call>>(keyOf(of), (known) => known && to(known))
  const { mutate, variables, error, isPending } = useMutation({
    mutationFn: (asked: Older) => pageOf(listFilterOf(asked.of), asked.cursor),
    // Whoever goes on to older ones reads on: a newer page that comes first does not move the end of the list.
    onMutate: (asked) => change(asked.of, readOn),
    onSuccess: (page, asked) =>
      change(asked.of, (known) => (known.nextCursor === asked.cursor ? longer(known, page) : known)),
  })
  const isHere = variables !== undefined && hashKey(keyOf(variables.of)) === hashKey(keyOf(view))
  const load = (cursor: string) => mutate({ of: view, cursor })
  const older = { load, error: isHere ? error : null, busy: isHere && isPending }
  return { older, toNewest: () => change(view, toTheNewest) }
}

export const useCallPages = (view: View) => useOlder<Call>(view, (asked) => callsQuery(asked).queryKey, callsPage)

const refusedPage = (filter: ListFilter, cursor?: string) => {
  const { status: _, run_id: __, ...rest } = { status: undefined, run_id: undefined, ...filter }
  return unwrap(api.usage.refused.get({ query: { ...rest, limit: PAGE, ...(cursor !== undefined && { cursor }) } }))
}
export type RefusedCall = Awaited<ReturnType<typeof refusedPage>>["data"][number]

/** Calls that were refused before they were forwarded, as `callsQuery` lists the others, and how many there were of each code. */
export const refusedQuery = (view: View) => {
  const filter = listFilterOf(view)
  const queryKey = ["refused", filter]
  return queryOptions({
    queryKey,
    queryFn: async ({ client }): Promise<RefusedList & { readonly of: View }> => {
      const page = await refusedPage(filter)
      return { ...joined(client.getQueryData<RefusedList>(queryKey), page), counts: page.counts, of: view }
    },
  })
}
interface RefusedList extends CallList<RefusedCall> {
  readonly counts: Awaited<ReturnType<typeof refusedPage>>["counts"]
}

export const useRefusedPages = (view: View) =>
  useOlder<RefusedCall>(view, (asked) => refusedQuery(asked).queryKey, refusedPage)

export const refusedCallQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["call", "refused", requestId],
    queryFn: () => unwrap(api.usage.refused({ request_id: requestId }).get()),
    staleTime: Number.POSITIVE_INFINITY,
  })

/** What figures are of, in words: the range of days, and what it is narrowed to. */
export function useViewName(): (view: View) => string {
  const rangeName = useRangeName()
  const statusText = useStatusText()
  const keyName = useKeyName()
  const { refused } = useUsageText()
  return ({ days, model, key, format, status, error, run }) =>
    [
      rangeName(days),
      model,
      key && keyName(key),
      format && formatName(format),
      status && (status === "refused" ? refused : statusText[status]),
      error,
      run,
    ]
      .filter((part) => part !== undefined)
      .join(", ")
}

/** A key's name; its id while the names are loading. */
export function useKeyName(): (id: string) => string {
  const { data: keys } = useQuery(namedKeysQuery)
  const names = useMemo(() => new Map(keys?.map(({ id, name }) => [id, name])), [keys])
  return useCallback((id) => names.get(id) ?? id, [names])
}

/** The name of a group: of a model, a key or a format. */
export function useGroupName(split: Split | undefined): (group: string) => string {
  const keyName = useKeyName()
  return useCallback(
    (group) => (split === "key" ? keyName(group) : split === "format" ? formatName(group) : group),
    [split, keyName],
  )
}

/** The names of the series of a figure. */
export function useSeriesNames(show: Show, split: Split | undefined) {
  const text = useUsageText()
  const format = useFormat()
  const group = useGroupName(split)
  return useMemo(
    () => ({
      whole: text.captions[show],
      ok: text.ok,
      failed: text.failedSeries,
      median: text.median,
      slow: text.slow,
      buckets: text.buckets,
      others: (count: number) => text.others(format.number(count)),
      group,
    }),
    [text, format, show, group],
  )
}

/** The fields that identify a record. A reroute has the id of its call, and another model. */
interface Identity {
  readonly request_id: string
  readonly status: string | number
  readonly model: string | null
}

interface CallPage<Call> {
  readonly data: readonly Call[]
  readonly next_cursor: string | null
}

export interface CallList<Call> {
  readonly calls: readonly Call[]
  readonly nextCursor: string | null
  /** The `callName` of each call that arrived while the list was shown. */
  readonly arrived: ReadonlySet<string>
  /** Set when older calls were added: the newest page, as far as the list does not show it. */
  readonly newest: { readonly page: CallPage<Call>; readonly unseen: number } | undefined
}

/** Rows. Whoever wants more of them downloads the file. */
export const LONGEST = 1_000

export const callName = ({ request_id: id, status, model }: Identity): string => `${id} ${status} ${model ?? ""}`

/** The list after the newest page has come again. */
export function joined<Call extends Identity>(known: CallList<Call> | undefined, page: CallPage<Call>): CallList<Call> {
  if (known === undefined) return { ...listOf(page), newest: undefined }
  const names = new Set(known.calls.map(callName))
  const unseen = page.data.filter((call) => !names.has(callName(call)))
  if (known.newest !== undefined) return { ...known, newest: { page, unseen: unseen.length } }
  const arrived = page.data.map(callName).filter((name) => !names.has(name) || known.arrived.has(name))
  return { ...listOf(page), arrived: new Set(arrived) }
}

/** The list as it is, beside the newest page, which goes on to follow calls. */
export const readOn = <List extends CallList<Call>, Call extends Identity>(known: List): List => ({
  ...known,
  newest: known.newest ?? { page: { data: known.calls, next_cursor: known.nextCursor }, unseen: 0 },
})

/** The list with a page of older calls. */
export const longer = <List extends CallList<Call>, Call extends Identity>(
  known: List,
  page: CallPage<Call>,
): List => ({
  ...readOn<List, Call>(known),
  calls: [...known.calls, ...page.data],
  nextCursor: page.next_cursor,
})

/** The newest page alone. */
export const toTheNewest = <List extends CallList<Call>, Call extends Identity>(known: List): List =>
  known.newest === undefined ? known : { ...known, ...listOf(known.newest.page) }

const listOf = <Call>({ data, next_cursor: nextCursor }: CallPage<Call>): CallList<Call> => ({
  calls: data,
  nextCursor,
  arrived: new Set(),
  newest: undefined,
})
