/**
 * The tools of a messages request (decisions §12.14). The client's own have a schema; the vendor's are known by a dated
 * type: those that the client runs travel, web search is the gateway's to run, and what else the vendor would run on
 * its side is not served, because it keeps state there or calls out from there.
 */
import { type Json, type JsonObject, present } from "../../language/json.ts"
import type { Feature } from "../../language/request.ts"
import { checkName, checkSchema, firstFailure, misshapen, notServed, readObjects, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"

/** Run by the client, or (tool search) within the one call, without state. The date that follows may be any. */
const TRAVELS = [
  "bash",
  "text_editor",
  "memory",
  "computer",
  "computer_toolset",
  "browser_toolset",
  "tool_search_tool",
  "tool_search_tool_bm25",
  "tool_search_tool_regex",
]

export interface ToolUse {
  readonly features: ReadonlySet<Feature>
  /** Told only when the shape of the whole request is right (decisions §4: shape, then features). */
  readonly refusal: Failure | undefined
}

export function checkTools(value: Json | undefined): ToolUse | Failure {
  const tools = readObjects(value, "tools")
  if (tools instanceof Failure) return tools
  const failure = firstFailure(tools, (tool, index) => checkTool(tool, `tools[${index}]`))
  if (failure) return failure
  const features = new Set<Feature>()
  for (const tool of tools) features.add(family(tool) === "web_search" ? "web_search" : "tools")
  return { features, refusal: firstFailure(tools, refuseHosted) }
}

/** The type without its date; undefined for the client's own tools. */
export function family(tool: JsonObject): string | undefined {
  const { type } = tool
  return typeof type === "string" && type !== "custom" ? type.replace(/_\d{8}$/, "") : undefined
}

function checkTool(tool: JsonObject, field: string): Failure | undefined {
  const { type } = tool
  if (present(type) && (typeof type !== "string" || type === ""))
    return misshapen(`'${field}.type' is ${shown(type)}; it must be a string that is not empty.`)
  if (family(tool) !== undefined) return undefined
  return checkName(tool["name"], `${field}.name`) ?? checkSchema(tool["input_schema"], `${field}.input_schema`)
}

function refuseHosted(tool: JsonObject, index: number): Failure | undefined {
  const known = family(tool)
  if (known === undefined || known === "web_search" || TRAVELS.includes(known)) return undefined
  return notServed(`'tools[${index}].type' is ${shown(tool["type"])}; this server tool is not served.`)
}
