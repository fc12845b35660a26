/**
 * One usage record as JSON and as a line of CSV. Amounts are what each bucket of a call came to, in micro-rupiah: the lines of
 * its receipt. They add up to the charge and what the house bore of it, so whoever has a receipt can recompute the charge:
 * tokens × rate of each bucket, less what was absorbed.
 */
import { type Static, Type } from "@sinclair/typebox"
import { type Micro, micro, microToJson, zero } from "../../../actors/money/micro.ts"
import type { Rates, Tokens } from "../../../actors/money/price.ts"
import type { UsageStatus } from "../../../actors/ledger.ts"
import type { FinishedCall } from "../../gateway/ports.ts"
import type { UsageFilter, UsageRow, UsageStore } from "../../store/usage.ts"
import { type Cell, type CsvFile, csvFile, inDays, Rupiah } from "./page.ts"
import {
  described,
  field,
  flag,
  integer,
  micro as microShape,
  oneOf,
  orNull,
  pageOf,
  rates,
  text,
  time,
} from "../shapes.ts"

export const usageStatuses = [
  "ok",
  "upstream_error",
  "aborted_stream",
  "usage_missing",
  "billing_error",
  "fallback_429",
  "fallback_oversize",
] as const satisfies readonly UsageStatus[]

export const tokenCounts = {
  input_tokens: integer,
  output_tokens: integer,
  cache_read_tokens: integer,
  cache_write_tokens: integer,
}
const marker = Type.Object({ model: text, status: oneOf(usageStatuses), created_at: time })

/** First the fields of gateway-api.md, "Usage record", then what a receipt needs. */
export const usageRecord = Type.Object(
  {
    model: text,
    ...tokenCounts,
    charge_micro: microShape,
    status: oneOf(usageStatuses),
    turns: described(
      integer,
      field(
        "Charged turns at the backend; above 1 for a server-side tool loop.",
        "Giliran berbayar di backend; lebih dari 1 jika alat dijalankan di server.",
      ),
    ),
    request_id: text,
    key_id: text,
    run_id: Type.Optional(
      described(
        text,
        field(
          "The run that the call is one of; not there without one.",
          "Run tempat panggilan ini termasuk; tidak ada tanpa run.",
        ),
      ),
    ),
    created_at: time,
    endpoint: text,
    streamed: flag,
    attempts: integer,
    duration_ms: integer,
    first_token_ms: orNull(integer),
    error_code: orNull(text),
    price_id: integer,
    price_effective_at: orNull(time, field("Since when that price is in force.", "Sejak kapan harga itu berlaku.")),
    rates: Type.Object(rates),
    amounts: Type.Object({
      input_micro: microShape,
      output_micro: microShape,
      cache_read_micro: microShape,
      cache_write_micro: microShape,
    }),
    absorbed_micro: described(
      microShape,
      field(
        "What the amounts add up to over the charge: the balance did not cover it, and the house bore it.",
        "Selisih jumlah di atas yang dibayar: saldo tidak cukup, dan Loket menanggungnya.",
      ),
    ),
  },
  { $id: "UsageRecord" },
)
export const usagePage = Type.Object({
  ...pageOf(usageRecord).properties,
  archived_until: Type.Optional(
    described(
      time,
      field(
        "Calls that arrived before are archived: they are neither in this list nor in the file, but in all sums, and each is found by its id. Not there where the range has none.",
        "Panggilan yang tiba sebelumnya diarsipkan: tidak ada di daftar ini maupun di berkasnya, tetapi ada di semua jumlah, dan masing-masing ditemukan dengan ID-nya. Tidak ada jika rentang ini tidak memuatnya.",
      ),
    ),
  ),
})
export const usageDetail = Type.Intersect([usageRecord, Type.Object({ markers: Type.Array(marker) })])

export const markerJson = ({ model, status, createdAt }: UsageRow): Static<typeof marker> => ({
  model,
  status,
  created_at: createdAt.toISOString(),
})

export const tokensJson = (tokens: Tokens) => ({
  input_tokens: tokens.input,
  output_tokens: tokens.output,
  cache_read_tokens: tokens.cacheRead,
  cache_write_tokens: tokens.cacheWrite,
})

