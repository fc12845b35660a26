/**
 * `/usage`: receipts, sums, an export, and one call's final record (gateway-api.md, "GET /usage/{request_id}";
 * decisions §10, §12.10).
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { plus, zero, sumToJson } from "../../../actors/money/micro.ts"
import { noTokens } from "../../../actors/money/price.ts"
import { Failure } from "../../failure/failure.ts"
import {
  allGroups,
  FIRST_TOKENS_OF,
  type FirstTokenFigures,
  type FirstTokens,
  groupName,
} from "../../store/first-tokens.ts"
import type { SummaryQuestion, UsageSumStore, UsageTotal } from "../../store/usage-sums.ts"
import type { UsageStore } from "../../store/usage.ts"
import { described, field, integer, listOf, micro as microShape, orNull, text, time } from "../shapes.ts"
import { filesAtOnce, pageJson, readPage, readsInTurn } from "./page.ts"
import { type Authenticate, signedInBy } from "./session.ts"
import {
  exportQuery,
  rangeQuery,
  recordsQuery,
  summaryQuery,
  summaryQuestion,
  usageFilter,
  usageRange,
  type Whose,
} from "./usage-query.ts"
import { markerJson, rowJson, tokenCounts, tokensJson, usageCsv, usageDetail, usagePage } from "./usage-rows.ts"

export interface UsageDeps {
  readonly usage: UsageStore
  readonly sums: UsageSumStore
  readonly firstTokens: (question: SummaryQuestion) => Promise<FirstTokenFigures>
  readonly authenticate: Authenticate
  readonly now?: () => number
  /** As of `CsvFile`, shorter in tests. */
  readonly stalledMs?: number
}

/** Of a summary: some twelve megabytes. */
const MAX_SUMS = 50_000

const REQUEST_ID = /^[A-Za-z0-9_-]{1,40}$/
const PART = /^\d{1,4}$/

const sumFields = {
  requests: integer,
  ok_requests: integer,
  errors: integer,
  cache_reads: described(integer, field("Requests that read from a cache.", "Panggilan yang membaca dari cache.")),
  ...tokenCounts,
  charge_micro: microShape,
  first_token_p50_ms: orNull(integer),
  first_token_p95_ms: orNull(integer),
}
const UsageSum = Type.Object(sumFields, { $id: "UsageSum" })
const Summary = Type.Object({
  data: Type.Array(
    Type.Object({
      group: described(
        text,
        field("A day, an hour, a model, a key, a format or a status.", "Hari, jam, model, kunci, format, atau status."),
      ),
      split: Type.Optional(orNull(text, field("Where `split_by` is asked for.", "Jika `split_by` diminta."))),
      ...sumFields,
    }),
  ),
  total: UsageSum,
  group_by: text,
  split_by: orNull(text),
  first_token_of: orNull(
    integer,
    field(
      "Of how many of the newest calls of hours that are not summed yet the times to the first token are, when there were more; null when of all. Of hours that are summed they are within 2.2 %.",
      "Dari berapa panggilan terbaru, di jam yang belum dijumlahkan, waktu sampai token pertama dihitung, jika panggilannya lebih banyak; null jika dari semuanya. Untuk jam yang sudah dijumlahkan, selisihnya paling banyak 2,2 %.",
    ),
  ),
  time_zone: text,
  from: time,
  to: time,
})

const tooManySums = () =>
  new Failure("request.invalid", {
    message: `The summary has more than ${MAX_SUMS} rows; ask for a shorter time, or for days and not hours.`,
  })

