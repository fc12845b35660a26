/**
 * Tokens of a file that is sent along. A backend reads each page of a PDF as text and as an image, about 3,000 tokens
 * together for a dense one. Pages are counted where the file lists them in the open; many newer PDFs compress that list,
 * and then, as for office files, the size has to do. A file of text is a text. A file behind an address, which is never
 * fetched, counts as a short one, for any guess would be as wrong.
 */
import { textTokens } from "./text.ts"

const PAGE_TOKENS = 3_000
const MOST_PAGES = 600
const BYTES_PER_PAGE = 50_000
const PAGES_BEHIND_ADDRESS = 4
/** A byte of zero among the first ones tells a binary file from a text. */
const TELLING_BYTES = 1024

/** `source` is base64 data, a data URL, or an address. */
export function documentTokens(source: string): number {
  if (/^https?:/i.test(source)) return PAGES_BEHIND_ADDRESS * PAGE_TOKENS
  const start = source.startsWith("data:") ? source.indexOf(",") + 1 : 0
  const bytes = Buffer.from(source.slice(start), "base64")
  const isPdf = bytes.toString("latin1", 0, 5) === "%PDF-"
  if (!isPdf && !bytes.subarray(0, TELLING_BYTES).includes(0)) return textTokens(bytes.toString("utf8"))
  const listed = isPdf ? (bytes.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0) : 0
  const pages = listed > 0 ? listed : Math.ceil(bytes.length / BYTES_PER_PAGE)
  return Math.min(Math.max(pages, 1), MOST_PAGES) * PAGE_TOKENS
}
