/**
 * Tokens of a PDF, by its pages: a backend reads each as text and as an image, about 3,000 tokens together for a dense
 * one. Pages are counted where the file lists them in the open; many newer files compress that list, and then the size
 * has to do. A document behind an address counts as a short one, for any guess would be as wrong.
 */
const PAGE_TOKENS = 3_000
const MOST_PAGES = 600
const BYTES_PER_PAGE = 50_000
const PAGES_BEHIND_ADDRESS = 4

/** `source` is base64 data, a data URL, or an address. */
export function pdfTokens(source: string): number {
  if (/^https?:/i.test(source)) return PAGES_BEHIND_ADDRESS * PAGE_TOKENS
  const start = source.startsWith("data:") ? source.indexOf(",") + 1 : 0
  const bytes = Buffer.from(source.slice(start), "base64")
  const listed = bytes.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0
  const pages = listed > 0 ? listed : Math.ceil(bytes.length / BYTES_PER_PAGE)
  return Math.min(Math.max(pages, 1), MOST_PAGES) * PAGE_TOKENS
}
