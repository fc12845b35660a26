/**
 * A prompt as the body for a chat backend. What chat cannot say is refused, or harmless and listed in docs/formats.md.
 */
import type { JsonObject } from "../../chat/json.ts"
import type { OutputFormat, Prompt } from "../../chat/prompt.ts"
import { answerLimit, type ChatRequest, type Forwarding } from "../../chat/request.ts"
import { Failure } from "../../failure/failure.ts"
import { writeMessages } from "./messages-encode.ts"
import { chatEffort } from "./reasoning.ts"
import { chatName, toolNames } from "./tool-names.ts"
import { writeToolUse } from "./tools-encode.ts"

/** The longest id of an end user that every known backend takes; coding agents write longer ones. */
const LONGEST_USER = 64

export function encodePrompt(prompt: Prompt, request: ChatRequest, forwarding: Forwarding): JsonObject | Failure {
  const names = toolNames(prompt)
  const messages = writeMessages(prompt, names)
  if (messages instanceof Failure) return messages
  const toolUse = writeToolUse(prompt, request.endpoint, names)
  if (toolUse instanceof Failure) return toolUse
  const { sampling, stopSequences, endUser } = prompt
  const parameters: JsonObject = {
    ...toolUse,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    stop: stopSequences.length > 0 ? [...stopSequences] : undefined,
    response_format: prompt.output && writeOutput(prompt.output),
    reasoning_effort: chatEffort(prompt.reasoning),
    user: endUser !== undefined && endUser.length <= LONGEST_USER ? endUser : undefined,
  }
  for (const parameter of forwarding.strip) delete parameters[parameter]
  const body: JsonObject = { model: forwarding.model, messages, max_tokens: answerLimit(request, forwarding) }
  for (const [parameter, value] of Object.entries(parameters)) if (value !== undefined) body[parameter] = value
  if (request.stream) {
    body.stream = true
    body.stream_options = { include_usage: true }
  }
  return body
}

function writeOutput(output: OutputFormat): JsonObject {
  if (output.kind === "json") return { type: "json_object" }
  const definition: JsonObject = { name: chatName(output.name ?? "answer") }
  if (output.description !== undefined) definition.description = output.description
  definition.schema = output.schema
  if (output.strict !== undefined) definition.strict = output.strict
  return { type: "json_schema", json_schema: definition }
}
