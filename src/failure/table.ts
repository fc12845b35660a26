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
      "The body cannot be read as JSON, is empty, nests deeper than 64 levels or has more than 200,000 values (an object's largest name that is a number below 1,000 counts as an eighth of that number); `model` is missing or no string; the model is not served on this endpoint; `input` of responses is empty; an image for a model without vision, also as a file. On the dashboard's endpoints: a value that is not allowed.",
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
  "run.unknown": {
    condition: "The call's `X-Run-Id` names no run of its key, and no `X-Run-Budget-Rp` was sent to make one.",
    status: 400,
    ...requestFault,
    message: "There is no run of this X-Run-Id, and no budget was sent to make it.",
    hint: "Send X-Run-Budget-Rp with the first call of a run: whole rupiah, what all its calls may spend together.",
  },
  "run.budget_mismatch": {
    condition: "The run was made with another budget than the `X-Run-Budget-Rp` that was sent.",
    status: 400,
    ...requestFault,
    message: "The run was made with another budget.",
  },
  "upstream.context_length_exceeded": {
    condition:
      "The prompt is longer than the model's `context_window`, by the gateway's estimate or by the backend's count.",
    status: 400,
    retryable: false,
    // Agents and frameworks know an overflow by its words alone, each by others: here are those of all that were tried.
    message: "The prompt is too long: it exceeds the context window of the model, its maximum context length.",
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
  "auth.api_key_expired": {
    condition:
      "The key's `expires_at` has come. The call still counts against the key's minute. Its owner may give it more time.",
    status: 401,
    ...requestFault,
    message: "The API key has expired.",
    hint: "The key's owner gives it more time in the dashboard, or makes another.",
  },
  "auth.unauthorized": {
    condition:
      "A dashboard endpoint without a valid session token; an API key does not open one. Or a password, a code or a passkey was not accepted.",
    status: 401,
    ...requestFault,
    message: "The session token is missing or not valid.",
  },
  "auth.management_token": {
    condition:
      "A call with a management token (`mt-loket-…`), which makes no model calls: on `/v1/keys` it makes keys that do.",
    status: 401,
    ...requestFault,
    message: "A management token makes no calls.",
    hint: "Send an API key (sk-loket-…). A management token is for /v1/keys.",
  },
  "auth.management_token_required": {
    condition: "`/v1/keys` with an API key or a session: it is for management tokens (`mt-loket-…`).",
    status: 401,
    ...requestFault,
    message: "This needs a management token.",
    hint: "The key's owner makes one in the dashboard, at the key whose children it is to make.",
  },
  "auth.management_token_invalid": {
    condition: "`/v1/keys` without a management token, or with one that is not known or was revoked, or whose key was.",
    status: 401,
    ...requestFault,
    message: "The management token is missing or not recognised.",
    hint: "Send it as 'Authorization: Bearer <MANAGEMENT_TOKEN>'.",
  },
  "billing.insufficient_balance": {
    condition:
      "The balance does not cover the estimated input and a minimal answer. Checked before anything is forwarded.",
    status: 402,
    ...requestFault,
    message: "The balance does not cover the estimated input and a minimal answer.",
    hint: "Top up the balance in the dashboard. Nothing was charged.",
  },
  "quota.run_limit_exceeded": {
    condition:
      "The run that the call's `X-Run-Id` names has ended, or what is left of its budget does not cover the estimated input and a minimal answer. Checked before anything is forwarded.",
    status: 402,
    ...requestFault,
    message: "The run's budget is used up.",
    hint: "Begin another run with an X-Run-Id and an X-Run-Budget-Rp of its own. Nothing was charged.",
  },
  "quota.runs_exceeded": {
    condition:
      "A run would be made, and the account has 2,000 that have not ended, or 20,000 in all; a run is removed 30 days after its end.",
    status: 402,
    ...requestFault,
    message: "The account has as many runs as it may.",
    hint: "Use one X-Run-Id for all calls of a run. Runs end by themselves. Nothing was charged.",
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
  "auth.key_not_allowed": {
    condition:
      "The key may not do this. It is bound to other models, endpoints, networks or pages, or to a largest rate that one of the model's four rates is above; or its owner has turned off asking for the balance with it, which a dry run would tell too.",
    status: 403,
    ...requestFault,
    message: "This API key is not allowed to do this.",
    hint: "The key's owner changes what it may do in the dashboard.",
  },
  "auth.forbidden": {
    condition:
      "A dashboard endpoint was called by cookie from another origin, or an operator's endpoint by somebody who is none.",
    status: 403,
    ...requestFault,
    message: "Access is denied.",
  },
  "auth.role_required": {
    condition:
      "A member of an account calls a dashboard endpoint that the member's role in it does not allow; the message names the roles that do.",
    status: 403,
    ...requestFault,
    message: "Your role in this account does not allow this.",
    hint: "An owner of the account changes roles in the dashboard's settings.",
  },
  "auth.membership_ended": {
    condition:
      "The session looks at an account of which the person is no member any more, or which was deleted. `POST /auth/look-at` chooses another.",
    status: 403,
    ...requestFault,
    message: "You are no member of this account any more.",
    hint: "Look at another account with POST /auth/look-at.",
  },
  "auth.read_only": {
    condition:
      "A change in a session in which an operator sees an account as its customer does. `POST /auth/see-as/end` ends that.",
    status: 403,
    ...requestFault,
    message: "An operator who sees an account as its customer does changes nothing.",
    hint: "End it with POST /auth/see-as/end first.",
  },
  "auth.second_factor_required": {
    condition:
      "An operator's endpoint in a session in which no second factor was shown. Its settings set one up; then it is asked for at the sign-in.",
    status: 403,
    ...requestFault,
    message: "Operators need a second factor.",
    hint: "Set up two-step verification in the dashboard's settings, or sign in with it.",
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
  "auth.other_account": {
    condition:
      "A dashboard endpoint was called with an `X-Account-Id` that is not the account which the session looks at, such as from a page that was opened before another account was chosen.",
    status: 409,
    ...requestFault,
    message: "The session looks at another account now.",
    hint: "Reload the page, or choose the account with POST /auth/look-at.",
  },
  "idempotency.in_progress": {
    condition:
      "A request with this `Idempotency-Key` is being carried out. `Retry-After: 1`; send the same request again. A call is attached to the first instead, unless another process makes that, four read it already, or no memory is left to keep it.",
    status: 409,
    retryable: true,
    message: "The request with this Idempotency-Key is being carried out.",
    stream: "internal",
    messagesType: "api_error",
  },
  "idempotency.finished": {
    condition:
      "The request with this `Idempotency-Key` was carried out within the last 24 hours, and its answer is not kept any more (of a call for ten minutes, of a change for five, by the process that gave it). Nothing was done or charged again; the message names what it made, or the call's request id, status, cost and tokens.",
    status: 409,
    ...requestFault,
    message: "The request with this Idempotency-Key was carried out before.",
    hint: "Look at what it made. The secret of an API key is shown once: rotate the key for another.",
  },
  "idempotency.mismatch": {
    condition:
      "This `Idempotency-Key` was sent within the last 24 hours with another method, path or body; of a call, with another body or to another endpoint.",
    status: 409,
    ...requestFault,
    message: "This Idempotency-Key belongs to another request.",
    hint: "Make a new key for each change, and send it again only with the very same request.",
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
      "The key's requests per minute are used up, or the 60 dry runs that a key has in a minute (`X-Dry-Run`). Refused calls are not counted. `Retry-After`: until this call would pass.",
    ...throttled,
    message: "The key's limit of requests per minute is reached.",
  },
  "rate_limit.sign_up": {
    condition:
      "Too many accounts were made from the caller's network within an hour or a day. `Retry-After`: until the next may be made.",
    ...throttled,
    message: "Too many accounts were made from this network; try again later.",
  },
  "rate_limit.mail": {
    condition:
      "So many mails were asked for within an hour: to this address, by this account, from the caller's network, or of the whole gateway; or an account has sent 20 invitations within a day. `Retry-After`: until the next may be sent.",
    ...throttled,
    message: "Too many mails were asked for; try again later.",
  },
  "rate_limit.export": {
    condition: "The account's data was exported five times within a day. `Retry-After`: until it may be again.",
    ...throttled,
    message: "The account's data was exported too often; try again later.",
  },
  "rate_limit.documents": {
    condition:
      "An account asked for 300 receipts and statements as PDF within an hour, or for more than four at once, or 64 of all accounts wait. `Retry-After`: until the next is made.",
    ...throttled,
    message: "Too many receipts and statements were asked for; try again later.",
  },
  "rate_limit.tpm_exceeded": {
    condition:
      "The key's tokens per minute do not leave room for the estimated input and a minimal answer. What an answer took beyond these counts too, from its end where it ran for over a minute. `Retry-After`: until this call would pass; left out when it never will.",
    ...throttled,
    message: "The key's limit of tokens per minute is reached.",
  },
  "gateway.capacity": {
    condition:
      "No slot of the model or the gateway came free in time, there is no room for the request's body, or too many of the account's own questions about usage or files of it are under way. `Retry-After: 1`; it is longer where an account has too many unpaid top-ups, has changed its time zone 50 times in a day, or its ceiling 300 times in an hour.",
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
  "quota.key_paused": {
    condition:
      "The key is paused: it, or its account, was about to pass the ceiling that its owner has set for ten minutes. Calls under way go on. `Retry-After`: until the pause ends, from the second refusal on; none where it lasts until the key is resumed.",
    status: 403,
    retryable: false,
    message: "The API key is paused: spending within ten minutes reached the ceiling that its owner has set.",
    hint: "The key's owner looks at what it was used for, and resumes it in the dashboard.",
    stream: "rate_limited",
    messagesType: "rate_limit_error",
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
