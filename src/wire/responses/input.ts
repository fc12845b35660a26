/**
 * The input of a responses request: a text, or items. Messages are checked; what other items hold is the format's
 * business and travels, but their parts are listed with the messages' own, for a tool's output may carry images.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { checkRole, firstFailure, misshapen, readObjects, readParts, saysNothing, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"

const ROLES = ["user", "assistant", "system", "developer"]

export interface Input {
  readonly items: readonly JsonObject[]
  /** The parts of all messages and of all outputs of tools. */
  readonly parts: readonly JsonObject[]
}

export function readInput(value: Json | undefined): Input | Failure {
  // An empty input is `request.invalid`; other wrong shapes are `request.invalid_request` (gateway-api.md, "POST /v1/responses").
  if (!present(value) || value === "" || (Array.isArray(value) && value.length === 0))
    return new Failure("request.invalid", {
      message: "'input' is missing or empty; it must be a text or an array of items.",
    })
  if (typeof value === "string") return { items: [], parts: [] }
  if (!Array.isArray(value)) return misshapen(`'input' is ${shown(value)}; it must be a string or an array of items.`)
  const items = readObjects(value, "input")
  if (items instanceof Failure) return items
  const parts: JsonObject[] = []
  const failure = firstFailure(items, (item, index) => {
    const found = isMessage(item) ? readMessage(item, `input[${index}]`) : outputParts(item)
    if (found instanceof Failure) return found
    for (const part of found) parts.push(part)
    return undefined
  })
  return failure ?? { items, parts }
}

/** A message may leave its type out; every other item names it. */
const isMessage = (item: JsonObject): boolean =>
  item["type"] === "message" || (!present(item["type"]) && present(item["role"]))

function readMessage(message: JsonObject, field: string): JsonObject[] | Failure {
  const { role, content } = message
  const wrongRole = checkRole(role, `${field}.role`, ROLES)
  if (wrongRole) return wrongRole
  if (role === "user" && (!present(content) || content === "")) return emptyUser(field)
  if (typeof content === "string") return []
  if (!Array.isArray(content))
    return misshapen(`'${field}.content' is ${shown(content)}; it must be a string or an array of parts.`)
  const parts = readParts(content, `${field}.content`)
  if (parts instanceof Failure) return parts
  return role === "user" && saysNothing(parts, ["input_text", "text"]) ? emptyUser(field) : parts
}

const emptyUser = (field: string): Failure =>
  misshapen(`'${field}.content' is empty; a user message must say something.`)

/** A tool's output is a text, a list of parts, or one part (a screenshot). */
function outputParts(item: JsonObject): JsonObject[] {
  const { output } = item
  return (Array.isArray(output) ? output : [output]).filter(isObject)
}
