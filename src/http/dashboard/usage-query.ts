/**
 * The questions that may be put to `/usage`, from their query strings. Times are instants (RFC 3339) or plain days of the
 * account's time zone; `from` is included and `to` is not, except that a plain day as `to` is meant whole.
 */
import type { UsageStatus } from "../../../actors/ledger.ts"
import type { Endpoint } from "../../language/request.ts"
import type { Session } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import { type SummaryQuestion, type UsageRange, usageGroups, usageSplits } from "../../store/usage-sums.ts"
import type { UsageFilter, UsageNarrowing, UsagePage, UsagePlace } from "../../store/usage.ts"
import type { Period } from "../../store/operator/overview.ts"
import { newRequestId } from "../request-id.ts"

const STATUSES = [
  "ok",
  "upstream_error",
  "aborted_stream",
  "usage_missing",
  "billing_error",
  "fallback_429",
  "fallback_oversize",
] as const satisfies readonly UsageStatus[]
const FORMATS = ["chat", "messages", "responses"] as const satisfies readonly Endpoint[]

const DEFAULT_LIMIT = 50
const LARGEST_LIMIT = 100
/** How far a summary looks back when nobody says. */
const SUMMARY_DAYS = 30
/** A call has its id from its arrival, and its time from its admission, after its body was read and a slot was free. */
const LONGEST_ARRIVAL_MS = 60 * 60 * 1000
const DAY_MS = 24 * 60 * 60 * 1000

/** Model ids and key ids; what a text column cannot hold, or nobody types, matches nothing and is refused. */
const NAME = /^[^\p{Cc}]{1,200}$/u
const PLACE = /^([A-Za-z0-9_-]{1,40})\.(\d{1,4})$/

/** The parameters of `GET /usage/errors`, as they travel. */
export interface RangeQuery {
  readonly from?: string
  readonly to?: string
  readonly model?: string
  readonly key_id?: string
  readonly status?: UsageStatus
  readonly format?: Endpoint
}

/** The parameters of `GET /usage`, as they travel. */
export interface UsageQuery extends RangeQuery {
  readonly error_code?: string
  readonly cursor?: string
  readonly limit?: number
}

/** The parameters of `GET /usage/summary`, as they travel. */
export interface SummaryQuery extends RangeQuery {
  readonly group_by?: (typeof usageGroups)[number]
  readonly split_by?: (typeof usageSplits)[number]
}

export function usageFilter(session: Session, url: string): UsageFilter | Failure {
  const query = new URL(url).searchParams
  const from = time(query, "from", session.timeZone)
  if (from instanceof Failure) return from
  const to = time(query, "to", session.timeZone)
  if (to instanceof Failure) return to
  const only = narrowing(query)
  if (only instanceof Failure) return only
  const errorCode = given(query, "error_code")
  if (errorCode !== undefined && !NAME.test(errorCode)) return refused("error_code", "an error's code")
  const ids = {
    from: from === undefined ? undefined : firstIdOf(from.getTime() - LONGEST_ARRIVAL_MS),
    to: to === undefined ? undefined : firstIdOf(to.getTime()),
  }
  return { accountId: session.accountId, ids, from, to, errorCode, ...only }
}

function narrowing(query: URLSearchParams): UsageNarrowing | Failure {
  const model = given(query, "model")
  if (model !== undefined && !NAME.test(model)) return refused("model", "a model's id")
  const keyId = given(query, "key_id")
  if (keyId !== undefined && !NAME.test(keyId)) return refused("key_id", "a key's id")
  const status = oneOf(query, "status", STATUSES)
  if (status instanceof Failure) return status
  const endpoint = oneOf(query, "format", FORMATS)
  return endpoint instanceof Failure ? endpoint : { model, keyId, endpoint, status }
}

/** Which ids the calls of a range can have. */
const idsOf = (from: Date, to: Date) => ({
  from: firstIdOf(from.getTime() - LONGEST_ARRIVAL_MS),
  to: firstIdOf(to.getTime()),
})

/** What all request ids of this millisecond begin with, and so sorts before them. Their nine characters end in year 5188. */
const firstIdOf = (ms: number): string =>
  newRequestId(Math.min(Math.max(0, ms), 36 ** 9 - 1)).slice(0, "req_".length + 9)

