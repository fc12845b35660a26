/**
 * The tools of a client's responses request. What the client runs travels, search is a feature that the catalogue judges, and
 * what would run or be kept at the backend on the operator's account is not served. For a backend of another format what the
 * client runs by a schema or a grammar and web search are understood; other kinds (a local shell, patches, tool search) have no
 * counterpart and are left out, so that an agent that offers them along with the rest still works (docs/formats.md).
 */
import { Failure } from "../../failure/failure.ts"
import {
  beginsWith,
  checkName,
  checkSchema,
  firstFailure,
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readObjects,
  readText,
  shown,
} from "../../language/json.ts"
import type { Tool, ToolChoice } from "../../language/prompt.ts"
import type { Feature } from "../../language/request.ts"
import { isItem } from "./fields.ts"
import { type NameLimits, NARROW, writtenName } from "../shared/tools.ts"

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

export interface ToolUse {
  readonly features: ReadonlySet<Feature>
  /** Told only when the shape of the whole request is right (decisions §4: shape, then features). */
  readonly refusal: Failure | undefined
}

/** Tools come at the top, and in the midst of the input as items that hold some: told later, or found by a search for tools. */
export function checkTools(body: JsonObject, items: readonly JsonObject[]): ToolUse | Failure {
  const tools = readTools(body["tools"], "tools")
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
  return { features, refusal: firstFailure(all, refuseHosted) ?? refuseChoice(body["tool_choice"], all) }
}

/** These are chosen by their names, which the backend judges. */
const NAMED: readonly unknown[] = ["function", "custom"]

/**
 * What runs at the backend is not to be had by a choice either: a tool that is chosen by its type must be among the tools. So must
 * each of those that are allowed.
 */
function refuseChoice(choice: Json | undefined, tools: readonly JsonObject[]): Failure | undefined {
  if (!isObject(choice)) return undefined
  const chosen = choice["type"] === "allowed_tools" ? choice["tools"] : choice
  const types = new Set(tools.map(kindOf))
  return firstFailure([chosen].flat().filter(isObject), (one) => {
    const { type } = one
    if (!present(type) || NAMED.includes(type) || types.has(kindOf(one))) return undefined
    return notServed(`'tool_choice' names a tool of type ${shown(type)}, and there is none among 'tools'.`)
  })
}

const isWebSearch = (tool: JsonObject): boolean => beginsWith(tool["type"], "web_search")

/** A search is of one kind, whatever the version of its type. */
const kindOf = (tool: JsonObject): Json | undefined => (isWebSearch(tool) ? "web_search" : tool["type"])

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

/** It becomes a part of the name of each of its tools, of which there may be thousands. */
const LONGEST_NAMESPACE = 512

function checkTool(tool: JsonObject, field: string): Failure | undefined {
  const wrongType = checkName(tool["type"], `${field}.type`)
  if (wrongType) return wrongType
  if (tool["type"] !== "function" && tool["type"] !== "custom" && tool["type"] !== "namespace") return undefined
  const wrongName = checkName(tool["name"], `${field}.name`)
  if (wrongName) return wrongName
  const { name, parameters } = tool
  if (tool["type"] === "namespace" && readText(name).length > LONGEST_NAMESPACE)
    return misshapen(`'${field}.name' is ${shown(name)}; it must have at most ${LONGEST_NAMESPACE} characters.`)
  return tool["type"] === "function" && present(parameters) ? checkSchema(parameters, `${field}.parameters`) : undefined
}

function refuseHosted(tool: JsonObject): Failure | undefined {
  const { type, environment } = tool
  if (type === "shell" && present(environment) && !(isObject(environment) && environment["type"] === "local"))
    return notServed("A shell in a container at the backend is not served; use a local environment.")
  if (isWebSearch(tool) || TRAVELS.includes(type)) return undefined
  return notServed(`A tool of type ${shown(type)} runs at the backend and is not served.`)
}

// The tools of a client's responses request. What the client runs by a schema or a grammar and web search are
// understood; other kinds (a local shell, patches, tool search) have no counterpart in the other formats and are left
// out, so that an agent that offers them along with the rest still works (docs/formats.md).

export interface DecodedTools {
  readonly tools: readonly Tool[]
  readonly toolChoice: ToolChoice | undefined
}

/** What a choice calls the search, which has no name of its own in this format. */
export const WEB_SEARCH = "web_search"

export function decodeTools(body: JsonObject): DecodedTools | Failure {
  const tools = new Map<string, Tool>()
  const owners = new Map<string, string>()
  for (const tool of unfolded(toolsOf(body))) {
    if (beginsWith(tool["type"], WEB_SEARCH)) {
      tools.set("", { type: "web-search", options: searchOptions(tool, body["max_tool_calls"]) })
      continue
    }
    const name = nameOf(tool)
    const decoded = name && decodeTool(tool, flatName(name))
    if (name === undefined || decoded === undefined) continue
    const flat = flatName(name)
    const owner = JSON.stringify([name.namespace ?? null, name.name])
    // The same tool may be told twice, once found by a search; two tools that become one name may not.
    if ((owners.get(flat) ?? owner) !== owner)
      return notServed(`Two tools are called ${shown(flat)} once their namespace is part of the name; rename one.`)
    owners.set(flat, owner)
    tools.set(flat, decoded)
  }
  return withChoice([...tools.values()], body["tool_choice"])
}

