/**
 * The tools of a client's request, for a backend of another format. The vendor's own are known by a dated type: those
 * that the client runs are spelled out, a search is the neutral one, and a search among tools falls away, because a
 * backend of another format is told of all tools at once.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Prompt, Tool, ToolChoice } from "../../language/prompt.ts"
import { misshapen, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { readCache, readText } from "./blocks-decode.ts"
import { clientTool } from "./client-tools.ts"
import { family } from "./tools.ts"

export function decodeTools(value: Json | undefined): Tool[] | Failure {
  const tools: Tool[] = []
  for (const tool of Array.isArray(value) ? value.filter((each) => isObject(each)) : []) {
    const decoded = decodeTool(tool)
    if (decoded instanceof Failure) return decoded
    tools.push(...decoded)
  }
  return tools
}

function decodeTool(tool: JsonObject): Tool[] | Failure {
  const kind = family(tool)
  if (kind === undefined) return [ownTool(tool)]
  if (kind === "web_search") return [{ type: "web-search", options: searchOptions(tool) }]
  if (kind.startsWith("tool_search_tool")) return []
  const known = clientTool(kind, readText(tool["type"]))
  if (known === undefined)
    return new Failure("request.unsupported_feature", {
      message: `Tools of type ${shown(tool["type"])} are not served for this model.`,
      hint: "Use a model of the vendor that defines this tool, or a tool with an input_schema of its own.",
    })
  return [{ type: "function", name: readText(tool["name"]), ...known, strict: undefined, ...readCache(tool) }]
}

const ownTool = (tool: JsonObject): Tool => ({
  type: "function",
  name: readText(tool["name"]),
  description: typeof tool["description"] === "string" ? tool["description"] : undefined,
  parameters: isObject(tool["input_schema"]) ? tool["input_schema"] : { type: "object", properties: {} },
  strict: typeof tool["strict"] === "boolean" ? tool["strict"] : undefined,
  ...readCache(tool),
})

/** What every tool may carry, and says nothing of a search. */
const NO_OPTIONS = ["type", "name", "cache_control", "defer_loading", "allowed_callers", "strict"]

const searchOptions = (tool: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(tool).filter(([key, value]) => !NO_OPTIONS.includes(key) && present(value)))

export function decodeToolChoice(value: Json | undefined): Pick<Prompt, "toolChoice" | "parallelTools"> | Failure {
  if (!present(value)) return { toolChoice: undefined, parallelTools: undefined }
  const toolChoice = isObject(value) ? choiceOf(value) : undefined
  if (!isObject(value) || toolChoice === undefined)
    return misshapen(`'tool_choice' is ${shown(value)}; it must be an object of type auto, any, tool or none.`)
  return { toolChoice, parallelTools: value["disable_parallel_tool_use"] === true ? false : undefined }
}

function choiceOf({ type, name }: JsonObject): ToolChoice | undefined {
  if (type === "auto" || type === "none") return { kind: type }
  if (type === "any") return { kind: "required" }
  return type === "tool" && typeof name === "string" && name !== "" ? { kind: "tool", name } : undefined
}
