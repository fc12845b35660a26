/** What the gateway serves, operation by operation, as data for the OpenAPI document and its page. */
import {
  integer,
  language,
  listOf,
  object,
  orNull,
  fallback,
  period,
  ref,
  type Schema,
  text,
  usageStatus,
} from "./openapi-schemas.ts"

interface Parameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required: boolean
  readonly schema: Schema
  readonly description?: string
}

export interface Operation {
  readonly method: "get" | "post" | "patch" | "delete"
  readonly path: string
  readonly tag: string
  readonly auth: "none" | "key" | "session"
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly Parameter[]
  readonly body?: Schema
  /** Of the good outcome. */
  readonly status: 200 | 201 | 204
  /** Content by media type. */
  readonly answer?: Readonly<Record<string, { readonly schema: Schema }>>
}

export const json = (schema: Schema) => ({ "application/json": { schema } })
const stream = { "text/event-stream": { schema: text } }
const anyObject: Schema = { type: "object" }
export const inPath = (name: string): Parameter => ({ name, in: "path", required: true, schema: text })
export const inQuery = (name: string, schema: Schema, description?: string): Parameter => ({
  name,
  in: "query",
  required: false,
  schema,
  ...(description !== undefined && { description }),
})

export const instant = "A day of the account's time zone, or an RFC 3339 time."
const usageRange = [
  inQuery("from", text, instant),
  inQuery("to", text, instant),
  inQuery("model", text),
  inQuery("key_id", text),
  inQuery("status", usageStatus),
  inQuery("format", { type: "string", enum: ["chat", "messages", "responses"] }),
]
const usageFilters = [...usageRange, inQuery("error_code", text)]
const costs =
  "Answers that do not stream carry `X-Cost-Rp`, what the call cost in Rupiah; of a stream it is read from `GET /usage/{request_id}`. Fields that the format does not have, and that the model's entry does not pass, are left out and named in `X-Dropped-Fields`: dotted paths, at most 20, then `...`."
const keyLimits = {
  requests_per_minute: integer,
  tokens_per_minute: integer,
  spending_limit_micro: integer,
  spending_period: period,
}
const nullable = (fields: Readonly<Record<string, Schema>>) =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, { anyOf: [schema, { type: "null" }] }]))
const credentials = object({ email: text, password: { ...text, minLength: 10, maxLength: 256 } })
const signedIn = json(object({ account: ref("Account"), session_token: text }))

const models: readonly Operation[] = [
  {
    method: "get",
    path: "/models",
    tag: "Models",
    auth: "none",
    status: 200,
    summary: "The catalogue with its prices",
    answer: json(object({ object: { const: "list" }, data: { type: "array", items: ref("CatalogueItem") } })),
  },
  {
    method: "get",
    path: "/v1/models",
    tag: "Models",
    auth: "key",
    status: 200,
    summary: "The models, as both SDK families list them",
    answer: json(listOf(ref("Model"))),
  },
  {
    method: "get",
    path: "/v1/models/{id}",
    tag: "Models",
    auth: "key",
    status: 200,
    summary: "One model",
    parameters: [inPath("id")],
    answer: json(ref("Model")),
  },
]

const modelAndMore = (fields: Readonly<Record<string, Schema>>): Schema => ({
  ...object({ model: text, ...fields, stream: { type: "boolean" } }, ["stream"]),
  additionalProperties: true,
})
/** What every call takes beside its body. */
const callHeaders: readonly Parameter[] = [
  {
    name: "X-Fallback",
    in: "header",
    required: false,
    schema: fallback,
    description:
      "For this call in place of the key's `fallback`; a key that is `off` stays off. A rerouted answer has the headers `X-Model` and `X-Rerouted-From`, unless its head had gone with a heartbeat; `model` in the body always tells.",
  },
]
const calls: readonly Operation[] = [
  {
    method: "post",
    path: "/v1/chat/completions",
    tag: "Calls",
    auth: "key",
    status: 200,
    summary: "Chat completions",
    description: costs,
    parameters: callHeaders,
    body: modelAndMore({ messages: { type: "array", items: anyObject } }),
    answer: { ...json(anyObject), ...stream },
  },
  {
    method: "post",
    path: "/v1/messages",
    tag: "Calls",
    auth: "key",
    status: 200,
    summary: "Messages",
    description: costs,
    parameters: callHeaders,
    body: modelAndMore({ max_tokens: integer, messages: { type: "array", items: anyObject } }),
    answer: { ...json(anyObject), ...stream },
  },
  {
    method: "post",
    path: "/v1/messages/count_tokens",
    tag: "Calls",
    auth: "key",
    status: 200,
    summary: "An estimate of a request's input tokens, free",
    body: modelAndMore({ messages: { type: "array", items: anyObject } }),
    answer: json(object({ input_tokens: integer })),
  },
  {
    method: "post",
    path: "/v1/responses",
    tag: "Calls",
    auth: "key",
    status: 200,
    summary: "Responses",
    description: `${costs} Without streaming, a failure after the first keepalive is a body with \`status: "failed"\` under 200.`,
    parameters: callHeaders,
    body: modelAndMore({ input: { anyOf: [text, { type: "array", items: anyObject }] } }),
    answer: { ...json(anyObject), ...stream },
  },
]

