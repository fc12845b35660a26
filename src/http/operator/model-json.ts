/** Models and prices as operators are shown them. */
import { type Static, Type } from "@sinclair/typebox"
import { microToJson } from "../../../actors/money/micro.ts"
import { inForce, type Rates } from "../../../actors/money/price.ts"
import type { PriceVersion, Upstream } from "../../catalogue/model.ts"
import { upstreamsOf } from "../../store/catalogue.ts"
import type { StoredModel } from "../../store/operator/models.ts"
import type { AnswerOf } from "../route.ts"
import { described, flag, integer, oneOf, orNull, rates, text, time } from "../shapes.ts"
import { field } from "../said.ts"

export const PriceShape = Type.Object({ id: orNull(integer), ...rates, effective_at: time })

const UpstreamShape = Type.Object({
  provider: text,
  format: text,
  model: text,
  priority: integer,
  weight: integer,
  max_concurrency: orNull(integer),
  requests_per_minute: orNull(integer),
  tokens_per_minute: orNull(integer),
})

export const modelShape = Type.Object(
  {
    model: text,
    display_name: text,
    tier: text,
    provider: text,
    modality: text,
    supports_vision: flag,
    supports_tools: flag,
    context_window: orNull(integer),
    max_output_tokens: integer,
    endpoints: Type.Array(text),
    upstreams: Type.Array(UpstreamShape, {
      description: field("Its pool, in the order of the catalogue.", "Kumpulannya, menurut urutan katalog."),
    }),
    configured: described(
      flag,
      field("A provider of its pool has a key.", "Ada penyedia di kumpulannya yang memiliki kunci."),
    ),
    max_concurrency: integer,
    fallback: Type.Array(text),
    pass: Type.Array(text, {
      description: field(
        "Names of request fields that travel to it beside those of its format.",
        "Nama field permintaan yang diteruskan kepadanya di samping field formatnya.",
      ),
    }),
    status: oneOf(["on_sale", "retiring", "retired"]),
    retirement: orNull(Type.Object({ target: text, until: time })),
    edited: Type.Array(text, {
      description: field(
        "What an operator has set, and the catalogue file does not set any more.",
        "Yang diatur operator, dan tidak lagi diatur berkas katalog.",
      ),
    }),
    prices: Type.Array(Type.Object({ ...PriceShape.properties, state: oneOf(["past", "current", "coming"]) })),
  },
  { $id: "OperatorModel" },
)

const upstreamJson = (upstream: Upstream): Static<typeof UpstreamShape> => ({
  provider: upstream.provider,
  format: upstream.format,
  model: upstream.model,
  priority: upstream.priority,
  weight: upstream.weight,
  max_concurrency: upstream.maxConcurrency ?? null,
  requests_per_minute: upstream.requestsPerMinute ?? null,
  tokens_per_minute: upstream.tokensPerMinute ?? null,
})

interface Price {
  readonly id: bigint | undefined
  readonly rates: Rates
  readonly effectiveAt: number
}

export const priceJson = ({ id, rates, effectiveAt }: Price): Static<typeof PriceShape> => ({
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
): AnswerOf<typeof modelShape> {
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
    upstreams: upstreamsOf(model).map(upstreamJson),
    configured,
    max_concurrency: model.max_concurrency,
    fallback: model.fallback,
    pass: model.pass,
    status,
    retirement: target === null || until === null ? null : { target, until: until.toISOString() },
    edited: model.edited,
    prices: prices.map((price) => ({ ...priceJson(price), state: state(price) })),
  }
}
