/**
 * What the backends of a simulated world charge the house, in versions that begin while it goes on, as do the exchange rates:
 * in currencies of which one is not known at first, with fees, and rounded in each way. Of one backend it is never known.
 */
import type { Cost } from "../../actors/money/price.ts"
import { micro } from "../../actors/money/micro.ts"
import type { Catalogue } from "../../src/catalogue/model.ts"

/** What is counted, priced and known of costs, and of nothing else. */
export type CostTerms = Pick<Catalogue, "costs" | "exchangeRates">

/** Nano-units of its currency for one unit. */
const UNIT = 1_000_000_000n
const cost = (currency: string, input: bigint, output: bigint, more: Partial<Cost> = {}): Cost => ({
  currency,
  rates: { input: input * UNIT, output: output * UNIT, cacheRead: input * 100_000_000n, cacheWrite: input * UNIT },
  perCall: 0n,
  perSearch: 0n,
  rounding: "none",
  step: 1n,
  ...more,
})

interface Terms {
  readonly model: string
  readonly backend: string
  readonly first: Cost
  /** Since when its first version is known. */
  readonly fromMs?: number
}

const terms: readonly Terms[] = [
  {
    model: "sonnet",
    backend: "first messages sonnet-backend",
    first: cost("USD", 3n, 15n, { perSearch: UNIT / 100n }),
  },
  {
    model: "sonnet",
    backend: "second messages sonnet-backend",
    first: cost("EUR", 3n, 14n, { perSearch: UNIT / 97n, rounding: "per_bucket", step: UNIT / 10_000n }),
  },
  {
    model: "small",
    backend: "first chat small-backend",
    first: cost("IDR", 1_601n, 8_003n, { perCall: UNIT / 3n, rounding: "per_call", step: UNIT }),
  },
  { model: "small", backend: "second messages small-backend", first: cost("USD", 1n, 2n), fromMs: 1_500 },
  { model: "wide", backend: "second chat wide-backend", first: cost("USD", 1n, 4n, { perCall: UNIT / 1_000n }) },
  { model: "codex", backend: "first responses codex-backend", first: cost("USD", 2n, 10n) },
]

const COSTS_AFTER_MS = [2_500, 7_000, 20_000]
const RATES_AFTER_MS = [4_000, 12_000, 30_000]

/** `startMs`: when the world begins, on the wall clock; what comes after it is set already. */
export function costTerms(startMs: number): CostTerms {
  const [always, ...later] = [0, ...COSTS_AFTER_MS.map((afterMs) => startMs + afterMs)]
  const costs = terms.flatMap(({ model, backend, first, fromMs }) =>
    [fromMs === undefined ? (always ?? 0) : startMs + fromMs, ...later].map((effectiveAt, version) => ({
      model,
      backend,
      effectiveAt,
      cost: { ...first, rates: dearer(first.rates, BigInt(version)) },
    })),
  )
  const of = (currency: string, rupiah: bigint, firstAt: number) =>
    [firstAt, ...RATES_AFTER_MS.map((afterMs) => startMs + afterMs)].map((effectiveAt, version) => ({
      currency,
      unit: micro(rupiah * 1_000_001n + BigInt(version) * 17_000_000n),
      source: "operator" as const,
      effectiveAt,
    }))
  const exchangeRates = [...of("USD", 16_000n, 0), ...of("EUR", 18_500n, startMs + 2_000)]
  return { costs: numbered(costs), exchangeRates: numbered(exchangeRates) }
}

const numbered = <Row extends object>(rows: readonly Row[]) =>
  rows.map((row, index) => ({ ...row, id: BigInt(index + 1) }))

const dearer = ({ input, output, cacheRead, cacheWrite }: Cost["rates"], version: bigint): Cost["rates"] => {
  const more = (rate: bigint) => rate + (rate * version) / 7n
  return { input: more(input), output: more(output), cacheRead: more(cacheRead), cacheWrite: more(cacheWrite) }
}
