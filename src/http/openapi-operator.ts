/** What operators are served, for the OpenAPI document: every route here answers 403 to a session that is no operator's. */
import { inPath, inQuery, instant, json, type Operation } from "./openapi-operations.ts"
import { flag, integer, listOf, micro, object, orNull, ref, type Schema, text, time } from "./openapi-schemas.ts"

const anything: Schema = { description: "JSON of the action's own; null where there was or is nothing." }
const page = [inQuery("cursor", text, "A `next_cursor`."), inQuery("limit", integer, "1 to 100.")]
const pageOf = (item: Schema) => json(object({ data: { type: "array", items: item }, next_cursor: orNull(text) }))

const route = (
  method: Operation["method"],
  path: string,
  summary: string,
  rest: Partial<Operation> = {},
): Operation => ({
  method,
  path: `/operator/${path}`,
  tag: "Operator",
  auth: "session",
  status: 200,
  summary,
  ...rest,
  parameters: [...[...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => inPath(name ?? "")), ...(rest.parameters ?? [])],
})

const auditEntry = object({
  id: integer,
  at: time,
  request_id: text,
  operator: {
    ...object({ id: text, email: text }),
    type: ["object", "null"],
    description: "Null for the command line.",
  },
  address: orNull(text),
  action: text,
  subject: { ...text, description: "The id of what was changed." },
  before: anything,
  after: anything,
  reason: orNull(text),
})

const account = object({
  id: text,
  email: text,
  role: text,
  time_zone: text,
  balance_micro: micro,
  held_micro: { ...micro, description: "Held for calls under way." },
  leased_micro: { ...micro, description: "What gateway processes may spend without asking, what is held included." },
  unleased_micro: micro,
  key_count: integer,
  created_at: time,
  deleted_at: orNull(time),
  frozen: flag,
  frozen_at: orNull(time),
  frozen_reason: orNull(text),
})
const transfer = object({
  id: integer,
  created_at: time,
  amount_micro: { ...micro, description: "What came is positive." },
  balance_micro: { ...micro, description: "After this transfer." },
  counterpart: text,
  reason: text,
  for: { ...text, description: "A call's request id, a top-up's reference, an adjustment's key." },
  note: orNull(text),
})
const reason = object({ reason: { ...text, maxLength: 500 } })

const dryRun = { parameters: [inQuery("dry_run", flag, "Check and tell, without changing anything.")] }
const rates = { input_micro: micro, output_micro: micro, cache_read_micro: micro, cache_write_micro: micro }
const price = object({ id: orNull(integer), ...rates, effective_at: time })
const change = { dry_run: flag, model: text, before: anything, after: anything }
const model = object({
  model: text,
  display_name: text,
  tier: text,
  provider: text,
  modality: text,
  supports_vision: flag,
  supports_tools: flag,
  context_window: orNull(integer),
  max_output_tokens: integer,
  endpoints: { type: "array", items: text },
  upstream: object({ provider: text, format: text, model: text }),
  configured: { ...flag, description: "The provider has its key." },
  max_concurrency: integer,
  fallback: { type: "array", items: text },
  pass: {
    type: "array",
    items: text,
    description: "Names of request fields that travel to it beside those of its format.",
  },
  status: { type: "string", enum: ["on_sale", "retiring", "retired"] },
  retirement: { ...object({ target: text, until: time }), type: ["object", "null"] },
  edited: { type: "array", items: text, description: "What the catalogue file does not set any more." },
  prices: {
    type: "array",
    items: { allOf: [price, object({ state: { type: "string", enum: ["past", "current", "coming"] } })] },
  },
})

const failures = object({ at: time, class: text, status: orNull(integer) })
const lastFailure: Schema = { ...failures, type: ["object", "null"] }
const counts: Schema = { type: "object", additionalProperties: integer }
const problem = object({
  id: integer,
  provider: text,
  kind: { type: "string", enum: ["unknown_order", "wrong_amount", "mismatch"] },
  reference: text,
  top_up_id: orNull(text),
  account_id: { ...orNull(text), description: "Whose top-up it is." },
  paid: { ...text, description: "As the provider says it." },
  first_seen_at: time,
  last_seen_at: time,
  resolved_at: orNull(time),
  resolved_by: orNull(text),
  note: orNull(text),
})

