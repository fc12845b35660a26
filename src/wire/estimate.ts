/**
 * The estimate of a request's input tokens, the same for all three formats: it decides the hold, the context check and
 * the tokens-per-minute charge, all before a backend has counted anything. It walks what the model will see and prices
 * texts, images and documents; what only steers the call (types, ids, cache marks) costs nothing.
 *
 * Vendors' tokenizers differ by a factor that is the same for all texts, so the caller may give its model's.
 */
import { randomBytes } from "node:crypto"
import { type Json, type JsonObject, isObject, present } from "../language/json.ts"
import { isImage, mediaOf, type SentDocument, type SentImages, type SentMedia } from "../language/request.ts"
import { jsonTokens, opaqueTokens, RememberedTexts, textTokens } from "./tokens.ts"

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

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "))
/** Steers the call, or names things; the model does not read it, as long as it is no longer than such texts are. */
const UNREAD = words(
  "type role id call_id tool_call_id tool_use_id status cache_control media_type filename detail phase",
)
/** In UTF-16 units. Vendors' own ids have at most 64. */
const LONGEST_UNREAD = 256
const OPAQUE = words("signature encrypted_content")
/** Hold JSON that the model reads as JSON, keys and all. */
const READ_AS_JSON = words(
  "input input_schema input_examples parameters schema output_schema action actions operation results arguments",
)
const FILES: readonly unknown[] = ["document", "file", "input_file"]

export interface InputEstimate {
  /** An integer of at least 1, what images and documents likely are included. */
  readonly inputTokens: number
  readonly media?: SentMedia
}

const remembered = new RememberedTexts(randomBytes(8).readBigUInt64LE())

const NO_IMAGES: SentImages = { likely: 0, whole: 0, most: 0 }

/** One walk through a prompt, which gathers what is sent beside the texts. */
class Walk {
  images: SentImages = NO_IMAGES
  readonly documents: SentDocument[] = []
  readonly #seed: bigint | undefined

  constructor(accountId: string | undefined) {
    this.#seed = accountId === undefined ? undefined : remembered.seedOf(accountId)
  }

  readonly text = (text: string): number =>
    this.#seed === undefined ? textTokens(text) : remembered.tokens(text, this.#seed)

