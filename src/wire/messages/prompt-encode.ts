/**
 * A prompt as a messages backend's request body. What this format cannot say is listed in docs/formats.md, where leaving
 * it out harms nobody; the rest is refused.
 */
import type { JsonObject } from "../../chat/json.ts"
import type { Prompt } from "../../chat/prompt.ts"
import { answerLimit, type ChatRequest, type Forwarding } from "../../chat/request.ts"
import { Failure } from "../../failure/failure.ts"
import { textBlocks } from "./blocks-encode.ts"
import { type ModelTraits, modelTraits } from "./model-traits.ts"
import { encodeReasoning, thinks } from "./reasoning-encode.ts"
import { encodeToolChoice, encodeTools, toolsTold } from "./tools-encode.ts"
import { encodeTurns } from "./turns-encode.ts"

/** This format has no mode for JSON without a schema; the model is asked for it. */
const JSON_ONLY = "Answer with one valid JSON object and nothing else: no other text, no code fence."
/** The vendor's limit, in characters. */
const LONGEST_USER_ID = 256

export function encodePrompt(prompt: Prompt, request: ChatRequest, forwarding: Forwarding): JsonObject | Failure {
  const traits = modelTraits(forwarding.model)
  const messages = encodeTurns(prompt, traits)
  if (messages instanceof Failure) return messages
  const limit = answerLimit(request, forwarding)
  const limits = { asked: request.maxOutputTokens ?? limit, limit }
  const { thinking, effort } = encodeReasoning(prompt.reasoning, traits, limits, messages)
  const isThinking = traits.off === "never" || thinks(thinking)
  const toolUse = toolsTold(prompt)
  const body = filled({
    system: encodeSystem(prompt),
    tools: encodeTools(toolUse.tools),
    tool_choice: encodeToolChoice(toolUse, traits.forcesTools && !isThinking),
    stop_sequences: prompt.stopSequences.filter((sequence) => sequence.trim() !== ""),
    ...(isThinking ? {} : encodeSampling(prompt.sampling, traits)),
    thinking,
    output_config: filled({ effort, format: encodeFormat(prompt) }),
    metadata: filled({ user_id: encodeEndUser(prompt) }),
  })
  for (const parameter of forwarding.strip) delete body[parameter]
  return {
    model: forwarding.model,
    max_tokens: limit,
    ...body,
    messages,
    ...(request.stream && { stream: true }),
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

const encodeEndUser = ({ endUser }: Prompt): string | undefined =>
  endUser !== undefined && endUser !== "" && endUser.length <= LONGEST_USER_ID ? endUser : undefined
