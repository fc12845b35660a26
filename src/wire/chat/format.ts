/**
 * Chat completions, assembled; and their requests, checked, understood, and written anew for a backend of the same format.
 * Strict where the specification speaks (gateway-api.md, "POST /v1/chat/completions"), else lenient: fields that are not known
 * are left out.
 *
 * JSON mode (`json_object`) is not counted as structured outputs: it constrains nothing to a schema, nearly every model
 * has it, and refusing it outside of messages would take away from clients what costs nobody anything.
 */
import { Failure } from "../../failure/failure.ts"
import {
  beginsWith,
  checkName,
  checkSchema,
  firstFailure,
  isObject,
  type Json,
  type JsonObject,
  type MessageShape,
  misshapen,
  notServed,
  present,
  readCount,
  readFlag,
  readMessage,
  readObject,
  readObjects,
  shown,
} from "../../language/json.ts"
import {
  answerLimit,
  type Feature,
  type Forwarded,
  forwardedBody,
  type Forwarding,
  holdsImage,
  type ModelRequest,
  own,
} from "../../language/request.ts"
import { checkServiceTier, readEndUser, readModel, serviceTier } from "../body.ts"
import { estimateInput, type InputEstimate } from "../estimate.ts"
import {
  type Allowance,
  CACHE_MARK,
  fields,
  type Fields,
  filterFields,
  NO_ALLOWANCE,
  oneOf,
  type Shape,
} from "../fields.ts"
import type { ClientFormat } from "../format.ts"
import { streamFailure } from "../shared/chunks.ts"
import { backendStream } from "./events-in.ts"
import { eventEncoder } from "./events-out.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt, limitField, lowerBudgets } from "./prompt-out.ts"
import { decodeReply, encodeReply, gatherer, readReply } from "./reply.ts"

// The fields that travel: those of the format's own package (openai), what agents send back of earlier answers of other
// vendors, and cache marks, which clients write here too. What routes, and what is priced by the call and not by the token, is
// not among them.

const FUNCTION = fields("name description strict defer_loading", { parameters: "anything" })
const CUSTOM = fields("name description input", {
  format: fields("type", { grammar: fields("syntax definition") }),
})
/** A call, a choice, or a definition: one field holds the tool in all three. Some backends write arguments as an object. */
const CALL = fields("name", { arguments: "anything" })
const CALLED: Readonly<Record<string, Shape>> = { function: CALL, custom: fields("name input") }

const PART: Fields = fields("type text refusal detail signature", {
  image_url: fields("url detail"),
  file: fields("file_data filename"),
  thinking: () => PART,
  prompt_cache_breakpoint: fields("mode", { ttl: oneOf("30m", "5m") }),
  cache_control: CACHE_MARK,
})

const MESSAGE_FIELDS = fields(
  "role name tool_call_id refusal reasoning reasoning_content prefix partial phase",
  {
    content: PART,
    tool_calls: fields("id type index", { ...CALLED, extra_content: "anything" }),
    function_call: CALL,
    reasoning_details: "anything",
    annotations: "anything",
    cache_control: CACHE_MARK,
  },
  // Beside tool calls some backends want it there. SDKs write out an answer's other fields, null or not, when it becomes history.
  { nullable: "content" },
)

const CHAT_FIELDS = fields(
  "model stream n max_tokens max_completion_tokens temperature top_p frequency_penalty presence_penalty logprobs " +
    "top_logprobs stop seed parallel_tool_calls user safety_identifier store modalities reasoning_effort verbosity " +
    "prompt_cache_key prompt_cache_retention service_tier",
  {
    messages: MESSAGE_FIELDS,
    stream_options: fields("include_usage include_obfuscation"),
    logit_bias: "anything",
    response_format: fields("type", {
      json_schema: fields("name description strict", { schema: "anything" }),
      schema: "anything",
    }),
    tools: fields("type", { function: FUNCTION, custom: CUSTOM, cache_control: CACHE_MARK }),
    tool_choice: fields("type mode", {
      ...CALLED,
      allowed_tools: fields("mode", { tools: fields("type", CALLED) }),
    }),
    functions: FUNCTION,
    function_call: fields("name"),
    metadata: "anything",
    prediction: fields("type", { content: PART }),
    prompt_cache_options: fields("mode", { ttl: oneOf("30m", "5m") }),
  },
)

