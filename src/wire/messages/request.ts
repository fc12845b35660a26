/**
 * A messages request: checked, understood, and written anew for a backend of the same format. Thinking blocks are never
 * touched on the way, and of `system` only the life of cache marks: the vendor's signatures are bound to them.
 */
import { isObject, type JsonObject } from "../../language/json.ts"
import {
  answerLimit,
  type ModelRequest,
  type Feature,
  type Forwarding,
  forwardedBody,
  type WebSearchOptions,
} from "../../language/request.ts"
import { misshapen, readCount, readFlag, readObject } from "../../language/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { readModel } from "../body.ts"
import { readEndUser } from "../end-user.ts"
import { estimateInput, type InputEstimate } from "../estimate/estimate.ts"
import { type Allowance, knownFields, NO_ALLOWANCE } from "../fields.ts"
import { serviceTier } from "../service-tier.ts"
import { readMessages, readSystem } from "./content.ts"
import { MESSAGES_FIELDS } from "./fields.ts"
import { refuseNotServed } from "./not-served.ts"
import { readWebSearch, withPlainSearch } from "./server-tools.ts"
import { lowerThinking } from "./thinking.ts"
import { checkTools } from "./tools.ts"

export function decodeRequest(body: JsonObject, allowance: Allowance = NO_ALLOWANCE): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const prompt = decodePrompt(body)
  if (prompt instanceof Failure) return prompt
  const limit = readCount(body, "max_tokens")
  if (limit instanceof Failure) return limit
  if (limit === undefined) return misshapen("'max_tokens' is missing; it is required, an integer of at least 1.")
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const thinking = readObject(body["thinking"], "thinking")
  if (thinking instanceof Failure) return thinking
  const refusal = prompt.refusal
  if (refusal) return refusal
  const known = knownFields(body, MESSAGES_FIELDS, allowance)
  const { metadata } = body
  return {
    endpoint: "messages",
    ...known,
    ownEndUser: readEndUser(isObject(metadata) ? metadata["user_id"] : undefined),
    model,
    stream,
    ...estimatePrompt(known.body),
    maxOutputTokens: limit,
    choices: 1,
    features: prompt.features,
    includeUsage: false,
    ...(prompt.webSearch && { webSearch: prompt.webSearch }),
  }
}

/** What `POST /v1/messages/count_tokens` answers: the same prompt, which there needs no `max_tokens`. */
export function countInputTokens(body: JsonObject): number | Failure {
  const prompt = decodePrompt(body)
  if (prompt instanceof Failure) return prompt
  return prompt.refusal ?? estimatePrompt(body).inputTokens
}

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const limit = answerLimit(request, forwarding)
  const { endUser } = request
  const plain = withPlainSearch(
    forwardedBody(request, forwarding, {
      isKnown: (name) => MESSAGES_FIELDS.fields.has(name),
      owned: {
        service_tier: serviceTier("messages", request.body),
        metadata: endUser === undefined ? undefined : { user_id: endUser },
      },
    }),
  )
  const body = lowerThinking(plain, request.maxOutputTokens ?? limit, limit)
  body["max_tokens"] = limit
  return body
}

interface Prompt {
  readonly webSearch: WebSearchOptions | undefined
  readonly features: ReadonlySet<Feature>
  /** Told only when the shape of the whole request is right (decisions §4: shape, then features). */
  readonly refusal: Failure | undefined
}

function decodePrompt(body: JsonObject): Prompt | Failure {
  const blocks = readMessages(body["messages"])
  if (blocks instanceof Failure) return blocks
  const system = readSystem(body["system"])
  if (system instanceof Failure) return system
  const tools = checkTools(body["tools"])
  if (tools instanceof Failure) return tools
  const webSearch = readWebSearch(body, blocks)
  if (webSearch instanceof Failure) return webSearch
  const format = readFormat(body)
  if (format instanceof Failure) return format
  const features = new Set<Feature>(tools.features)
  if (blocks.some((block) => block["type"] === "image")) features.add("vision")
  if (format?.["type"] === "json_schema") features.add("structured_outputs")
  return { webSearch, features, refusal: refuseNotServed(body, blocks) ?? tools.refusal }
}

/** The answer's schema: `output_config.format`, or `output_format` as it was called while it was new. */
function readFormat(body: JsonObject): JsonObject | undefined | Failure {
  const config = readObject(body["output_config"], "output_config")
  if (config instanceof Failure) return config
  const format = readObject(config?.["format"], "output_config.format")
  return format ?? readObject(body["output_format"], "output_format")
}

const estimatePrompt = (body: JsonObject): InputEstimate =>
  estimateInput({
    messages: body["messages"],
    instructions: body["system"],
    tools: [body["tools"]],
    schemas: [isObject(body["output_config"]) ? body["output_config"]["format"] : undefined, body["output_format"]],
  })
