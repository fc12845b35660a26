/**
 * Exchange rates from a file or an address, read on an interval (`EXCHANGE_RATES_FROM`). An invalid source changes nothing. A rate that
 * moved too much is not applied either, because a person must look at it. Both are logged and counted in a metric. Time and bytes are
 * bounded.
 */
import { microToRupiah } from "../../actors/money/micro.ts"
import { isLargeStep, readExchangeRates } from "../catalogue/exchange.ts"
import type { Log } from "../log.ts"
import type { ExchangeRateStore } from "../store/operator/exchange-rates.ts"

export type ExchangeOutcome = "same" | "changed" | "jump" | "failed"

export interface ExchangeSource {
  /** `https://…`, or the absolute path of a file. */
  readonly from: string
  readonly store: ExchangeRateStore
  readonly log: Pick<Log, "info" | "warn">
  readonly now: () => number
  readonly onOutcome: (outcome: ExchangeOutcome) => void
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

const ANSWER_MS = 10_000
const LARGEST_BYTES = 1_048_576
/** Every process knows a rate this long before it takes effect. */
const LEAD_MS = 3_000

/** Reads the source once. Never rejects because of the source. The caller reports a database that is unreachable. */
export async function readExchangeSource(source: ExchangeSource): Promise<void> {
  const { store, log, onOutcome } = source
  const needed = await store.needed()
  if (needed.length === 0) return onOutcome("same")
  const read = await readRates(source)
  const rates = typeof read === "string" ? read : readExchangeRates(read.json, needed)
  if (typeof rates === "string") {
    log.warn("exchange rates not read", { error: rates })
    return onOutcome("failed")
  }
  const known = await store.list(1)
  let outcome: ExchangeOutcome = "same"
  for (const [currency, unit] of rates) {
    const last = known.find((rate) => rate.currency === currency)
    if (last !== undefined && isLargeStep(last.unit, unit)) {
      log.warn("exchange rate jumped", { currency, from: microToRupiah(last.unit), to: microToRupiah(unit) })
      outcome = "jump"
      continue
    }
    const effectiveAt = new Date(source.now() + LEAD_MS)
    if (await store.fetched({ currency, unit, effectiveAt })) {
      log.info("exchange rate changed", { currency, rupiah: microToRupiah(unit) })
      if (outcome === "same") outcome = "changed"
    }
  }
  onOutcome(outcome)
}

/** The source's rates, or why they could not be read. The reason never quotes the source, which may be a stranger's page. */
async function readRates({ from, fetch: ask = fetch }: ExchangeSource): Promise<{ readonly json: unknown } | string> {
  try {
    const text = from.startsWith("/")
      ? await textOf(Bun.file(from).stream())
      : await answered(await ask(from, { redirect: "error", signal: AbortSignal.timeout(ANSWER_MS) }))
    return text === undefined ? `more than ${LARGEST_BYTES} bytes` : { json: JSON.parse(text) }
  } catch (error) {
    return error instanceof SyntaxError ? "not JSON" : String(error)
  }
}

async function answered(response: Response): Promise<string | undefined> {
  if (response.ok && response.body !== null) return await textOf(response.body)
  await response.body?.cancel()
  throw new Error(`status ${response.status}`)
}

/** Undefined if it is too long. */
async function textOf(body: ReadableStream<Uint8Array>): Promise<string | undefined> {
  const reader = body.getReader()
  const pieces: Uint8Array[] = []
  let size = 0
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    size += piece.value.length
    if (size > LARGEST_BYTES) {
      await reader.cancel()
      return undefined
    }
    pieces.push(piece.value)
  }
  return Buffer.concat(pieces).toString("utf8")
}
