/** Models and prices as operators are shown them, and what an operator may make of one. */
import { type Static, Type } from "@sinclair/typebox"
import { microToJson } from "../../../actors/money/micro.ts"
import { inForce, type Rates } from "../../../actors/money/price.ts"
import type { PriceVersion, Upstream } from "../../catalogue/model.ts"
import { Failure } from "../../failure/failure.ts"
import { EFFORTS } from "../../language/prompt.ts"
import { NEEDS, passRule } from "../../language/request.ts"
import { upstreamsOf } from "../../store/catalogue.ts"
import type { StoredModel } from "../../store/operator/models.ts"
import { type AnswerOf, refused } from "../route.ts"
import { described, field, flag, integer, oneOf, orNull, rates, text, time } from "../shapes.ts"

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
  set: described(
    Type.Record(Type.String(), Type.Unknown()),
    field("Fields that are written into every request to it.", "Field yang ditulis dalam setiap permintaan kepadanya."),
  ),
  efforts: orNull(
    Type.Array(oneOf(EFFORTS), {
      description: field(
        "The efforts of reasoning that it takes; null for all.",
        "Tingkat upaya penalaran yang diterimanya; null untuk semua.",
      ),
    }),
  ),
  needs: Type.Array(oneOf(NEEDS), {
    description: field(
      "What it wants of a prompt beside what its format says.",
      "Yang dimintanya dari prompt di samping ketentuan formatnya.",
    ),
  }),
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
  set: upstream.set ?? {},
  efforts: upstream.efforts === undefined ? null : [...upstream.efforts],
  needs: [...(upstream.needs ?? [])],
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

/**
 * What an operator may make of a model, by the same rules that the catalogue file is held to. A chain is the whole
 * chain: known models on sale, none twice, none itself, each on an endpoint of the model's own.
 */
export function chainProblem(model: StoredModel, chain: readonly string[], all: readonly StoredModel[]) {
  if (chain.length > 0 && model.endpoints.includes("embeddings"))
    return refused("fallback", "empty: no other model has the same vectors")
  for (const [index, id] of chain.entries()) {
    const target = all.find((one) => one.model === id)
    const at = `fallback[${index}]`
    if (target === undefined || target.target !== null) return refused(at, "the id of a model on sale")
    if (id === model.model || chain.indexOf(id) !== index) return refused(at, "another model than those before it")
    if (!target.endpoints.some((endpoint) => model.endpoints.includes(endpoint)))
      return refused(at, `a model that is served on ${model.endpoints.join(" or ")}`)
  }
  return undefined
}

/** No field that sends a call elsewhere or lengthens its answer, whatever its backend knows. */
export function passProblem(pass: readonly string[]) {
  const index = pass.findIndex((name) => passRule(name) !== undefined)
  const allowed = passRule(pass[index] ?? "")
  return allowed === undefined ? undefined : refused(`pass[${index}]`, allowed)
}

/** Whoever calls the retired id must not find an endpoint closed. */
export function targetProblem(model: StoredModel, targetId: string, all: readonly StoredModel[]) {
  const target = all.find((one) => one.model === targetId)
  if (target === undefined || target.target !== null) return unsold()
  if (target === model) return refused("target", "another model")
  return model.endpoints.every((endpoint) => target.endpoints.includes(endpoint))
    ? undefined
    : refused("target", `a model that is served on ${model.endpoints.join(" and ")}`)
}

export const unsold = (): Failure => refused("target", "the id of a model on sale")

interface Step {
  /** In force when the new price begins. */
  readonly from: PriceVersion | undefined
  readonly jumps: readonly Jump[]
}

export function stepTo(rates: Rates, effectiveAt: Date, versions: readonly PriceVersion[]): Step {
  const from = inForce(versions, effectiveAt.getTime())
  return { from, jumps: from === undefined ? [] : jumps(from.rates, rates) }
}

export function jumpProblem(found: readonly Jump[]): Failure {
  const steps = found.map((jump) => {
    const { name, from, to } = jumpJson(jump)
    return `${name} from ${from} to ${to} (${Number.isFinite(jump.factor) ? `${jump.factor} times` : "no factor"})`
  })
  const message = `A rate changes by more than ${LARGEST_STEP} times: ${steps.join(", ")}.`
  return new Failure("request.invalid", { message, hint: "Send 'confirm_jump': true if it is meant." })
}

const names = {
  input: "input_micro",
  output: "output_micro",
  cacheRead: "cache_read_micro",
  cacheWrite: "cache_write_micro",
} as const

export const rateNames = Object.values(names)

/** The factor of a rate that comes from nothing, or goes to nothing, is null. */
export const jumpJson = ({ rate, from, to, factor }: Jump) => ({
  name: names[rate],
  from: Number(from),
  to: Number(to),
  factor: Number.isFinite(factor) ? factor : null,
})

// Rates that change by more than a factor, which is more often a slip of the hand than a price. Micro-rupiah a token.

/** Up or down by more than this wants to be confirmed. */
const LARGEST_STEP = 2

interface Jump {
  readonly rate: keyof Rates
  readonly from: bigint
  readonly to: bigint
  /** How many times more, or less, with two decimals; infinite from or to nothing. */
  readonly factor: number
}

export const jumps = (from: Rates, to: Rates): Jump[] =>
  (["input", "output", "cacheRead", "cacheWrite"] as const)
    .filter((rate) => isJump(from[rate], to[rate]))
    .map((rate) => ({ rate, from: from[rate], to: to[rate], factor: factor(from[rate], to[rate]) }))

const isJump = (from: bigint, to: bigint): boolean => {
  const [less, more] = from < to ? [from, to] : [to, from]
  return more > less * BigInt(LARGEST_STEP)
}

function factor(from: bigint, to: bigint): number {
  const [less, more] = from < to ? [from, to] : [to, from]
  return less === 0n ? Infinity : Number((more * 100n) / less) / 100
}