const usage: readonly Operation[] = [
  {
    method: "get",
    path: "/usage",
    tag: "Usage",
    auth: "session",
    status: 200,
    summary: "Usage records, the newest first",
    parameters: [...usageFilters, inQuery("cursor", text, "A `next_cursor`."), inQuery("limit", integer, "1 to 100.")],
    answer: json(
      object({ data: { type: "array", items: ref("UsageRecord") }, next_cursor: { type: ["string", "null"] } }),
    ),
  },
  {
    method: "get",
    path: "/usage/summary",
    tag: "Usage",
    auth: "session",
    status: 200,
    summary: "Sums by day, hour, model, key, format or status, and each of them divided by another",
    description: "Of final records; markers of reroutes are not in it.",
    parameters: [
      ...usageRange,
      inQuery("group_by", { type: "string", enum: ["day", "hour", "model", "key", "format", "status"] }),
      inQuery("split_by", { type: "string", enum: ["model", "key", "format", "status"] }),
    ],
    answer: json(
      object({
        data: { type: "array", items: ref("UsageSum") },
        total: ref("UsageSum"),
        group_by: text,
        split_by: orNull(text),
        first_token_of: {
          ...orNull(integer),
          description: "Of how many of the newest calls the times to the first token are, when there were more.",
        },
        time_zone: text,
        from: text,
        to: text,
      }),
    ),
  },
  {
    method: "get",
    path: "/usage/errors",
    tag: "Usage",
    auth: "session",
    status: 200,
    summary: "Failed calls by error code, the most frequent first",
    description: "Of calls that were forwarded; what was refused before has no record.",
    parameters: usageRange,
    answer: json(
      object({
        data: { type: "array", items: object({ code: text, requests: integer, last_at: text }) },
        from: text,
        to: text,
      }),
    ),
  },
  {
    method: "get",
    path: "/usage/export.csv",
    tag: "Usage",
    auth: "session",
    status: 200,
    summary: "Usage records as CSV",
    parameters: usageFilters,
    answer: { "text/csv": { schema: text } },
  },
  {
    method: "get",
    path: "/usage/{request_id}",
    tag: "Usage",
    auth: "session",
    status: 200,
    summary: "One call's final record",
    parameters: [inPath("request_id")],
    answer: json(ref("UsageRecord")),
  },
  {
    method: "get",
    path: "/events",
    tag: "Usage",
    auth: "session",
    status: 200,
    summary: "What happens on the account, as Server-Sent Events",
    description:
      "`balance` {balance_micro, held_micro} at first and after each change, `call` with a finished call's outcome, `top-up` {id, status}. Calls and top-ups are those of the process that answers; what others do shows in the balance, a credit at once, a charge within ten seconds.",
    answer: stream,
  },
]

