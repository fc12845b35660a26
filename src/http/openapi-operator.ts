/** What operators are served, for the OpenAPI document: every route here answers 403 to a session that is no operator's. */
import { inPath, inQuery, json, type Operation } from "./openapi-operations.ts"
import { flag, integer, micro, object, orNull, ref, type Schema, text, time } from "./openapi-schemas.ts"

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

export const operatorOperations: readonly Operation[] = [
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
