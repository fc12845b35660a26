/**
 * A messages request: checked, understood, and written anew for a backend of the same format. Thinking blocks are never
 * touched on the way, and of `system` only the life of cache marks: the vendor's signatures are bound to them.
 */
import { readMessages, readSystem } from "./content.ts"
import { Failure } from "../../failure/failure.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import {
  answerLimit,
  type Feature,
  type Forwarded,
  forwardedBody,
  type Forwarding,
  type ModelRequest,
  own,
  type WebSearchOptions,
} from "../../language/request.ts"
import { misshapen, notServed, readCount, readFlag, readObject, shown } from "../../language/shape.ts"
import { readModel } from "../body.ts"
import { readEndUser, refuseTier, serviceTier } from "../owned.ts"
import { estimateInput, type InputEstimate } from "../estimate/estimate.ts"
import { type Allowance, knownFields, NO_ALLOWANCE } from "../fields.ts"
import { MESSAGES_FIELDS } from "./fields.ts"
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

const FORWARDED: Forwarded = { known: MESSAGES_FIELDS.fields, rewritten: new Set(["service_tier", "metadata"]) }

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const limit = answerLimit(request, forwarding)
  const { endUser } = request
  const forwarded = forwardedBody(request, forwarding, FORWARDED)
  own(forwarded, forwarding, "service_tier", serviceTier("messages", request.body))
  own(forwarded, forwarding, "metadata", endUser === undefined ? undefined : { user_id: endUser })
  const body = lowerThinking(withPlainSearch(forwarded), request.maxOutputTokens ?? limit, limit)
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

// What a messages request may not ask for, because the operator's one account at the backend stands behind every
// customer (decisions §8): state that is kept there would leak from one customer to another, another model or speed
// there would cost what the catalogue's rates do not cover.

const STATE = ["container", "thread", "mcp_servers", "user_profile_id", "workspace_id"]
const REROUTES = ["fallbacks", "fallback_credit_token", "billing_policy"]

function refuseNotServed(body: JsonObject, blocks: readonly JsonObject[]): Failure | undefined {
  const state = STATE.find((field) => asksFor(body[field]))
  if (state === "thread") return threads
  if (state !== undefined) return notServed(`'${state}' names state or servers at the backend; leave it out.`)
  const reroute = REROUTES.find((field) => asksFor(body[field]))
  if (reroute !== undefined) return notServed(`'${reroute}' changes what the call costs at the backend; leave it out.`)
  const { speed } = body
  if (present(speed) && speed !== "standard")
    return notServed(`'speed' is ${shown(speed)}; only the standard speed is served.`)
  if (blocks.some(namesFile)) return notServed("File ids name state kept at the backend; send the data itself instead.")
  return refuseTier(body)
}

/** The vendor's SDK asks for one by default wherever it runs tools, and its users have never heard of it. */
const threads = new Failure("request.unsupported_feature", {
  message: "'thread' would keep the conversation at the backend, which is not served; send all of it with each call.",
  hint: "With the vendor's SDK, pass `thread: false` to its tool runner.",
})

/** Absent, null and an empty list ask for nothing. */
const asksFor = (value: Json | undefined): boolean => present(value) && !(Array.isArray(value) && value.length === 0)

function namesFile(block: JsonObject): boolean {
  const { type, source } = block
  return type === "container_upload" || (isObject(source) && (source["type"] === "file" || present(source["file_id"])))
}
