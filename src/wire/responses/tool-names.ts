/**
 * Tool names, there and back. This format has namespaces and longer names than the others, so a name leaves here flat,
 * of the characters and the length that every format takes, and the request that the client sent says what a name in
 * the answer was called before. A name that fits already is left alone.
 */
import { isObject, type JsonObject } from "../../language/json.ts"
import { type NameLimits, NARROW, writtenName } from "../shared/tool-names.ts"

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
export function unfolded(tools: readonly JsonObject[]): JsonObject[] {
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
