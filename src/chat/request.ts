/**
 * What admission needs to know of a request, whatever format it came in. The body itself stays as it was parsed: a
 * backend of the same format gets it back, written anew, with only what the gateway owns changed.
 */
import { type JsonObject, present } from "./json.ts"

/** The wire formats that clients speak, by the name that the catalogue's `endpoints` uses. */
export type Endpoint = "chat" | "messages" | "responses"

/** What a request makes use of and a model may not have. */
export type Feature = "vision" | "tools" | "structured_outputs" | "web_search"

export interface ChatRequest {
  readonly endpoint: Endpoint
  readonly body: JsonObject
  /** Catalogue id, as the client wrote it. */
  readonly model: string
  readonly stream: boolean
  /** Estimated input tokens, images and tools included. */
  readonly inputTokens: number
  /** The client's own limit on answer tokens (thinking included), where it set one. */
  readonly maxOutputTokens: number | undefined
  /** How many answers are asked for: `n` on chat, else 1. */
  readonly choices: number
  readonly features: ReadonlySet<Feature>
  /** Chat only: the client asked for the stream's usage chunk. */
  readonly includeUsage: boolean
  /** Messages only: a web search that the gateway is to run for the model. */
  readonly webSearch?: WebSearchWish | undefined
}

/** What a client says of the web search that it offers to the model. */
export interface WebSearchWish {
  /** The most searches of one call. */
  readonly maxUses: number | undefined
  /** Domains stand for their subdomains too; `allowed` undefined is every site. */
  readonly domains: { readonly allowed: readonly string[] | undefined; readonly blocked: readonly string[] }
  /** Where results come from that the client itself gave, whose citations are told as they are. */
  readonly clientSources: ReadonlySet<string>
}

/** What the gateway changes in a body before it forwards it. */
export interface Forwarding {
  /** The backend's own name of the model. */
  readonly model: string
  /** The answer limit to forward, per choice. It is always written, so that no answer can cost more than is held. */
  readonly maxOutputTokens: number
  /** Top-level parameters that this model does not take, removed in silence (catalogue `strip`). */
  readonly strip: readonly string[]
}

/** The limit to write: what the gateway allows, and never more than the client asked for. */
export const answerLimit = (request: ChatRequest, forwarding: Forwarding): number =>
  Math.min(request.maxOutputTokens ?? forwarding.maxOutputTokens, forwarding.maxOutputTokens)

/**
 * A shallow copy of the body with what every format changes alike. Spread, not assigned, so that a `__proto__` key
 * stays a harmless key; `stream` is written as it was understood, so that `null` is not left to the backend's reading;
 * nothing is ever stored at a backend (decisions §8).
 */
export function forwardedBody(request: ChatRequest, forwarding: Forwarding): JsonObject {
  const body: JsonObject = { ...request.body }
  for (const parameter of forwarding.strip) delete body[parameter]
  body["model"] = forwarding.model
  if (request.stream) body["stream"] = true
  else delete body["stream"]
  if (present(body["store"])) body["store"] = false
  return body
}
