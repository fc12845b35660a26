/**
 * A chat completions request: checked, understood, and written anew for a backend of the same format. Strict where the
 * specification speaks (gateway-api.md, "POST /v1/chat/completions"), else lenient: fields that are not known travel.
 *
 * JSON mode (`json_object`) is not counted as structured outputs: it constrains nothing to a schema, nearly every model
 * has it, and refusing it outside of messages would take away from clients what costs nobody anything.
 */
import { isObject, type Json, type JsonObject, present } from "../../chat/json.ts"
import { answerLimit, type ChatRequest, type Feature, type Forwarding, forwardedBody } from "../../chat/request.ts"
import {
  checkRole,
  firstFailure,
  misshapen,
  notServed,
  readCount,
  readFlag,
  readObject,
  readObjects,
  readParts,
  saysNothing,
  shown,
} from "../../chat/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { readModel } from "../body.ts"
import { estimateInputTokens } from "../estimate/estimate.ts"
import { checkTools } from "./tools.ts"

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"]
/** Roles whose message may say what it has to say outside of `content` (tool calls), or have nothing to say. */
const MAY_BE_SILENT: readonly Json[] = ["assistant", "tool", "function"]
const MEDIA_NOT_SERVED: readonly (Json | undefined)[] = ["input_audio", "audio_url", "input_video", "video_url"]
const IMAGES: readonly (Json | undefined)[] = ["image_url", "input_image", "image"]
const MOST_CHOICES = 128
/** Service tiers that cost the operator another rate than the catalogue's. */
const DEARER_TIERS: readonly (Json | undefined)[] = ["priority", "fast", "scale"]

export function decodeRequest(body: JsonObject): ChatRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const parts = readMessages(body["messages"])
  if (parts instanceof Failure) return parts
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const choices = readCount(body, "n", MOST_CHOICES)
  if (choices instanceof Failure) return choices
  const limit = readCount(body, "max_completion_tokens")
  if (limit instanceof Failure) return limit
  const olderLimit = readCount(body, "max_tokens")
  if (olderLimit instanceof Failure) return olderLimit
  const streamOptions = readObject(body["stream_options"], "stream_options")
  if (streamOptions instanceof Failure) return streamOptions
  const includeUsage = readFlag(streamOptions ?? {}, "include_usage")
  if (includeUsage instanceof Failure) return includeUsage
  const format = readObject(body["response_format"], "response_format")
  if (format instanceof Failure) return format
  const toolFeatures = checkTools(body)
  if (toolFeatures instanceof Failure) return toolFeatures
  const refusal = refuseNotServed(body, parts)
  if (refusal) return refusal

  const features = new Set<Feature>(toolFeatures)
  if (parts.some((part) => IMAGES.includes(part["type"]))) features.add("vision")
  if (format?.["type"] === "json_schema") features.add("structured_outputs")
  if (present(body["web_search_options"])) features.add("web_search")
  return {
    endpoint: "chat",
    body,
    model,
    stream,
    inputTokens: countInputTokens(body),
    maxOutputTokens: limit ?? olderLimit,
    choices: choices ?? 1,
    features,
    includeUsage: stream && includeUsage,
  }
}

export function encodeRequest(request: ChatRequest, forwarding: Forwarding): JsonObject {
  const body = forwardedBody(request, forwarding)
  // Each limit that the client wrote is kept in its own field, and both alike where it wrote two, for a backend may
  // obey either. Where it wrote none, the older name is the one that every backend of this format knows.
  const fields = ["max_completion_tokens", "max_tokens"].filter((field) => present(request.body[field]))
  for (const field of ["max_completion_tokens", "max_tokens"]) delete body[field]
  for (const field of fields.length > 0 ? fields : ["max_tokens"]) body[field] = answerLimit(request, forwarding)
  if (request.stream) {
    const options = request.body["stream_options"]
    body["stream_options"] = { ...(isObject(options) ? options : {}), include_usage: true }
  } else delete body["stream_options"]
  return body
}

const countInputTokens = (body: JsonObject): number =>
  estimateInputTokens({
    messages: body["messages"],
    tools: [body["tools"], body["functions"]],
    schemas: [body["response_format"]],
  })

/** Checks every message, and hands back the parts of all of them. */
function readMessages(value: Json | undefined): JsonObject[] | Failure {
  const messages = readObjects(value, "messages")
  if (messages instanceof Failure) return messages
  if (messages.length === 0) return misshapen("'messages' is missing or empty; it must be an array of messages.")
  const all: JsonObject[] = []
  const failure = firstFailure(messages, (message, index) => {
    const parts = readMessage(message, `messages[${index}]`)
    if (parts instanceof Failure) return parts
    for (const part of parts) all.push(part)
    return undefined
  })
  return failure ?? all
}

function readMessage(message: JsonObject, field: string): JsonObject[] | Failure {
  const { role, content } = message
  const wrongRole = checkRole(role, `${field}.role`, ROLES)
  if (wrongRole) return wrongRole
  if (role === "user" && (!present(content) || content === "")) return emptyUser(field)
  if (typeof content === "string") return []
  if (!present(content)) return MAY_BE_SILENT.includes(role ?? null) ? [] : notContent(field, content)
  if (!Array.isArray(content)) return notContent(field, content)
  const parts = readParts(content, `${field}.content`)
  if (parts instanceof Failure) return parts
  return role === "user" && saysNothing(parts, ["text"]) ? emptyUser(field) : parts
}

const emptyUser = (field: string): Failure =>
  misshapen(`'${field}.content' is empty; a user message must say something.`)

const notContent = (field: string, found: Json | undefined): Failure =>
  misshapen(`'${field}.content' is ${shown(found)}; it must be a string or an array of parts.`)

function refuseNotServed(body: JsonObject, parts: readonly JsonObject[]): Failure | undefined {
  const media = parts.find((part) => MEDIA_NOT_SERVED.includes(part["type"]))
  if (media) return notServed("Audio and video parts are not served; send text, images or files.")
  const { modalities, messages } = body
  if (Array.isArray(messages) && messages.some((message) => isObject(message) && present(message["audio"])))
    return notServed("Audio ids name state kept at the backend; send the transcript as 'content' instead.")
  if (present(body["audio"]) || (Array.isArray(modalities) && modalities.includes("audio")))
    return notServed("Audio answers are not served; leave out 'audio' and use the modality text.")
  if (parts.some((part) => isObject(part["file"]) && present(part["file"]["file_id"])))
    return notServed("File ids name state kept at the backend; send the file's data instead.")
  if (DEARER_TIERS.includes(body["service_tier"]))
    return notServed(`'service_tier' is ${shown(body["service_tier"])}; only the default tier is served.`)
  return undefined
}
