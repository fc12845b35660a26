/**
 * What a browser gets of the server's pages and files: their headers, the language, and pages that are rendered once and kept with
 * their compressed forms. Whoever asks again and again costs a look-up: what a page shows is looked at once a second at the most.
 */
import { brotliCompressSync, constants, gzipSync } from "node:zlib"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { edge } from "../../http/edge.ts"
import { type Asset, type Assets, assetsOf, bundlePage, encodedFor, MOST_NAMED } from "./bundle.ts"
import { embedded } from "./embedded.ts"

/** Nothing from elsewhere, nothing inline, nowhere framed. QR codes are drawn by the server, as data. */
const policyOf = (styles: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src ${styles}`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ")

const guarded = {
  "Content-Security-Policy": policyOf("'self'"),
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  Vary: "Accept-Encoding",
}

/**
 * Of a page that the server renders. Its style sheet is in it, because the first paint would wait for another round trip: by its hash
 * that one text is allowed inline, and nothing else.
 */
async function guardedPage(): Promise<typeof guarded> {
  const { style } = await assets()
  return { ...guarded, "Content-Security-Policy": policyOf(`'self' 'sha256-${style.hash}'`) }
}

/** Bundled when the first visitor comes: a process without visitors bundles nothing. */
let made: Promise<Assets> | undefined

export const assets = (): Promise<Assets> =>
  (made ??= makeAssets().catch((error: unknown) => {
    // Bundling is tried again for the next visitor, because the sources may be corrected meanwhile.
    made = undefined
    throw error
  }))

const makeAssets = async (): Promise<Assets> => assetsOf(embedded ?? (await bundlePage("fast")))

export function respond(request: Request, asset: Asset, headers: Record<string, string>): Response {
  const [encoding, body] = encodedFor(asset, request.headers.get("accept-encoding") ?? "")
  return new Response(body, {
    headers: {
      ...guarded,
      "Content-Type": asset.type,
      ...headers,
      ...(encoding !== "identity" && { "Content-Encoding": encoding }),
    },
  })
}

export type Language = "id" | "en"

/** Indonesian, unless another language is asked for before it (RFC 9110, 12.5.4), as the dashboard has it. */
export function languageOf(chosen: string | null | undefined, accepted: string): Language {
  if (chosen === "id" || chosen === "en") return chosen
  let best = { name: "id", weight: 0 }
  for (const part of accepted.split(",", MOST_NAMED)) {
    const [name = "", parameter = "q=1"] = part.split(";", 2).map((word) => word.trim().toLowerCase())
    const weight = Number(/^q=([01](?:\.\d{0,3})?)$/.exec(parameter)?.[1] ?? 0)
    if (name !== "" && weight > best.weight) best = { name, weight }
  }
  return /^(?:\*|(?:id|in|ms|jv|su)\b)/.test(best.name) ? "id" : "en"
}

const HTML = "text/html; charset=utf-8"
const LOOK_MS = 1_000

/** What `look` finds, looked up once a second at the most, however many ask. */
export function onceASecond<T>(look: () => T | Promise<T>): () => Promise<T> {
  let found: { readonly at: number; readonly what: Promise<T> } | undefined
  return () => {
    const now = performance.now()
    if (found === undefined || now - found.at >= LOOK_MS) {
      const looking = { at: now, what: Promise.resolve().then(look) }
      found = looking
      looking.what.catch(() => {
        if (found === looking) found = undefined
      })
    }
    return found.what
  }
}

/** Where a page's own address is put in: it may be another one with each request. */
export const BASE = "\u{E000}"
const MAX_BASES = 4

interface Kept {
  readonly of: string
  readonly html: string
  readonly tag: string
  /** By the address that is in it. Anybody can make up another one (`Host`), so there are few, and the rest is not compressed. */
  readonly assets: Map<string, Asset>
}

/** One page in its few variants: rendered again when what it shows has changed. */
export class KeptPage {
  readonly #kept = new Map<string, Kept>()

  /** `of`: all that the page shows, as text. `html` may hold BASE. */
  async answer(
    request: Request,
    page: {
      readonly language: Language
      /** Of the variants: a few names that no client chooses. */
      readonly variant?: string
      readonly of: string
      readonly base: string
      readonly vary: string
      readonly make: () => Promise<string>
    },
  ): Promise<Response> {
    const name = `${page.language} ${page.variant ?? ""}`
    let kept = this.#kept.get(name)
    if (kept?.of !== page.of) {
      const html = await page.make()
      kept = { of: page.of, html, tag: Bun.hash(html).toString(36), assets: new Map() }
      this.#kept.set(name, kept)
    }
    const tag = `W/"${kept.tag}-${Bun.hash(page.base).toString(36)}"`
    const headers = await htmlHeaders(page.language, page.vary, tag)
    if (request.headers.get("if-none-match")?.includes(tag) === true)
      return new Response(null, { status: 304, headers })
    const known = kept.assets.get(page.base)
    const asset = known ?? assetOf(kept.html.replaceAll(BASE, page.base), kept.assets.size < MAX_BASES)
    if (known === undefined && kept.assets.size < MAX_BASES) kept.assets.set(page.base, asset)
    return respond(request, asset, headers)
  }
}

/** A page for one request alone. */
export const once = async (request: Request, html: string, language: Language, vary: string): Promise<Response> =>
  respond(request, assetOf(html, false), await htmlHeaders(language, vary))

const htmlHeaders = async (language: Language, vary: string, tag?: string) => ({
  ...(await guardedPage()),
  "Content-Type": HTML,
  "Content-Language": language,
  Vary: vary,
  ...(tag !== undefined && { ETag: tag, "Cache-Control": "no-cache" }),
})

function assetOf(html: string, compressed: boolean): Asset {
  const plain = new Uint8Array(Buffer.from(html))
  const bodies: Asset["bodies"] = compressed
    ? new Map([
        ["br", new Uint8Array(brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }))],
        ["gzip", new Uint8Array(gzipSync(plain))],
        ["identity", plain],
      ])
    : new Map([["identity", plain]])
  return { type: HTML, bodies }
}

/**
 * Serves the dashboard: the page at `/dashboard` and at all addresses of its pages, the files at `/dashboard/assets/`. Bun's
 * HTML routes could serve them too, but do not allow other headers.
 */
export const dashboardController = () =>
  new Elysia({ name: "dashboard/page" })
    .use(edge)
    .get("/dashboard", page)
    .get("/dashboard/", ({ redirect }) => redirect("/dashboard"))
    .get("/dashboard/*", page)
    .get("/dashboard/assets/:name", async ({ request, params }) => {
      const asset = (await assets()).files.get(params.name)
      if (asset === undefined) return new Failure("route.not_found")
      return respond(request, asset, { "Cache-Control": "public, max-age=31536000, immutable" })
    })

const page = async ({ request }: { request: Request }): Promise<Response> =>
  respond(request, (await assets()).page, { "Cache-Control": "no-store" })
