/**
 * `/usage`: receipts, sums, an export, and one call's final record (specification, "GET /usage/{request_id}";
 * decisions §10, §12.10).
 */
import { Elysia } from "elysia"
import { microToJson, plus, zero } from "../../../actors/money/micro.ts"
import { type Tokens, noTokens } from "../../../actors/money/tokens.ts"
import { Failure } from "../../failure/failure.ts"
import type { UsageRow, UsageStore, UsageSum } from "../../store/usage.ts"
import { asks } from "./contract.ts"
import type { Authenticate } from "./session.ts"
import { amountsOf } from "./amounts.ts"
import { usageCsv } from "./usage-csv.ts"
import { cursorOf, type SummaryQuery, summaryQuestion, usageFilter, usagePage, type UsageQuery } from "./usage-query.ts"

export interface UsageDeps {
  readonly usage: UsageStore
  readonly authenticate: Authenticate
  readonly now?: () => number
}

const REQUEST_ID = /^[A-Za-z0-9_-]{1,40}$/

export const usageController = ({ usage, authenticate, now = Date.now }: UsageDeps) =>
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
        const sums = await usage.summarise(question)
        return {
          data: sums.map((sum) => ({ group: sum.group, ...sumJson(sum) })),
          total: sumJson(sums.reduce(added, nothing)),
          group_by: question.groupBy,
          time_zone: question.timeZone,
          from: question.from.toISOString(),
          to: question.to.toISOString(),
        }
      },
      asks<SummaryQuery>(),
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

/** The specification's record first, then what a receipt needs. */
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

type Sum = Omit<UsageSum, "group">
const nothing: Sum = { requests: 0, ok: 0, tokens: noTokens, chargeMicro: zero }

const added = (a: Sum, b: Sum): Sum => ({
  requests: a.requests + b.requests,
  ok: a.ok + b.ok,
  tokens: {
    input: a.tokens.input + b.tokens.input,
    output: a.tokens.output + b.tokens.output,
    cacheRead: a.tokens.cacheRead + b.tokens.cacheRead,
    cacheWrite: a.tokens.cacheWrite + b.tokens.cacheWrite,
  },
  chargeMicro: plus(a.chargeMicro, b.chargeMicro),
})

const sumJson = (sum: Sum) => ({
  requests: sum.requests,
  ok_requests: sum.ok,
  ...tokensJson(sum.tokens),
  charge_micro: microToJson(sum.chargeMicro),
})
