/**
 * Numbers that the client and the model alone understand: an integer of more than 53 bits is an id there, and clients in other
 * languages read every digit of it. Where parsing would change such a number its text is kept instead (`JSON.rawJSON`), and
 * `JSON.stringify` writes that. It is an object to everybody else, and cannot be cloned to another thread.
 */
import { type Json, type JsonObject, isObject } from "./json.ts"

/** A tool's input from its text, with its numbers as they were written. Throws a SyntaxError for what is no JSON, or nests too deep to be written. */
export function parseToolInput(text: string): Json {
  if (text.length > DEEPEST_INPUT && nestsDeeper(text, DEEPEST_INPUT)) throw new SyntaxError("the input nests too deep")
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
  if (somePlace(body, isChangedAt)) keepNumbersOf(body, text)
}

function keepNumbersOf(body: JsonObject, text: string): void {
  const exact = parseExact(text)
  if (!isObject(exact)) return
  const places = placesOfNumbers(body)
  for (const [at, [holder, field]] of placesOfNumbers(exact).entries()) {
    const [known, name] = places[at] ?? []
    if (known !== undefined && name === field && isNested(known[field])) known[field] = holder[field]
  }
}

type Place = readonly [holder: JsonObject, field: string]

/** In the order of the text. */
function placesOfNumbers(body: JsonObject): Place[] {
  const places: Place[] = []
  somePlace(body, (holder, field) => {
    places.push([holder, field])
    return false
  })
  return places
}

/** A test of one place. Places are walked to and not listed: every call is looked through, and hardly any has such a number. */
type PlaceTest = (holder: JsonObject, field: string) => boolean
type HolderTest = (holder: Json | undefined, test: PlaceTest) => boolean

const isChangedAt: PlaceTest = (holder, field) => isChangedWithin(holder[field])

const somePlace = (body: JsonObject, test: PlaceTest): boolean =>
  someToolCall(body, test) || someCalledByObject(body, test) || someDefinition(body, test)

function some(list: Json | undefined, holds: HolderTest, test: PlaceTest): boolean {
  if (!Array.isArray(list)) return false
  for (const one of list) if (holds(one, test)) return true
  return false
}

/** Calls of tools, in the order of the text; of an answer by Converse what its `toolUse` holds. */
const someToolCall = ({ messages, content, output }: JsonObject, test: PlaceTest): boolean =>
  Array.isArray(messages)
    ? some(messages, ofMessage, test)
    : some(content, ofBlock, test) || (isObject(output) && ofMessage(output["message"], test))

const ofMessage: HolderTest = (message, test) => isObject(message) && some(message["content"], ofBlock, test)

const ofBlock: HolderTest = (block, test) => {
  if (!isObject(block)) return false
  const { type, toolUse } = block
  if (type === "tool_use") return test(block, "input")
  return isObject(toolUse) && Object.hasOwn(toolUse, "input") && test(toolUse, "input")
}

/** Functions that are called in a request or an answer of the chat format with arguments that are no text: some backends write an object. */
const someCalledByObject = ({ messages, choices }: JsonObject, test: PlaceTest): boolean =>
  some(messages, ofCaller, test) || some(choices, ofCaller, test)

const ofCaller: HolderTest = (one, test) => {
  if (!isObject(one)) return false
  const { tool_calls: calls, function_call: older } = isObject(one["message"]) ? one["message"] : one
  return some(calls, ofCall, test) || ofCalled(older, test)
}

const ofCall: HolderTest = (call, test) => isObject(call) && ofCalled(call["function"], test)

const ofCalled: HolderTest = (called, test) =>
  isObject(called) && typeof called["arguments"] !== "string" && test(called, "arguments")

/** Where a tool, or the form of an answer, holds a schema or examples. */
const DEFINED = ["input_schema", "parameters", "schema", "output_schema", "input_examples"] as const

/** Tools, and what says which form an answer has, in all formats. */
const someDefinition = (body: JsonObject, test: PlaceTest): boolean =>
  some(body["tools"], ofTool, test) ||
  some(body["functions"], ofTool, test) ||
  // The responses format has items of the conversation that offer more tools.
  some(body["input"], ofItem, test) ||
  ofForm(body["text"], test) ||
  ofForm(body["output_config"], test) ||
  ofDefinition(body["output_format"], test) ||
  ofDefinition(body["response_format"], test) ||
  (isObject(body["response_format"]) && ofDefinition(body["response_format"]["json_schema"], test))

const ofItem: HolderTest = (item, test) => isObject(item) && some(item["tools"], ofTool, test)

const ofForm: HolderTest = (holder, test) => isObject(holder) && ofDefinition(holder["format"], test)

const ofTool: HolderTest = (tool, test) => {
  if (!isObject(tool)) return false
  if (ofDefinition(tool, test)) return true
  return Array.isArray(tool["tools"]) ? some(tool["tools"], ofDefinition, test) : ofDefinition(tool["function"], test)
}

const ofDefinition: HolderTest = (holder, test) => {
  if (!isObject(holder)) return false
  for (const field of DEFINED) if (Object.hasOwn(holder, field) && test(holder, field)) return true
  return false
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

/** Levels. With such numbers in it `JSON.stringify` compares each value with all that it stands in. */
const DEEPEST_EXACT = 256

/** Undefined where the text nests too deep; its numbers then stay as they were parsed. */
function parseExact(text: string): Json | undefined {
  if (nestsDeeper(text, DEEPEST_EXACT)) return undefined
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
