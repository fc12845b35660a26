/** What operators are served, for the OpenAPI document: every route here answers 403 to a session that is no operator's. */
import { inPath, inQuery, json, type Operation } from "./openapi-operations.ts"
import { integer, object, orNull, type Schema, text, time } from "./openapi-schemas.ts"

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

export const operatorOperations: readonly Operation[] = [
  route("get", "audit", "What operators did, the newest first", {
    parameters: [...page, inQuery("subject", text, "The id of what was changed.")],
    answer: pageOf(auditEntry),
  }),
]