export function usagePage(url: string): UsagePage | Failure {
  const query = new URL(url).searchParams
  const limit = given(query, "limit") ?? String(DEFAULT_LIMIT)
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > LARGEST_LIMIT) {
    return refused("limit", `an integer from 1 to ${LARGEST_LIMIT}`)
  }
  const cursor = given(query, "cursor")
  const after = cursor === undefined ? undefined : place(cursor)
  return after instanceof Failure ? after : { limit: Number(limit), after }
}

/** A range that is thirty days long, or ends now, unless told. */
export function usageRange(session: Session, url: string, now: number): UsageRange | Failure {
  const query = new URL(url).searchParams
  const from = time(query, "from", session.timeZone)
  if (from instanceof Failure) return from
  const to = time(query, "to", session.timeZone)
  if (to instanceof Failure) return to
  const only = narrowing(query)
  if (only instanceof Failure) return only
  const end = to ?? new Date(now + DAY_MS)
  return {
    only,
    accountId: session.accountId,
    from: from ?? new Date(Math.min(now, end.getTime()) - SUMMARY_DAYS * DAY_MS),
    to: end,
  }
}

export function summaryQuestion(session: Session, url: string, now: number): SummaryQuestion | Failure {
  const range = usageRange(session, url, now)
  if (range instanceof Failure) return range
  const query = new URL(url).searchParams
  const groupBy = oneOf(query, "group_by", usageGroups) ?? "day"
  if (groupBy instanceof Failure) return groupBy
  const split = given(query, "split_by")
  const splitBy = usageSplits.find((known) => known === split)
  if (split !== undefined && (splitBy === undefined || splitBy === groupBy)) {
    return refused("split_by", `one of ${usageSplits.join(", ")}, and not 'group_by' again`)
  }
  return { ...range, ids: idsOf(range.from, range.to), groupBy, splitBy, timeZone: session.timeZone }
}

/** A time over all accounts, the last day unless it is told; at most `longestDays`, because every record in it is read. */
export function periodOf(
  url: string,
  terms: { readonly timeZone: string; readonly now: number; readonly longestDays: number; readonly days?: number },
): Period | Failure {
  const query = new URL(url).searchParams
  const to = time(query, "to", terms.timeZone) ?? new Date(terms.now)
  if (to instanceof Failure) return to
  const from = time(query, "from", terms.timeZone) ?? new Date(to.getTime() - (terms.days ?? 1) * DAY_MS)
  if (from instanceof Failure) return from
  // Days of a zone with summer time are not all as long.
  if (to.getTime() - from.getTime() > (terms.longestDays + 0.5) * DAY_MS)
    return refused("from", `at most ${terms.longestDays} days before 'to'`)
  return { from, to, ids: idsOf(from, to) }
}

/** Opaque to clients. */
export const cursorOf = ({ requestId, part }: UsagePlace): string =>
  Buffer.from(`${requestId}.${part}`).toString("base64url")

function place(cursor: string): UsagePlace | Failure {
  const [, requestId, part] = PLACE.exec(Buffer.from(cursor, "base64url").toString("latin1")) ?? []
  if (requestId === undefined || part === undefined) return refused("cursor", "a next_cursor as it was given")
  return { requestId, part: Number(part) }
}

/** An empty parameter is an absent one: forms send them. */
const given = (query: URLSearchParams, name: string): string | undefined => query.get(name) || undefined

function oneOf<T extends string>(query: URLSearchParams, name: string, known: readonly T[]): T | undefined | Failure {
  const asked = given(query, name)
  if (asked === undefined) return undefined
  return known.find((one) => one === asked) ?? refused(name, `one of ${known.join(", ")}`)
}

function time(query: URLSearchParams, name: "from" | "to", timeZone: string): Date | undefined | Failure {
  const text = given(query, name)
  if (text === undefined) return undefined
  try {
    if (!/^\d{4}-\d{2}-\d{2}(?:$|[Tt ])/.test(text)) throw new RangeError("not a time")
    if (text.length > 10) return instant(Temporal.Instant.from(text).epochMilliseconds)
    const day = Temporal.PlainDate.from(text)
    return instant((name === "to" ? day.add({ days: 1 }) : day).toZonedDateTime(timeZone).epochMilliseconds)
  } catch {
    return refused(name, "a day such as 2026-11-20 or a time such as 2026-11-20T09:00:00Z")
  }
}

/** Brought into the years that Postgres reads as we write them; there are no calls outside of them. */
const instant = (ms: number): Date => new Date(Math.min(Math.max(ms, 0), Date.UTC(9999, 11, 31)))

const refused = (name: string, description: string): Failure =>
  new Failure("request.invalid", { message: `'${name}' must be ${description}.` })
