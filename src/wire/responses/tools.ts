/**
 * The tools of a responses request. What the client runs travels, search is a feature that the catalogue judges, and
 * what would run or be kept at the backend on the operator's account is not served.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Feature } from "../../language/request.ts"
import {
  beginsWith,
  checkName,
  checkSchema,
  firstFailure,
  notServed,
  readObjects,
  shown,
} from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { isItem } from "./fields.ts"

/** Run by the client, or (tool search) within the one call, without state. */
const TRAVELS: readonly unknown[] = [
  "function",
  "custom",
  "namespace",
  "tool_search",
  "local_shell",
  "shell",
  "apply_patch",
]

/** The most searches of one call at a backend: each costs there, and has no price of its own here (decisions §13.3). */
const MOST_SEARCHES = 5

/** What is written where a backend searches. */
export const mostToolCalls = (asked: Json | undefined): number =>
  typeof asked === "number" && asked < MOST_SEARCHES ? asked : MOST_SEARCHES

export interface ToolUse {
  readonly features: ReadonlySet<Feature>
  /** Told only when the shape of the whole request is right (decisions §4: shape, then features). */
  readonly refusal: Failure | undefined
}

/** Tools come at the top, and in the midst of the input as items that hold some: told later, or found by a search for tools. */
export function checkTools(value: Json | undefined, items: readonly JsonObject[]): ToolUse | Failure {
  const tools = readTools(value, "tools")
  if (tools instanceof Failure) return tools
  const all = [...tools]
  for (const [index, item] of items.entries()) {
    if (!present(item["tools"]) || !isItem(item)) continue
    const more = readTools(item["tools"], `input[${index}].tools`)
    if (more instanceof Failure) return more
    for (const tool of more) all.push(tool)
  }
  const features = new Set<Feature>()
  for (const tool of all) features.add(isWebSearch(tool) ? "web_search" : "tools")
  return { features, refusal: firstFailure(all, refuseHosted) }
}

const isWebSearch = (tool: JsonObject): boolean => beginsWith(tool["type"], "web_search")

/** The tools of one list, and those within its namespaces. */
function readTools(value: Json | undefined, field: string): JsonObject[] | Failure {
  const tools = readObjects(value, field)
  if (tools instanceof Failure) return tools
  const inner: JsonObject[] = []
  const failure = firstFailure(tools, (tool, index) => {
    const wrong = checkTool(tool, `${field}[${index}]`)
    if (wrong || tool["type"] !== "namespace") return wrong
    const members = readTools(tool["tools"], `${field}[${index}].tools`)
    if (members instanceof Failure) return members
    for (const member of members) inner.push(member)
    return undefined
  })
  return failure ?? [...tools, ...inner]
}

function checkTool(tool: JsonObject, field: string): Failure | undefined {
  const wrongType = checkName(tool["type"], `${field}.type`)
  if (wrongType) return wrongType
  if (tool["type"] !== "function" && tool["type"] !== "custom" && tool["type"] !== "namespace") return undefined
  const wrongName = checkName(tool["name"], `${field}.name`)
  if (wrongName) return wrongName
  const { parameters } = tool
  return tool["type"] === "function" && present(parameters) ? checkSchema(parameters, `${field}.parameters`) : undefined
}

function refuseHosted(tool: JsonObject): Failure | undefined {
  const { type, environment } = tool
  if (type === "shell" && present(environment) && !(isObject(environment) && environment["type"] === "local"))
    return notServed("A shell in a container at the backend is not served; use a local environment.")
  if (isWebSearch(tool) || TRAVELS.includes(type)) return undefined
  return notServed(`A tool of type ${shown(type)} runs at the backend and is not served.`)
}
