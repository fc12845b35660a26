/**
 * `GET /openapi.json` and a page of it at `/docs` (decisions §11). The document is written by hand, as data: bodies are
 * read by the gateway's own readers and not by the framework's schemas, so there is nothing that it could be derived
 * from. A test holds it against the routes that are served.
 */
import { Elysia } from "elysia"
import { edge } from "./edge.ts"
import { openapiPage } from "./openapi-page.ts"
import { type Operation, operations as customerOperations } from "./openapi-operations.ts"
import { operatorOperations } from "./openapi-operator.ts"
import { schemas } from "./openapi-schemas.ts"

const operations = [...customerOperations, ...operatorOperations]

const securitySchemes = {
  key: { type: "http", scheme: "bearer", description: "An API key. `x-api-key: <key>` is as good." },
  session: { type: "http", scheme: "bearer", description: "A session token of POST /auth/sign-in." },
  cookie: {
    type: "apiKey",
    in: "cookie",
    name: "__Host-session",
    description: "The same token as a cookie; plain `session` over http on loopback.",
  },
}

const security = {
  none: [],
  key: [{ key: [] }],
  session: [{ session: [] }, { cookie: [] }],
} as const

const headers = {
  "X-Request-Id": { description: "The request's id, also in the usage record.", schema: { type: "string" } },
}

const failures = {
  description: "The error catalogue's body; the status and `X-Error-Code` go with its `code`.",
  headers: {
    ...headers,
    "X-Error-Code": { description: "Equals `code`.", schema: { type: "string" } },
    "Retry-After": { description: "Seconds to wait at least, where known.", schema: { type: "integer" } },
  },
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
}

function operationJson({ summary, description, tag, auth, parameters = [], body, status, answer }: Operation) {
  return {
    summary,
    ...(description !== undefined && { description }),
    tags: [tag],
    security: security[auth],
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: { required: true, content: { "application/json": { schema: body } } } }),
    responses: {
      [status]: { description: summary, headers, ...(answer !== undefined && { content: answer }) },
      default: failures,
    },
  }
}

function document() {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const operation of operations) {
    const path = (paths[operation.path] ??= {})
    path[operation.method] = operationJson(operation)
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Loket",
      version: "1",
      description:
        "One prepaid balance in Rupiah, three wire formats. Money is in micro-rupiah: 1 Rp = 1,000,000 micro.",
    },
    tags: ["Models", "Calls", "Usage", "Account", "Keys", "Top-ups", "Running", "Operator"].map((name) => ({ name })),
    paths,
    components: { securitySchemes, schemas },
  }
}

export const openapiController = () => {
  const json = JSON.stringify(document())
  const page = openapiPage(operations, schemas)
  return new Elysia({ name: "openapi" })
    .use(edge)
    .get("/openapi.json", () => new Response(json, { headers: { "Content-Type": "application/json" } }))
    .get(
      "/docs",
      () =>
        new Response(page, {
          headers: {
            "Content-Type": "text/html; charset=utf-8",
            // The page needs nothing from anywhere, and so may load nothing.
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
          },
        }),
    )
}