const account: readonly Operation[] = [
  {
    method: "post",
    path: "/auth/sign-up",
    tag: "Account",
    auth: "none",
    status: 201,
    summary: "Make an account; one network makes so many in an hour and a day, and is 429 `rate_limit.sign_up` beyond",
    body: credentials,
    answer: signedIn,
  },
  {
    method: "post",
    path: "/auth/sign-in",
    tag: "Account",
    auth: "none",
    status: 200,
    summary: "Sign in",
    body: credentials,
    answer: signedIn,
  },
  {
    method: "post",
    path: "/auth/sign-out",
    tag: "Account",
    auth: "session",
    status: 204,
    summary: "End this session",
  },
  {
    method: "post",
    path: "/auth/password",
    tag: "Account",
    auth: "session",
    status: 204,
    summary: "Change the password, which ends every session",
    body: object({ current: text, new: text }),
  },
  {
    method: "get",
    path: "/account",
    tag: "Account",
    auth: "session",
    status: 200,
    summary: "The account and its balance",
    answer: json(ref("Account")),
  },
  {
    method: "patch",
    path: "/account",
    tag: "Account",
    auth: "session",
    status: 200,
    summary: "Change the time zone, in which budgets and days begin, the language, and the mail of a low balance",
    body: object(
      {
        time_zone: text,
        language,
        low_balance_email: orNull(text),
        low_balance_threshold_micro: orNull(integer),
      },
      ["time_zone", "language", "low_balance_email", "low_balance_threshold_micro"],
    ),
    answer: json(ref("Account")),
  },
  {
    method: "delete",
    path: "/account",
    tag: "Account",
    auth: "session",
    status: 204,
    summary: "Delete the account; its keys answer 403 from then on",
    body: object({ password: text }),
  },
  {
    method: "get",
    path: "/account/summary",
    tag: "Account",
    auth: "session",
    status: 200,
    summary: "The balance, what was spent of it, and for how long it lasts",
    answer: json(ref("Summary")),
  },
  {
    method: "get",
    path: "/account/sessions",
    tag: "Account",
    auth: "session",
    status: 200,
    summary: "Where the account is signed in",
    answer: json(listOf(ref("Session"))),
  },
  {
    method: "delete",
    path: "/account/sessions",
    tag: "Account",
    auth: "session",
    status: 204,
    summary: "End all other sessions",
  },
  {
    method: "delete",
    path: "/account/sessions/{id}",
    tag: "Account",
    auth: "session",
    status: 204,
    summary: "End one session",
    parameters: [inPath("id")],
  },
]

const window: Schema = {
  ...object({ limit: integer, used: integer, resets_in_s: integer }),
  type: ["object", "null"],
}
const shownKey: Schema = {
  allOf: [
    ref("Key"),
    object({
      usage: {
        ...object({
          requests: window,
          tokens: window,
          budget: {
            ...object({ limit_micro: integer, used_micro: integer, resets_at: orNull(text) }),
            type: ["object", "null"],
          },
        }),
        description: "What is used of each limit now; of windows, what the process that answers has counted.",
      },
    }),
  ],
}

const keys: readonly Operation[] = [
  {
    method: "get",
    path: "/keys",
    tag: "Keys",
    auth: "session",
    status: 200,
    summary: "The account's API keys: those that work, the newest first, then those that were revoked",
    parameters: [inQuery("cursor", text, "A `next_cursor`."), inQuery("limit", integer, "1 to 100; 50 unless told.")],
    answer: json(object({ data: { type: "array", items: shownKey }, next_cursor: { type: ["string", "null"] } })),
  },
  {
    method: "post",
    path: "/keys",
    tag: "Keys",
    auth: "session",
    status: 201,
    summary:
      "Make a key; it is shown whole this once. An account has a bounded number of keys that work, 200 unless the operator says otherwise",
    body: object({ name: text, ...keyLimits, fallback }, [...Object.keys(keyLimits), "fallback"]),
    answer: json({ allOf: [shownKey, object({ key: text })] }),
  },
  {
    method: "patch",
    path: "/keys/{id}",
    tag: "Keys",
    auth: "session",
    status: 200,
    summary: "Change a key; null takes a limit away",
    parameters: [inPath("id")],
    body: object({ name: text, ...nullable(keyLimits), fallback }, ["name", ...Object.keys(keyLimits), "fallback"]),
    answer: json(shownKey),
  },
  {
    method: "post",
    path: "/keys/{id}/revoke",
    tag: "Keys",
    auth: "session",
    status: 200,
    summary: "Revoke a key, for good",
    parameters: [inPath("id")],
    answer: json(shownKey),
  },
  {
    method: "post",
    path: "/keys/{id}/rotate",
    tag: "Keys",
    auth: "session",
    status: 201,
    summary: "Give a key another secret, shown whole this once; the one before works on for a while",
    description: "Limits, windows and spending stay the key's. Without `overlap_s` the secret before works for a day.",
    parameters: [inPath("id")],
    body: object({ overlap_s: { type: "integer", minimum: 0, maximum: 604_800 } }, ["overlap_s"]),
    answer: json({ allOf: [shownKey, object({ key: text })] }),
  },
]

