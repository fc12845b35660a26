/** Sums over time as series of a chart: a value for each step, steps without calls included, and one series for each group. */
import type { Series as ChartSeries } from "../../components/chart.tsx"
import { TOLD_APART } from "../../components/values.tsx"
import { dayCount, daysOf } from "../../i18n/figures.ts"
import type { Show, View } from "./address.ts"
import type { Sum } from "./data.ts"
import type { Format } from "../../i18n/language.tsx"

/** The groups that the API counts in: days, or hours as 2026-11-20T09:00. */
export function stepsOf({ days, step }: View): readonly string[] {
  const each = daysOf(days.from, dayCount(days))
  if (step === "day") return each
  return each.flatMap((day) => Array.from({ length: 24 }, (_, hour) => `${day}T${String(hour).padStart(2, "0")}:00`))
}

type Value = (sum: Sum) => number | null

/** The value of a sum in its own unit: micro-rupiah, tokens, calls, a share, milliseconds. */
const values: Readonly<Record<Show, Value>> = {
  spend: (sum) => sum.charge_micro,
  tokens: (sum) => inputOf(sum) + sum.output_tokens,
  calls: (sum) => sum.requests,
  cache: (sum) => cacheShare(sum),
  latency: (sum) => sum.first_token_p50_ms,
}
/** Shares and latencies of groups cannot be added, and have no value where nothing was called. */
const canBeAdded = (show: Show): boolean => show !== "cache" && show !== "latency"

type Tokens = Pick<Sum, "input_tokens" | "cache_read_tokens" | "cache_write_tokens">

/** All input tokens, cached or not. */
export const inputOf = (sum: Tokens): number => sum.input_tokens + sum.cache_read_tokens + sum.cache_write_tokens

/** Null where nothing was read at all. */
export const cacheShare = (sum: Tokens): number | null =>
  inputOf(sum) === 0 ? null : sum.cache_read_tokens / inputOf(sum)

export interface SeriesNames {
  readonly whole: string
  readonly ok: string
  readonly failed: string
  readonly median: string
  readonly slow: string
  readonly buckets: Readonly<Record<"input" | "output" | "cacheRead" | "cacheWrite", string>>
  readonly others: (count: number) => string
  /** The name of a model, a key or a format. */
  readonly group: (split: string) => string
}

/** The series of each view when nothing is grouped. */
const parts = (names: SeriesNames): Readonly<Record<Show, readonly (readonly [name: string, value: Value])[]>> => ({
  spend: [[names.whole, values.spend]],
  tokens: [
    [names.buckets.input, (sum) => sum.input_tokens],
    [names.buckets.cacheRead, (sum) => sum.cache_read_tokens],
    [names.buckets.cacheWrite, (sum) => sum.cache_write_tokens],
    [names.buckets.output, (sum) => sum.output_tokens],
  ],
  calls: [
    [names.ok, (sum) => sum.ok_requests],
    [names.failed, (sum) => sum.errors],
  ],
  cache: [[names.whole, cacheShare]],
  latency: [
    [names.median, values.latency],
    [names.slow, (sum) => sum.first_token_p95_ms],
  ],
})

export function wholeSeries(
  sums: readonly Sum[],
  steps: readonly string[],
  show: Show,
  names: SeriesNames,
): readonly ChartSeries[] {
  const byStep = new Map(sums.map((sum) => [sum.group, sum]))
  const nothing = canBeAdded(show) ? 0 : null
  return parts(names)[show].map(([name, value]) => ({
    name,
    values: steps.map((step) => {
      const sum = byStep.get(step)
      return sum === undefined ? nothing : value(sum)
    }),
  }))
}

/** A series for each group, the largest first, and one for all the small ones where they can be added up. */
export function splitSeries(
  sums: readonly Sum[],
  steps: readonly string[],
  show: Show,
  names: SeriesNames,
): readonly ChartSeries[] {
  const [valueOf, additive] = [values[show], canBeAdded(show)]
  const sizes = new Map<string, number>()
  for (const sum of sums) {
    const size = additive ? (valueOf(sum) ?? 0) : sum.requests
    sizes.set(sum.split ?? "", (sizes.get(sum.split ?? "") ?? 0) + size)
  }
  const groups = [...sizes].sort(([, a], [, b]) => b - a).map(([split]) => split)
  // One that is left over is not called "others".
  const alone = groups.length === TOLD_APART + 1 ? groups : groups.slice(0, TOLD_APART)
  const others = new Set(groups.slice(alone.length))
  const bySplit = new Map(sums.map((sum) => [`${sum.split} ${sum.group}`, valueOf(sum)]))
  const series = alone.map((split) => ({
    name: names.group(split),
    values: steps.map((step) => bySplit.get(`${split} ${step}`) ?? (additive ? 0 : null)),
  }))
  if (others.size === 0 || !additive) return series
  const rest = new Map<string, number>()
  for (const sum of sums) {
    if (others.has(sum.split ?? "")) rest.set(sum.group, (rest.get(sum.group) ?? 0) + (valueOf(sum) ?? 0))
  }
  const left = steps.map((step) => rest.get(step) ?? 0)
  return [...series, { name: names.others(others.size), values: left, others: true }]
}

/** Of all groups together: the steps of another range, of as many steps. */
export function beforeSeries(sums: readonly Sum[], steps: readonly string[], show: Show, name: string): ChartSeries {
  const byStep = new Map(sums.map((sum) => [sum.group, values[show](sum)]))
  return { name, values: steps.map((step) => byStep.get(step) ?? (canBeAdded(show) ? 0 : null)) }
}

/** Days and hours are already in the account's time zone. */
export function stepLabel(step: string, format: Format): string {
  const day = format.shortDay(step.slice(0, 10))
  return step.length === 10 ? day : `${day}, ${step.slice(11)}`
}

export function unitOf(show: Show, format: Format): (value: number) => string {
  const count = (value: number) => format.number(Math.round(value))
  return {
    spend: (micro: number) => format.rupiah(Math.round(micro)),
    tokens: count,
    calls: count,
    cache: format.percent,
    latency: format.duration,
  }[show]
}
