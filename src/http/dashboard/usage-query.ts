/**
 * The questions that may be put to `/usage`, from their query strings. Times are instants (RFC 3339) or plain days of the
 * account's time zone; `from` is included and `to` is not, except that a plain day as `to` is meant whole.
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import type { Session } from "../../accounts/accounts.ts"
import { Failure } from "../../failure/failure.ts"
import { type SummaryQuestion, type UsageRange, usageGroups, usageSplits } from "../../store/usage-sums.ts"
import { LONGEST_ARRIVAL_MS, type UsageFilter } from "../../store/usage.ts"
import type { UsageNarrowing } from "../../store/usage-spans.ts"
import type { RefusedFilter } from "../../store/refused-calls.ts"
import type { CallPeriod } from "../../store/operator/overview.ts"
import { firstRequestId } from "../edge.ts"
import { refused } from "../route.ts"
import { ENDPOINTS } from "../../language/request.ts"
import { field, oneOf } from "../shapes.ts"
import { csvQuery, pageQuery } from "./page.ts"
import { usageStatuses } from "./usage-rows.ts"

/** How far a summary looks back when nobody says. */
const SUMMARY_DAYS = 30
const DAY_MS = 24 * 60 * 60 * 1000

/** Model ids and key ids; what a text column cannot hold, or nobody types, matches nothing and is refused. */
const name = (description: string) => Type.Optional(Type.RegExp(/^[^\p{Cc}]{1,200}$/u, { description }))
const word = <T extends TSchema>(schema: T) => Type.Optional(schema)

const TIME = field(
  "a day such as 2026-11-20 or a time such as 2026-11-20T09:00:00Z",
  "hari seperti 2026-11-20, atau waktu seperti 2026-11-20T09:00:00Z",
)
/** Days are the account's; one that is named by `to` is meant whole. */
export const period = {
  from: Type.Optional(Type.String({ description: TIME })),
  to: Type.Optional(Type.String({ description: TIME })),
}
const range = {
  ...period,
  model: name(field("a model's id", "id sebuah model")),
  key_id: name(field("a key's id", "id sebuah kunci")),
  status: word(oneOf(usageStatuses)),
  format: word(oneOf(ENDPOINTS)),
}
export const rangeQuery = Type.Object(range)
const filterQuery = Type.Object({
  ...range,
  error_code: name(field("an error's code", "sebuah kode kesalahan")),
  run_id: name(field("a run's id", "id sebuah run")),
})
export const exportQuery = Type.Object({ ...filterQuery.properties, ...csvQuery })
export const recordsQuery = Type.Object({ ...filterQuery.properties, ...pageQuery })
export const summaryQuery = Type.Object({
  ...range,
  group_by: word(oneOf(usageGroups)),
  split_by: word(
    oneOf(
      usageSplits,
      field(
        `one of ${usageSplits.join(", ")}, and not 'group_by' again`,
        `salah satu dari ${usageSplits.join(", ")}, dan bukan 'group_by' lagi`,
      ),
    ),
  ),
})
type RangeQuery = Static<typeof rangeQuery>

const NO_IDS = { from: undefined, to: undefined }

export const refusedQuery = Type.Object({
  ...period,
  key_id: range.key_id,
  model: range.model,
  format: range.format,
  error_code: filterQuery.properties.error_code,
})

export function refusedFilter(session: Session, query: Static<typeof refusedQuery>): RefusedFilter | Failure {
  const filter = usageFilter(session, query)
  if (filter instanceof Failure) return filter
  const { accountId, ids, from, to, errorCode: code, keyId, model, endpoint } = filter
  return { accountId, from, to, ids: ids ?? NO_IDS, keyId, model, endpoint, code }
}

/** Whose calls, and in which zone days are meant. */
export type Whose = Pick<Session, "accountId" | "timeZone">

export function usageFilter(session: Whose, query: Static<typeof filterQuery>): UsageFilter | Failure {
  const from = time(query, "from", session.timeZone)
  if (from instanceof Failure) return from
  const to = time(query, "to", session.timeZone)
  if (to instanceof Failure) return to
  const ids = {
    from: from === undefined ? undefined : firstRequestId(from.getTime() - LONGEST_ARRIVAL_MS),
    to: to === undefined ? undefined : firstRequestId(to.getTime()),
  }
  return {
    accountId: session.accountId,
    ids,
    from,
    to,
    errorCode: query.error_code,
    runId: query.run_id,
    ...narrowing(query),
  }
}

const narrowing = ({ model, key_id, format, status }: RangeQuery): UsageNarrowing => ({
  model,
  keyId: key_id,
  endpoint: format,
  status,
})

/** Without `from` the range is thirty days long; without `to` it ends now. */
export function usageRange(session: Session, query: RangeQuery, now: number): UsageRange | Failure {
  const from = time(query, "from", session.timeZone)
  if (from instanceof Failure) return from
  const to = time(query, "to", session.timeZone)
  if (to instanceof Failure) return to
  const end = to ?? new Date(now + DAY_MS)
  return {
    only: narrowing(query),
    accountId: session.accountId,
    from: from ?? new Date(Math.min(now, end.getTime()) - SUMMARY_DAYS * DAY_MS),
    to: end,
  }
}

export function summaryQuestion(
  session: Session,
  query: Static<typeof summaryQuery>,
  now: number,
): SummaryQuestion | Failure {
  const range = usageRange(session, query, now)
  if (range instanceof Failure) return range
  const { group_by: groupBy = "day", split_by: splitBy } = query
  if (splitBy === groupBy) return refused("split_by", summaryQuery.properties.split_by.description ?? "another")
  return { ...range, groupBy, splitBy, timeZone: session.timeZone }
}

/** A period over all accounts, by default the last day; at most `longestDays`. */
export function periodOf(
  query: PeriodQuery,
  terms: { readonly timeZone: string; readonly now: number; readonly longestDays: number; readonly days?: number },
): CallPeriod | Failure {
  const to = time(query, "to", terms.timeZone) ?? new Date(terms.now)
  if (to instanceof Failure) return to
  const from = time(query, "from", terms.timeZone) ?? new Date(to.getTime() - (terms.days ?? 1) * DAY_MS)
  if (from instanceof Failure) return from
  // Days of a zone with summer time are not all as long.
  if (to.getTime() - from.getTime() > (terms.longestDays + 0.5) * DAY_MS)
    return refused("from", `at most ${terms.longestDays} days before 'to'`)
  return { from, to }
}

interface PeriodQuery {
  readonly from?: string
  readonly to?: string
}

function time(query: PeriodQuery, name: "from" | "to", timeZone: string): Date | undefined | Failure {
  const text = query[name]
  if (text === undefined) return undefined
  try {
    if (!/^\d{4}-\d{2}-\d{2}(?:$|[Tt ])/.test(text)) throw new RangeError("not a time")
    if (text.length > 10) return instant(Temporal.Instant.from(text).epochMilliseconds)
    const day = Temporal.PlainDate.from(text)
    return instant((name === "to" ? day.add({ days: 1 }) : day).toZonedDateTime(timeZone).epochMilliseconds)
  } catch {
    return refused(name, TIME)
  }
}

/** Brought into the years that Postgres reads as we write them; there are no calls outside of them. */
const instant = (ms: number): Date => new Date(Math.min(Math.max(ms, 0), Date.UTC(9999, 11, 31)))
