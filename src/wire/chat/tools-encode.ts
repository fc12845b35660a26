/**
 * Tools as a chat backend knows them. A custom tool, which takes free text, becomes a function with one string: most chat
 * backends know functions only. What its grammar asks for stands in that string's description.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Prompt, Tool, ToolChoice } from "../../language/prompt.ts"
import type { Endpoint } from "../../language/request.ts"
import { Failure } from "../../failure/failure.ts"
import type { ToolNames } from "./tool-names.ts"

type CallableTool = Exclude<Tool, { type: "web-search" }>

export function writeToolUse(prompt: Prompt, client: Endpoint, names: ToolNames): JsonObject | Failure {
  const callable = prompt.tools.filter((tool): tool is CallableTool => tool.type !== "web-search")
  // Coding agents on responses offer a search with every request, whether it is needed or not: refusing it would turn
  // them away, and a model without it answers as well as it can. Elsewhere whoever offers it means it.
  if (callable.length < prompt.tools.length && client !== "responses")
    return new Failure("request.unsupported_feature", { message: "This model's backend has no web search." })
  const choice = prompt.toolChoice
  if (choice?.kind === "tool" && !callable.some(({ name }) => name === choice.name))
    return new Failure("request.unsupported_feature", {
      message: "The tool that the model is told to call is not one that this model's backend can be given.",
    })
  // Backends refuse a choice or a flag without tools.
  if (callable.length === 0) return {}
  return {
    tools: callable.map((tool) => writeTool(tool, names)),
    tool_choice: writeChoice(choice, names),
    parallel_tool_calls: prompt.parallelTools,
  }
}

function writeTool(tool: CallableTool, names: ToolNames): JsonObject {
  const { description } = tool
  const written: JsonObject = { name: names.written(tool.name) }
  if (description !== undefined) written.description = description
  written.parameters = tool.type === "function" ? tool.parameters : inputSchema(tool.grammar)
  // Absent is false, and not every backend knows the field.
  if (tool.type === "function" && tool.strict === true) written.strict = true
  return { type: "function", function: written }
}

export function inputSchema(grammar: JsonObject | undefined): JsonObject {
  const input: JsonObject = { type: "string" }
  if (typeof grammar?.definition === "string") {
    const syntax = typeof grammar.syntax === "string" ? `${grammar.syntax} ` : ""
    input.description = `Text that follows this ${syntax}grammar:\n${grammar.definition}`
  }
  return { type: "object", properties: { input }, required: ["input"], additionalProperties: false }
}

function writeChoice(choice: ToolChoice | undefined, names: ToolNames): JsonObject[string] {
  if (choice === undefined) return undefined
  return choice.kind === "tool" ? { type: "function", function: { name: names.written(choice.name) } } : choice.kind
}

/** The free text that a custom tool's one string holds; a model that wrote something else is taken at its word. */
export function customInput(written: string): string {
  try {
    const parsed: unknown = JSON.parse(written)
    if (typeof parsed === "object" && parsed !== null && "input" in parsed && typeof parsed.input === "string")
      return parsed.input
  } catch {
    // Free text that is no JSON.
  }
  return written
}
