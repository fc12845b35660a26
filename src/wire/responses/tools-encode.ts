/** The tools of a prompt, as a responses backend takes them. */
import { unreachable } from "../../../actors/unreachable.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Prompt, Tool, ToolChoice } from "../../language/prompt.ts"
import { Failure } from "../../failure/failure.ts"
import { writtenName } from "./tool-names.ts"
import { mostToolCalls } from "./tools.ts"
import { WEB_SEARCH } from "./tools-decode.ts"

export function encodeTools({ tools, toolChoice, parallelTools }: Prompt): JsonObject | Failure {
  const encoded: JsonObject[] = []
  for (const tool of tools) {
    const one = encodeTool(tool)
    if (one instanceof Failure) return one
    encoded.push(one)
  }
  if (encoded.length === 0) return {}
  const search = tools.find((tool) => tool.type === "web-search")
  return {
    tools: encoded,
    ...(toolChoice ? { tool_choice: encodeChoice(toolChoice, tools) } : {}),
    ...(parallelTools === undefined ? {} : { parallel_tool_calls: parallelTools }),
    // The search is the only tool that a backend runs by itself here, so the one bound means the same as the other.
    ...(search && { max_tool_calls: mostToolCalls(search.options["max_uses"]) }),
  }
}

function encodeTool(tool: Tool): JsonObject | Failure {
  switch (tool.type) {
    case "function": {
      const { description, parameters, strict = false } = tool
      // Left out, `strict` would mean true, and a backend would refuse a schema that does not follow its rules.
      return {
        type: "function",
        name: writtenName(tool.name),
        ...(present(description) ? { description } : {}),
        parameters,
        strict,
      }
    }
    case "custom": {
      const { description, grammar } = tool
      return {
        type: "custom",
        name: writtenName(tool.name),
        ...(present(description) ? { description } : {}),
        ...(grammar ? { format: grammar } : {}),
      }
    }
    case "web-search":
      return encodeSearch(tool.options)
    default:
      return unreachable(tool)
  }
}

function encodeSearch(options: JsonObject): JsonObject | Failure {
  const { allowed_domains: allowed, blocked_domains: blocked, filters, user_location: location } = options
  if (!isEmptyList(blocked))
    return new Failure("request.unsupported_feature", {
      message: "This model's search cannot leave domains out.",
      hint: "Name the domains to search in 'allowed_domains' instead of 'blocked_domains'.",
    })
  const tool: JsonObject = { type: WEB_SEARCH }
  if (!isEmptyList(allowed)) tool["filters"] = { ...(isObject(filters) ? filters : {}), allowed_domains: allowed }
  else if (isObject(filters)) tool["filters"] = filters
  if (isObject(location)) {
    // Chat writes the place within an `approximate` of its own.
    const { approximate, ...others } = location
    tool["user_location"] = isObject(approximate) ? { ...others, ...approximate } : location
  }
  for (const field of ["search_context_size", "external_web_access"])
    if (present(options[field])) tool[field] = options[field]
  return tool
}

const isEmptyList = (list: Json | undefined): boolean => !present(list) || (Array.isArray(list) && list.length === 0)

function encodeChoice(choice: ToolChoice, tools: readonly Tool[]): Json {
  if (choice.kind !== "tool") return choice.kind
  const chosen = tools.find((tool) => tool.type !== "web-search" && tool.name === choice.name)
  if (chosen === undefined && choice.name === WEB_SEARCH) return { type: WEB_SEARCH }
  return { type: chosen?.type ?? "function", name: writtenName(choice.name) }
}
