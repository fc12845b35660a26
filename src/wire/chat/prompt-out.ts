/**
 * A prompt as the body for a chat backend. What chat cannot say is refused, or harmless and listed in docs/formats.md. A custom
 * tool, which takes free text, becomes a function with one string: most chat backends know functions only.
 */
import { Failure } from "../../failure/failure.ts"
import type { JsonObject } from "../../language/json.ts"
import type { OutputFormat, Prompt, Tool, ToolChoice } from "../../language/prompt.ts"
import { answerLimit, type Endpoint, type ModelRequest, type Target } from "../../language/request.ts"
import type { EncodedPrompt } from "../format.ts"
import { serviceTier } from "../service-tier.ts"
import { freeTextSchema } from "../shared/free-text.ts"
import { NARROW, toolNames, type ToolNames, writtenName } from "../shared/tool-names.ts"
import { writeMessages } from "./messages-out.ts"
import { chatEffort } from "./reasoning.ts"

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const names = toolNames(prompt, NARROW)
  const messages = writeMessages(prompt, names)
  if (messages instanceof Failure) return messages
  const toolUse = writeToolUse(prompt, request.endpoint, names)
  if (toolUse instanceof Failure) return toolUse
  const { sampling, stopSequences } = prompt
  const parameters: JsonObject = {
    ...toolUse,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    stop: stopSequences.length > 0 ? [...stopSequences] : undefined,
    response_format: prompt.output && writeOutput(prompt.output),
    reasoning_effort: chatEffort(prompt.reasoning),
    service_tier: serviceTier("chat", request.body),
    safety_identifier: request.endUser,
  }
  for (const parameter of target.strip) delete parameters[parameter]
  const said = Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== undefined))
  return ({ maxOutputTokens, stream }) => ({
    model: target.model,
    messages,
    max_tokens: answerLimit(request, { maxOutputTokens }),
    ...said,
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  })
}

function writeOutput(output: OutputFormat): JsonObject {
  if (output.kind === "json") return { type: "json_object" }
  const definition: JsonObject = { name: writtenName(output.name ?? "answer", NARROW) }
  if (output.description !== undefined) definition.description = output.description
  definition.schema = output.schema
  if (output.strict !== undefined) definition.strict = output.strict
  return { type: "json_schema", json_schema: definition }
}

// Tools as a chat backend knows them. A custom tool, which takes free text, becomes a function with one string: most chat
// backends know functions only. What its grammar asks for stands in that string's description.

type CallableTool = Exclude<Tool, { type: "web-search" }>

function writeToolUse(prompt: Prompt, client: Endpoint, names: ToolNames): JsonObject | Failure {
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
  written.parameters = tool.type === "function" ? tool.parameters : freeTextSchema(tool.grammar)
  // Absent is false, and not every backend knows the field.
  if (tool.type === "function" && tool.strict === true) written.strict = true
  return { type: "function", function: written }
}

function writeChoice(choice: ToolChoice | undefined, names: ToolNames): JsonObject[string] {
  if (choice === undefined) return undefined
  return choice.kind === "tool" ? { type: "function", function: { name: names.written(choice.name) } } : choice.kind
}
