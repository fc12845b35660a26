/** Which models are shown, and in which order. */
import type { CallFormat } from "../../components/values.tsx"
import type { CatalogueModel } from "../../api/queries.ts"

export const sortings = ["name", "input", "output", "context"] as const
type ModelSorting = (typeof sortings)[number]

export const capabilities = ["vision", "tools", "structured_outputs", "web_search"] as const
export type Capability = (typeof capabilities)[number]

export interface ModelFilter {
  readonly words: string
  /** All of them are wanted. */
  readonly can: readonly Capability[]
  readonly format: CallFormat | undefined
  readonly sorting: ModelSorting
}

export const noFilter: ModelFilter = { words: "", can: [], format: undefined, sorting: "name" }

export function chosen(models: readonly CatalogueModel[], filter: ModelFilter): readonly CatalogueModel[] {
  const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean)
  return models
    .filter((model) => {
      const text = `${model.display_name} ${model.model} ${model.provider} ${model.tier}`.toLowerCase()
      if (!words.every((word) => text.includes(word))) return false
      if (!filter.can.every((capability) => isAbleTo(model, capability, filter.format))) return false
      return filter.format === undefined || model.endpoints.includes(filter.format)
    })
    .sort(
      (a, b) => orders[filter.sorting](a, b) || a.display_name.localeCompare(b.display_name, "en", { numeric: true }),
    )
}

/** Some models have structured outputs, or the search, on some formats alone. */
function isAbleTo(model: CatalogueModel, capability: Capability, format: CallFormat | undefined): boolean {
  if (capability === "vision") return model.supports_vision
  if (capability === "tools") return model.supports_tools
  const served = model.features[capability] ?? []
  return format === undefined ? served.length > 0 : served.includes(format)
}

type Order = (a: CatalogueModel, b: CatalogueModel) => number

/** A context window that is not published sorts last. */
const orders: Readonly<Record<ModelSorting, Order>> = {
  name: () => 0,
  input: (a, b) => a.input_micro - b.input_micro,
  output: (a, b) => a.output_micro - b.output_micro,
  context: (a, b) => (b.context_window ?? -1) - (a.context_window ?? -1),
}

export const rateNames = ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const
export type RateName = (typeof rateNames)[number]

/** The price of a million tokens, from the price of one, in micro-rupiah. */
export const perMillion = (micro: number): bigint => BigInt(micro) * 1_000_000n

/** A month is taken to have so many. */
export const MONTH_DAYS = 30n

interface Estimate {
  /** Cached tokens included. */
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
}

/** The cost of a call in micro-rupiah: tokens × rates, as calls are charged. */
export const costOf = (
  model: Pick<CatalogueModel, RateName>,
  { inputTokens, cachedTokens, outputTokens }: Estimate,
): bigint =>
  BigInt(inputTokens - cachedTokens) * BigInt(model.input_micro) +
  BigInt(cachedTokens) * BigInt(model.cache_read_micro) +
  BigInt(outputTokens) * BigInt(model.output_micro)
