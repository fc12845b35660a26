/**
 * `/usage`: receipts, sums, an export, and one call's final record (gateway-api.md, "GET /usage/{request_id}";
 * decisions §10, §12.10).
 */
import { Elysia } from "elysia"
import { microToJson, plus, zero } from "../../../actors/money/micro.ts"
import { type Tokens, noTokens } from "../../../actors/money/tokens.ts"
import { Failure } from "../../failure/failure.ts"
import {
  allGroups,
  FIRST_TOKENS_OF,
  type FirstTokens,
  groupName,
  type UsageSumStore,
  type UsageTotal,
} from "../../store/usage-sums.ts"
import type { UsageRow, UsageStore } from "../../store/usage.ts"
import { asks } from "./contract.ts"
import type { Authenticate } from "./session.ts"
import { amountsOf } from "./amounts.ts"
import { usageCsv } from "./usage-csv.ts"
import {
  cursorOf,
  type RangeQuery,
  type SummaryQuery,
  summaryQuestion,
  usageFilter,
  usagePage,
  type UsageQuery,
  usageRange,
} from "./usage-query.ts"

export interface UsageDeps {
  readonly usage: UsageStore
  readonly sums: UsageSumStore
  readonly authenticate: Authenticate
  readonly now?: () => number
}

const REQUEST_ID = /^[A-Za-z0-9_-]{1,40}$/

export const usageController = ({ usage, sums, authenticate, now = Date.now }: UsageDeps) =>
  new Elysia({ name: "dashboard/usage" })
    .get(
      "/usage",
      async ({ request }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const filter = usageFilter(session, request.url)
        if (filter instanceof Failure) return filter
        const page = usagePage(request.url)
        if (page instanceof Failure) return page
        // One more than asked for tells whether there is a next page.
        const rows = await usage.list(filter, { ...page, limit: page.limit + 1 })
        const shown = rows.slice(0, page.limit)
        const last = shown.at(-1)
        return {
          data: shown.map(rowJson),
          next_cursor: rows.length > shown.length && last !== undefined ? cursorOf(last) : null,
        }
      },
      asks<UsageQuery>(),
    )
    .get(
      "/usage/summary",
      async ({ request }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const question = summaryQuestion(session, request.url, now())
        if (question instanceof Failure) return question
        const [rows, firstTokens] = await Promise.all([sums.summarise(question), sums.firstTokens(question)])
        const total = rows.reduce<UsageTotal>(added, nothing)
        const split = (name: string | undefined) => (question.splitBy === undefined ? {} : { split: name ?? null })
        return {
          data: rows.map((row) => ({
            group: row.group,
            ...split(row.split),
            ...sumJson(row, firstTokens.of.get(groupName(row.group, row.split))),
          })),
          total: sumJson(total, firstTokens.of.get(allGroups)),
          group_by: question.groupBy,
          split_by: question.splitBy ?? null,
          /** Of how many of the newest calls the times to the first token are; null when of all. */
          first_token_of: firstTokens.newestOnly ? FIRST_TOKENS_OF : null,
          time_zone: question.timeZone,
          from: question.from.toISOString(),
          to: question.to.toISOString(),
        }
      },
      asks<SummaryQuery>(),
    )
    .get(
      "/usage/errors",
      async ({ request }) => {
        const session = await authenticate(request)
        if (session instanceof Failure) return session
        const range = usageRange(session, request.url, now())
        if (range instanceof Failure) return range
        const errors = await sums.errors(range)
        return {
          data: errors.map(({ code, requests, lastAt }) => ({ code, requests, last_at: lastAt.toISOString() })),
          from: range.from.toISOString(),
          to: range.to.toISOString(),
        }
      },
      asks<RangeQuery>(),
    )
    .get("/usage/export.csv", async ({ request }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const filter = usageFilter(session, request.url)
      if (filter instanceof Failure) return filter
      return new Response(await usageCsv(usage, filter), {
        headers: {
          "content-type": "text/csv; charset=utf-8",
          "content-disposition": 'attachment; filename="loket-usage.csv"',
          "cache-control": "no-store",
        },
      })
    })
    .get("/usage/:request_id", async ({ request, params }) => {
      const session = await authenticate(request)
      if (session instanceof Failure) return session
      const id = params.request_id
      const found = REQUEST_ID.test(id) ? await usage.find(session.accountId, id) : undefined
      if (found === undefined) return new Failure("usage.not_found")
      return { ...rowJson(found.record), markers: found.markers.map(markerJson) }
    })

const markerJson = ({ model, status, createdAt }: UsageRow) => ({ model, status, created_at: createdAt.toISOString() })

const tokensJson = (tokens: Tokens) => ({
  input_tokens: tokens.input,
  output_tokens: tokens.output,
  cache_read_tokens: tokens.cacheRead,
  cache_write_tokens: tokens.cacheWrite,
})

/** First the fields of gateway-api.md, "Usage record", then what a receipt needs. */
const rowJson = (row: UsageRow) => ({
  model: row.model,
  ...tokensJson(row.tokens),
  charge_micro: microToJson(row.chargeMicro),
  status: row.status,
  turns: row.turns,
  request_id: row.requestId,
  key_id: row.keyId,
  created_at: row.createdAt.toISOString(),
  endpoint: row.endpoint,
  streamed: row.streamed,
  attempts: row.attempts,
  duration_ms: row.durationMs,
  first_token_ms: row.firstTokenMs ?? null,
  error_code: row.errorCode ?? null,
  price_id: Number(row.priceId),
  price_effective_at: row.priceEffectiveAt?.toISOString() ?? null,
  /** Micro-rupiah for one token. */
  rates: {
    input_micro: microToJson(row.rates.input),
    output_micro: microToJson(row.rates.output),
    cache_read_micro: microToJson(row.rates.cacheRead),
    cache_write_micro: microToJson(row.rates.cacheWrite),
  },
  amounts: amountsJson(row),
  /** What the amounts add up to over the charge: the balance did not cover it, and the house bore it. */
  absorbed_micro: microToJson(row.absorbedMicro),
})

function amountsJson(row: UsageRow) {
  const { input, output, cacheRead, cacheWrite } = amountsOf(row)
  return {
    input_micro: microToJson(input),
    output_micro: microToJson(output),
    cache_read_micro: microToJson(cacheRead),
    cache_write_micro: microToJson(cacheWrite),
  }
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
  charge_micro: microToJson(sum.chargeMicro),
  first_token_p50_ms: firstTokens?.p50Ms ?? null,
  first_token_p95_ms: firstTokens?.p95Ms ?? null,
})
