/**
 * The estimate of a request's input tokens, the same for all three formats: it decides the hold, the context check and
 * the tokens-per-minute charge, all before a backend has counted anything. It walks what the model will see and prices
 * texts, images and documents; what only steers the call (types, ids, cache marks) costs nothing.
 *
 * Vendors' tokenizers differ by a factor that is the same for all texts, so the caller may give its model's.
 */
import { randomBytes } from "node:crypto"
import { type Json, type JsonObject, isObject } from "../language/json.ts"
import { isImage, type SentDocument, type SentMedia } from "../language/request.ts"
import { RememberedTexts, textTokens } from "./tokens.ts"

interface Prompt {
  /** Messages or input items, or one text. */
  readonly messages: Json | undefined
  /** A system prompt that stands outside of the messages. */
  readonly instructions?: Json | undefined
  /** Lists of tools. */
  readonly tools: readonly (Json | undefined)[]
  /** The answer's schema, wherever the format puts it. */
  readonly schemas: readonly (Json | undefined)[]
  /** Who sends it: what is known of the same account's texts is not estimated again. Left out where nothing is to be remembered. */
  readonly accountId?: string | undefined
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

/** Steers the call, or names things; the model does not read it, as long as it is no longer than such texts are. */
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
  "filename",
  "detail",
  "phase",
])
/** In UTF-16 units. Vendors' own ids have at most 64. */
const LONGEST_UNREAD = 256
const OPAQUE = new Set(["signature", "encrypted_content"])
/** Hold JSON that the model reads as JSON, keys and all. */
const READ_AS_JSON = new Set([
  "input",
  "input_schema",
  "input_examples",
  "parameters",
  "schema",
  "output_schema",
  "action",
  "actions",
  "operation",
  "results",
  "arguments",
])
const FILES: readonly unknown[] = ["document", "file", "input_file"]

export interface InputEstimate {
  /** An integer of at least 1, what images and documents likely are included. */
  readonly inputTokens: number
  readonly media?: SentMedia
}

const remembered = new RememberedTexts(randomBytes(8).readBigUInt64LE())

/** One walk through a prompt, which gathers what is sent beside the texts. */
class Walk {
  spareTokens = 0
  images = 0
  readonly documents: SentDocument[] = []
  readonly #seed: bigint | undefined

  constructor(accountId: string | undefined) {
    this.#seed = accountId === undefined ? undefined : remembered.seedOf(accountId)
  }

  text(text: string): number {
    return this.#seed === undefined ? textTokens(text) : remembered.tokens(text, this.#seed)
  }
}

export const estimateInputTokens = (prompt: Prompt, familyFactor = 1): number =>
  estimateInput(prompt, familyFactor).inputTokens

export function estimateInput(prompt: Prompt, familyFactor = 1): InputEstimate {
  const walk = new Walk(prompt.accountId)
  let tokens = PROMPT_FRAME + contentTokens(prompt.messages, walk) + contentTokens(prompt.instructions, walk)
  if (Array.isArray(prompt.messages)) tokens += prompt.messages.length * MESSAGE_FRAME
  for (const tools of prompt.tools) {
    if (!Array.isArray(tools) || tools.length === 0) continue
    tokens += TOOL_USE_FRAME + tools.length * TOOL_FRAME + contentTokens(tools, walk)
  }
  for (const schema of prompt.schemas) if (isObject(schema)) tokens += jsonTokens(schema, walk)
  const { spareTokens, images, documents } = walk
  const ofDocuments = documents.reduce((sum, { likely }) => sum + likely, 0)
  const inputTokens = Math.max(1, Math.ceil(tokens * familyFactor)) + Math.ceil(ofDocuments)
  return images + documents.length === 0 ? { inputTokens } : { inputTokens, media: { spareTokens, documents } }
}

function contentTokens(value: Json | undefined, walk: Walk): number {
  if (typeof value === "string") return walk.text(value)
  if (!Array.isArray(value)) return isObject(value) ? partTokens(value, walk) : 0
  let tokens = 0
  for (const item of value) tokens += contentTokens(item, walk)
  return tokens
}

function partTokens(part: JsonObject, walk: Walk): number {
  const { type } = part
  if (isImage(part)) {
    const source = mediaSource(part)
    const likely = imageTokens(source, imageDetail(part))
    walk.images++
    // Not every backend does as `detail` says.
    walk.spareTokens += imageTokens(source) - likely
    return likely + tokensBeside(part, source, walk)
  }
  if (FILES.includes(type)) {
    const source = mediaSource(part)
    if (source !== undefined) {
      walk.documents.push(sentDocument(source, mediaType(part)))
      return tokensBeside(part, source, walk)
    }
  }
  // Redacted thinking has nothing but its cipher.
  if (type === "redacted_thinking") return opaqueTokens(part["data"])
  let tokens = 0
  for (const key of Object.keys(part)) {
    const value = part[key]
    if (isUnread(key, value)) continue
    if (OPAQUE.has(key)) tokens += opaqueTokens(value)
    else if (READ_AS_JSON.has(key)) tokens += jsonTokens(value, walk)
    else tokens += contentTokens(value, walk)
  }
  return tokens
}

const isUnread = (key: string, value: Json | undefined): boolean =>
  UNREAD.has(key) && !(typeof value === "string" && value.length > LONGEST_UNREAD)

/** What the model reads beside an image or a file, such as a document's title and context. */
function tokensBeside(part: JsonObject, source: string | undefined, walk: Walk): number {
  let tokens = 0
  for (const key of Object.keys(part)) {
    const value = part[key]
    if (value === source || isUnread(key, value)) continue
    tokens += isObject(value) ? tokensBeside(value, source, walk) : contentTokens(value, walk)
  }
  return tokens
}