const topUps: readonly Operation[] = [
  {
    method: "get",
    path: "/top-ups",
    tag: "Top-ups",
    auth: "session",
    status: 200,
    summary: "The account's top-ups",
    answer: json(listOf(ref("TopUp"))),
  },
  {
    method: "post",
    path: "/top-ups",
    tag: "Top-ups",
    auth: "session",
    status: 201,
    summary: "Begin a top-up by QR payment",
    body: object({ amount_rp: { type: "integer", minimum: 10_000, maximum: 100_000_000 } }),
    answer: json(ref("TopUp")),
  },
  {
    method: "get",
    path: "/top-ups/quote",
    tag: "Top-ups",
    auth: "session",
    status: 200,
    summary: "What a top-up would cost",
    parameters: [
      { ...inQuery("amount_rp", { type: "integer", minimum: 10_000, maximum: 100_000_000 }), required: true },
    ],
    answer: json(object({ amount_rp: integer, breakdown: ref("Breakdown") })),
  },
  {
    method: "get",
    path: "/top-ups/{id}",
    tag: "Top-ups",
    auth: "session",
    status: 200,
    summary: "One top-up",
    parameters: [inPath("id")],
    answer: json(ref("TopUp")),
  },
  {
    method: "post",
    path: "/top-ups/{id}/check",
    tag: "Top-ups",
    auth: "session",
    status: 200,
    summary: "Ask the payment provider now whether a top-up was paid",
    parameters: [inPath("id")],
    answer: json(ref("TopUp")),
  },
  {
    method: "get",
    path: "/simulated-pay/{id}",
    tag: "Top-ups",
    auth: "none",
    status: 200,
    summary: "A page that pays a simulated top-up; only where payments are simulated",
    parameters: [inPath("id")],
    answer: { "text/html": { schema: text } },
  },
  {
    method: "post",
    path: "/simulated-pay/{id}",
    tag: "Top-ups",
    auth: "none",
    status: 200,
    summary: "Pay a simulated top-up",
    parameters: [inPath("id")],
    answer: { "text/html": { schema: text } },
  },
  {
    method: "post",
    path: "/webhooks/payments/{provider}",
    tag: "Top-ups",
    auth: "none",
    status: 200,
    summary: "A payment provider's notification, proved by its signature",
    parameters: [inPath("provider")],
    body: anyObject,
    answer: json(object({ received: { const: true } })),
  },
]

const running: readonly Operation[] = [
  {
    method: "get",
    path: "/about",
    tag: "Running",
    auth: "none",
    status: 200,
    summary: "What the dashboard has to know of this gateway",
    description:
      "`support_contact` is where people reach the operator, an e-mail address or that of a page; without `sends_mail` nobody is written to.",
    answer: json(object({ support_contact: orNull(text), sends_mail: { type: "boolean" } })),
  },
  {
    method: "get",
    path: "/healthz",
    tag: "Running",
    auth: "none",
    status: 200,
    summary: "The process lives",
    answer: json(object({ status: text })),
  },
  {
    method: "get",
    path: "/readyz",
    tag: "Running",
    auth: "none",
    status: 200,
    summary: "The gateway takes calls; 503 when it does not",
    answer: json(anyObject),
  },
  {
    method: "get",
    path: "/openapi.json",
    tag: "Running",
    auth: "none",
    status: 200,
    summary: "This document",
    answer: json(anyObject),
  },
  {
    method: "get",
    path: "/docs",
    tag: "Running",
    auth: "none",
    status: 200,
    summary: "This document as a page",
    answer: { "text/html": { schema: text } },
  },
]

export const operations: readonly Operation[] = [
  ...models,
  ...calls,
  ...usage,
  ...account,
  ...keys,
  ...topUps,
  ...running,
]
