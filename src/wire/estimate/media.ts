/** Tokens of the images and files that are sent along with a text. */
import type { SentDocument } from "../../language/request.ts"
import { textTokens } from "./text.ts"

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
export const MOST_PAGES = 600
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
  const pages = Math.min(Math.max(Math.ceil(bytes / BYTES_PER_PAGE), 1), MOST_PAGES)
  return { ...guess(pages * PAGE_TOKENS), ...(isPdf && { pdf: source.slice(start) }) }
}

const guess = (likely: number): SentDocument => ({ likely, most: Infinity, known: false })

const isPdfType = (type: unknown): boolean => typeof type === "string" && /application\/(x-)?pdf/i.test(type)
