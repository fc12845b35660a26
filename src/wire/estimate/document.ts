/**
 * Tokens of a file that is sent along: what it likely comes to, and the most that it may. A backend reads each page of a
 * PDF as text and as an image, about 3,000 tokens together for a dense one. How many pages there are takes a parser, which
 * does not run here: until it has read the file, and for office files, its size has to do. A file of text is a text. A file
 * behind an address, which is never fetched, is likely a short one, and may be anything.
 */
import type { SentDocument } from "../../language/request.ts"
import { textTokens } from "./text.ts"

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