const MESSAGE: MessageShape = {
  roles: ["system", "developer", "user", "assistant", "tool", "function"],
  texts: ["text"],
  called: "part",
  // What they have to say may stand outside of `content` (tool calls), or be nothing.
  silent: ["assistant", "tool", "function"],
}
const MEDIA_NOT_SERVED: readonly (Json | undefined)[] = ["input_audio", "audio_url", "input_video", "video_url"]
const MAX_CHOICES = 128

export function decodeRequest(
  body: JsonObject,
  allowance: Allowance = NO_ALLOWANCE,
  accountId?: string,
): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const parts = readMessages(body["messages"])
  if (parts instanceof Failure) return parts
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const choices = readCount(body, "n", MAX_CHOICES)
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
  const features = checkTools(body)
  if (features instanceof Failure) return features
  const refusal = refuseNotServed(body, parts)
  if (refusal) return refusal
  if (parts.some(holdsImage)) features.add("vision")
  if (format?.["type"] === "json_schema") features.add("structured_outputs")
  if (present(body["web_search_options"])) features.add("web_search")
  const known = filterFields(body, CHAT_FIELDS, allowance)
  return {
    endpoint: "chat",
    ...known,
    ownEndUser: readEndUser(body["safety_identifier"]) ?? readEndUser(body["user"]),
    model,
    stream,
    ...estimatePrompt(known.body, accountId),
    maxOutputTokens: limit ?? olderLimit,
    choices: choices ?? 1,
    features,
    includeUsage: stream && includeUsage,
  }
}

const FORWARDED: Forwarded = {
  known: CHAT_FIELDS.fields,
  rewritten: new Set([
    "service_tier",
    "safety_identifier",
    "user",
    "max_completion_tokens",
    "max_tokens",
    "stream_options",
  ]),
}

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const { endUser } = request
  const { user, max_completion_tokens: newer, stream_options: options } = request.body
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "service_tier", serviceTier("chat", request.body))
  own(body, forwarding, "safety_identifier", endUser)
  // The older name of the same, for backends that know no other.
  if (present(user)) own(body, forwarding, "user", endUser)
  // Nearly every backend knows the older name. Some pass over the newer one in silence, so it never travels alone but where a
  // model refuses the older.
  const limit = answerLimit(request, forwarding)
  if (present(newer)) own(body, forwarding, "max_completion_tokens", limit)
  body[limitField(forwarding)] = limit
  if (forwarding.stream) body["stream_options"] = { ...(isObject(options) ? options : {}), include_usage: true }
  return lowerBudgets(body, answerLimit(request, { maxOutputTokens: forwarding.modelLimit ?? limit }), limit)
}

function estimatePrompt(body: JsonObject, accountId: string | undefined): InputEstimate {
  const schemas = [body["response_format"]]
  // A template may put what it is passed into the prompt.
  for (const name of Object.keys(body)) if (!CHAT_FIELDS.fields.has(name)) schemas.push(body[name])
  return estimateInput({ messages: body["messages"], tools: [body["tools"], body["functions"]], schemas, accountId })
}

/** Checks every message, and hands back the parts of all of them. */
function readMessages(value: Json | undefined): readonly JsonObject[] | Failure {
  const messages = readObjects(value, "messages")
  if (messages instanceof Failure) return messages
  if (messages.length === 0) return misshapen("'messages' is missing or empty; it must be an array of messages.")
  const all: JsonObject[] = []
  const failure = firstFailure(messages, (message, index) => {
    const parts = readMessage(message, "messages", index, MESSAGE)
    if (parts instanceof Failure) return parts
    for (const part of parts) all.push(part)
    return undefined
  })
  return failure ?? all
}

