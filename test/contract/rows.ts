/**
 * The lines of the contract, each with a short id: gateway-api.md by its sections, the decisions by their numbers. A
 * contract test names the lines that it covers, and `rows.test.ts` fails while a line has no test.
 */
type Row = readonly [id: string, text: string]

/** gateway-api.md, "Errors": one line for each row of the catalogue, and one for each rule. */
const errors = [
  [
    "error.request.invalid",
    "400: body unreadable; model missing; empty input; not on this endpoint; images without vision",
  ],
  ["error.request.invalid_request", "400: body no object; user message empty; tools without input_schema.type"],
  ["error.request.unsupported_feature", "400: a feature that is not served for that model on that endpoint"],
  ["error.model.unknown", "400: model not in the catalogue"],
  ["error.upstream.context_length_exceeded", "400: prompt exceeds the model's context window"],
  ["error.upstream.invalid_request", "400: backend rejected the request's shape"],
  ["error.upstream.unsupported_feature", "400: parameter or feature not supported by the backend"],
  ["error.auth.api_key_missing", "401: no bearer and no x-api-key"],
  ["error.auth.api_key_invalid", "401: key not recognised"],
  ["error.auth.api_key_revoked", "401: key revoked"],
  ["error.auth.unauthorized", "401: session token missing or invalid, also an API key on a dashboard endpoint"],
  ["error.billing.insufficient_balance", "402: balance does not cover the estimated input and a minimal answer"],
  ["error.auth.account_deleted", "403: the account that owns the key is deleted"],
  ["error.auth.forbidden", "403: access denied on a dashboard endpoint"],
  ["error.route.not_found", "404: path does not exist, the image and transcription paths included"],
  ["error.resource.not_found", "404: unknown id in GET /v1/models/{id}"],
  ["error.usage.not_found", "404: unknown request id, or not yet recorded"],
  ["error.request.method_not_allowed", "405: wrong method on a right path"],
  ["error.request.too_large", "413: body exceeds the size limit"],
  ["error.rate_limit.rpm_exceeded", "429: requests per minute"],
  ["error.rate_limit.tpm_exceeded", "429: tokens per minute"],
  ["error.gateway.capacity", "429: concurrency gate full, with a short Retry-After"],
  ["error.upstream.rate_limited", "429: backend throttled; its Retry-After is forwarded"],
  ["error.quota.key_limit_exceeded", "429, not retryable: the key's spending limit"],
  ["error.internal.error", "500: unexpected failure"],
  ["error.internal.panic", "500: unhandled failure, recorded server-side"],
  ["error.dependency.upstream_unavailable", "502: backend failed, or a failure that is not recognised"],
  ["error.dependency.database_unavailable", "503: database temporarily unreachable"],
  ["error.dependency.upstream_unconfigured", "503: no backend configured for that model"],
  ["error.billing.reconcile_failed", "503: booking failed after the model call; no balance deducted"],
  ["errors.body", "error, code, type, request_id, retryable, hint; X-Error-Code and X-Request-Id on every error"],
  ["errors.rule1", "quota.key_limit_exceeded: Retry-After until the period rolls over; none for a total limit"],
  ["errors.rule3", "a backend's Retry-After is clamped to 3600 seconds; implausible values are dropped"],
  ["errors.rule5", "a removed model id is an unknown model"],
] as const satisfies readonly Row[]

/** gateway-api.md, "Endpoints", "Authentication", "Limits" and "Versioning". */
const endpoints = [
  ["endpoint.models", "GET /models: public, active models with sell prices; list envelope"],
  ["endpoint.v1-models", "GET /v1/models: with a key; context_window; an item satisfies both SDK families"],
  ["endpoint.v1-model", "GET /v1/models/{id}: one model in the same format; unknown id 404"],
  ["endpoint.usage", "GET /usage/{id}: session only; unknown, foreign and early are 404 usage.not_found"],
  ["endpoint.images", "/v1/images/generations and /v1/audio/transcriptions are 404 with every method"],
  ["endpoint.method", "405 with Allow on a right path, 404 on a path that does not exist"],
  ["endpoint.count-tokens", "count_tokens: free, outside the request window"],
  ["header.request-id", "X-Request-Id and request-id on every response"],
  ["header.cost", "X-Cost-Rp on successful answers that do not stream, and on nothing else"],
  ["auth.either", "the key from either header on every path; an empty one counts as absent"],
  ["auth.revoked-counts", "a revoked key is refused and still counts against its minute"],
  ["auth.checksum", "a key with a wrong checksum is refused without a look-up"],
  ["auth.version", "any version header value and query string is accepted"],
  ["limit.rpm", "X-RateLimit-*: requests per minute"],
  ["limit.tpm", "X-RateLimit-*-Tokens: tokens per minute"],
  ["limit.budget", "X-Key-*: spending limit daily, monthly, total"],
  ["limit.body", "413 with and without a Content-Length"],
  ["limit.only-own", "rate headers only for the limits that the key has"],
  ["retired", "a retired id is routable in its grace window at the target's rate, and unknown after it"],
] as const satisfies readonly Row[]

