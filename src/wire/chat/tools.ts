/**
 * The tools of a chat completions request: their shape, and what they make use of. A function without `parameters`
 * takes none in this format; where it has some, their schema obeys the same rule as a messages tool's.
 */
import { isObject, type JsonObject, present } from "../../language/json.ts"
import type { Feature } from "../../language/request.ts"
import {
  beginsWith,
  checkName,
  checkSchema,
  firstFailure,
  misshapen,
  notServed,
  readObjects,
  shown,
} from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"

/** What the tools make use of. A search that the backend would run is a feature of its own, not tool use. */
export function checkTools(body: JsonObject): Set<Feature> | Failure {
  const tools = readObjects(body["tools"], "tools")
  if (tools instanceof Failure) return tools
  const functions = readObjects(body["functions"], "functions")
  if (functions instanceof Failure) return functions
  const failure =
    firstFailure(tools, (tool, index) => checkTool(tool, `tools[${index}]`)) ??
    firstFailure(functions, (tool, index) => checkFunction(tool, `functions[${index}]`)) ??
    firstFailure(tools, refuseHosted)
  if (failure) return failure
  const features = new Set<Feature>()
  for (const tool of tools) features.add(isWebSearch(tool) ? "web_search" : "tools")
  if (functions.length > 0) features.add("tools")
  return features
}

const isWebSearch = (tool: JsonObject): boolean => beginsWith(tool["type"], "web_search")

function checkTool(tool: JsonObject, field: string): Failure | undefined {
  const wrongType = checkName(tool["type"], `${field}.type`)
  if (wrongType) return wrongType
  if (tool["type"] === "function") return checkFunction(tool["function"], `${field}.function`)
  return tool["type"] === "custom" ? checkDefinition(tool["custom"], `${field}.custom`) : undefined
}

function checkFunction(definition: JsonObject[string], field: string): Failure | undefined {
  const failure = checkDefinition(definition, field)
  if (failure) return failure
  const parameters = isObject(definition) ? definition["parameters"] : undefined
  return present(parameters) ? checkSchema(parameters, `${field}.parameters`) : undefined
}

function checkDefinition(definition: JsonObject[string], field: string): Failure | undefined {
  if (!isObject(definition)) return misshapen(`'${field}' is ${shown(definition)}; it must be an object.`)
  return checkName(definition["name"], `${field}.name`)
}

function refuseHosted(tool: JsonObject, index: number): Failure | undefined {
  if (tool["type"] === "function" || tool["type"] === "custom" || isWebSearch(tool)) return undefined
  return notServed(`'tools[${index}].type' is ${shown(tool["type"])}; function and custom tools are served here.`)
}