function refuseNotServed(body: JsonObject, parts: readonly JsonObject[]): Failure | undefined {
  if (parts.some(isMediaNotServed))
    return notServed("Audio and video parts are not served; send text, images or files.")
  const { messages } = body
  if (Array.isArray(messages) && messages.some(namesAudio))
    return notServed("Audio ids name state kept at the backend; send the transcript as 'content' instead.")
  if (present(body["audio"]) || !saysText(body["modalities"]))
    return notServed("Answers other than text are not served; leave out 'audio' and use the modality text.")
  if (parts.some(namesFile)) return notServed("File ids name state kept at the backend; send the file's data instead.")
  return checkServiceTier(body)
}

const isMediaNotServed = (part: JsonObject): boolean => MEDIA_NOT_SERVED.includes(part["type"])
const namesAudio = (message: Json): boolean => isObject(message) && present(message["audio"])
/** In a part of this format it stands inside of `file`, in one of the responses format or of assistants elsewhere. */
const namesFile = (part: JsonObject): boolean =>
  [part, ...Object.values(part)].some((place) => isObject(place) && present(place["file_id"]))

const saysText = (modalities: Json | undefined): boolean =>
  !present(modalities) || (Array.isArray(modalities) && modalities.every((modality) => modality === "text"))

// The tools of a chat completions request: their shape, and what they make use of. A function without `parameters`
// takes none in this format; where it has some, their schema obeys the same rule as a messages tool's.

/** What the tools make use of. A search that the backend would run is a feature of its own, not tool use. */
function checkTools(body: JsonObject): Set<Feature> | Failure {
  const tools = readObjects(body["tools"], "tools")
  if (tools instanceof Failure) return tools
  const functions = readObjects(body["functions"], "functions")
  if (functions instanceof Failure) return functions
  const features = new Set<Feature>()
  if (tools.length + functions.length === 0) return features
  const failure =
    firstFailure(tools, (tool, index) => checkTool(tool, `tools[${index}]`)) ??
    firstFailure(functions, (tool, index) => checkFunction(tool, `functions[${index}]`)) ??
    firstFailure(tools, refuseHosted)
  if (failure) return failure
  for (const tool of tools) features.add(isWebSearch(tool) ? "web_search" : "tools")
  if (functions.length > 0) features.add("tools")
  return features
}

const isWebSearch = (tool: JsonObject): boolean => beginsWith(tool["type"], "web_search")

function checkTool(tool: JsonObject, field: string): Failure | undefined {
  const wrongType = checkName(tool["type"], `${field}.type`)
  if (wrongType) return wrongType
  if (tool["type"] === "function") return checkFunction(tool["function"], `${field}.function`)
  return tool["type"] === "custom" ? checkDefinition(tool["custom"], `${field}.custom`) : undefined
}

function checkFunction(definition: JsonObject[string], field: string): Failure | undefined {
  const failure = checkDefinition(definition, field)
  if (failure) return failure
  const parameters = isObject(definition) ? definition["parameters"] : undefined
  return present(parameters) ? checkSchema(parameters, `${field}.parameters`) : undefined
}

function checkDefinition(definition: JsonObject[string], field: string): Failure | undefined {
  if (!isObject(definition)) return misshapen(`'${field}' is ${shown(definition)}; it must be an object.`)
  return checkName(definition["name"], `${field}.name`)
}

function refuseHosted(tool: JsonObject, index: number): Failure | undefined {
  if (tool["type"] === "function" || tool["type"] === "custom" || isWebSearch(tool)) return undefined
  return notServed(`'tools[${index}].type' is ${shown(tool["type"])}; function and custom tools are served here.`)
}

export const chatFormat: ClientFormat = {
  client: {
    endpoint: "chat",
    operation: "chat",
    path: "/v1/chat/completions",
    decodeRequest,
    encodeRequest,
    decodePrompt,
    eventEncoder,
    encodeReply,
    streamFailure,
  },
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
