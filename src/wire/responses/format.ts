/**
 * The responses format, assembled; and its requests, checked, understood, and written anew for a backend of the same format, or
 * read into the neutral language. The format's own home keeps conversations, files and prompts for its clients; behind a gateway
 * all of that is the operator's one account, so whatever names such state is refused and nothing is ever stored (decisions §8).
 * Messages are checked; what other items hold is the format's business and travels, but their parts are listed with the
 * messages' own, for a tool's output may carry images. What is left out of a prompt is listed in docs/formats.md.
 */
import { Failure } from "../../failure/failure.ts"
import {
  filled,
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
import { EFFORTS, type OutputFormat, type Prompt, type Reasoning, type TextPart } from "../../language/prompt.ts"
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
import { type Allowance, filterFields, NO_ALLOWANCE } from "../fields.ts"
import type { ClientFormat } from "../format.ts"
import { mostSearches } from "../shared/tools.ts"
import { backendStream } from "./events-in.ts"
import { eventEncoder, failedReply, streamFailure } from "./events-out.ts"
import { RESPONSES_FIELDS } from "./fields.ts"
import { decodeItems } from "./items-in.ts"
import { encodePrompt, MIN_ANSWER_TOKENS, readableItems } from "./prompt-out.ts"
import { decodeReply, encodeReply, gatherer, readReply } from "./reply.ts"
import { checkTools, decodeTools } from "./tools.ts"

const STATE = ["previous_response_id", "conversation", "prompt", "container"]

export function decodeRequest(
  body: JsonObject,
  allowance: Allowance = NO_ALLOWANCE,
  accountId?: string,
): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const input = readInput(body["input"])
  if (input instanceof Failure) return input
  const { instructions } = body
  if (present(instructions) && typeof instructions !== "string")
    return misshapen(`'instructions' is ${shown(instructions)}; it must be a string.`)
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const background = readFlag(body, "background")
  if (background instanceof Failure) return background
  const limit = readCount(body, "max_output_tokens")
  if (limit instanceof Failure) return limit
  const toolCalls = readCount(body, "max_tool_calls")
  if (toolCalls instanceof Failure) return toolCalls
  const format = readFormat(body)
  if (format instanceof Failure) return format
  const tools = checkTools(body, input.items)
  if (tools instanceof Failure) return tools
  const refusal = refuseNotServed(body, input, background) ?? tools.refusal
  if (refusal) return refusal

  const features = new Set<Feature>(tools.features)
  if (input.parts.some(holdsImage) || input.items.some(isMadeImage)) features.add("vision")
  if (format?.["type"] === "json_schema") features.add("structured_outputs")
  const known = filterFields(body, RESPONSES_FIELDS, allowance)
  if (isEmpty(known.body["input"])) return empty("'input' has no item that is served.")
  return {
    endpoint: "responses",
    ...known,
    ownEndUser: readEndUser(body["safety_identifier"]) ?? readEndUser(body["user"]),
    model,
    stream,
    ...estimatePrompt(known.body, accountId),
    maxOutputTokens: limit,
    choices: 1,
    features,
    includeUsage: false,
  }
}

const FORWARDED: Forwarded = {
  known: RESPONSES_FIELDS.fields,
  rewritten: new Set(["service_tier", "safety_identifier", "user"]),
}

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const { cacheKey, endUser, features } = request
  const { user, prompt_cache_key: ownKey } = request.body
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "service_tier", serviceTier("responses", request.body))
  own(body, forwarding, "safety_identifier", endUser)
  if (!present(ownKey)) own(body, forwarding, "prompt_cache_key", cacheKey)
  if (present(user)) own(body, forwarding, "user", endUser)
  if (features.has("web_search")) body["max_tool_calls"] = mostSearches(body["max_tool_calls"])
  body["max_output_tokens"] = answerLimit(request, forwarding)
  body["store"] = false
  body["input"] = readableItems(body["input"])
  return body
}

