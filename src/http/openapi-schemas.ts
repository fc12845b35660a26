/** The shapes that the OpenAPI document names (OpenAPI 3.1, which takes JSON Schema as it is). */
import { failureCodes } from "../failure/table.ts"

export type Schema = Readonly<Record<string, unknown>>

export const text = { type: "string" } as const
export const integer = { type: "integer" } as const
export const flag = { type: "boolean" } as const
export const time = { type: "string", format: "date-time" } as const
export const micro = { type: "integer", description: "Micro-rupiah." } as const
const micros = { type: "integer", description: "Micro-rupiah for one token." } as const
export const period = { type: "string", enum: ["daily", "monthly", "total"] } as const
/** Also the values of the header `X-Fallback`. */
export const fallback = {
  type: "string",
  enum: ["any", "never_dearer", "off"],
  description:
    "Which models of a chain may answer for the one that was asked for: `any`, only those none of whose four rates is above its (`never_dearer`, the default), or none (`off`).",
} as const
export const language = { type: "string", enum: ["id", "en"] } as const
export const orNull = (schema: Schema): Schema => ({ ...schema, type: [schema["type"], "null"] })

export const ref = (name: keyof typeof schemas): Schema => ({ $ref: `#/components/schemas/${name}` })
export const listOf = (items: Schema): Schema => object({ data: { type: "array", items } })

/** All properties are required, save those that are named as optional. */
export const object = (properties: Readonly<Record<string, Schema>>, optional: readonly string[] = []): Schema => ({
  type: "object",
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
})

const tokenCounts = {
  input_tokens: integer,
  output_tokens: integer,
  cache_read_tokens: integer,
  cache_write_tokens: integer,
}
const rateFields = { input_micro: micros, output_micro: micros, cache_read_micro: micros, cache_write_micro: micros }
export const usageStatus = {
  type: "string",
  enum: [
    "ok",
    "upstream_error",
    "aborted_stream",
    "usage_missing",
    "billing_error",
    "fallback_429",
    "fallback_oversize",
  ],
} as const

export const schemas = {
  Error: object(
    {
      error: { ...text, description: "For people; may change." },
      code: { type: "string", enum: failureCodes, description: "The contract: branch on this." },
      type: { ...text, description: "The part of `code` after its last dot." },
      request_id: text,
      retryable: { ...flag, description: "Whether the same request may succeed later." },
      hint: text,
    },
    ["hint"],
  ),
  CatalogueItem: object({
    model: text,
    display_name: text,
    tier: text,
    provider: text,
    supports_vision: flag,
    supports_tools: flag,
    modality: text,
    ...rateFields,
    context_window: { ...orNull(integer), description: "Tokens; null where the limit is not verified." },
    max_output_tokens: integer,
    endpoints: { type: "array", items: { type: "string", enum: ["chat", "messages", "responses"] } },
    fallback: {
      type: "array",
      items: text,
      description:
        "The models that are tried next, in order, when the backend throttles or the prompt is too large. One that costs more answers only for a key whose `fallback` is `any`.",
    },
  }),
  Model: object({
    id: text,
    object: { const: "model" },
    created: integer,
    owned_by: text,
    context_window: orNull(integer),
    type: { const: "model" },
    display_name: text,
    created_at: time,
  }),
  Account: object({
    id: text,
    email: text,
    role: text,
    balance_micro: micro,
    held_micro: { ...micro, description: "Held for calls under way; what can be spent is the difference." },
    time_zone: text,
    language,
    low_balance_email: orNull(text),
    low_balance_threshold_micro: { ...orNull(micro), description: "A mail is sent when the balance falls below it." },
    frozen: { ...flag, description: "Its keys are refused until an operator has looked at it." },
    created_at: time,
  }),
  Summary: object({
    balance_micro: micro,
    held_micro: micro,
    spent_today_micro: { ...micro, description: "Since midnight of the account's time zone." },
    spent_month_micro: micro,
    calls_today: integer,
    days_left: {
      type: ["number", "null"],
      description: "At the pace of the last seven days; null when nothing was spent.",
    },
    first_steps: object({ topped_up: flag, key_made: flag, call_made: flag }),
  }),
  Session: object({
    id: text,
    created_at: time,
    last_seen_at: { ...time, description: "Right to a minute." },
    expires_at: time,
    user_agent: text,
    address: text,
    current: { ...flag, description: "Whether it is the one that asks." },
  }),
  Key: object({
    id: text,
    name: text,
    prefix: text,
    last4: text,
    status: { type: "string", enum: ["active", "revoked"] },
    requests_per_minute: orNull(integer),
    tokens_per_minute: orNull(integer),
    spending_limit_micro: orNull(micro),
    spending_period: { type: ["string", "null"], enum: [...period.enum, null] },
    fallback,
    spent_micro: orNull(micro),
    created_at: time,
    revoked_at: orNull(time),
    last_used_at: { ...orNull(time), description: "When the last call came that was forwarded." },
    expires_at: { type: "null" },
    previous_expires_at: { ...orNull(time), description: "Until when the secret before a rotation works." },
  }),
  Breakdown: object({
    balance_purchased_micro: { ...micro, description: "Credited in full." },
    service_fee_micro: micro,
    payment_fee_micro: micro,
    network_fee_micro: micro,
    total_micro: { ...micro, description: "What is paid; always whole rupiah." },
  }),
  TopUp: object(
    {
      id: text,
      status: { type: "string", enum: ["pending", "paid", "expired"] },
      provider: text,
      reference: { ...orNull(text), description: "The provider's name for the payment, once there is one." },
      breakdown: { $ref: "#/components/schemas/Breakdown" },
      created_at: time,
      expires_at: time,
      paid_at: orNull(time),
      qr: {
        ...object({ payload: text, svg: text }),
        type: ["object", "null"],
        description: "Not in lists.",
      },
      expires_in_s: { ...integer, description: "Seconds until it expires, 0 from then on. Not in lists." },
      pay_url: {
        ...orNull(text),
        description: "Where it can be paid by pressing a button, while payments are simulated. Not in lists.",
      },
    },
    ["qr", "expires_in_s", "pay_url"],
  ),
  UsageRecord: object(
    {
      model: text,
      ...tokenCounts,
      charge_micro: micro,
      status: usageStatus,
      turns: { ...integer, description: "Charged turns at the backend; above 1 for a server-side tool loop." },
      request_id: text,
      key_id: text,
      created_at: time,
      endpoint: text,
      streamed: flag,
      attempts: integer,
      duration_ms: integer,
      first_token_ms: orNull(integer),
      error_code: orNull(text),
      price_id: integer,
      price_effective_at: { ...orNull(time), description: "Since when that price is in force." },
      rates: object(rateFields),
      amounts: object({ input_micro: micro, output_micro: micro, cache_read_micro: micro, cache_write_micro: micro }),
      absorbed_micro: micro,
      markers: { type: "array", items: object({ model: text, status: usageStatus, created_at: time }) },
    },
    ["markers"],
  ),
  UsageSum: object(
    {
      group: { ...text, description: "A day, an hour, a model, a key, a format or a status." },
      split: orNull(text),
      requests: integer,
      ok_requests: integer,
      errors: integer,
      cache_reads: { ...integer, description: "Requests that read from a cache." },
      ...tokenCounts,
      charge_micro: micro,
      first_token_p50_ms: orNull(integer),
      first_token_p95_ms: orNull(integer),
    },
    ["group", "split"],
  ),
} satisfies Record<string, Schema>
