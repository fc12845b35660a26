/**
 * Whether an answer is what the OpenAPI document says of it. Fields that the document does not name are problems too, and a
 * keyword of a schema that is not known here throws, so that nothing passes for want of being looked at.
 */
import type { Json, OpenapiDocument } from "../../src/http/openapi.ts"

export interface RealAnswer {
  readonly method: string
  /** As it was asked for, without the query. */
  readonly path: string
  readonly status: number
  readonly json: unknown
}

export function problemsOf(document: OpenapiDocument, { method, path, status, json }: RealAnswer): string[] {
  const template = templatesOf(document).find(({ pattern }) => pattern.test(path))?.template
  const operation = document.paths[template ?? ""]?.[method.toLowerCase()]
  if (operation === undefined) return [`${method} ${path} is not in the document`]
  const responses: Readonly<Record<string, Described>> = operation.responses
  const described = responses[status] ?? (status >= 400 ? responses["default"] : undefined)
  if (described === undefined) return [`${method} ${template} does not answer ${status}`]
  const schema = described.content?.["application/json"]?.schema
  if (json === undefined) return schema === undefined ? [] : [`${method} ${template} answers without JSON`]
  if (schema === undefined) return [`${method} ${template} answers JSON`]
  return faults(schema, json, document.components.schemas, `${method} ${template} ${status}`)
}

interface Template {
  readonly template: string
  readonly pattern: RegExp
}
const templates = new WeakMap<OpenapiDocument, readonly Template[]>()

/** The document's paths, those with fewer parameters first. */
function templatesOf(document: OpenapiDocument): readonly Template[] {
  const made =
    templates.get(document) ??
    Object.keys(document.paths)
      .sort((a, b) => a.split("{").length - b.split("{").length)
      .map((template) => ({ template, pattern: new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`) }))
  templates.set(document, made)
  return made
}

interface Described {
  readonly content?: Readonly<Record<string, { readonly schema: Json }>>
}
type Schemas = Readonly<Record<string, Json>>

const KNOWN = new Set(
  "$ref allOf anyOf type enum const properties required items additionalProperties description format pattern minimum maximum default".split(
    " ",
  ),
)

const typeOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value

function faults(schema: Json, value: unknown, schemas: Schemas, at: string): string[] {
  const strange = Object.keys(schema).filter((keyword) => !KNOWN.has(keyword))
  if (strange.length > 0) throw new Error(`keywords that are not looked at: ${strange.join(", ")}`)
  const { anyOf, type, enum: words, const: word, format, items } = schema
  const options = anyOf as readonly Json[] | undefined
  if (options !== undefined)
    return options.some((each) => faults(each, value, schemas, at).length === 0) ? [] : [`${at} is none of its kinds`]
  if (schema["$ref"] !== undefined || schema["allOf"] !== undefined)
    return objectFaults(merged(schema, schemas), value, schemas, at)
  const types = type === undefined ? undefined : [type].flat().map(String)
  const found = typeOf(value)
  if (types !== undefined && !types.includes(found) && !(found === "integer" && types.includes("number")))
    return [`${at} is ${found} and not ${types.join(" or ")}`]
  if (Array.isArray(words) && !words.includes(value)) return [`${at} is ${JSON.stringify(value)}`]
  if (word !== undefined && word !== value) return [`${at} is ${JSON.stringify(value)} and not ${JSON.stringify(word)}`]
  if (format === "date-time" && typeof value === "string" && new Date(value).toISOString() !== value)
    return [`${at} is no time`]
  if (Array.isArray(value))
    return value.flatMap((each, index) => faults((items ?? {}) as Json, each, schemas, `${at}[${index}]`))
  return found === "object" && types !== undefined ? objectFaults(schema, value, schemas, at) : []
}

function objectFaults(schema: Json, value: unknown, schemas: Schemas, at: string): string[] {
  if (typeOf(value) !== "object") return [`${at} is no object`]
  const { additionalProperties: more } = schema
  const properties = (schema["properties"] ?? {}) as Schemas
  const required = (schema["required"] ?? []) as readonly string[]
  const missing = required
    .filter((name) => !Object.hasOwn(value as object, name))
    .map((name) => `${at}.${name} is missing`)
  const wrong = Object.entries(value as object).flatMap(([name, field]) => {
    const described = properties[name] ?? (typeof more === "object" ? (more as Json) : undefined)
    if (described !== undefined) return faults(described, field, schemas, `${at}.${name}`)
    return more === true ? [] : [`${at}.${name} is not documented`]
  })
  return [...missing, ...wrong]
}

/** A shape with those that it is made of, as one. */
function merged(schema: Json, schemas: Schemas): Json {
  const name = typeof schema["$ref"] === "string" ? schema["$ref"].split("/").at(-1) : undefined
  const parts = name === undefined ? (schema["allOf"] as readonly Json[] | undefined) : [schemas[name] ?? {}]
  if (parts === undefined) return schema
  const wholes = parts.map((part) => merged(part, schemas))
  return {
    properties: Object.assign({}, ...wholes.map(({ properties }) => properties)) as Json,
    required: wholes.flatMap(({ required }) => (required ?? []) as string[]),
  }
}
