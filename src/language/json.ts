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
  return role === "user" && areEmpty(parts, shape.texts) ? saysNothing(`${list}[${index}]`) : parts
}

const saysNothing = (field: string): Failure =>
  misshapen(`'${field}.content' is empty; a user message must say something.`)

/** Whether parts of text, taken together, say nothing; a part of another type always says something. */
const areEmpty = (parts: readonly JsonObject[], textTypes: readonly string[]): boolean =>
  parts.every(
    (part) => typeof part["type"] === "string" && textTypes.includes(part["type"]) && (part["text"] ?? "") === "",
  )

/** What is no text is an empty one. */
export const readText = (value: Json | undefined): string => (typeof value === "string" ? value : "")

/** A text with something in it. */
export const isText = (value: Json | undefined): value is string => typeof value === "string" && value !== ""

/** A text or a list with something in it: what makes an event usable output. */
export const filled = (value: unknown): boolean =>
  (typeof value === "string" || Array.isArray(value)) && value.length > 0

// Numbers that the client and the model alone understand: an integer of more than 53 bits is an id there, and clients in other
// languages read every digit of it. Where parsing would change such a number its text is kept instead (`JSON.rawJSON`), and
// `JSON.stringify` writes that. It is an object to everybody else, and cannot be cloned to another thread.

/** A tool's input from its text, with its numbers as they were written. Throws a SyntaxError for what is no JSON, or nests too deep to be written. */
export function parseToolInput(text: string, deepest = DEEPEST_INPUT): Json {
  if (text.length > deepest && nestsDeeper(text, deepest)) throw new SyntaxError("the input nests too deep")
  const input = JSON.parse(text) as Json
  return isObject(input) && hasChangedNumber(input) ? (parseExact(text) ?? input) : input
}

/** Levels, of which each takes a part of the stack of whoever writes it. */
const DEEPEST_INPUT = 32_000

function nestsDeeper(text: string, deepest: number): boolean {
  let depth = 0
  let isText = false
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]
    if (sign === '"') isText = !isText
    else if (isText) at += sign === "\\" ? 1 : 0
    else if (sign === "[" || sign === "{") depth++
    else if (sign === "]" || sign === "}") depth--
    if (depth > deepest) return true
  }
  return false
}

/** Gives the tool inputs, schemas and examples in a request or an answer, parsed from `text`, their numbers as they were written. */
export function keepNumbers(body: JsonObject, text: string): void {
  const places = placesOfNumbers(body)
  if (!places.some(([holder, field]) => isChangedWithin(holder[field]))) return
  const exact = parseExact(text)
  if (!isObject(exact)) return
  for (const [at, [holder, field]] of placesOfNumbers(exact).entries()) {
    const [known, name] = places[at] ?? []
    if (known !== undefined && name === field && isNested(known[field])) known[field] = holder[field]
  }
}

type Place = readonly [holder: JsonObject, field: string]

/** In the order of the text. */
function placesOfNumbers(body: JsonObject): Place[] {
  const places = toolCalls(body).map((call): Place => [call, "input"])
  for (const called of calledByObjects(body)) places.push([called, "arguments"])
  for (const holder of definitions(body))
    for (const field of DEFINED) if (Object.hasOwn(holder, field)) places.push([holder, field])
  return places
}

/** Where a tool, or the form of an answer, holds a schema or examples. */
const DEFINED = ["input_schema", "parameters", "schema", "output_schema", "input_examples"] as const

/** Tools, and what says which form an answer has, in all formats. */
function definitions({
  tools,
  functions,
  input,
  response_format,
  text,
  output_config,
  output_format,
}: JsonObject): JsonObject[] {
  // The responses format has items of the conversation that offer more tools.
  const later = Array.isArray(input) ? input.map((item) => (isObject(item) ? item["tools"] : undefined)) : []
  const told = [tools, functions, ...later].flatMap((list) => (Array.isArray(list) ? list.filter(isObject) : []))
  const inner = told.flatMap((tool) => (Array.isArray(tool["tools"]) ? tool["tools"] : [tool["function"] ?? null]))
  const forms = [text, output_config].map((holder) => (isObject(holder) ? holder["format"] : undefined))
  const older = isObject(response_format) ? response_format["json_schema"] : undefined
  return [...told, ...inner, ...forms, output_format, response_format, older].filter(isObject)
}

/** Calls of tools, in the order of the text; of an answer by Converse what its `toolUse` holds. */
function toolCalls({ messages, content, output }: JsonObject): JsonObject[] {
  const holders = Array.isArray(messages)
    ? messages
    : [{ content }, isObject(output) ? (output["message"] ?? null) : null]
  return holders.flatMap((holder) => {
    const blocks = isObject(holder) ? holder["content"] : undefined
    return Array.isArray(blocks) ? blocks.flatMap(callsIn) : []
  })
}

function callsIn(block: Json): JsonObject[] {
  if (!isObject(block)) return []
  const { type, toolUse } = block
  if (type === "tool_use") return [block]
  return isObject(toolUse) && Object.hasOwn(toolUse, "input") ? [toolUse] : []
}

/** Functions that are called in a request or an answer of the chat format with arguments that are no text: some backends write an object. */
function calledByObjects({ messages, choices }: JsonObject): JsonObject[] {
  const found: JsonObject[] = []
  const take = (called: Json | undefined): void => {
    if (isObject(called) && typeof called["arguments"] !== "string") found.push(called)
  }
  for (const list of [messages, choices]) {
    if (!Array.isArray(list)) continue
    for (const one of list) {
      if (!isObject(one)) continue
      const { tool_calls: calls, function_call: older } = isObject(one["message"]) ? one["message"] : one
      if (Array.isArray(calls)) for (const call of calls) if (isObject(call)) take(call["function"])
      take(older)
    }
  }
  return found
}

const isNested = (value: Json | undefined): value is Json[] | JsonObject => typeof value === "object" && value !== null

const isChangedWithin = (value: Json | undefined): boolean => isNested(value) && hasChangedNumber(value)

const isChanged = (value: number): boolean =>
  !Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))

/** Without recursion: what a model writes may nest deeper than the stack. */
function hasChangedNumber(input: Json[] | JsonObject): boolean {
  const left: object[] = [input]
  for (let one = left.pop(); one !== undefined; one = left.pop())
    // Of an array `Object.values` names each place first, which takes ten times as long.
    for (const inner of (Array.isArray(one) ? one : Object.values(one)) as Json[]) {
      if (typeof inner === "number" && isChanged(inner)) return true
      if (typeof inner === "object" && inner !== null) left.push(inner)
    }
  return false
}

interface RawJson {
  rawJSON(text: string): JsonObject
}

/** Undefined where the text nests deeper than the stack; its numbers then stay as they were parsed. */
function parseExact(text: string): Json | undefined {
  try {
    return JSON.parse(text, (_name, value: Json, ...[context]: { readonly source: string }[]) =>
      typeof value === "number" && isChanged(value) && context !== undefined
        ? (JSON as unknown as RawJson).rawJSON(context.source)
        : value,
    ) as Json
  } catch {
    return undefined
  }
}
