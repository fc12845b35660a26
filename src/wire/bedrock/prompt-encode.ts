/**
 * A prompt as the body of a Converse call. The model stands in the path, and so does whether the answer is streamed. What
 * Converse cannot say is refused, or harmless and listed in docs/formats.md.
 */
import type { JsonObject } from "../../language/json.ts"
import type { OutputFormat, Prompt } from "../../language/prompt.ts"
import { answerLimit, type ModelRequest, type Target } from "../../language/request.ts"
import { Failure } from "../../failure/failure.ts"
import { BILLING_HEADER } from "../chat/messages-encode.ts"
import { chatName, toolNames } from "../chat/tool-names.ts"
import type { EncodedPrompt } from "../codec.ts"
import { blocksOf, textBlocks } from "./blocks-encode.ts"
import { writeToolConfig } from "./tools-encode.ts"
import { converseTraits } from "./traits.ts"

/** Converse has no mode for JSON without a schema; the model is asked for it. */
const JSON_ONLY = "Answer with one valid JSON object and nothing else: no other text, no code fence."

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const traits = converseTraits(target.model)
  const names = toolNames(prompt)
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
      name: chatName(name ?? "answer"),
      ...(description !== undefined && { description }),
    },
  },
})
