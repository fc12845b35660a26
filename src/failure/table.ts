/**
 * The specification's error catalogue as data (gateway-api.md, "Errors"). The one place that knows a status, a fixed
 * message or whether a retry is sensible; everything else names a code. `docs/errors.md` is generated from it.
 *
 * `stream` is the short code told inside a chat or responses stream, `messagesType` the error type of the messages
 * format's own SDKs (decisions §6 and §12.8).
 */
interface Row {
  readonly status: number
  readonly retryable: boolean
  /** Shown to people; clients never branch on it. */
  readonly message: string
  readonly hint?: string
  readonly stream: StreamCode
  readonly messagesType: MessagesErrorType
}

export type StreamCode =
  | "upstream_unavailable"
  | "upstream_capacity"
  | "upstream_timeout"
  | "context_length_exceeded"
  | "rate_limited"
  | "invalid_request"
  | "unsupported_feature"
  | "internal"

export type MessagesErrorType = "api_error" | "overloaded_error" | "rate_limit_error" | "invalid_request_error"

/** What a request's own fault looks like inside a stream. */
const requestFault = { retryable: false, stream: "invalid_request", messagesType: "invalid_request_error" } as const
const unsupported = { retryable: false, stream: "unsupported_feature", messagesType: "invalid_request_error" } as const
const throttled = { status: 429, retryable: true, stream: "rate_limited", messagesType: "rate_limit_error" } as const
const ours = { retryable: true, stream: "internal", messagesType: "api_error" } as const
const backend = { retryable: true, stream: "upstream_unavailable", messagesType: "api_error" } as const

const failureTable = {
  "request.invalid": { status: 400, ...requestFault, message: "The request is not valid." },
  "request.invalid_request": {
    status: 400,
    ...requestFault,
    message: "The request body does not have the expected shape.",
  },
  "request.unsupported_feature": {
    status: 400,
    ...unsupported,
    message: "This feature is not served for this model on this endpoint.",
  },
  "model.unknown": {
    status: 400,
    ...requestFault,
    message: "The model is not in the catalogue.",
    hint: "Model ids are case-sensitive; copy one from GET /models.",
  },
  "upstream.context_length_exceeded": {
    status: 400,
    retryable: false,
    message: "The prompt is longer than the model's context window.",
    hint: "Shorten the conversation, or choose a model with a larger context_window.",
    stream: "context_length_exceeded",
    messagesType: "invalid_request_error",
  },
  "upstream.invalid_request": {
    status: 400,
    ...requestFault,
    message: "The model's backend rejected the request.",
    hint: "Check parameter values against the model's limits.",
  },
  "upstream.unsupported_feature": {
    status: 400,
    ...unsupported,
    message: "The model's backend does not support a parameter or feature of the request.",
  },
  "auth.api_key_missing": {
    status: 401,
    ...requestFault,
    message: "No API key was sent.",
    hint: "Send it as 'Authorization: Bearer <API_KEY>' or 'x-api-key: <API_KEY>'.",
  },
  "auth.api_key_invalid": { status: 401, ...requestFault, message: "The API key is not recognised." },
  "auth.api_key_revoked": { status: 401, ...requestFault, message: "The API key has been revoked." },
  "auth.unauthorized": { status: 401, ...requestFault, message: "The session token is missing or not valid." },
  "billing.insufficient_balance": {
    status: 402,
    ...requestFault,
    message: "The balance does not cover the estimated input and a minimal answer.",
    hint: "Top up the balance in the dashboard. Nothing was charged.",
  },
  "auth.account_deleted": { status: 403, ...requestFault, message: "The account that owns this API key was deleted." },
  "auth.forbidden": { status: 403, ...requestFault, message: "Access is denied." },
  "route.not_found": { status: 404, ...requestFault, message: "There is nothing at this path." },
  "resource.not_found": { status: 404, ...requestFault, message: "There is no such resource." },
  "usage.not_found": {
    status: 404,
    ...requestFault,
    message: "There is no usage record with this request id.",
    hint: "A record is written when its call has ended.",
  },
  "request.method_not_allowed": { status: 405, ...requestFault, message: "The method is not allowed at this path." },
  "request.too_large": {
    status: 413,
    ...requestFault,
    message: "The request body is larger than the limit.",
    hint: "The conversation may have grown too long; shorten it.",
  },
  "rate_limit.rpm_exceeded": { ...throttled, message: "The key's limit of requests per minute is reached." },
  "rate_limit.tpm_exceeded": { ...throttled, message: "The key's limit of tokens per minute is reached." },
  "gateway.capacity": {
    status: 429,
    retryable: true,
    message: "The server is at capacity for this model; retry shortly.",
    stream: "upstream_capacity",
    messagesType: "overloaded_error",
  },
  "upstream.rate_limited": { ...throttled, message: "The model's backend is throttling requests; retry shortly." },
  "quota.key_limit_exceeded": {
    status: 429,
    retryable: false,
    message: "The key's spending limit is reached.",
    hint: "Raise the key's limit in the dashboard, or wait for its period to roll over.",
    stream: "rate_limited",
    messagesType: "rate_limit_error",
  },
  "internal.error": { status: 500, ...ours, message: "Something unexpected failed." },
  "internal.panic": { status: 500, ...ours, message: "Something failed that nothing handled; it was recorded." },
  "dependency.upstream_unavailable": {
    status: 502,
    ...backend,
    message: "The model's backend is not available; the attempts to reach it are used up.",
  },
  "dependency.database_unavailable": { status: 503, ...ours, message: "The database is not reachable at the moment." },
  "dependency.upstream_unconfigured": { status: 503, ...backend, message: "No backend is configured for this model." },
  "billing.reconcile_failed": {
    status: 503,
    ...ours,
    message: "The call could not be booked, so nothing was deducted from the balance.",
  },
} as const satisfies Record<string, Row>

export type FailureCode = keyof typeof failureTable
export const failureCodes = Object.keys(failureTable) as FailureCode[]
export const failureRow = (code: FailureCode): Row => failureTable[code]
