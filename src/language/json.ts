/** JSON as it arrives, of which nothing is known but that it parsed, and the checks of what a client wrote. */
import { Failure } from "../failure/failure.ts"

export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json | undefined
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** `null` in an optional field is an absent field (decisions §12.7). */
export const present = <T>(value: T | null | undefined): value is T => value !== undefined && value !== null

/*
 * Each check returns the value or the Failure to answer with. A message names the field, the value and what is allowed. The value is
 * clipped, because a prompt must not travel through an error into a log.
 */

const LONGEST_SHOWN = 40

/** The body is readable but does not have the format's shape. */
export const misshapen = (message: string): Failure => new Failure("request.invalid_request", { message })

/** The body asks for something that this gateway does not serve. */
export const notServed = (message: string): Failure => new Failure("request.unsupported_feature", { message })

/** What a message says that was found. */
export function shown(value: Json | undefined): string {
  if (value === undefined) return "missing"
  if (value === null || typeof value === "boolean" || typeof value === "number") return String(value)
  if (typeof value === "string") return value.length <= LONGEST_SHOWN ? JSON.stringify(value) : "a long string"
  return Array.isArray(value) ? "an array" : "an object"
}

/** The first failure that `check` finds, in order. */
export function firstFailure<T>(
  items: readonly T[],
  check: (item: T, index: number) => Failure | undefined,
): Failure | undefined {
  for (let index = 0; index < items.length; index++) {
    const failure = check(items[index] as T, index)
    if (failure) return failure
  }
  return undefined
}

export function readFlag(body: JsonObject, field: string): boolean | Failure {
  const value = body[field]
  if (!present(value)) return false
  return typeof value === "boolean" ? value : misshapen(`'${field}' is ${shown(value)}; it must be true or false.`)
}

/** A count of at least one; undefined where the field is absent. */
export function readCount(
  body: JsonObject,
  field: string,
  most = Number.MAX_SAFE_INTEGER,
): number | undefined | Failure {
  const value = body[field]
  if (!present(value)) return undefined
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1 && value <= most) return value
  const range = most === Number.MAX_SAFE_INTEGER ? "of at least 1" : `from 1 to ${most}`
  return misshapen(`'${field}' is ${shown(value)}; it must be an integer ${range}.`)
}

const NOTHING: readonly JsonObject[] = []

/** An optional array of objects; absent is empty. */
export function readObjects(value: Json | undefined, field: string): readonly JsonObject[] | Failure {
  if (!present(value)) return NOTHING
  if (!Array.isArray(value)) return misshapen(`'${field}' is ${shown(value)}; it must be an array of objects.`)
  const other = value.findIndex((item) => !isObject(item))
  if (other >= 0) return misshapen(`'${field}[${other}]' is ${shown(value[other])}; it must be an object.`)
  return value as JsonObject[]
}

/** An optional object; absent is undefined. */
export function readObject(value: Json | undefined, field: string): JsonObject | undefined | Failure {
  if (!present(value)) return undefined
  return isObject(value) ? value : misshapen(`'${field}' is ${shown(value)}; it must be an object.`)
}

export function checkName(value: Json | undefined, field: string): Failure | undefined {
  if (typeof value === "string" && value !== "") return undefined
  return misshapen(`'${field}' is ${shown(value)}; it must be a string that is not empty.`)
}

/** A tool's schema must say what its root is (gateway-api.md, "POST /v1/messages", `tools`). */
export function checkSchema(schema: Json | undefined, field: string): Failure | undefined {
  if (!isObject(schema)) return misshapen(`'${field}' is ${shown(schema)}; it must be an object with a root 'type'.`)
  return checkName(schema["type"], `${field}.type`)
}

/** A tool's schema as all backends take it: some refuse an object that names no properties, even where it has none. */
export const withProperties = (schema: JsonObject): JsonObject =>
  schema["type"] === "object" && !present(schema["properties"]) ? { ...schema, properties: {} } : schema

/** Whether a type, whatever was written there, begins with this. */
export const beginsWith = (value: Json | undefined, prefix: string): boolean =>
  typeof value === "string" && value.startsWith(prefix)

/** Message content in its long form: parts, each an object that names its type. */
export function readParts(value: Json | undefined, field: string): readonly JsonObject[] | Failure {
  const parts = readObjects(value, field)
  if (parts instanceof Failure) return parts
  return firstFailure(parts, (part, index) => checkName(part["type"], `${field}[${index}].type`)) ?? parts
}

/** What a message may be in a format. `called`: what the format calls a part. */
export interface MessageShape {
  readonly roles: readonly string[]
  /** Types of parts that hold text. */
  readonly texts: readonly string[]
  readonly called: "part" | "block"
  /** Roles whose messages may be without content. */
  readonly silent?: readonly string[]
}

/** The parts of a message; none where its content is text. A user's message must say something. `list[index]` is its name. */
export function readMessage(
  message: JsonObject,
  list: string,
  index: number,
  shape: MessageShape,
): readonly JsonObject[] | Failure {
  const { role, content } = message
  if (typeof role !== "string" || !shape.roles.includes(role))
    return misshapen(`'${list}[${index}].role' is ${shown(role)}; it must be one of ${shape.roles.join(", ")}.`)
  const isEmpty = content === undefined || content === null
  if (role === "user" && (isEmpty || content === "")) return saysNothing(`${list}[${index}]`)
  if (typeof content === "string" || (isEmpty && shape.silent?.includes(role))) return NOTHING
  const field = `${list}[${index}].content`
  if (!Array.isArray(content))
    return misshapen(`'${field}' is ${shown(content)}; it must be a string or an array of ${shape.called}s.`)
  const parts = readParts(content, field)
  if (parts instanceof Failure) return parts
  const noText = parts.findIndex((part) => isOfText(part, shape) && typeof (part["text"] ?? "") !== "string")
  if (noText >= 0)
    return misshapen(`'${field}[${noText}].text' is ${shown(parts[noText]?.["text"])}; it must be a string.`)
  return role === "user" && areEmpty(parts, shape) ? saysNothing(`${list}[${index}]`) : parts
}

const saysNothing = (field: string): Failure =>
  misshapen(`'${field}.content' is empty; a user message must say something.`)

/** Whether parts of text, taken together, say nothing; a part of another type always says something. */
const areEmpty = (parts: readonly JsonObject[], shape: MessageShape): boolean =>
  parts.every((part) => isOfText(part, shape) && (part["text"] ?? "") === "")

const isOfText = ({ type }: JsonObject, { texts }: MessageShape): boolean =>
  typeof type === "string" && texts.includes(type)

/** What is no text is an empty one. */
export const readText = (value: Json | undefined): string => (typeof value === "string" ? value : "")

/** A text with something in it. */
export const isText = (value: Json | undefined): value is string => typeof value === "string" && value !== ""

/** A text or a list with something in it: what makes an event usable output. */
export const filled = (value: unknown): boolean =>
  (typeof value === "string" || Array.isArray(value)) && value.length > 0