export const rowJson = (row: UsageRow): Static<typeof usageRecord> => ({
  model: row.model,
  ...tokensJson(row.tokens),
  charge_micro: microToJson(row.chargeMicro),
  status: row.status,
  turns: row.turns,
  request_id: row.requestId,
  key_id: row.keyId,
  ...(row.runId !== undefined && { run_id: row.runId }),
  created_at: row.createdAt.toISOString(),
  endpoint: row.endpoint,
  streamed: row.streamed,
  attempts: row.attempts,
  duration_ms: row.durationMs,
  first_token_ms: row.firstTokenMs ?? null,
  error_code: row.errorCode ?? null,
  price_id: Number(row.priceId),
  price_effective_at: row.priceEffectiveAt?.toISOString() ?? null,
  rates: {
    input_micro: microToJson(row.rates.input),
    output_micro: microToJson(row.rates.output),
    cache_read_micro: microToJson(row.rates.cacheRead),
    cache_write_micro: microToJson(row.rates.cacheWrite),
  },
  amounts: amountsJson(row),
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

/** Nothing for a call that cost nobody anything. */
function amountsOf({ status, absorbedMicro, tokens, rates }: UsageRow): Rates {
  const priced = status === "ok" || absorbedMicro > zero
  const amount = (count: number, rate: Micro) => (priced ? micro(BigInt(count) * rate) : zero)
  return {
    input: amount(tokens.input, rates.input),
    output: amount(tokens.output, rates.output),
    cacheRead: amount(tokens.cacheRead, rates.cacheRead),
    cacheWrite: amount(tokens.cacheWrite, rates.cacheWrite),
  }
}

/** Columns stay in their places: a new one is the last. */
const columns: Readonly<Record<string, (row: UsageRow) => Cell>> = {
  request_id: (row) => row.requestId,
  created_at: (row) => row.createdAt.toISOString(),
  key_id: (row) => row.keyId,
  endpoint: (row) => row.endpoint,
  model: (row) => row.model,
  status: (row) => row.status,
  streamed: (row) => String(row.streamed),
  turns: (row) => row.turns,
  attempts: (row) => row.attempts,
  input_tokens: (row) => row.tokens.input,
  output_tokens: (row) => row.tokens.output,
  cache_read_tokens: (row) => row.tokens.cacheRead,
  cache_write_tokens: (row) => row.tokens.cacheWrite,
  input_rate_micro: (row) => row.rates.input,
  output_rate_micro: (row) => row.rates.output,
  cache_read_rate_micro: (row) => row.rates.cacheRead,
  cache_write_rate_micro: (row) => row.rates.cacheWrite,
  charge_micro: (row) => row.chargeMicro,
  charge_rp: (row) => new Rupiah(row.chargeMicro),
  price_id: (row) => row.priceId,
  duration_ms: (row) => row.durationMs,
  first_token_ms: (row) => row.firstTokenMs ?? "",
  error_code: (row) => row.errorCode ?? "",
  input_amount_micro: (row) => amountsOf(row).input,
  output_amount_micro: (row) => amountsOf(row).output,
  cache_read_amount_micro: (row) => amountsOf(row).cacheRead,
  cache_write_amount_micro: (row) => amountsOf(row).cacheWrite,
  absorbed_micro: (row) => row.absorbedMicro,
  key_name: (row) => row.keyName ?? "",
  run_id: (row) => row.runId ?? "",
  price_effective_at: (row) => row.priceEffectiveAt?.toISOString() ?? "",
}

/** All that a filter lets through; its head says where archived calls are not in it. Its name has the days. */
export async function usageCsv(
  usage: UsageStore,
  filter: UsageFilter,
  {
    notation,
    timeZone,
    ...sending
  }: Pick<CsvFile<UsageRow>, "notation" | "onEnd" | "stalledMs"> & { readonly timeZone: string },
): Promise<Response> {
  const archived: { before?: Date | undefined; until?: Date | undefined } = {}
  const response = await csvFile<UsageRow>({
    ...sending,
    name: `loket-usage${inDays(filter, timeZone)}`,
    columns: Object.keys(columns),
    notation,
    cells: (row) => Object.values(columns).map((column) => column(row)),
    async read({ limit, after }) {
      if (after === undefined) archived.before = await usage.archivedUntil(filter)
      const rows = await usage.list(filter, { limit, ...(after && { after }) })
      if (after !== undefined && rows.length === limit) return rows
      const until = await usage.archivedUntil(filter)
      if (after === undefined) archived.until = until
      // A month that went meanwhile ends the rows in its midst.
      else if (until?.getTime() !== archived.before?.getTime()) throw new Error("a month was archived meanwhile")
      return rows
    },
  })
  if (archived.until !== undefined) response.headers.set("x-archived-until", archived.until.toISOString())
  return response
}

/** A `call` event. */
export const callEventJson = ({ requestId, keyId, endpoint, record }: FinishedCall) => ({
  request_id: requestId,
  key_id: keyId,
  model: record.model,
  endpoint,
  status: record.status,
  input_tokens: record.tokens.input,
  output_tokens: record.tokens.output,
  cache_read_tokens: record.tokens.cacheRead,
  cache_write_tokens: record.tokens.cacheWrite,
  charge_micro: microToJson(record.charge),
  duration_ms: record.durationMs,
})