/** decisions.md, by section and number. */
const decisions = [
  ["1.request-id", "req_, [A-Za-z0-9_-], at most 40 characters, in order of time"],
  ["3.large-limit", "402 does not come from a large max_tokens alone: the forwarded limit is lowered"],
  ["4.order", "the order of checks: the first that fails answers"],
  ["4.give-back", "a later refusal gives back tokens and holds, not the request count"],
  ["4.6", "not JSON, not an object, nested deeper than 64"],
  ["4.7", "model missing, unknown, not on this endpoint"],
  ["4.headers", "x-should-retry: false on every error that is not retryable; on dashboard endpoints the same shape"],
  ["5.window", "a sliding window: Limit, Remaining, Reset; Retry-After until this same call would pass"],
  ["5.tokens", "estimate and minimal answer at admission, all four buckets at settlement"],
  ["5.period", "calendar periods in the account's time zone"],
  ["5.capacity", "waits up to CAPACITY_WAIT_MS in a bounded queue, then 429 with Retry-After 1"],
  ["7.anew", "of duplicate keys what is forwarded is what was parsed and priced"],
  ["8.web-search", "web search is forwarded on responses and unsupported on chat"],
  ["8.state", "whatever names state at the backend is unsupported; store is forwarded as false"],
  ["9.environment", "a wrong value names the variable, what was found and what is allowed, and exits 1"],
  ["9.start", "start refuses without a configured provider"],
  ["10.live", "a change of a key reaches it within a second"],
  ["11.health", "healthz and readyz"],
  ["12.1", "a call refused by the request window is not counted in it"],
  ["12.2", "the minimal answer is min(16, client's limit, max_output_tokens); n multiplies"],
  ["12.3", "half of the smaller of balance and key budget"],
  ["12.5", "a refused call has no usage record"],
  ["12.7", "null in an optional field is an absent field"],
  ["12.11", "Retry-After of a backend: whole seconds or a date, up to 86,400, clamped to 3,600"],
  ["12.14", "the input_schema rule is for tools without a type or of type custom"],
  ["12.16", "token and budget headers are as of settlement where the head leaves after it"],
  ["12.21", "an estimate over the key's tokens per minute never passes: no Retry-After"],
] as const satisfies readonly Row[]

/** Streams, backends, settlement and capacity: gateway-api.md, "Events", "States and transitions", and decisions §3 to §7. */
const calls = [
  ["events.request-id", "X-Request-Id is sent before the first stream byte"],
  ["events.heartbeat", "heartbeats while a stream is being started; after that 200 is committed"],
  ["events.timeout", "upstream timed out before starting the stream has a fixed message of its own"],
  ["6.heartbeat", "': heartbeat' and one newline, between complete events, in all formats; never an id line"],
  ["6.held-back", "first events without content are held back until content comes or a heartbeat is due"],
  ["6.failure", "a failure before anything was sent has its own status, later it is told in the stream"],
  ["6.broken-off", "a backend's stream without its terminal event is a failure, told as one"],
  ["6.terminal", "the terminal event is withheld until the settlement is durable"],
  ["6.usage-chunk", "the usage chunk of a chat stream is sent only when it was asked for"],
  ["6.keepalive", "responses, not streaming: spaces, then the JSON; the cost only if nothing had been sent"],
  ["6.left", "a client that goes away: its backend is read on to the end, for a while, and the call is settled"],
  ["6.slow-reader", "back-pressure reaches the upstream; memory is bounded"],
  ["responses.keepalive", "a failure under 200 is a body with status failed and an error object"],
  ["idle", "a backend that falls silent after content is given up after UPSTREAM_IDLE_TIMEOUT_MS"],
  ["3.durable", "whoever saw an answer end was charged for it exactly once"],
  ["7.retry", "up to 3 attempts before content: connection failure, 408, 5xx, 429 with a short Retry-After"],
  ["7.start", "UPSTREAM_START_TIMEOUT_MS for the start, all attempts together"],
  ["7.chain", "429 and oversize go down the chain with a marker; billed at the model that answered"],
  ["7.classification", "a backend's failure is classified, with alerts for 401, 403 and 404"],
  ["7.verbatim", "a backend's text never reaches the client"],
  ["7.headers", "only allow-listed headers travel, both ways"],
  ["12.4", "the client sees the catalogue's id of the model that answered"],
  ["12.6", "a client that leaves a call that does not stream is treated alike; one that waits gives up its place"],
  ["12.9", "only a 429 and an oversize reroute"],
  ["12.10", "markers are listed only under status=fallback_…"],
  ["12.12", "aborted_stream: opened, and nothing usable; upstream_error otherwise"],
  ["12.13", "credentials by format; the provider's headers override; version and beta travel to messages backends"],
  ["status.fallback_429", "zero-charge marker of a reroute after a 429"],
  ["status.fallback_oversize", "zero-charge marker of a reroute after an oversize"],
  ["status.upstream_error", "the backend failed; not charged"],
  ["status.aborted_stream", "opened, dropped before its terminal event without usable output; not charged"],
] as const satisfies readonly Row[]

export const rows = [...errors, ...endpoints, ...decisions, ...calls]

export type RowId = (typeof rows)[number][0]

/** For a test's name: the lines that the test covers. */
export const covers = (...ids: readonly RowId[]): string => `[${ids.join(", ")}]`