const house: readonly Operation[] = [
  route("get", "overview", "What the house made in a time, and what stands now", {
    description:
      "The last day unless told; at most 92 days. Under `this_process` is what only the process that answers knows.",
    parameters: [inQuery("from", text, instant), inQuery("to", text, instant)],
    answer: json(
      object({
        from: time,
        to: time,
        calls: object({ total: integer, by_status: counts, by_error_code: counts }),
        revenue_micro: { ...micro, description: "Charges and service fees." },
        charged_micro: micro,
        service_fees_micro: micro,
        absorbed_micro: micro,
        top_ups: object({ count: integer, amount_micro: micro }),
        adjusted_micro: { ...micro, description: "Given less taken." },
        new_accounts: integer,
        now: object({
          accounts: integer,
          frozen_accounts: integer,
          balances_micro: micro,
          held_micro: micro,
          open_calls: integer,
          processes: integer,
        }),
        this_process: object({
          id: text,
          in_flight: integer,
          ledger_lag_ms: orNull(integer),
          ledger_backlog: orNull(integer),
        }),
      }),
    ),
  }),
  route("get", "billing-health", "Flagged records, for whom the house bore something, and what reconciliations found", {
    parameters: [
      ...page,
      inQuery(
        "from",
        text,
        "Of what was absorbed: an instant or a plain day; 30 days before `to` unless told, 92 at most.",
      ),
      inQuery("to", text, "Now unless told."),
    ],
    answer: json(
      object({
        data: {
          type: "array",
          items: object({
            request_id: text,
            kind: { type: "string", enum: ["usage_missing", "billing_error", "fenced", "excess"] },
            account_id: text,
            key_id: text,
            model: text,
            error_code: orNull(text),
            absorbed_micro: micro,
            created_at: time,
          }),
        },
        next_cursor: orNull(text),
        sums: object({
          usage_missing: integer,
          billing_error: integer,
          fenced: integer,
          excess: integer,
          absorbed_micro: micro,
          fenced_micro: micro,
          excess_micro: micro,
        }),
        absorbed: object({
          from: time,
          to: time,
          sum_micro: { ...micro, description: "What `house:absorbed` grew by: the accounts and the others together." },
          accounts: {
            type: "array",
            items: object({
              account_id: text,
              email: text,
              absorbed_micro: micro,
              calls: integer,
              newest_at: time,
              request_ids: { type: "array", items: text },
              active_key_count: integer,
              frozen: flag,
              deleted_at: orNull(time),
            }),
          },
          others: object({ accounts: integer, absorbed_micro: micro }),
        }),
        reconciliation: object({
          runs: {
            type: "array",
            items: object({
              id: integer,
              started_at: time,
              ended_at: orNull(time),
              differences: orNull(integer),
              not_compared: orNull(integer),
            }),
          },
          differences: {
            type: "array",
            items: object({
              id: integer,
              reconciliation_id: integer,
              claim: text,
              account_id: orNull(text),
              figures: { type: "object" },
              mended: flag,
            }),
          },
        }),
      }),
    ),
  }),
  route("get", "backends", "How backends did in the last minutes, as the process that answers saw it", {
    answer: json(
      object({
        process_id: text,
        minutes: integer,
        data: {
          type: "array",
          items: object({
            provider: text,
            configured: flag,
            calls: { ...integer, description: "Tries." },
            failures: { ...integer, description: "Without requests that the backend did not take." },
            rate_limited: integer,
            last_failure: lastFailure,
            models: {
              type: "array",
              items: object({
                model: text,
                calls: integer,
                answered: integer,
                failures: integer,
                by_class: counts,
                first_token_p50_ms: orNull(integer),
                first_token_p95_ms: orNull(integer),
                last_failure: lastFailure,
              }),
            },
          }),
        },
      }),
    ),
  }),
  route("get", "top-ups", "Everybody's top-ups, the newest first", {
    parameters: [...page, inQuery("status", { type: "string", enum: ["pending", "paid", "expired"] })],
    answer: pageOf({ allOf: [ref("TopUp"), object({ account_id: text, email: text })] }),
  }),
  route("get", "payment-problems", "Payments that came and could not be credited", {
    parameters: [...page, inQuery("resolved", flag, "Resolved ones too.")],
    answer: pageOf(problem),
  }),
  route("post", "payment-problems/{id}/resolve", "Say what was done about one", {
    body: object({ note: { ...text, maxLength: 500 } }),
    answer: json(problem),
  }),
]

