/**
 * The usage export: CSV (RFC 4180), sent page by page as it is read, so that a year of calls needs no more memory than an
 * hour's. A spreadsheet runs a cell that starts like a formula, so such cells get a leading apostrophe.
 */
import { microToRupiah } from "../../../actors/money/micro.ts"
import { amountsOf } from "./amounts.ts"
import type { UsageFilter, UsageRow, UsageStore } from "../../store/usage.ts"

const PAGE = 1_000

const columns: Readonly<Record<string, (row: UsageRow) => string | number | bigint>> = {
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
  charge_rp: (row) => microToRupiah(row.chargeMicro),
  price_id: (row) => row.priceId,
  duration_ms: (row) => row.durationMs,
  first_token_ms: (row) => row.firstTokenMs ?? "",
  error_code: (row) => row.errorCode ?? "",
  input_amount_micro: (row) => amountsOf(row).input,
  output_amount_micro: (row) => amountsOf(row).output,
  cache_read_amount_micro: (row) => amountsOf(row).cacheRead,
  cache_write_amount_micro: (row) => amountsOf(row).cacheWrite,
  absorbed_micro: (row) => row.absorbedMicro,
}

/**
 * Resolves when the first page is read, so that a database that is away is still told as a 503. One that goes away later
 * breaks the transfer off: half a file must not look like a whole one.
 */
export async function usageCsv(usage: UsageStore, filter: UsageFilter): Promise<ReadableStream<Uint8Array>> {
  const encoder = new TextEncoder()
  let page = await usage.list(filter, { limit: PAGE })
  let text = line(Object.keys(columns)) + lines(page)
  return new ReadableStream({
    async pull(controller) {
      controller.enqueue(encoder.encode(text))
      const last = page.at(-1)
      if (page.length < PAGE || last === undefined) return controller.close()
      page = await usage.list(filter, { limit: PAGE, after: last })
      text = lines(page)
      if (page.length === 0) controller.close()
    },
  })
}

const lines = (rows: readonly UsageRow[]): string =>
  rows.map((row) => line(Object.values(columns).map((column) => csvCell(column(row))))).join("")

const line = (cells: readonly string[]): string => `${cells.join(",")}\r\n`

function csvCell(value: string | number | bigint): string {
  if (typeof value !== "string") return String(value)
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