export const usageController = ({ usage, sums, firstTokens, authenticate, now = Date.now, stalledMs }: UsageDeps) => {
  const signedIn = signedInBy(authenticate)
  const inTurn = readsInTurn()
  const files = filesAtOnce()
  return new Elysia({ name: "dashboard/usage" })
    .get(
      ...signedIn(
        "/usage",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "Usage records, the newest first", id: "Catatan pemakaian, dari yang terbaru" },
          query: recordsQuery,
          answer: usagePage,
        },
        async ({ session, query }) => await inTurn(session.accountId, () => callsOf(usage, session, query)),
      ),
    )
    .get(
      ...signedIn(
        "/usage/summary",
        {
          may: "read",
          tag: "Usage",
          summary: {
            en: "Sums by day, hour, model, key, format or status, and each of them divided by another",
            id: "Jumlah per hari, jam, model, kunci, format, atau status, masing-masing dapat dibagi lagi",
          },
          description: {
            en: "Of final records; markers of reroutes are not in it.",
            id: "Dari catatan yang sudah final; penanda pengalihan tidak termasuk.",
          },
          query: summaryQuery,
          answer: Summary,
        },
        async ({ session, query }) => {
          const question = summaryQuestion(session, query, now())
          if (question instanceof Failure) return question
          const answers = await inTurn(session.accountId, () =>
            Promise.all([sums.summarise(question, MAX_SUMS + 1), firstTokens(question)]),
          )
          if (answers instanceof Failure) return answers
          const [rows, times] = answers
          if (rows.length > MAX_SUMS) return tooManySums()
          const total = rows.reduce<UsageTotal>(added, nothing)
          const split = (name: string | undefined) => (question.splitBy === undefined ? {} : { split: name ?? null })
          return {
            data: rows.map((row) => ({
              group: row.group,
              ...split(row.split),
              ...sumJson(row, times.of.get(groupName(row.group, row.split))),
            })),
            total: sumJson(total, times.of.get(allGroups)),
            group_by: question.groupBy,
            split_by: question.splitBy ?? null,
            first_token_of: times.newestOnly ? FIRST_TOKENS_OF : null,
            time_zone: question.timeZone,
            from: question.from.toISOString(),
            to: question.to.toISOString(),
          }
        },
      ),
    )
    .get(
      ...signedIn(
        "/usage/errors",
        {
          may: "read",
          tag: "Usage",
          summary: {
            en: "Failed calls by error code, the most frequent first",
            id: "Panggilan gagal menurut kode kesalahan, yang tersering dulu",
          },
          description: {
            en: "Of calls that were forwarded; what was refused before has no record.",
            id: "Dari panggilan yang diteruskan; yang ditolak sebelumnya tidak punya catatan.",
          },
          query: rangeQuery,
          answer: Type.Object({
            ...listOf(Type.Object({ code: text, requests: integer, last_at: time })).properties,
            from: time,
            to: time,
          }),
        },
        async ({ session, query }) => {
          const range = usageRange(session, query, now())
          if (range instanceof Failure) return range
          const errors = await inTurn(session.accountId, () => sums.errors(range))
          if (errors instanceof Failure) return errors
          return {
            data: errors.map(({ code, requests, lastAt }) => ({ code, requests, last_at: lastAt.toISOString() })),
            from: range.from.toISOString(),
            to: range.to.toISOString(),
          }
        },
      ),
    )
    .get(
      ...signedIn(
        "/usage/export.csv",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "Usage records as CSV", id: "Catatan pemakaian sebagai CSV" },
          description: {
            en: "`X-Archived-Until`, where there is one: calls that arrived before are archived, and not in the file. Its name has the days that were asked for. New columns are the last ones.",
            id: "`X-Archived-Until`, jika ada: panggilan yang tiba sebelumnya diarsipkan, dan tidak ada di berkas. Namanya memuat hari yang diminta. Kolom baru selalu yang terakhir.",
          },
          query: exportQuery,
          media: "text/csv",
        },
        async ({ session, query }) => {
          const filter = usageFilter(session, query)
          if (filter instanceof Failure) return filter
          const onEnd = files(session.accountId)
          if (onEnd instanceof Failure) return onEnd
          return await usageCsv(usage, filter, { notation: query.lang, timeZone: session.timeZone, onEnd, stalledMs })
        },
      ),
    )
    .get(
      ...signedIn(
        "/usage/:request_id",
        {
          may: "read",
          tag: "Usage",
          summary: { en: "One call's final record", id: "Catatan final satu panggilan" },
          answer: usageDetail,
        },
        async ({ session, params }) => await callOf(usage, session.accountId, params.request_id),
      ),
    )
}

/** A page of an account's calls; days are those of the zone. */
export async function callsOf(usage: UsageStore, whose: Whose, query: Static<typeof recordsQuery>) {
  const filter = usageFilter(whose, query)
  if (filter instanceof Failure) return filter
  const page = readPage(query, [REQUEST_ID, PART])
  if (page instanceof Failure) return page
  const [requestId, part] = page.after ?? []
  const after = requestId === undefined ? undefined : { requestId, part: Number(part) }
  const rows = await usage.list(filter, { limit: page.limit + 1, after })
  // Read after the rows: a month that goes between the two is told.
  const archivedUntil = await usage.archivedUntil(filter)
  return {
    ...pageJson(rows, page, { item: rowJson, placeOf: (row) => [row.requestId, String(row.part)] }),
    ...(archivedUntil !== undefined && { archived_until: archivedUntil.toISOString() }),
  }
}

export async function callOf(usage: UsageStore, accountId: string, id: string) {
  const found = REQUEST_ID.test(id) ? await usage.find(accountId, id) : undefined
  if (found === undefined) return new Failure("usage.not_found")
  return { ...rowJson(found.record), markers: found.markers.map(markerJson) }
}

const nothing: UsageTotal = { requests: 0, ok: 0, cacheReads: 0, tokens: noTokens, chargeMicro: zero }

const added = (a: UsageTotal, b: UsageTotal): UsageTotal => ({
  requests: a.requests + b.requests,
  ok: a.ok + b.ok,
  cacheReads: a.cacheReads + b.cacheReads,
  tokens: {
    input: a.tokens.input + b.tokens.input,
    output: a.tokens.output + b.tokens.output,
    cacheRead: a.tokens.cacheRead + b.tokens.cacheRead,
    cacheWrite: a.tokens.cacheWrite + b.tokens.cacheWrite,
  },
  chargeMicro: plus(a.chargeMicro, b.chargeMicro),
})

const sumJson = (sum: UsageTotal, firstTokens: FirstTokens | undefined) => ({
  requests: sum.requests,
  ok_requests: sum.ok,
  errors: sum.requests - sum.ok,
  cache_reads: sum.cacheReads,
  ...tokensJson(sum.tokens),
  charge_micro: sumToJson(sum.chargeMicro),
  first_token_p50_ms: firstTokens?.p50Ms ?? null,
  first_token_p95_ms: firstTokens?.p95Ms ?? null,
})