function decodeTool(tool: JsonObject, name: string): Tool | undefined {
  const description = typeof tool["description"] === "string" ? tool["description"] : undefined
  if (tool["type"] === "custom") return { type: "custom", name, description, grammar: readGrammar(tool["format"]) }
  if (tool["type"] !== "function") return undefined
  const parameters = isObject(tool["parameters"]) ? tool["parameters"] : { type: "object", properties: {} }
  // Left out means strict here, but as far as the schema allows; elsewhere it would be a promise about the schema.
  return { type: "function", name, description, parameters, strict: tool["strict"] === true }
}

/** Plain text is no grammar. */
const readGrammar = (format: Json | undefined): JsonObject | undefined =>
  isObject(format) && format["type"] === "grammar" ? format : undefined

/** In the words of the messages format, which is the only other one that has such a tool. */
function searchOptions(tool: JsonObject, mostCalls: Json | undefined): JsonObject {
  const { type: _, filters, ...options } = tool
  // Its two lists of domains.
  if (isObject(filters)) Object.assign(options, filters)
  if (typeof mostCalls === "number") options["max_uses"] = mostCalls
  return options
}

function withChoice(tools: readonly Tool[], choice: Json | undefined): DecodedTools | Failure {
  if (!present(choice)) return { tools, toolChoice: undefined }
  if (choice === "auto" || choice === "none" || choice === "required") return { tools, toolChoice: { kind: choice } }
  if (!isObject(choice)) return misshapen(`'tool_choice' is ${shown(choice)}; it must be a mode or an object.`)
  if (choice["type"] === "allowed_tools") return allowedTools(tools, choice)
  const name = chosenName(choice)
  if (name === undefined) return notServed(`A tool choice of type ${shown(choice["type"])} is not served.`)
  return { tools, toolChoice: { kind: "tool", name } }
}

function chosenName(choice: JsonObject): string | undefined {
  if (beginsWith(choice["type"], WEB_SEARCH)) return WEB_SEARCH
  const name = choice["type"] === "function" || choice["type"] === "custom" ? nameOf(choice) : undefined
  return name && flatName(name)
}

/** Only these may be called, which is the same as offering no others. */
function allowedTools(tools: readonly Tool[], choice: JsonObject): DecodedTools | Failure {
  const { mode, tools: allowed } = choice
  if (!Array.isArray(allowed)) return misshapen(`'tool_choice.tools' is ${shown(allowed)}; it must be an array.`)
  const names = new Set(allowed.filter(isObject).map(chosenName))
  return {
    tools: tools.filter((tool) => names.has(tool.type === "web-search" ? WEB_SEARCH : tool.name)),
    toolChoice: { kind: mode === "required" ? "required" : "auto" },
  }
}

// Tool names, there and back. This format has namespaces and longer names than the others, so a name leaves here flat,
// of the characters and the length that every format takes, and the request that the client sent says what a name in
// the answer was called before. A name that fits already is left alone.

/** What a backend of this format takes. */
export const TOOL_NAMES: NameLimits = { longest: 128, shortened: 64 }

export interface ToolName {
  readonly name: string
  readonly namespace: string | undefined
}

/** The one flat name of a tool; the same for the same tool in every request. */
export function flatName({ name, namespace }: ToolName): string {
  const joint = namespace === undefined || namespace.endsWith("__") ? "" : "__"
  const whole = `${namespace ?? ""}${joint}${name}`
  return writtenName(whole, NARROW)
}

/** The name that an item or a tool choice writes. */
export const nameOf = ({ name, namespace }: JsonObject): ToolName | undefined =>
  typeof name === "string" && name !== ""
    ? { name, namespace: typeof namespace === "string" && namespace !== "" ? namespace : undefined }
    : undefined

/** Tools come at the top, and within the input where they were added or found later. */
export function toolsOf(body: JsonObject): JsonObject[] {
  const items = Array.isArray(body["input"]) ? body["input"].filter(isObject) : []
  const later = items.filter((item) => item["type"] === "additional_tools" || item["type"] === "tool_search_output")
  return [body, ...later].flatMap(({ tools }) => (Array.isArray(tools) ? tools.filter(isObject) : []))
}

/** A namespace's tools, each with the namespace's name; any other tool as it is. */
function unfolded(tools: readonly JsonObject[]): JsonObject[] {
  return tools.flatMap((tool) => {
    if (tool["type"] !== "namespace") return [tool]
    const members = Array.isArray(tool["tools"]) ? tool["tools"].filter(isObject) : []
    return members.map((member) => ({ ...member, namespace: tool["name"] }))
  })
}

/** By flat name, what the client calls the tools that it offered. */
export function clientNames(body: JsonObject): ReadonlyMap<string, ToolName> {
  const names = new Map<string, ToolName>()
  for (const tool of unfolded(toolsOf(body))) {
    const name = nameOf(tool)
    if (name !== undefined) names.set(flatName(name), name)
  }
  return names
}
