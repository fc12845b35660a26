/**
 * A prompt as the body for a chat backend. What chat cannot say is refused, or harmless and listed in docs/formats.md.
 */
import type { JsonObject } from "../../language/json.ts"
import type { OutputFormat, Prompt } from "../../language/prompt.ts"
import { answerLimit, type ModelRequest, type Target } from "../../language/request.ts"
import { Failure } from "../../failure/failure.ts"
import type { EncodedPrompt } from "../codec.ts"
import { serviceTier } from "../service-tier.ts"
import { writeMessages } from "./messages-encode.ts"
import { chatEffort } from "./reasoning.ts"
import { chatName, toolNames } from "./tool-names.ts"
import { writeToolUse } from "./tools-encode.ts"

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const names = toolNames(prompt)
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
  const definition: JsonObject = { name: chatName(output.name ?? "answer") }
  if (output.description !== undefined) definition.description = output.description
  definition.schema = output.schema
  if (output.strict !== undefined) definition.strict = output.strict
  return { type: "json_schema", json_schema: definition }
}