const estimatePrompt = (body: JsonObject, accountId?: string): InputEstimate =>
  estimateInput({
    messages: body["input"],
    instructions: body["instructions"],
    tools: [body["tools"]],
    schemas: [isObject(body["text"]) ? body["text"]["format"] : undefined],
    accountId,
  })

function readFormat(body: JsonObject): JsonObject | undefined | Failure {
  const text = readObject(body["text"], "text")
  return text instanceof Failure ? text : readObject(text?.["format"], "text.format")
}

/** What a loop of tools runs into whose client believes in a memory at the backend. */
const references = new Failure("request.unsupported_feature", {
  message: "Item references name state kept at the backend; send the items themselves ('store': false).",
  hint: "With the AI SDK and what is built on it, pass `providerOptions: { openai: { store: false } }`.",
})

function refuseNotServed(body: JsonObject, input: Input, background: boolean): Failure | undefined {
  const state = STATE.find((field) => present(body[field]))
  if (state !== undefined)
    return notServed(`'${state}' names state kept at the backend; send the whole conversation as 'input' instead.`)
  if (background) return notServed("'background' is not served: its answer would be kept at the backend.")
  if (input.items.some(isReference)) return references
  if (input.items.some((item) => present(item["container_id"])))
    return notServed("Container ids name state kept at the backend; leave such items out.")
  if (input.parts.some((part) => present(part["file_id"])))
    return notServed("File ids name state kept at the backend; send the data itself instead.")
  if (input.parts.some((part) => part["type"] === "input_audio")) return notServed("Audio input is not served.")
  return checkServiceTier(body)
}

const isMadeImage = ({ type }: JsonObject): boolean => type === "image_generation_call"

/**
 * A reference may leave its type out: then it is an id and nothing else that would tell what it is. An image that was made
 * earlier is one too where it comes without its data (https://platform.openai.com/docs/guides/image-generation).
 */
const isReference = (item: JsonObject): boolean =>
  item["type"] === "item_reference" ||
  (isMadeImage(item) && !filled(item["result"])) ||
  (!present(item["type"]) && !present(item["role"]) && present(item["id"]))

// The input of a responses request: a text, or items. Messages are checked; what other items hold is the format's
// business and travels, but their parts are listed with the messages' own, for a tool's output may carry images.

const MESSAGE: MessageShape = {
  roles: ["user", "assistant", "system", "developer"],
  texts: ["input_text", "output_text", "text"],
  called: "part",
}

export interface Input {
  readonly items: readonly JsonObject[]
  /** The parts of all messages and of all outputs of tools. */
  readonly parts: readonly JsonObject[]
}

function readInput(value: Json | undefined): Input | Failure {
  // An empty input is `request.invalid`; other wrong shapes are `request.invalid_request` (gateway-api.md, "POST /v1/responses").
  if (isEmpty(value)) return empty("'input' is missing or empty; it must be a text or an array of items.")
  if (typeof value === "string") return { items: [], parts: [] }
  if (!Array.isArray(value)) return misshapen(`'input' is ${shown(value)}; it must be a string or an array of items.`)
  const items = readObjects(value, "input")
  if (items instanceof Failure) return items
  const parts: JsonObject[] = []
  const failure = firstFailure(items, (item, index) => {
    const found = isMessage(item) ? readMessage(item, "input", index, MESSAGE) : outputParts(item)
    if (found instanceof Failure) return found
    for (const part of found) parts.push(part)
    return undefined
  })
  return failure ?? { items, parts }
}

const isEmpty = (value: Json | undefined): boolean =>
  !present(value) || value === "" || (Array.isArray(value) && value.length === 0)
const empty = (message: string): Failure => new Failure("request.invalid", { message })

/** A message may leave its type out; every other item names it, but for a reference. */
const isMessage = (item: JsonObject): boolean =>
  item["type"] === "message" || (!present(item["type"]) && !isReference(item))