const opaqueTokens = (value: Json | undefined): number =>
  typeof value === "string" ? value.length / OPAQUE_CHARS_PER_TOKEN : 0

function jsonTokens(value: Json | undefined, walk: Walk): number {
  if (typeof value === "string") return walk.text(value)
  let tokens = 1
  if (Array.isArray(value)) for (const item of value) tokens += 1 + jsonTokens(item, walk)
  else if (!isObject(value)) return value === undefined ? 0 : textTokens(String(value))
  else for (const key of Object.keys(value)) tokens += MEMBER_FRAME + textTokens(key) + jsonTokens(value[key], walk)
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

// An image: one token for each patch of 28 by 28 pixels, up to the most that a current family counts for one. The
// size stands in the first bytes of a file, so only those are decoded. What cannot be read, and an image behind an
// address (which is never fetched), counts as the largest.

const PATCH_PX = 28
/** Larger images are scaled down by the backend until they have this many patches. */
export const LARGEST_IMAGE_TOKENS = 4784
/** `detail: "low"` scales down to 512 by 512 pixels. */
const LOW_DETAIL_TOKENS = 361
/** A JPEG's size may stand behind embedded previews and colour profiles. */
const HEADER_BASE64_CHARS = 128 * 1024

interface Size {
  readonly width: number
  readonly height: number
}

/** `source` is base64 data, a data URL, or an address; undefined where none was found. */
export function imageTokens(source: string | undefined, detail?: unknown): number {
  const most = detail === "low" ? LOW_DETAIL_TOKENS : LARGEST_IMAGE_TOKENS
  const size = source === undefined ? undefined : readSize(base64Header(source))
  if (size === undefined || size.width < 1 || size.height < 1) return most
  return Math.min(most, Math.ceil(size.width / PATCH_PX) * Math.ceil(size.height / PATCH_PX))
}

function base64Header(source: string): Buffer {
  if (/^https?:/i.test(source)) return Buffer.alloc(0)
  const start = source.startsWith("data:") ? source.indexOf(",") + 1 : 0
  return Buffer.from(source.slice(start, start + HEADER_BASE64_CHARS), "base64")
}

function readSize(bytes: Buffer): Size | undefined {
  if (bytes.length < 30) return undefined
  if (bytes.readUInt32BE(0) === 0x89504e47) return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
  if (bytes.toString("latin1", 0, 4) === "GIF8") return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
  if (bytes.toString("latin1", 8, 12) === "WEBP") return webpSize(bytes)
  return bytes.readUInt16BE(0) === 0xffd8 ? jpegSize(bytes) : undefined
}

/** WebP's three kinds: lossy, lossless and extended (RFC 9649). */
function webpSize(bytes: Buffer): Size | undefined {
  switch (bytes.toString("latin1", 12, 16)) {
    case "VP8 ":
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
    case "VP8L": {
      const bits = bytes.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case "VP8X":
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
    default:
      return undefined
  }
}

/** Walks the segments to the frame header (ITU T.81, B.2.2): SOF0 to SOF15, without the three that are tables. */
function jpegSize(bytes: Buffer): Size | undefined {
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff;) {
    const marker = bytes[at + 1] ?? 0
    if (marker === 0xff) {
      at++
      continue
    }
    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc)
      return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) }
    at += 2 + bytes.readUInt16BE(at + 2)
  }
  return undefined
}

// A file that is sent along: what it likely comes to, and the most that it may. A backend reads each page of a
// PDF as text and as an image, about 3,000 tokens together for a dense one. How many pages there are takes a parser, which
// does not run here: until it has read the file, and for office files, its size has to do. A file of text is a text. A file
// behind an address, which is never fetched, is likely a short one, and may be anything.

export const PAGE_TOKENS = 3_000
/** No backend reads more. */
export const MAX_PAGES = 600
const BYTES_PER_PAGE = 50_000
const PAGES_BEHIND_ADDRESS = 4
/** A byte of zero among the first ones tells a binary file from a text; readers look for a PDF's mark as far. */
const TELLING_BYTES = 1024
const TELLING_CHARS = Math.ceil(TELLING_BYTES / 3) * 4

/** `source` is base64 data, a data URL, or an address; `type` what the client says that it is. */
export function sentDocument(source: string, type?: unknown): SentDocument {
  if (/^\s*(?!data:)[a-z][a-z0-9+.-]*:/i.test(source))
    return { ...guess(PAGES_BEHIND_ADDRESS * PAGE_TOKENS), remote: true }
  const start = source.startsWith("data:") ? source.indexOf(",") + 1 : 0
  const head = Buffer.from(source.slice(start, start + TELLING_CHARS), "base64")
  const isPdf = head.includes("%PDF-") || [type, source.slice(0, start)].some(isPdfType)
  if (!isPdf && !head.includes(0)) {
    const tokens = textTokens(Buffer.from(source.slice(start), "base64").toString("utf8"))
    return { likely: tokens, most: tokens, known: true }
  }
  const bytes = Math.floor(((source.length - start) * 3) / 4)
  const pages = Math.min(Math.max(Math.ceil(bytes / BYTES_PER_PAGE), 1), MAX_PAGES)
  return { ...guess(pages * PAGE_TOKENS), ...(isPdf && { pdf: source.slice(start) }) }
}

const guess = (likely: number): SentDocument => ({ likely, most: Infinity, known: false })

const isPdfType = (type: unknown): boolean => typeof type === "string" && /application\/(x-)?pdf/i.test(type)
