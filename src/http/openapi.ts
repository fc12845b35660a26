/**
 * The OpenAPI document (decisions §11). It is made of the routes themselves: each says what it takes and what it answers,
 * and only its prose is written for people.
 */
import { Kind, type TSchema, Type } from "@sinclair/typebox"
import { rolesThatMay } from "../accounts/members.ts"
import { IDEMPOTENCY_KEY, KEY_DESCRIPTION } from "../store/idempotency-keys.ts"
import { memberRoles } from "../store/account-settings.ts"
import { errorBody } from "./edge.ts"
import { type Credential, type Documented, tags } from "./route.ts"
import { field, indonesianOf, type Said, together } from "./shapes.ts"

export type Json = Readonly<Record<string, unknown>>

interface Route {
  readonly method: string
  readonly path: string
  readonly hooks: object
}

const securitySchemes = {
  key: { type: "http", scheme: "bearer", description: "An API key. `x-api-key: <key>` is as good." },
  token: { type: "http", scheme: "bearer", description: "A management token of POST /keys/{id}/tokens." },
  session: { type: "http", scheme: "bearer", description: "A session token of POST /auth/sign-in." },
  cookie: {
    type: "apiKey",
    in: "cookie",
    name: "__Host-session",
    description: "The same token as a cookie; plain `session` over http on loopback.",
  },
}

const security: Readonly<Record<Credential, readonly Json[]>> = {
  none: [],
  key: [{ key: [] }],
  token: [{ token: [] }],
  session: [{ session: [] }, { cookie: [] }],
}

/** Of every change of whoever is signed in, or comes with a management token. */
const changeHeaders = Type.Object({
  [IDEMPOTENCY_KEY]: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: field(
        `${KEY_DESCRIPTION}, made anew for each change: within 24 hours the change is carried out once, however often it is sent. A repeat gets the same answer with \`Idempotency-Replayed: true\` for five minutes, then 409 \`idempotency.finished\`; while the first is carried out, 409 \`idempotency.in_progress\`; with another method, path or body, 409 \`idempotency.mismatch\`. A change that was refused frees its key.`,
        `1 sampai 255 karakter ASCII yang terlihat, baru untuk setiap perubahan: dalam 24 jam perubahan dilakukan sekali saja, seberapa sering pun dikirim. Selama lima menit ulangannya mendapat jawaban yang sama dengan \`Idempotency-Replayed: true\`, sesudah itu 409 \`idempotency.finished\`; selama yang pertama masih dikerjakan, 409 \`idempotency.in_progress\`; dengan metode, jalur, atau badan lain, 409 \`idempotency.mismatch\`. Perubahan yang ditolak membebaskan kuncinya.`,
      ),
    }),
  ),
})

/** Of what is about the account that the session looks at. */
const accountHeaders = Type.Object({
  "X-Account-Id": Type.Optional(
    Type.String({
      description: field(
        "The account that is meant: where the session looks at another one, 409 `auth.other_account`.",
        "Akun yang dimaksud: jika sesi melihat akun lain, 409 `auth.other_account`.",
      ),
    }),
  ),
})

const headers = {
  "X-Request-Id": { description: "The request's id, also in the usage record.", schema: { type: "string" } },
}

/**
 * The document of these routes; one that says nothing of itself, such as a page's, is not in it. In Indonesian, which the page is made of,
 * a field has a description where its schema was given one.
 */
