/**
 * The tools of a chat request, and which of them the model may or must call, into the neutral language. The older
 * `functions` are tools of which an answer calls at most one.
 */
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import type { Prompt, Tool, ToolChoice } from "../../language/prompt.ts"
import { beginsWith, misshapen, notServed, readObject, readObjects, shown } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { filled } from "../steps.ts"
import { cacheMark } from "./parts-decode.ts"

type ToolUse = Pick<Prompt, "tools" | "toolChoice" | "parallelTools">

/** Whether the client knows only the older `function_call`, and must be answered in it. */
export const usesFunctions = (body: JsonObject): boolean => filled(body.functions) && !filled(body.tools)

/** The tools' own shape has been checked (tools.ts). */
export function readToolUse(body: JsonObject): ToolUse | Failure {
  const parallel = body.parallel_tool_calls
  if (present(parallel) && typeof parallel !== "boolean")
    return misshapen(`'parallel_tool_calls' is ${shown(parallel)}; it must be true or false.`)
  const tools = readTools(body)
  if (tools instanceof Failure) return tools
  if (tools.some(({ type }) => type === "web-search")) return notServed("Web search is not served on this endpoint.")
  if (usesFunctions(body)) {
    const toolChoice = readFunctionChoice(body.function_call)
    return toolChoice instanceof Failure ? toolChoice : { tools, toolChoice, parallelTools: false }
  }
  const choice = readChoice(body.tool_choice)
  if (choice instanceof Failure) return choice
  const { toolChoice, allowed } = choice
  return {
    tools: allowed === undefined ? tools : tools.filter((tool) => "name" in tool && allowed.includes(tool.name)),
    toolChoice,
    parallelTools: parallel ?? undefined,
  }
}

function readTools(body: JsonObject): Tool[] | Failure {
  const tools = readObjects(body.tools, "tools")
  if (tools instanceof Failure) return tools
  const functions = readObjects(body.functions, "functions")
  if (functions instanceof Failure) return functions
  return [
    ...tools.map(readTool),
    ...functions.map((definition) => readTool({ type: "function", function: definition })),
  ]
}

function readTool(tool: JsonObject): Tool {
  if (beginsWith(tool.type, "web_search")) return { type: "web-search", options: tool }
  const custom = tool.type === "custom"
  const found = custom ? tool.custom : tool.function
  const definition: JsonObject = isObject(found) ? found : {}
  const name = typeof definition.name === "string" ? definition.name : ""
  const description = typeof definition.description === "string" ? definition.description : undefined
  if (custom) return { type: "custom", name, description, grammar: readGrammar(definition.format) }
  const { parameters, strict } = definition
  return {
    type: "function",
    name,
    description,
    parameters: isObject(parameters) ? parameters : { type: "object", properties: {} },
    strict: typeof strict === "boolean" ? strict : undefined,
    cache: cacheMark(tool),
  }
}

/** Chat wraps what responses writes flat; the flat form is the neutral one. Plain text is no grammar. */
function readGrammar(format: Json | undefined): JsonObject | undefined {
  if (!isObject(format) || format.type !== "grammar") return undefined
  return isObject(format.grammar) ? { type: "grammar", ...format.grammar } : format
}

interface Choice {
  readonly toolChoice: ToolChoice | undefined
  /** Names of the only tools that may be called; undefined where all may. */
  readonly allowed?: readonly string[]
}

function readChoice(value: Json | undefined): Choice | Failure {
  if (!present(value)) return { toolChoice: undefined }
  if (value === "auto" || value === "none" || value === "required") return { toolChoice: { kind: value } }
  if (isObject(value) && value.type === "allowed_tools") return readAllowed(value)
  const name = isObject(value) ? nameOf(value) : undefined
  if (name !== undefined) return { toolChoice: { kind: "tool", name } }
  return misshapen(`'tool_choice' is ${shown(value)}; it must be auto, none, required, or an object that names a tool.`)
}

function readAllowed(value: JsonObject): Choice | Failure {
  const allowed = readObject(value.allowed_tools, "tool_choice.allowed_tools")
  if (allowed instanceof Failure) return allowed
  const tools = readObjects(allowed?.tools, "tool_choice.allowed_tools.tools")
  if (tools instanceof Failure) return tools
  const kind = allowed?.mode === "required" ? "required" : "auto"
  return { toolChoice: { kind }, allowed: tools.map(nameOf).filter((name) => name !== undefined) }
}

function nameOf(choice: JsonObject): string | undefined {
  const named = choice.type === "custom" ? choice.custom : choice.function
  return isObject(named) && typeof named.name === "string" && named.name !== "" ? named.name : undefined
}

function readFunctionChoice(value: Json | undefined): ToolChoice | undefined | Failure {
  if (!present(value)) return undefined
  if (value === "auto" || value === "none") return { kind: value }
  const name = isObject(value) ? nameOf({ function: value }) : undefined
  if (name !== undefined) return { kind: "tool", name }
  return misshapen(`'function_call' is ${shown(value)}; it must be auto, none, or an object that names a function.`)
}
