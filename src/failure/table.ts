/**
 * The error catalogue as data (gateway-api.md, "Errors"). The one place that knows a status, a fixed
 * message or whether a retry is sensible; everything else names a code. `docs/errors.md` is generated from it.
 *
 * `stream` is the short code told inside a chat or responses stream, `messagesType` the error type of the messages
 * format's own SDKs (decisions §6 and §12.8).
 */
interface Row {
  readonly status: number
  readonly retryable: boolean
  /** When it happens, in Markdown, for the document. */
  readonly condition: string
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
  "request.invalid": {
    condition:
      "The body cannot be read as JSON, is empty, nests deeper than 64 levels or has more than 200,000 values; `model` is missing or no string; the model is not served on this endpoint; `input` of responses is empty; an image for a model without vision. On the dashboard's endpoints: a value that is not allowed.",
    status: 400,
    ...requestFault,
    message: "The request is not valid.",
  },
  "request.invalid_request": {
    condition:
      "The body is no JSON object, or a part of it does not have the format's shape: a user message with empty content, tools that are no objects with an `input_schema` that has a root `type`.",
    status: 400,
    ...requestFault,
    message: "The request body does not have the expected shape.",
  },
  "request.unsupported_feature": {
    condition:
      "The request asks for something that is not served for this model on this endpoint: structured outputs or web search, tools on some models, state kept at the backend.",
    status: 400,
    ...unsupported,
    message: "This feature is not served for this model on this endpoint.",
  },
  "model.unknown": {
    condition: "`model` is not in the catalogue, or was retired and its grace is over.",
    status: 400,
    ...requestFault,
    message: "The model is not in the catalogue.",
    hint: "Model ids are case-sensitive; copy one from GET /models.",
  },
  "upstream.context_length_exceeded": {
    condition:
      "The prompt is longer than the model's `context_window`, by the gateway's estimate or by the backend's count.",
    status: 400,
    retryable: false,
    message: "The prompt is longer than the model's context window.",
    hint: "Shorten the conversation, or choose a model with a larger context_window.",
    stream: "context_length_exceeded",
    messagesType: "invalid_request_error",
  },
  "upstream.invalid_request": {
    condition: "The model's backend rejected the request, for example for a sampling value out of range.",
    status: 400,
    ...requestFault,
    message: "The model's backend rejected the request.",
    hint: "Check parameter values against the model's limits.",
  },
  "upstream.unsupported_feature": {
    condition: "The model's backend does not know a parameter or feature.",
    status: 400,
    ...unsupported,
    message: "The model's backend does not support a parameter or feature of the request.",
  },
  "auth.api_key_missing": {
    condition: "Neither `Authorization: Bearer` nor `x-api-key` carries a key.",
    status: 401,
    ...requestFault,
    message: "No API key was sent.",
    hint: "Send it as 'Authorization: Bearer <API_KEY>' or 'x-api-key: <API_KEY>'.",
  },
  "auth.api_key_invalid": {
    condition: "No such key.",
    status: 401,
    ...requestFault,
    message: "The API key is not recognised.",
  },
  "auth.api_key_revoked": {
    condition: "The key was revoked. The call still counts against the key's minute.",
    status: 401,
    ...requestFault,
    message: "The API key has been revoked.",
  },
  "auth.unauthorized": {
    condition: "A dashboard endpoint without a valid session token; an API key does not open one.",
    status: 401,
    ...requestFault,
    message: "The session token is missing or not valid.",
  },
  "billing.insufficient_balance": {
    condition:
      "The balance does not cover the estimated input and a minimal answer. Checked before anything is forwarded.",
    status: 402,
    ...requestFault,
    message: "The balance does not cover the estimated input and a minimal answer.",
    hint: "Top up the balance in the dashboard. Nothing was charged.",
  },
  "auth.account_deleted": {
    condition: "The account that owns the key was deleted.",
    status: 403,
    ...requestFault,
    message: "The account that owns this API key was deleted.",
  },
  "auth.account_frozen": {
    condition:
      "The account is frozen until an operator has looked at it: its keys make no calls, and no keys are made. Its balance is not lost, and its dashboard can be read.",
    status: 403,
    ...requestFault,
    message: "The account is frozen; contact the operator.",
  },
  "auth.forbidden": {
    condition:
      "A dashboard endpoint was called by cookie from another origin, or an operator's endpoint by somebody who is none.",
    status: 403,
    ...requestFault,
    message: "Access is denied.",
  },
  "route.not_found": {
    condition: "There is nothing at this path; image generation and audio transcription are not served.",
    status: 404,
    ...requestFault,
    message: "There is nothing at this path.",
  },
  "resource.not_found": {
    condition: "No such model in `GET /v1/models/{id}`; no such thing of yours on a dashboard endpoint.",
    status: 404,
    ...requestFault,
    message: "There is no such resource.",
  },
  "usage.not_found": {
    condition:
      "No record with this request id: unknown, another account's, refused before it was forwarded, or still under way.",
    status: 404,
    ...requestFault,
    message: "There is no usage record with this request id.",
    hint: "A record is written when its call has ended.",
  },
  "request.method_not_allowed": {
    condition: "The path exists, but not with this method. `Allow` names those that it takes.",
    status: 405,
    ...requestFault,
    message: "The method is not allowed at this path.",
  },
  "request.too_large": {
    condition: "The body is larger than the gateway takes (32 MiB unless the operator says otherwise).",
    status: 413,
    ...requestFault,
    message: "The request body is larger than the limit.",
    hint: "The conversation may have grown too long; shorten it.",
  },
  "rate_limit.rpm_exceeded": {
    condition:
      "The key's requests per minute are used up. Refused calls are not counted. `Retry-After`: until this call would pass.",
    ...throttled,
    message: "The key's limit of requests per minute is reached.",
  },
  "rate_limit.sign_up": {
    condition:
      "Too many accounts were made from the caller's network within an hour or a day. `Retry-After`: until the next may be made.",
    ...throttled,
    message: "Too many accounts were made from this network; try again later.",
  },
  "rate_limit.tpm_exceeded": {
    condition:
      "The key's tokens per minute do not leave room for the estimated input and a minimal answer. `Retry-After`: until this call would pass; left out when it never will.",
    ...throttled,
    message: "The key's limit of tokens per minute is reached.",
  },
  "gateway.capacity": {
    condition:
      "No slot of the model or the gateway came free in time, or there is no room for the request's body. `Retry-After: 1`.",
    status: 429,
    retryable: true,
    message: "The server is at capacity for this model; retry shortly.",
    stream: "upstream_capacity",
    messagesType: "overloaded_error",
  },
  "upstream.rate_limited": {
    condition: "The model's backend is throttling. Its `Retry-After` is passed on, at most 3600 seconds.",
    ...throttled,
    message: "The model's backend is throttling requests; retry shortly.",
  },
  "quota.key_limit_exceeded": {
    condition:
      "The key's spending limit is reached. `Retry-After`: until the day or month ends in the account's time zone (one that was running when the zone changed ends at the first bound of the new zone that is not before its own end); none for a total limit.",
    status: 429,
    retryable: false,
    message: "The key's spending limit is reached.",
    hint: "Raise the key's limit in the dashboard, or wait for its period to roll over.",
    stream: "rate_limited",
    messagesType: "rate_limit_error",
  },
  "internal.error": {
    condition: "Something unexpected failed.",
    status: 500,
    ...ours,
    message: "Something unexpected failed.",
  },
  "internal.panic": {
    condition: "A bug; it was recorded with the request id.",
    status: 500,
    ...ours,
    message: "Something failed that nothing handled; it was recorded.",
  },
  "dependency.upstream_unavailable": {
    condition: "The model's backend failed, dropped the connection, or answered with something that is not recognised.",
    status: 502,
    ...backend,
    message: "The model's backend is not available; the attempts to reach it are used up.",
  },
  "dependency.database_unavailable": {
    condition: "The database does not answer, or the ledger cannot write at the moment.",
    status: 503,
    ...ours,
    message: "The database is not reachable at the moment.",
  },
  "dependency.upstream_unconfigured": {
    condition: "The operator has set no key for the model's provider.",
    status: 503,
    ...backend,
    message: "No backend is configured for this model.",
  },
  "billing.reconcile_failed": {
    condition: "The model answered, but the call could not be booked in time. Nothing was deducted.",
    status: 503,
    ...ours,
    message: "The call could not be booked, so nothing was deducted from the balance.",
  },
} as const satisfies Record<string, Row>

export type FailureCode = keyof typeof failureTable
export type FailureStatus = (typeof failureTable)[FailureCode]["status"]
export const failureCodes = Object.keys(failureTable) as FailureCode[]
export const failureRow = (code: FailureCode): Row => failureTable[code]
