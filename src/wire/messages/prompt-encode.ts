/**
 * A prompt as a messages backend's request body. What this format cannot say is listed in docs/formats.md, where leaving
 * it out harms nobody; the rest is refused.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Prompt } from "../../language/prompt.ts"
import { answerLimit, type ModelRequest, type Target } from "../../language/request.ts"
import { Failure } from "../../failure/failure.ts"
import type { EncodedPrompt } from "../codec.ts"
import { serviceTier } from "../service-tier.ts"
import { textBlocks } from "./blocks-encode.ts"
import { type ModelTraits, modelTraits } from "./model-traits.ts"
import { encodeReasoning, thinks } from "./reasoning-encode.ts"
import { encodeToolChoice, encodeTools, toolsTold } from "./tools-encode.ts"
import { encodeTurns } from "./turns-encode.ts"

/** This format has no mode for JSON without a schema; the model is asked for it. */
const JSON_ONLY = "Answer with one valid JSON object and nothing else: no other text, no code fence."

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const traits = modelTraits(target.model)
  const messages = encodeTurns(prompt, traits)
  if (messages instanceof Failure) return messages
  const toolUse = toolsTold(prompt)
  const tools = encodeTools(toolUse.tools)
  const system = encodeSystem(prompt)
  return ({ maxOutputTokens, stream }) => {
    const limit = answerLimit(request, { maxOutputTokens })
    const limits = { asked: request.maxOutputTokens ?? limit, limit }
    const { thinking, effort } = encodeReasoning(prompt.reasoning, traits, limits, messages)
    const isThinking = traits.off === "never" || thinks(thinking)
    const body = filled({
      system,
      tools,
      tool_choice: encodeToolChoice(toolUse, traits.forcesTools && !isThinking),
      stop_sequences: prompt.stopSequences.filter((sequence) => sequence.trim() !== ""),
      ...(isThinking ? {} : encodeSampling(prompt.sampling, traits)),
      thinking,
      output_config: filled({ effort, format: encodeFormat(prompt) }),
      service_tier: serviceTier("messages", request.body),
      metadata: filled({ user_id: request.endUser }),
    })
    for (const parameter of target.strip) delete body[parameter]
    return {
      model: target.model,
      max_tokens: limit,
      ...body,
      messages,
      ...(stream && { stream: true }),
    }
  }
}

/** Without what is not there, and without lists and objects of nothing. */
const filled = (fields: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== undefined && (typeof value !== "object" || value === null || Object.keys(value).length > 0),
    ),
  )

function encodeSystem({ instructions, output }: Prompt): JsonObject[] {
  const system = textBlocks(instructions)
  if (output?.kind === "json") system.push({ type: "text", text: JSON_ONLY })
  return system
}

const encodeFormat = ({ output }: Prompt): JsonObject | undefined =>
  output?.kind === "schema" ? { type: "json_schema", schema: output.schema } : undefined

function encodeSampling(
  { temperature, topP, topK }: Prompt["sampling"],
  { bothSamplers }: Pick<ModelTraits, "bothSamplers">,
): JsonObject {
  return {
    temperature: temperature === undefined ? undefined : Math.min(Math.max(temperature, 0), 1),
    top_p: temperature === undefined || bothSamplers ? topP : undefined,
    top_k: topK,
  }
}
