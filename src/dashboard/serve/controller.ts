/**
 * Serves the dashboard: the page at `/dashboard` and at all addresses of its pages, the files at `/dashboard/assets/`. Bun's
 * HTML routes could serve them too, but do not allow other headers.
 */
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import { edge } from "../../http/edge.ts"
import { type Asset, type Assets, assetsOf, bundlePage, encodedFor } from "./bundle.ts"
import { embedded } from "./embedded.ts"

/** Nothing from elsewhere, nothing inline, nowhere framed. QR codes are drawn by the server, as data. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ")

export const guarded = {
  "Content-Security-Policy": POLICY,
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  Vary: "Accept-Encoding",
}

export const dashboardController = () =>
  new Elysia({ name: "dashboard/page" })
    .use(edge)
    .get("/", ({ redirect }) => redirect("/dashboard"))
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

/** Bundled when the first visitor comes: a process without visitors bundles nothing. */
let made: Promise<Assets> | undefined

export const assets = (): Promise<Assets> =>
  (made ??= makeAssets().catch((error: unknown) => {
    // Bundling is tried again for the next visitor, because the sources may be corrected meanwhile.
    made = undefined
    throw error
  }))

const makeAssets = async (): Promise<Assets> => assetsOf(embedded ?? (await bundlePage("fast")))

function respond(request: Request, asset: Asset, headers: Record<string, string>): Response {
  const [encoding, body] = encodedFor(asset, request.headers.get("accept-encoding") ?? "")
  return new Response(body, {
    headers: {
      ...guarded,
      ...headers,
      "Content-Type": asset.type,
      ...(encoding !== "identity" && { "Content-Encoding": encoding }),
    },
  })
}
