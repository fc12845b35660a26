/** What of the features that a request may use a model serves, and on which endpoints (decisions §4.8). */
import { unreachable } from "../../actors/unreachable.ts"
import type { Model, SoldFeature } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import { present } from "../language/json.ts"
import type { Endpoint, Feature, ModelRequest } from "../language/request.ts"
import { type BackendModel, speaksMessages } from "../wire/exchange.ts"

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
  for (const feature of request.features) {
    if (backends.some((backend) => serves(model, backend, feature, { endpoint: request.endpoint, searches }))) continue
    return new Failure(feature === "vision" ? "request.invalid" : "request.unsupported_feature", {
      message: `${model.id} does not serve ${words[feature]} on this endpoint${elsewhere(model, request, feature, { searches, backends })}.`,
    })
  }
  const parameter = model.unsupported.find((name) => present(request.body[name]) && !emptyList(request.body[name]))
  if (parameter !== undefined) {
    return new Failure("request.unsupported_feature", { message: `${model.id} does not serve '${parameter}'.` })
  }
  return undefined
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
      return model.features.includes(feature) && (endpoint === "messages" || !speaksMessages(backend))
    // Forwarded on responses, where the backend searches itself. On messages the gateway does.
    case "web_search":
      if (!model.features.includes(feature)) return false
      return endpoint === "responses" || (searches && endpoint === "messages" && speaksMessages(backend))
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