  /** An image with several sources is the largest of them. */
  addImage(sources: readonly (string | undefined)[], detail: Json | undefined): void {
    const whole = Math.max(...sources.map((source) => imageTokens(source)))
    const likely = detail === "low" ? Math.min(whole, LOW_DETAIL_TOKENS) : whole
    const { images } = this
    this.images = {
      likely: images.likely + likely,
      whole: images.whole + whole,
      most: images.most + LARGEST_IMAGE_TOKENS,
    }
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
  for (const schema of prompt.schemas) if (isObject(schema)) tokens += jsonTokens(schema, walk.text)
  const { images, documents } = walk
  const sent = documents.reduce((sum, { likely }) => sum + likely, images.likely)
  const inputTokens = Math.max(1, Math.ceil(tokens * familyFactor)) + Math.ceil(sent)
  if (images === NO_IMAGES && documents.length === 0) return { inputTokens }
  return { inputTokens, media: { images, documents } }
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
  // A backend may look for an image in a part of any type.
  if (isImage(part) || FILES.includes(type) || present(part["image_url"])) {
    const { own, others, mediaType, detail } = mediaOf(part)
    const sources = [...own, ...others]
    if (!FILES.includes(type)) walk.addImage(own.length === 0 ? [undefined] : sources, detail)
    else for (const source of sources) walk.documents.push(sentDocument(source, mediaType))
    if (sources.length > 0 || !FILES.includes(type)) return tokensBeside(part, sources, walk)
  }
  // Redacted thinking has nothing but its cipher.
  if (type === "redacted_thinking") return opaqueTokens(part["data"])
  let tokens = 0
  for (const key of Object.keys(part)) {
    const value = part[key]
    if (isUnread(key, value)) continue
    if (OPAQUE.has(key)) tokens += opaqueTokens(value)
    else if (READ_AS_JSON.has(key)) tokens += jsonTokens(value, walk.text)
    else tokens += contentTokens(value, walk)
  }
  return tokens
}

const isUnread = (key: string, value: Json | undefined): boolean =>
  UNREAD.has(key) && !(typeof value === "string" && value.length > LONGEST_UNREAD)

/** What the model reads beside an image or a file, such as a document's title and context. */
function tokensBeside(part: JsonObject, sources: readonly string[], walk: Walk): number {
  let tokens = 0
  for (const key of Object.keys(part)) {
    const value = part[key]
    if ((typeof value === "string" && sources.includes(value)) || isUnread(key, value)) continue
    tokens += isObject(value) ? tokensBeside(value, sources, walk) : contentTokens(value, walk)
  }
  return tokens
}

// An image: one token for each patch of 28 by 28 pixels, up to the most that a current family counts for one. The
// size stands in the first bytes of a file, so only those are decoded. What cannot be read, what decoders read differently, and
// an image behind an address (which is never fetched), counts as the largest.

const PATCH_PX = 28
/** Larger images are scaled down by the backend until they have this many patches. */
export const LARGEST_IMAGE_TOKENS = 4784
/** `detail: "low"` scales down to 512 by 512 pixels. */
const LOW_DETAIL_TOKENS = 361
/** A JPEG's size may stand behind embedded previews and colour profiles. */
const HEADER_BASE64_CHARS = 128 * 1024

/** `source` is base64 data, a data URL, or an address; undefined where none was found. */
export const imageTokens = (source: string | undefined): number =>
  Math.min(Math.max(...((source && readSizes(source)) || [LARGEST_IMAGE_TOKENS])), LARGEST_IMAGE_TOKENS)

/** Where the base64 of a data URL begins, or that which stands without a head. */
const startOfData = (source: string): number => (source.startsWith("data:") ? source.indexOf(",") + 1 : 0)

/** Whether all decoders read it alike: some leave these characters out, some end at them, and a head is cut off at any comma. */
function isPlain(base64: string): boolean {
  const padding = base64.indexOf("=")
  const isCut = padding >= 0 && !/^={1,2}\s*$/.test(base64.slice(padding))
  return !isCut && [",", "-", "_"].every((odd) => !base64.includes(odd))
}

/** In patches, each size that a file tells of before its first pixel; undefined where not all of that is known. */
function readSizes(source: string): number[] | undefined {
  const start = startOfData(source)
  const header = source.slice(start, start + HEADER_BASE64_CHARS)
  const bytes = Buffer.from(header, "base64")
  if (bytes.length < 30 || !isPlain(header) || source.includes(",", start)) return undefined
  const [, read] = SIZE_READERS.find(([mark]) => bytes.toString("latin1", 0, mark.length) === mark) ?? []
  const sizes: number[] = []
  const isAll = read?.(bytes, (width, height) => {
    const patches = Math.ceil(width / PATCH_PX) * Math.ceil(height / PATCH_PX)
    sizes.push(patches > 0 ? patches : LARGEST_IMAGE_TOKENS)
  })
  return (isAll ?? start + header.length === source.length) && sizes.length > 0 ? sizes : undefined
}

/** True at the first pixel, false at what decoders read differently, undefined at the end of the bytes. */
type SizeReader = (bytes: Buffer, add: (width: number, height: number) => void) => boolean | undefined

const colourBytes = (flags = 0): number => (flags >= 0x80 ? 3 << ((flags & 7) + 1) : 0)
const named = (name: string): number => Buffer.from(name).readUInt32BE()
const [IHDR, IDAT, WEBP] = [named("IHDR"), named("IDAT"), named("WEBP")]
const [VP8, VP8L, VP8X, ANMF] = [named("VP8 "), named("VP8L"), named("VP8X"), named("ANMF")]

/** Decoders know the header by its name: other chunks may stand before it, and of two some take the later one. */
const pngSizes: SizeReader = (bytes, add) => {
  for (let at = 8; at + 16 <= bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    const name = bytes.readUInt32BE(at + 4)
    if (name === IDAT) return true
    if (name === IHDR) add(bytes.readUInt32BE(at + 8), bytes.readUInt32BE(at + 12))
  }
  return undefined
}

/** Decoders widen the screen to the frames that reach beyond it, and pass over what is no block (GIF89a, 18 to 24). */
const gifSizes: SizeReader = (bytes, add) => {
  add(bytes.readUInt16LE(6), bytes.readUInt16LE(8))
  let hasFrame: true | undefined
  for (let at = 13 + colourBytes(bytes[10]); at + 10 <= bytes.length;) {
    const block = bytes[at++]
    if (block === 0x2c) {
      add(bytes.readUInt16LE(at) + bytes.readUInt16LE(at + 4), bytes.readUInt16LE(at + 2) + bytes.readUInt16LE(at + 6))
      at += 10 + colourBytes(bytes[at + 8])
      hasFrame = true
    } else if (block !== 0x21) continue
    // Some end an extension here, others read on.
    else if (bytes[++at] === 0) return false
    for (let length = bytes[at++] ?? 0; length > 0; length = bytes[at++] ?? 0) at += length
  }
  return hasFrame
}

/** The canvas of an extended file, and its first frame, which a file may say to be larger (RFC 9649). */
const webpSizes: SizeReader = (bytes, add) => {
  if (bytes.readUInt32BE(8) !== WEBP) return false
  for (let at = 12; at + 18 <= bytes.length;) {
    const name = bytes.readUInt32BE(at)
    if (name === VP8X) add(bytes.readUIntLE(at + 12, 3) + 1, bytes.readUIntLE(at + 15, 3) + 1)
    else if (name === VP8) add(bytes.readUInt16LE(at + 14) & 0x3fff, bytes.readUInt16LE(at + 16) & 0x3fff)
    const bits = bytes.readUInt32LE(at + 9)
    if (name === VP8L) add((bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1)
    if (name === VP8 || name === VP8L) return true
    // The frame of an animation is one more list of chunks.
    const length = name === ANMF ? 16 : bytes.readUInt32LE(at + 4)
    at += 8 + length + (length % 2)
  }
  return undefined
}

/** SOF0 to SOF15 without the three that are tables; tables, DRI, APPn and COM may stand before the scan (ITU T.81, B.2). */
const FRAMES = [0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf]
const OTHER_SEGMENTS = new Set([0xc4, 0xc8, 0xcc, 0xdb, 0xdd, 0xfe, ...Array.from({ length: 16 }, (_, n) => 0xe0 + n)])

/** Decoders pass over what is no segment, each in its way. */
const jpegSizes: SizeReader = (bytes, add) => {
  for (let at = 2; at + 9 <= bytes.length;) {
    if (bytes[at] !== 0xff) return bytes.includes(0xff, at) ? false : undefined
    const marker = bytes[++at] ?? 0
    if (marker === 0xff) continue
    if (marker === 0xda) return true
    if (FRAMES.includes(marker)) add(bytes.readUInt16BE(at + 6), bytes.readUInt16BE(at + 4))
    else if (!OTHER_SEGMENTS.has(marker)) return false
    at += 1 + bytes.readUInt16BE(at + 1)
  }
  return undefined
}

const SIZE_READERS: readonly (readonly [mark: string, SizeReader])[] = [
  ["\x89PNG\r\n\x1a\n", pngSizes],
  ["GIF8", gifSizes],
  ["RIFF", webpSizes],
  ["\xff\xd8", jpegSizes],
]

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
  const start = startOfData(source)
  const data = source.slice(start)
  const head = Buffer.from(data.slice(0, TELLING_CHARS), "base64")
  const isPdf = head.includes("%PDF-") || [type, source.slice(0, start)].some(isPdfType)
  const isRead = isPlain(data)
  if (!isPdf && isRead && !head.includes(0)) {
    const tokens = textTokens(Buffer.from(data, "base64").toString("utf8"))
    return { likely: tokens, most: tokens, known: true }
  }
  const bytes = Math.floor((data.length * 3) / 4)
  const pages = Math.min(Math.max(Math.ceil(bytes / BYTES_PER_PAGE), 1), MAX_PAGES)
  return { ...guess(pages * PAGE_TOKENS), ...(isPdf && isRead && { pdf: data }) }
}

const guess = (likely: number): SentDocument => ({ likely, most: Infinity, known: false })

const isPdfType = (type: unknown): boolean => typeof type === "string" && /application\/(x-)?pdf/i.test(type)
