/**
 * A responses request: checked, understood, and written anew for a backend of the same format. The format's own home
 * keeps conversations, files and prompts for its clients; behind a gateway all of that is the operator's one account,
 * so whatever names such state is refused and nothing is ever stored (decisions §8).
 */
import { isObject, type JsonObject, present } from "../../chat/json.ts"
import { answerLimit, type ChatRequest, type Feature, type Forwarding, forwardedBody } from "../../chat/request.ts"
import { misshapen, notServed, readCount, readFlag, readObject, shown } from "../../chat/shape.ts"
import { Failure } from "../../failure/failure.ts"
import { readModel } from "../body.ts"
import { estimateInputTokens } from "../estimate/estimate.ts"
import { type Input, readInput } from "./input.ts"
import { checkTools } from "./tools.ts"

const STATE = ["previous_response_id", "conversation", "prompt", "container"]
const IMAGES: readonly unknown[] = ["input_image", "computer_screenshot"]
/** Service tiers that cost the operator another rate than the catalogue's. */
const DEARER_TIERS: readonly unknown[] = ["priority", "fast", "scale"]

export function decodeRequest(body: JsonObject): ChatRequest | Failure {
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
  const format = readFormat(body)
  if (format instanceof Failure) return format
  const tools = checkTools(body["tools"], input.items)
  if (tools instanceof Failure) return tools
  const refusal = refuseNotServed(body, input, background) ?? tools.refusal
  if (refusal) return refusal

  const features = new Set<Feature>(tools.features)
  if (input.parts.some((part) => IMAGES.includes(part["type"]))) features.add("vision")
  if (format?.["type"] === "json_schema") features.add("structured_outputs")
  return {
    endpoint: "responses",
    body,
    model,
    stream,
    inputTokens: countInputTokens(body),
    maxOutputTokens: limit,
    choices: 1,
    features,
    includeUsage: false,
  }
}

export function encodeRequest(request: ChatRequest, forwarding: Forwarding): JsonObject {
  const body = forwardedBody(request, forwarding)
  body["max_output_tokens"] = answerLimit(request, forwarding)
  body["store"] = false
  return body
}

const countInputTokens = (body: JsonObject): number =>
  estimateInputTokens({
    messages: body["input"],
    instructions: body["instructions"],
    tools: [body["tools"]],
    schemas: [isObject(body["text"]) ? body["text"]["format"] : undefined],
  })

function readFormat(body: JsonObject): JsonObject | undefined | Failure {
  const text = readObject(body["text"], "text")
  return text instanceof Failure ? text : readObject(text?.["format"], "text.format")
}

function refuseNotServed(body: JsonObject, input: Input, background: boolean): Failure | undefined {
  const state = STATE.find((field) => present(body[field]))
  if (state !== undefined)
    return notServed(`'${state}' names state kept at the backend; send the whole conversation as 'input' instead.`)
  if (background) return notServed("'background' is not served: its answer would be kept at the backend.")
  if (input.items.some(isReference))
    return notServed("Item references name state kept at the backend; send the items themselves ('store': false).")
  if (input.items.some((item) => present(item["container_id"])))
    return notServed("Container ids name state kept at the backend; leave such items out.")
  if (input.parts.some((part) => present(part["file_id"])))
    return notServed("File ids name state kept at the backend; send the data itself instead.")
  if (input.parts.some((part) => part["type"] === "input_audio")) return notServed("Audio input is not served.")
  if (DEARER_TIERS.includes(body["service_tier"]))
    return notServed(`'service_tier' is ${shown(body["service_tier"])}; only the default tier is served.`)
  return undefined
}

/** A reference may leave its type out: then it is an id and nothing else that would tell what it is. */
const isReference = (item: JsonObject): boolean =>
  item["type"] === "item_reference" || (!present(item["type"]) && !present(item["role"]) && present(item["id"]))
