/**
 * A list of calls, the newest first. It is the newest page, which follows calls as they end, until somebody goes on to older
 * ones. Then it stays as it is, and says how many newer ones there are: rows do not move under a reader, and do not grow in number.
 */

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

/** The list with a page of older calls. */
export const longer = <List extends CallList<Call>, Call extends Identity>(
  known: List,
  page: CallPage<Call>,
): List => ({
  ...known,
  calls: [...known.calls, ...page.data],
  nextCursor: page.next_cursor,
  newest: known.newest ?? { page: { data: known.calls, next_cursor: known.nextCursor }, unseen: 0 },
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
