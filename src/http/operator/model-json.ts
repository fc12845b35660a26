/** Models and prices as operators are shown them. */
import { microToJson } from "../../../actors/money/micro.ts"
import { inForce, type Rates } from "../../../actors/money/price.ts"
import type { PriceVersion } from "../../catalogue/model.ts"
import type { StoredModel } from "../../store/operator/models.ts"

interface Price {
  readonly id: bigint | undefined
  readonly rates: Rates
  readonly effectiveAt: number
}

export const priceJson = ({ id, rates, effectiveAt }: Price) => ({
  id: id === undefined ? null : Number(id),
  input_micro: microToJson(rates.input),
  output_micro: microToJson(rates.output),
  cache_read_micro: microToJson(rates.cacheRead),
  cache_write_micro: microToJson(rates.cacheWrite),
  effective_at: new Date(effectiveAt).toISOString(),
})

export function modelJson(
  model: StoredModel,
  prices: readonly PriceVersion[],
  { now, configured }: { readonly now: number; readonly configured: boolean },
) {
  const current = inForce(prices, now)
  const state = (price: PriceVersion): "past" | "current" | "coming" =>
    price.effectiveAt > now ? "coming" : price === current ? "current" : "past"
  const { target, until } = model
  const status: "on_sale" | "retiring" | "retired" =
    target === null || until === null ? "on_sale" : until.getTime() > now ? "retiring" : "retired"
  return {
    model: model.model,
    display_name: model.display_name,
    tier: model.tier,
    provider: model.provider,
    modality: model.modality,
    supports_vision: model.supports_vision,
    supports_tools: model.supports_tools,
    context_window: model.context_window,
    max_output_tokens: model.max_output_tokens,
    endpoints: model.endpoints,
    upstream: { provider: model.upstream_provider, format: model.upstream_format, model: model.upstream_model },
    /** The provider has its key. */
    configured,
    max_concurrency: model.max_concurrency,
    fallback: model.fallback,
    pass: model.pass,
    status,
    retirement: target === null || until === null ? null : { target, until: until.toISOString() },
    /** What an operator has set, and the catalogue file therefore does not. */
    edited: model.edited,
    prices: prices.map((price) => ({ ...priceJson(price), state: state(price) })),
  }
}
