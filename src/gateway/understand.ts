/**
 * What is asked for: the body's shape, its model, and whether that model can do it here (decisions §4.6–10).
 */
import { unreachable } from "../../actors/unreachable.ts"
import type { Offer } from "../catalogue/live.ts"
import type { Model } from "../catalogue/model.ts"
import { present } from "../chat/json.ts"
import type { ChatRequest, Endpoint, Feature, Forwarding } from "../chat/request.ts"
import { Failure } from "../failure/failure.ts"
import { parseBody, readModel } from "../wire/body.ts"
import { type Exchange, exchange, speaksMessages } from "../wire/exchange.ts"
import type { WireFormat } from "../wire/format.ts"
import type { GatewayPorts } from "./ports.ts"

export interface Understood {
  readonly request: ChatRequest
  readonly offer: Offer
  readonly exchange: Exchange
  /** Input tokens as the estimator has them; `request.inputTokens` is corrected by what is known of the model. */
  readonly estimated: number
}

export function understand(
  bytes: Uint8Array,
  format: WireFormat,
  { catalogue, calibration, clock, search }: Pick<GatewayPorts, "catalogue" | "calibration" | "clock" | "search">,
): Understood | Failure {
  const body = parseBody(bytes)
  if (body instanceof Failure) return body
  const id = readModel(body)
  if (id instanceof Failure) return id
  const offer = catalogue.find(id, clock.now())
  if (offer === undefined) return new Failure("model.unknown")
  if (!offer.model.endpoints.has(format.endpoint)) {
    const served = [...offer.model.endpoints].join(", ")
    return new Failure("request.invalid", { message: `The model is not served on this endpoint, but on: ${served}.` })
  }
  const decoded = format.decodeRequest(body)
  if (decoded instanceof Failure) return decoded
  const estimated = decoded.inputTokens
  const request = { ...decoded, inputTokens: Math.ceil(estimated * calibration.factor(offer.model.id)) }
  const suited = suit(offer.model, request, search !== undefined)
  return suited instanceof Failure ? suited : { request, offer, exchange: suited, estimated }
}

/**
 * How a model's backend can be asked what a request asks, or why the model cannot serve it. `searches` says whether the
 * gateway has a search server to run web searches with.
 */
export function suit(model: Model, request: ChatRequest, searches: boolean): Exchange | Failure {
  if (!model.endpoints.has(request.endpoint)) return new Failure("request.invalid")
  for (const feature of request.features) {
    if (serves(model, feature, request.endpoint, searches)) continue
    const message = `${model.id} does not serve ${words[feature]} on this endpoint.`
    return new Failure(feature === "vision" ? "request.invalid" : "request.unsupported_feature", { message })
  }
  const parameter = model.unsupported.find((name) => present(request.body[name]) && !emptyList(request.body[name]))
  if (parameter !== undefined) {
    return new Failure("request.unsupported_feature", { message: `${model.id} does not serve '${parameter}'.` })
  }
  const met = exchange(request, model.upstream)
  if (met instanceof Failure) return met
  // What the backend's format cannot say is refused before anything is held.
  const body = met.encodeRequest(forwardingTo(model, model.maxOutputTokens))
  return body instanceof Failure ? body : met
}

export const forwardingTo = ({ upstream, strip }: Model, maxOutputTokens: number): Forwarding => ({
  model: upstream.model,
  maxOutputTokens,
  strip,
})

/** An empty list of tools asks for none. */
const emptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0

const words: Record<Feature, string> = {
  vision: "image input",
  tools: "tool use",
  structured_outputs: "structured outputs",
  web_search: "web search",
}

function serves(model: Model, feature: Feature, endpoint: Endpoint, searches: boolean): boolean {
  if (model.unsupported.includes(feature)) return false
  switch (feature) {
    case "vision":
      return model.supportsVision
    case "tools":
      return model.supportsTools
    // The vendor family has these on its own format alone (specification, "POST /v1/messages").
    case "structured_outputs":
      return model.features.includes(feature) && (endpoint === "messages" || !speaksMessages(model.upstream))
    // Forwarded on responses, where the backend searches itself. On messages the gateway does.
    case "web_search":
      if (!model.features.includes(feature)) return false
      return endpoint === "responses" || (searches && endpoint === "messages" && speaksMessages(model.upstream))
    default:
      return unreachable(feature)
  }
}
