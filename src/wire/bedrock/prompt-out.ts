/**
 * A prompt as the body of a Converse call. The model stands in the path, and so does whether the answer is streamed. What
 * Converse cannot say is refused, or harmless and listed in docs/formats.md. Tools that were called earlier must be told even
 * where the request offers none, and there is no way to forbid a tool that is told.
 */
import { BILLING_HEADER, type OutputFormat, type Prompt, type Tool, type ToolChoice } from "../../language/prompt.ts"
import { type JsonObject, notServed } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import { answerLimit, type Endpoint, type ModelRequest, type Target } from "../../language/request.ts"
import type { EncodedPrompt } from "../format.ts"
import { freeTextSchema, NARROW, toolNames, type ToolNames, writtenName } from "../shared/tools.ts"
import { blocksOf, textBlocks } from "./blocks-out.ts"
import { converseTraits } from "./invoke.ts"

/** Converse has no mode for JSON without a schema; the model is asked for it. */
const JSON_ONLY = "Answer with one valid JSON object and nothing else: no other text, no code fence."

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const traits = converseTraits(target.model)
  const names = toolNames(prompt, NARROW)
  const messages = blocksOf(prompt, names, traits)
  if (messages instanceof Failure) return messages
  const toolConfig = writeToolConfig(prompt, request.endpoint, names)
  if (toolConfig instanceof Failure) return toolConfig
  const kept = (parameter: string) => !target.strip.includes(parameter)
  const { temperature, topP, topK } = prompt.sampling
  const inferenceConfig: JsonObject = {}
  if (temperature !== undefined && kept("temperature"))
    inferenceConfig["temperature"] = Math.min(Math.max(temperature, 0), 1)
  if (topP !== undefined && kept("top_p")) inferenceConfig["topP"] = topP
  const stops = prompt.stopSequences.filter((sequence) => sequence !== "")
  if (stops.length > 0) inferenceConfig["stopSequences"] = stops
  const system = textBlocks(
    prompt.instructions.filter(({ text }) => !text.startsWith(BILLING_HEADER)),
    traits,
  )
  if (prompt.output?.kind === "json") system.push({ text: JSON_ONLY })
  const fields = traits.fields(prompt.reasoning, { topK: kept("top_k") ? topK : undefined })
  return ({ maxOutputTokens }) => ({
    messages,
    ...(system.length > 0 && { system }),
    inferenceConfig: { maxTokens: answerLimit(request, { maxOutputTokens }), ...inferenceConfig },
    ...(toolConfig !== undefined && { toolConfig }),
    ...(prompt.output?.kind === "schema" && { outputConfig: { textFormat: textFormat(prompt.output) } }),
    ...(Object.keys(fields).length > 0 && { additionalModelRequestFields: fields }),
  })
}

/** The schema travels as text here. */
const textFormat = ({ name, description, schema }: Extract<OutputFormat, { kind: "schema" }>): JsonObject => ({
  type: "json_schema",
  structure: {
    jsonSchema: {
      schema: JSON.stringify(schema),
      name: writtenName(name ?? "answer", NARROW),
      ...(description !== undefined && { description }),
    },
  },
})

// Tools and the choice among them, as Converse takes them. Tools that were called earlier must be told even where the
// request offers none, and there is no way to forbid a tool that is told.

type CallableTool = Exclude<Tool, { type: "web-search" }>

/** Undefined where no tool is offered and none was called. */
function writeToolConfig(prompt: Prompt, client: Endpoint, names: ToolNames): JsonObject | undefined | Failure {
  const offered = prompt.tools.filter((tool): tool is CallableTool => tool.type !== "web-search")
  // Coding agents on responses offer a search with every request (decisions §8); elsewhere whoever offers it means it.
  if (offered.length < prompt.tools.length && client !== "responses")
    return notServed("This model's backend has no web search.")
  const { toolChoice: choice } = prompt
  if (choice?.kind === "tool" && !offered.some(({ name }) => name === choice.name))
    return notServed("The tool that the model is told to call is not one that it can be given.")
  if (offered.length > 0 && prompt.parallelTools === false)
    return notServed("One tool call at most cannot be asked of this model; leave the limit on parallel calls out.")
  const called = calledNames(prompt)
  if (choice?.kind === "none" && called.length > 0)
    return notServed("After tool calls, this model cannot be kept from calling tools; leave the tool choice out.")
  const forgotten = called.filter((name) => !offered.some((tool) => tool.name === name))
  const tools = [
    ...(choice?.kind === "none" ? [] : offered.map((tool) => toolSpec(tool, names))),
    ...forgotten.map((name) => specOf(names.written(name), undefined, { type: "object" })),
  ]
  if (tools.length === 0) return undefined
  const toolChoice = offered.length > 0 ? writeChoice(choice, names) : undefined
  return { tools, ...(toolChoice !== undefined && { toolChoice }) }
}

function toolSpec(tool: CallableTool, names: ToolNames): JsonObject {
  const schema = tool.type === "custom" ? freeTextSchema(tool.grammar) : { ...tool.parameters, type: "object" }
  return specOf(names.written(tool.name), tool.description, schema)
}

/** A description may not be empty. */
const specOf = (name: string, description: string | undefined, schema: JsonObject): JsonObject => ({
  toolSpec: { name, ...(description?.trim() && { description }), inputSchema: { json: schema } },
})

/** Auto is what happens without a choice, and not every model takes one. */
function writeChoice(choice: ToolChoice | undefined, names: ToolNames): JsonObject | undefined {
  if (choice?.kind === "required") return { any: {} }
  return choice?.kind === "tool" ? { tool: { name: names.written(choice.name) } } : undefined
}

const calledNames = ({ turns }: Prompt): string[] => [
  ...new Set(
    turns.flatMap((turn) =>
      turn.role === "assistant" ? turn.parts.flatMap((part) => (part.type === "tool-call" ? [part.name] : [])) : [],
    ),
  ),
]
