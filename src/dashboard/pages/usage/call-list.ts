/** A list of calls that grows at both ends: newer calls as they end, older ones as they are loaded. */

/** The fields that identify a record. A reroute has the id of its call, and another model. */
interface Identity {
  readonly request_id: string
  readonly status: string
  readonly model: string
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
}

export const callName = ({ request_id: id, status, model }: Identity): string => `${id} ${status} ${model}`

/** Puts the newest page on top of the known calls. If the two do not overlap, the list starts again with the page. */
export function joined<Call extends Identity>(
  known: CallList<Call> | undefined,
  { data, next_cursor: nextCursor }: CallPage<Call>,
): CallList<Call> {
  if (known === undefined) return { calls: data, nextCursor, arrived: new Set() }
  const names = known.calls.map(callName)
  const knownNames = new Set(names)
  const arrived = new Set([...known.arrived, ...data.map(callName).filter((name) => !knownNames.has(name))])
  const last = data.at(-1)
  const meeting = last === undefined ? -1 : names.indexOf(callName(last))
  const older = meeting === -1 ? [] : known.calls.slice(meeting + 1)
  return older.length === 0
    ? { calls: data, nextCursor, arrived }
    : { calls: [...data, ...older], nextCursor: known.nextCursor, arrived }
}
