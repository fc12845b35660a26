/**
 * What a wire format is to the simulator: how it reads a request, how it tells an answer, whole or in events, and the vendor's
 * errors. Everything is pure, so that a format's file can be read against the vendor's documentation and nothing else.
 * None of this is shared with the gateway's own codecs: two readings of one wire check each other.
 */
import type { JsonObject } from "../language/json.ts"
import type { Answer } from "./answer.ts"
import type { Ask, Caching, PromptBlock } from "./ask.ts"
import type { Complaint, RefusableField } from "./fault.ts"

/** An answer as an error: the status that a vendor sends with it, and what it says. */
export interface VendorError {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly code: string | null
  readonly param: string | null
}

/** Content frames are what `after` and `pace` count; exactly the last frame is terminal. */
export interface Frame {
  readonly kind: "preamble" | "content" | "trailer" | "terminal"
  readonly bytes: string
}

export interface AnswerStream {
  readonly frames: Iterable<Frame>
  /** The in-stream error event, in the place of the frame that was read last. */
  errorEvent(error: VendorError): string
  /** An event whose data is cut off in the middle of its JSON. */
  garbage(): string
  /** `response.failed`, in the one format that has it. */
  failedEvent?(error: VendorError): string
}

export interface SimulatedFormat {
  readonly name: "chat" | "messages" | "responses" | "completions" | "embeddings"
  readonly path: string
  /** The request id and rate headers that the vendor sends with every answer. */
  headers(serial: string): Record<string, string>
  /** A text is what is wrong with the request. */
  readAsk(body: JsonObject): Ask | string
  readonly caching: Caching
  /** What of a body a cache of prompts knows it by. */
  promptBlocks(body: JsonObject): PromptBlock[]
  stream(answer: Answer, ask: Ask): AnswerStream
  reply(answer: Answer, ask: Ask): JsonObject
  /** The failed object under HTTP 200, in the one format that has it. */
  failedReply?(answer: Answer, error: VendorError): JsonObject
  readonly complaints: Readonly<Record<Complaint, VendorError>>
  /** The error that the vendor sends with a status. */
  statusError(status: number): VendorError
  errorBody(error: VendorError, serial: string): JsonObject
}

/**
 * What the two vendors say when they refuse, in their true words: gateways recognise some refusals by wording alone.
 * Sources: both vendors' error references, and refusals quoted in public issue threads.
 */
type Complaints = Readonly<Record<Complaint, VendorError>>

const openai = (
  status: number,
  message: string,
  type: string,
  code: string | null = null,
  param: string | null = null,
): VendorError => ({ status, message, type, code, param })

export const chatComplaints: Complaints = {
  overloaded: openai(
    503,
    "Our servers are currently overloaded. Please try again later.",
    "service_unavailable_error",
    "server_is_overloaded",
  ),
  "rate-limited": openai(
    429,
    "Rate limit reached for requests. Please try again in 20s.",
    "requests",
    "rate_limit_exceeded",
  ),
  context: openai(
    400,
    "This model's maximum context length is 200000 tokens. However, your messages resulted in 210000 tokens. Please reduce the length of the messages.",
    "invalid_request_error",
    "context_length_exceeded",
    "messages",
  ),
  unsupported: openai(
    400,
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
    "invalid_request_error",
    "unsupported_value",
    "temperature",
  ),
  server: openai(500, "The server had an error while processing your request. Sorry about that!", "server_error"),
}

const refusals: Readonly<Record<RefusableField, VendorError>> = {
  max_tokens: openai(
    400,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "invalid_request_error",
    "unsupported_parameter",
    "max_tokens",
  ),
  metadata: openai(
    400,
    "The 'metadata' parameter is only allowed when 'store' is enabled.",
    "invalid_request_error",
    null,
    "metadata",
  ),
}

/** What is said to a request that has a field which its model does not take. */
export const refusalOf = (body: JsonObject, refuses: readonly RefusableField[]): VendorError | undefined => {
  const refused = refuses.find((field) => (body[field] ?? null) !== null && !(field === "metadata" && body["store"]))
  return refused && refusals[refused]
}

/** The same vendor; two refusals have other words. */
export const responsesComplaints: Complaints = {
  ...chatComplaints,
  context: openai(
    400,
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "invalid_request_error",
    "context_length_exceeded",
    "input",
  ),
  unsupported: openai(
    400,
    "Unsupported parameter: 'temperature' is not supported with this model.",
    "invalid_request_error",
    "unsupported_parameter",
    "temperature",
  ),
}

export const openaiStatus = (status: number): VendorError => {
  const usual = new Map([
    [401, openai(401, "Incorrect API key provided: sk-sim.", "invalid_request_error", "invalid_api_key")],
    [404, openai(404, "The model does not exist.", "invalid_request_error", "model_not_found")],
    [429, chatComplaints["rate-limited"]],
    [503, chatComplaints.overloaded],
  ]).get(status)
  if (usual !== undefined) return usual
  return status >= 500
    ? { ...chatComplaints.server, status }
    : openai(status, "Invalid request.", "invalid_request_error")
}

export const openaiError = ({ message, type, param, code }: VendorError): JsonObject => ({ message, type, param, code })

const anthropic = (status: number, message: string, type: string): VendorError => openai(status, message, type)

export const messagesComplaints: Complaints = {
  overloaded: anthropic(529, "Overloaded", "overloaded_error"),
  "rate-limited": anthropic(
    429,
    "This request would exceed your organization's rate limit of 50 requests per minute.",
    "rate_limit_error",
  ),
  context: anthropic(400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error"),
  unsupported: anthropic(400, "`temperature` is deprecated for this model.", "invalid_request_error"),
  server: anthropic(500, "Internal server error", "api_error"),
}

export const anthropicStatus = (status: number): VendorError => {
  const usual = new Map([
    [401, anthropic(401, "invalid x-api-key", "authentication_error")],
    [403, anthropic(403, "Your API key does not have permission to use this resource.", "permission_error")],
    [404, anthropic(404, "model: not-found", "not_found_error")],
    [413, anthropic(413, "Request exceeds the maximum size", "request_too_large")],
    [429, messagesComplaints["rate-limited"]],
    [529, messagesComplaints.overloaded],
  ]).get(status)
  if (usual !== undefined) return usual
  return status >= 500
    ? { ...messagesComplaints.server, status }
    : anthropic(status, "Invalid request.", "invalid_request_error")
}