/** A tool's output is a text, a list of parts, or one part (a screenshot). What another agent tells has its parts where messages have them. */
function outputParts({ type, output, content }: JsonObject): JsonObject[] {
  return [type === "agent_message" ? content : output].flat().filter(isObject)
}

function decodePrompt({ body }: ModelRequest): Prompt | Failure {
  const conversation = decodeItems(body["input"])
  if (conversation instanceof Failure) return conversation
  const tools = decodeTools(body)
  if (tools instanceof Failure) return tools
  const output = decodeOutput(body["text"])
  if (output instanceof Failure) return output
  const reasoning = decodeReasoning(body["reasoning"])
  if (reasoning instanceof Failure) return reasoning
  const temperature = readNumber(body, "temperature")
  if (temperature instanceof Failure) return temperature
  const topP = readNumber(body, "top_p")
  if (topP instanceof Failure) return topP
  const { parallel_tool_calls: parallel } = body
  if (present(parallel) && typeof parallel !== "boolean")
    return misshapen(`'parallel_tool_calls' is ${shown(parallel)}; it must be true or false.`)
  return {
    instructions: [...texts(body["instructions"]), ...conversation.instructions],
    turns: conversation.turns,
    ...tools,
    parallelTools: parallel ?? undefined,
    stopSequences: [],
    sampling: { temperature, topP, topK: undefined },
    output,
    reasoning,
  }
}

const texts = (text: Json | undefined): TextPart[] =>
  typeof text === "string" && text !== "" ? [{ type: "text", text }] : []

function readNumber(body: JsonObject, field: string): number | undefined | Failure {
  const value = body[field]
  if (!present(value)) return undefined
  return typeof value === "number" ? value : misshapen(`'${field}' is ${shown(value)}; it must be a number.`)
}

/** `text.verbosity` is left out: of the backends that speak chat only some know it. */
function decodeOutput(text: Json | undefined): OutputFormat | undefined | Failure {
  const format = isObject(text) ? text["format"] : undefined
  if (!isObject(format)) return undefined
  const { type, name, description, schema, strict } = format
  if (type === "text") return undefined
  if (type === "json_object") return { kind: "json" }
  if (type !== "json_schema") return notServed(`'text.format' of type ${shown(type)} is not served.`)
  if (!isObject(schema)) return misshapen(`'text.format.schema' is ${shown(schema)}; it must be an object.`)
  return {
    kind: "schema",
    name: typeof name === "string" ? name : undefined,
    description: typeof description === "string" ? description : undefined,
    schema,
    strict: typeof strict === "boolean" ? strict : undefined,
  }
}

function decodeReasoning(value: Json | undefined): Reasoning | undefined | Failure {
  const reasoning = readObject(value, "reasoning")
  if (reasoning === undefined || reasoning instanceof Failure) return reasoning
  const { effort: asked, summary, generate_summary: olderSummary } = reasoning
  const effort = EFFORTS.find((effort) => effort === asked)
  if (present(asked) && effort === undefined)
    return misshapen(`'reasoning.effort' is ${shown(asked)}; it must be one of ${EFFORTS.join(", ")}.`)
  const visible = present(summary) || present(olderSummary)
  if (effort === undefined && !visible) return undefined
  return { enabled: effort !== "none", effort, budgetTokens: undefined, visible }
}

export const responsesFormat: ClientFormat = {
  client: {
    endpoint: "responses",
    operation: "chat",
    path: "/v1/responses",
    counting: { path: "/v1/responses/input_tokens", defaults: {}, answer: { object: "response.input_tokens" } },
    decodeRequest,
    encodeRequest,
    decodePrompt,
    eventEncoder,
    encodeReply,
    streamFailure,
    failedReply,
  },
  backend: {
    minAnswerTokens: MIN_ANSWER_TOKENS,
    encodePrompt,
    readReply,
    decodeReply,
    stream: backendStream,
    gatherer,
  },
}
