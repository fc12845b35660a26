/**
 * Which models a call may use: those that its key is bound to, and of them those that serve its features on its endpoint (decisions
 * §4.8). A binding names wire formats, models, and the largest rate (decisions §13.11). Its networks are judged by the key's actor
 * (actors/key.ts). A key without a binding is not asked.
 */
import type { KeyBinding, KeyRecord } from "../../actors/key-record.ts"
import type { Rates } from "../../actors/money/price.ts"
import { unreachable } from "../../actors/unreachable.ts"
import type { Model, Offer, SoldFeature } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import { present } from "../language/json.ts"
import type { Endpoint, Feature, ModelRequest } from "../language/request.ts"
import { type BackendModel, takesMessagesFormat } from "../wire/protocol.ts"

/**
 * What a model has not of what a request uses: none of its backends, or none of those given. `searches` says whether the gateway
 * has a search server to run web searches with.
 */
export function missingFeature(
  model: Model,
  request: ModelRequest,
  searches: boolean,
  backends: readonly BackendModel[] = model.upstreams,
): Failure | undefined {
  if (!model.endpoints.has(request.endpoint)) return new Failure("request.invalid")
  const check = (feature: Feature): Failure | undefined => {
    if (backends.some((backend) => serves(model, backend, feature, { endpoint: request.endpoint, searches })))
      return undefined
    return new Failure(feature === "vision" ? "request.invalid" : "request.unsupported_feature", {
      message: `${model.id} does not serve ${words[feature]} on this endpoint${elsewhere(model, request, feature, { searches, backends })}.`,
    })
  }
  for (const feature of request.features) {
    // Images are judged last (decisions §4.9).
    const failure = feature === "vision" ? undefined : check(feature)
    if (failure !== undefined) return failure
  }
  const parameter = model.unsupported.find((name) => present(request.body[name]) && !emptyList(request.body[name]))
  if (parameter !== undefined) {
    return new Failure("request.unsupported_feature", { message: `${model.id} does not serve '${parameter}'.` })
  }
  return request.features.has("vision") ? check("vision") : undefined
}

/** Where or when the feature would be served, if anywhere. */
function elsewhere(
  model: Model,
  { endpoint }: ModelRequest,
  feature: Feature,
  { searches, backends }: { readonly searches: boolean; readonly backends: readonly BackendModel[] },
): string {
  const isServed = (on: Endpoint, searching: boolean) =>
    backends.some((backend) => serves(model, backend, feature, { endpoint: on, searches: searching }))
  const others = [...model.endpoints].filter((on) => on !== endpoint && isServed(on, searches))
  if (others.length > 0) return `, but on: ${others.join(", ")}`
  return isServed(endpoint, true) ? ", because this gateway has no search server" : ""
}

/** An empty list of tools asks for none. */
const emptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0

const words: Record<Feature, string> = {
  vision: "image input",
  tools: "tool use",
  structured_outputs: "structured outputs",
  web_search: "web search",
}

function serves(
  model: Model,
  backend: BackendModel,
  feature: Feature,
  { endpoint, searches }: { readonly endpoint: Endpoint; readonly searches: boolean },
): boolean {
  if (model.unsupported.includes(feature)) return false
  switch (feature) {
    case "vision":
      return model.supportsVision
    case "tools":
      return model.supportsTools
    // The vendor family has these on its own format alone (gateway-api.md, "POST /v1/messages").
    case "structured_outputs":
      return model.features.includes(feature) && (endpoint === "messages" || !takesMessagesFormat(backend))
    // Forwarded on responses, where the backend searches itself. On messages the gateway does.
    case "web_search":
      if (!model.features.includes(feature)) return false
      return endpoint === "responses" || (searches && endpoint === "messages" && takesMessagesFormat(backend))
    default:
      return unreachable(feature)
  }
}

/**
 * The features that the catalogue names, each with the model's endpoints on which it is served; one that is served nowhere is left out.
 * `reasoning`: the model thinks before it answers, by itself or when asked to. No request is refused for want of it.
 */
export function featuresOf(model: Model, searches: boolean): Partial<Record<SoldFeature, Endpoint[]>> {
  const served = model.features.map(
    (feature) =>
      [
        feature,
        [...model.endpoints].filter(
          (endpoint) =>
            feature === "reasoning" ||
            model.upstreams.some((backend) => serves(model, backend, feature, { endpoint, searches })),
        ),
      ] as const,
  )
  return Object.fromEntries(served.filter(([, endpoints]) => endpoints.length > 0))
}

/** Said before the body is read. */
export function endpointRefused({ binding }: Pick<KeyRecord, "binding">, endpoint: Endpoint): Failure | undefined {
  if (binding === undefined) return undefined
  const { endpoints, within } = binding
  if (endpoints === undefined || endpoints.has(endpoint)) return endpointRefused({ binding: within }, endpoint)
  return notAllowed(`This API key is not for this endpoint, but for: ${[...endpoints].join(", ")}.`)
}

/** The lists of pages that a call must be on, each of them; undefined where its key has none, and no page may call. */
export function pagesOf({ binding, parent }: Pick<KeyRecord, "binding" | "parent">): readonly Pages[] | undefined {
  const own = binding?.origins
  const ofParent = binding?.within?.origins
  if (own === undefined && ofParent === undefined) return undefined
  // A parent without a list lets no page in, whatever its child was allowed before.
  return parent === undefined ? [own ?? NONE] : [own ?? ofParent ?? NONE, ofParent ?? NONE]
}
type Pages = ReadonlySet<string>
const NONE: Pages = new Set()

/** `id` is what the call named: the model's own, or a retired one that leads to it. */
export function modelRefused(binding: KeyBinding | undefined, id: string, offer: Offer): Failure | undefined {
  if (binding === undefined) return undefined
  if (allows(binding, id, offer)) return modelRefused(binding.within, id, offer)
  const { model } = offer
  if (!isListed(binding, id, offer)) return notAllowed(`This API key is not for the model ${model.id}.`)
  const rate = highest(offer.price.rates)
  return notAllowed(
    `This API key is for models of at most ${binding.maxRate} micro-rupiah a token; ${model.id} has a rate of ${rate}.`,
  )
}

/** Whether a key may use a model under this id, at the rates in force. */
export const mayUse = (binding: KeyBinding, id: string, offer: Offer): boolean =>
  allows(binding, id, offer) && (binding.within === undefined || mayUse(binding.within, id, offer))

/** Whether a key may use a model on one of its endpoints. */
export const mayUseSomewhere = (binding: KeyBinding, offer: Offer): boolean =>
  mayUse(binding, offer.model.id, offer) &&
  [...offer.model.endpoints].some((each) => endpointRefused({ binding }, each) === undefined)

/** What the key is bound to itself. */
const allows = (binding: KeyBinding, id: string, offer: Offer): boolean =>
  isListed(binding, id, offer) && (binding.maxRate === undefined || highest(offer.price.rates) <= binding.maxRate)

/** A retired id that is on the list goes on to its model, and one that is not is its model's other name. */
const isListed = ({ models }: KeyBinding, id: string, { model }: Offer): boolean =>
  models === undefined || models.has(model.id) || models.has(id)

/** No token of whatever kind may cost more than the key's rate: an output rate alone would let dear input through. */
const highest = ({ input, output, cacheRead, cacheWrite }: Rates): Rates["input"] =>
  [output, cacheRead, cacheWrite].reduce((most, rate) => (rate > most ? rate : most), input)

const notAllowed = (message: string): Failure => new Failure("auth.key_not_allowed", { message })
