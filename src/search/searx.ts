/**
 * Searching the web through a SearXNG-compatible server, whose address is the operator's and never a client's (decisions
 * §8, §12.22). What it answers is the web's, so nothing of it is believed: sizes are bounded, and only http(s) addresses
 * are handed on, as text that nobody here fetches.
 */
import { isObject, type Json, type JsonObject } from "../language/json.ts"

export interface SearchResult {
  readonly url: string
  readonly title: string
  /** What the page says of it, cut. */
  readonly snippet: string
  /** When the page was published, as the search server writes it. */
  readonly published: string | undefined
}

/** Why a search came to nothing, in the words of the messages format. */
export type SearchProblem = "unavailable" | "too_many_requests"

export type Search = (
  query: string,
  domains: Domains,
  signal: AbortSignal,
) => Promise<readonly SearchResult[] | SearchProblem>

export interface SearxOptions {
  /** `SEARCH_URL`. */
  readonly baseUrl: string
  /** HTTP status, where one came. Never told of the query, which is a customer's. */
  readonly failed: (status: number | undefined) => void
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 5_000
const MAX_RESULTS = 8
/** In UTF-16 units: a result is worth a few hundred tokens, and every later turn pays for it again. */
const LONGEST_TITLE = 200
const LONGEST_SNIPPET = 700
const LONGEST_URL = 2_000
/** Some twenty results with their metadata take 50 KB. */
const MAX_BYTES = 2 * 1024 * 1024

export function searx({ baseUrl, failed, timeoutMs = TIMEOUT_MS }: SearxOptions): Search {
  const address = `${baseUrl.replace(/\/+$/, "")}/search?format=json&q=`
  return async (query, domains, signal) => {
    let status: number | undefined
    try {
      const response = await fetch(address + encodeURIComponent(query.toWellFormed()), {
        headers: { Accept: "application/json" },
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      })
      status = response.status
      const text = await boundedText(response)
      const body: unknown = response.ok && text !== undefined ? JSON.parse(text) : undefined
      if (isObject(body) && Array.isArray(body["results"])) return readResults(body["results"], domains)
    } catch {
      // Not there, too slow, or no JSON: the same to the model.
    }
    if (!signal.aborted) failed(status)
    return status === 429 ? "too_many_requests" : "unavailable"
  }
}

/** Undefined when it is larger than any answer of a search server. */
async function boundedText(response: Response): Promise<string | undefined> {
  if (response.body === null) return ""
  const decoder = new TextDecoder()
  let size = 0
  let text = ""
  for await (const bytes of response.body) {
    size += bytes.length
    if (size > MAX_BYTES) return undefined
    text += decoder.decode(bytes, { stream: true })
  }
  return text + decoder.decode()
}

function readResults(found: readonly Json[], domains: Domains): SearchResult[] {
  const byUrl = new Map<string, SearchResult>()
  const isPermitted = permits(domains)
  for (const item of found) {
    const result = isObject(item) ? readResult(item) : undefined
    if (result === undefined || byUrl.has(result.url) || !isPermitted(result.url)) continue
    byUrl.set(result.url, result)
    if (byUrl.size === MAX_RESULTS) break
  }
  return [...byUrl.values()]
}

function readResult({ url, title, content, publishedDate }: JsonObject): SearchResult | undefined {
  if (typeof url !== "string" || url.length > LONGEST_URL) return undefined
  const parsed = URL.parse(url)
  if (parsed === null || (parsed.protocol !== "https:" && parsed.protocol !== "http:")) return undefined
  return {
    url: parsed.href,
    title: textOf(title, LONGEST_TITLE) || parsed.hostname,
    snippet: textOf(content, LONGEST_SNIPPET),
    published: textOf(publishedDate, 40) || undefined,
  }
}

/** On one line and cut, without half a character at its end. */
const textOf = (value: Json | undefined, longest: number): string =>
  typeof value === "string" ? value.replaceAll(/\s+/g, " ").trim().slice(0, longest).toWellFormed() : ""

/**
 * Which sites a search may find (the messages format's `allowed_domains` and `blocked_domains`): a domain stands for its
 * subdomains too, and may go on with the beginning of a path.
 */
interface Domains {
  /** Undefined permits every site. */
  readonly allowed: readonly string[] | undefined
  readonly blocked: readonly string[]
}

/** Whether an address may be found that has been parsed before. Domains are read once: a search finds thousands of addresses. */
export function permits({ allowed, blocked }: Domains): (url: string) => boolean {
  const permitted = allowed?.map(splitDomain)
  const barred = blocked.map(splitDomain)
  return (url) => {
    const { hostname, pathname } = new URL(url)
    const within = ({ host, path }: Site): boolean => {
      if (hostname !== host && !hostname.endsWith(`.${host}`)) return false
      return path === "" || pathname === path || pathname.startsWith(`${path}/`)
    }
    return (permitted === undefined || permitted.some(within)) && !barred.some(within)
  }
}

interface Site {
  readonly host: string
  /** Without a slash at its end; empty for all of the host. */
  readonly path: string
}

/** `Example.com/blog/` is the host `example.com` and the path `/blog`; a scheme in front is what many write. */
function splitDomain(domain: string): Site {
  const bare = domain.trim().replace(/^https?:\/\//i, "")
  const slash = bare.indexOf("/")
  if (slash < 0) return { host: bare.toLowerCase(), path: "" }
  let end = bare.length
  while (end > slash && PATH_ENDS.has(bare.charAt(end - 1))) end--
  return { host: bare.slice(0, slash).toLowerCase(), path: bare.slice(slash, end) }
}

const PATH_ENDS: ReadonlySet<string> = new Set("/*")
