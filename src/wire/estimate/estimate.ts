/**
 * The estimate of a request's input tokens, the same for all three formats: it decides the hold, the context check and
 * the tokens-per-minute charge, all before a backend has counted anything. It walks what the model will see and prices
 * texts, images and documents; what only steers the call (types, ids, cache marks) costs nothing.
 *
 * Vendors' tokenizers differ by a factor that is the same for all texts, so the caller may give its model's.
 */
import { isObject, type Json, type JsonObject } from "../../language/json.ts"
import type { SentDocument, SentMedia } from "../../language/request.ts"
import { imageTokens, sentDocument } from "./media.ts"
import { textTokens } from "./text.ts"

export interface Prompt {
  /** Messages or input items, or one text. */
  readonly messages: Json | undefined
  /** A system prompt that stands outside of the messages. */
  readonly instructions?: Json | undefined
  /** Lists of tools. */
  readonly tools: readonly (Json | undefined)[]
  /** The answer's schema, wherever the format puts it. */
  readonly schemas: readonly (Json | undefined)[]
}

/** The frame that a chat template puts around the whole prompt, around one message or item, and around one tool. */
const PROMPT_FRAME = 8
const MESSAGE_FRAME = 4
const TOOL_FRAME = 8
/** What a vendor's own system prompt for tool use takes, once, whatever the tools. */
const TOOL_USE_FRAME = 350
/** Quotes, colon and comma of a JSON member; commas of an array melt into their neighbours. */
const MEMBER_FRAME = 1.5
/** Encrypted thinking: base64 of the cipher of about four characters per token. */
const OPAQUE_CHARS_PER_TOKEN = 5

/** Steers the call, or names things; the model does not read it. */
const UNREAD = new Set([
  "type",
  "role",
  "id",
  "call_id",
  "tool_call_id",
  "tool_use_id",
  "status",
  "cache_control",
  "media_type",
  "detail",
  "phase",
])
const OPAQUE = new Set(["signature", "encrypted_content"])
/** Hold JSON that the model reads as JSON, keys and all. */
const READ_AS_JSON = new Set(["input", "input_schema", "parameters", "schema", "output_schema", "action", "arguments"])
const IMAGES: readonly unknown[] = ["image", "image_url", "input_image", "computer_screenshot"]
const FILES: readonly unknown[] = ["document", "file", "input_file"]

export interface InputEstimate {
  /** An integer of at least 1, what images and documents likely are included. */
  readonly inputTokens: number
  readonly media?: SentMedia
}

/** Gathers what is sent beside the texts. */
class Media {
  spareTokens = 0
  images = 0
  readonly documents: SentDocument[] = []
}

export const estimateInputTokens = (prompt: Prompt, familyFactor = 1): number =>
  estimateInput(prompt, familyFactor).inputTokens

export function estimateInput(prompt: Prompt, familyFactor = 1): InputEstimate {
  const media = new Media()
  let tokens = PROMPT_FRAME + contentTokens(prompt.messages, media) + contentTokens(prompt.instructions, media)
  if (Array.isArray(prompt.messages)) tokens += prompt.messages.length * MESSAGE_FRAME
  for (const tools of prompt.tools) {
    if (!Array.isArray(tools) || tools.length === 0) continue
    tokens += TOOL_USE_FRAME + tools.length * TOOL_FRAME + contentTokens(tools, media)
  }
  for (const schema of prompt.schemas) if (isObject(schema)) tokens += jsonTokens(schema)
  const { spareTokens, images, documents } = media
  const ofDocuments = documents.reduce((sum, { likely }) => sum + likely, 0)
  const inputTokens = Math.max(1, Math.ceil(tokens * familyFactor)) + Math.ceil(ofDocuments)
  return images + documents.length === 0 ? { inputTokens } : { inputTokens, media: { spareTokens, documents } }
}

function contentTokens(value: Json | undefined, media: Media): number {
  if (typeof value === "string") return textTokens(value)
  if (!Array.isArray(value)) return isObject(value) ? partTokens(value, media) : 0
  let tokens = 0
  for (const item of value) tokens += contentTokens(item, media)
  return tokens
}

function partTokens(part: JsonObject, media: Media): number {
  const { type } = part
  if (IMAGES.includes(type)) {
    const source = mediaSource(part)
    const likely = imageTokens(source, imageDetail(part))
    media.images++
    // Not every backend does as `detail` says.
    media.spareTokens += imageTokens(source) - likely
    return likely
  }
  if (FILES.includes(type)) {
    const source = mediaSource(part)
    if (source !== undefined) {
      media.documents.push(sentDocument(source, mediaType(part)))
      return 0
    }
  }
  // Redacted thinking has nothing but its cipher.
  if (type === "redacted_thinking") return opaqueTokens(part["data"])
  let tokens = 0
  for (const key of Object.keys(part)) {
    if (UNREAD.has(key)) continue
    const value = part[key]
    if (OPAQUE.has(key)) tokens += opaqueTokens(value)
    else if (READ_AS_JSON.has(key)) tokens += jsonTokens(value)
    else tokens += contentTokens(value, media)
  }
  return tokens
}

const opaqueTokens = (value: Json | undefined): number =>
  typeof value === "string" ? value.length / OPAQUE_CHARS_PER_TOKEN : 0

function jsonTokens(value: Json | undefined): number {
  if (typeof value === "string") return textTokens(value)
  let tokens = 1
  if (Array.isArray(value)) for (const item of value) tokens += 1 + jsonTokens(item)
  else if (!isObject(value)) return value === undefined ? 0 : textTokens(String(value))
  else for (const key of Object.keys(value)) tokens += MEMBER_FRAME + textTokens(key) + jsonTokens(value[key])
  return tokens
}

/** Where each format keeps the address or the data of an image or a file; undefined where it is none of them. */
function mediaSource(part: JsonObject): string | undefined {
  const { source, image_url: image, file } = part
  if (isObject(source) && source["type"] !== "text" && source["type"] !== "content")
    return firstText(source["url"], source["data"])
  if (isObject(file)) return firstText(file["file_data"])
  return firstText(image, isObject(image) ? image["url"] : undefined, part["file_url"], part["file_data"])
}

const mediaType = ({ source }: JsonObject): Json | undefined => (isObject(source) ? source["media_type"] : undefined)

const firstText = (...values: readonly (Json | undefined)[]): string | undefined =>
  values.find((value) => typeof value === "string")

const imageDetail = (part: JsonObject): Json | undefined =>
  isObject(part["image_url"]) ? part["image_url"]["detail"] : part["detail"]