export function openapiDocument(routes: readonly Route[], language: keyof Said = "en") {
  const schemas: Record<string, Json> = {}
  const shape = (schema: TSchema): Json => jsonSchema(schema, { schemas, language })
  const failures = {
    description: "The error catalogue's body; the status and `X-Error-Code` go with its `code`.",
    headers: {
      ...headers,
      "X-Error-Code": { description: "Equals `code`.", schema: { type: "string" } },
      "Retry-After": { description: "Seconds to wait at least, where known.", schema: { type: "integer" } },
    },
    content: { "application/json": { schema: shape(errorBody) } },
  }
  const operation = (method: string, path: string, { credential, terms }: Documented) => {
    const { tag, role, may, query, body, answer, media, status = 200 } = terms
    const summary = terms.summary[language]
    const forRole = role && {
      en: `For operators of the role \`${role}\`${role === "owner" ? "" : " or above"}.`,
      id: `Untuk operator dengan peran \`${role}\`${role === "owner" ? "" : " atau lebih tinggi"}.`,
    }
    const roles = may === undefined || may === "self" ? undefined : rolesThatMay(may)
    const isForAll = roles?.length === memberRoles.length
    const listed = (or: string) => roles?.map((each) => `\`${each}\``).join(or)
    const forMembers =
      roles === undefined || isForAll
        ? undefined
        : { en: `A member needs the role ${listed(" or ")}.`, id: `Anggota memerlukan peran ${listed(" atau ")}.` }
    const description = together(forRole, forMembers, terms.description)[language]
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]): Parameter => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string" },
    }))
    const parameters = [
      ...inPath,
      ...parametersOf(query, "query", shape),
      ...parametersOf(terms.headers, "header", shape),
      ...(roles === undefined ? [] : parametersOf(accountHeaders, "header", shape)),
      ...((credential === "session" || credential === "token") && method !== "GET"
        ? parametersOf(changeHeaders, "header", shape)
        : []),
    ]
    const content = {
      ...(answer !== undefined && { "application/json": { schema: shape(answer) } }),
      ...(media !== undefined && {
        [media]: {
          schema: media === "application/json" ? { type: "object", additionalProperties: true } : { type: "string" },
        },
      }),
    }
    const good = { description: summary, headers, ...(Object.keys(content).length > 0 && { content }) }
    return {
      summary,
      ...(description !== "" && { description }),
      ...(role !== undefined && { "x-role": role }),
      ...(roles !== undefined && { "x-account-roles": roles }),
      tags: [tag],
      security: security[credential],
      ...(parameters.length > 0 && { parameters }),
      ...(body !== undefined && {
        requestBody: { required: true, content: { "application/json": { schema: shape(body) } } },
      }),
      responses: {
        [status]: good,
        ...(terms.alsoStatus !== undefined && { [terms.alsoStatus]: good }),
        default: failures,
      },
    }
  }
  const paths: Record<string, Record<string, ReturnType<typeof operation>>> = {}
  for (const { method, path, hooks } of routes) {
    const { detail } = hooks as { readonly detail?: Documented }
    // The framework gives every route a detail of its own.
    if (detail?.terms === undefined) continue
    const template = path.replace("*", "{id}").replaceAll(/:(\w+)/g, "{$1}")
    paths[template] = { ...paths[template], [method.toLowerCase()]: operation(method, template, detail) }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Loket",
      version: "1",
      description:
        "One prepaid balance in Rupiah, three wire formats. Money is in micro-rupiah: 1 Rp = 1,000,000 micro.",
    },
    tags: tags.map((name) => ({ name })),
    paths,
    components: { securitySchemes, schemas },
  }
}

export type OpenapiDocument = ReturnType<typeof openapiDocument>

interface Parameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required: boolean
  readonly schema: Json
  readonly description?: string
}

function parametersOf(
  schema: TSchema | undefined,
  place: Parameter["in"],
  shape: (schema: TSchema) => Json,
): Parameter[] {
  if (schema === undefined) return []
  const { properties, required = [] } = schema as unknown as {
    readonly properties: Readonly<Record<string, TSchema>>
    readonly required?: readonly string[]
  }
  return Object.entries(properties).map(([name, own]) => {
    const { description, ...rest } = shape(own)
    const words = typeof description === "string" ? { description } : {}
    return { name, in: place, required: required.includes(name), schema: rest, ...words }
  })
}

interface Shapes {
  readonly schemas: Record<string, Json>
  readonly language: keyof Said
}

/** A TypeBox schema as JSON Schema. What has an `$id` becomes a reference, and is put among the shapes. */
function jsonSchema(schema: TSchema, shapes: Shapes): Json {
  const { $id, ...own } = schema
  const { schemas } = shapes
  if ($id === undefined) return plain(own, shapes)
  if (schemas[$id] === undefined) {
    schemas[$id] = {}
    schemas[$id] = plain(own, shapes)
  }
  return { $ref: `#/components/schemas/${$id}` }
}

function plain(schema: TSchema, shapes: Shapes): Json {
  const inner = (each: TSchema): Json => jsonSchema(each, shapes)
  // Symbols are TypeBox's own marks.
  const rest: Record<string, unknown> = Object.fromEntries(Object.entries(schema))
  if (shapes.language === "id" && schema.description !== undefined)
    rest["description"] = indonesianOf(schema.description)
  switch (schema[Kind]) {
    case "Object":
      return {
        ...rest,
        properties: Object.fromEntries(
          Object.entries<TSchema>(schema["properties"]).map(([name, each]) => [name, inner(each)]),
        ),
      }
    case "Array":
      return { ...rest, items: inner(schema["items"]) }
    case "Record": {
      const { patternProperties, ...others } = rest
      const [values] = Object.values(patternProperties as Readonly<Record<string, TSchema>>)
      return { ...others, additionalProperties: values === undefined ? true : inner(values) }
    }
    case "Intersect":
      return { allOf: (schema["allOf"] as readonly TSchema[]).map(inner) }
    case "RegExp": {
      const { source, flags: _, ...others } = rest
      return { ...others, type: "string", pattern: source }
    }
    case "Union": {
      const { anyOf, ...others } = rest
      return { ...union((anyOf as readonly TSchema[]).map(inner)), ...others }
    }
    default:
      return rest
  }
}

/** Words are an `enum`, and a schema or null is that schema with one more type. */
function union(members: readonly Json[]): Json {
  const [first] = members
  if (members.every(({ const: word }) => typeof word === "string"))
    return { type: "string", enum: members.map(({ const: word }) => word) }
  if (members.length === 2 && members[1]?.["type"] === "null" && typeof first?.["type"] === "string") {
    const { enum: words, type } = first
    return { ...first, type: [type, "null"], ...(Array.isArray(words) && { enum: [...words, null] }) }
  }
  return { anyOf: members }
}