export const operatorOperations: readonly Operation[] = [
  ...house,
  route("get", "models", "The catalogue with all its prices, retired models too", { answer: json(listOf(model)) }),
  route("patch", "models/{model}", "Set what is given of a model", {
    ...dryRun,
    body: object(
      {
        display_name: text,
        tier: text,
        max_concurrency: integer,
        fallback: { type: "array", items: text },
        pass: { type: "array", items: text },
      },
      ["display_name", "tier", "max_concurrency", "fallback", "pass"],
    ),
    answer: json(object(change)),
  }),
  route("post", "models/{model}/prices", "Schedule a price", {
    ...dryRun,
    description:
      "It begins at `effective_at`, three seconds from now at the soonest; calls admitted before keep theirs. A rate that changes by more than twice wants `confirm_jump`; `jumps` names those.",
    status: 201,
    body: object({ ...rates, effective_at: time, confirm_jump: flag }, ["effective_at", "confirm_jump"]),
    answer: json(
      object({
        ...change,
        jumps: {
          type: "array",
          items: object({ name: text, from: micro, to: micro, factor: { type: ["number", "null"] } }),
        },
      }),
    ),
  }),
  route("delete", "models/{model}/prices/{id}", "Delete a price that is still to come", {
    ...dryRun,
    answer: json(object(change)),
  }),
  route("post", "models/{model}/retire", "Serve an id as another model until a time, and then no more", {
    ...dryRun,
    body: object({ target: text, until: time }),
    answer: json(object(change)),
  }),
  route("post", "models/{model}/restore", "Sell a retired model again", { ...dryRun, answer: json(object(change)) }),
  route("get", "accounts", "Accounts, the newest first", {
    parameters: [...page, inQuery("query", text, "Part of an e-mail address, or the beginning of an id or a key.")],
    answer: pageOf(account),
  }),
  route("get", "accounts/{id}", "One account with its keys and top-ups", {
    answer: json({
      allOf: [
        account,
        object({ keys: { type: "array", items: ref("Key") }, top_ups: { type: "array", items: ref("TopUp") } }),
      ],
    }),
  }),
  route("get", "accounts/{id}/transfers", "The account's ledger, the newest first", {
    parameters: page,
    answer: pageOf(transfer),
  }),
  route("post", "accounts/{id}/adjustments", "Give or take balance; once for each `idempotency_key`", {
    status: 201,
    body: object({
      amount_micro: { ...micro, description: "Not 0; negative takes, at most what is free." },
      reason: text,
      idempotency_key: { ...text, maxLength: 100 },
    }),
    answer: json(object({ account_id: text, amount_micro: micro, balance_micro: micro })),
  }),
  route("post", "accounts/{id}/freeze", "No more calls by its keys, and no new ones", {
    body: reason,
    answer: json(account),
  }),
  route("post", "accounts/{id}/unfreeze", "Calls again", { body: reason, answer: json(account) }),
  route("get", "audit", "What operators did, the newest first", {
    parameters: [...page, inQuery("subject", text, "The id of what was changed.")],
    answer: pageOf(auditEntry),
  }),
]
