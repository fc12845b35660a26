/**
 * The HTTP edge: every response gets its request id here, every failure its body, and whatever throws becomes an error
 * of the catalogue. One of the two places that turn a throw into an outcome (the other is the actor loop).
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia, NotFoundError } from "elysia"
import { Failure } from "../failure/failure.ts"
import { failureCodes } from "../failure/table.ts"
import { isMuchUnread } from "../gateway/read-body.ts"
import type { Log } from "../log.ts"
import { NotArchived } from "../store/archives.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import { type Connection, discardingBody } from "./connection.ts"
import { preflight, readableBy } from "./pages.ts"
import { newRequestId } from "./request-id.ts"
import { described, field, flag, oneOf, text } from "./shapes.ts"

/** Asks what a call would come to (dry-runs.ts). */
export const DRY_RUN = "X-Dry-Run"

export class Context {
  readonly requestId: string
  /** Undefined where there is none, as in tests of controllers. */
  readonly connection: Connection | undefined
  /** Of the page of another origin that may read the answer. */
  allowedPage: string | undefined
  readonly #findAddress: () => string
  #address: string | undefined

  constructor(requestId: string, findAddress: () => string, connection: Connection | undefined) {
    this.requestId = requestId
    this.connection = connection
    this.#findAddress = findAddress
  }

  allowPage(origin: string): void {
    this.allowedPage = origin
  }

  /** The client's network address, looked up when it is asked for first: once the connection has gone there is none. */
  get address(): string {
    return (this.#address ??= this.#findAddress())
  }
}

const contexts = new WeakMap<Request, Context>()

export function contextOf(request: Request): Context {
  const context = contexts.get(request)
  if (context === undefined) throw new Error("the request did not come through the edge")
  return context
}

/**
 * The plugin that controllers use: `requestId` and `connection` in their context, and handlers may return a Failure.
 */
export const edge = new Elysia({ name: "edge" })
  .derive({ as: "global" }, ({ request }) => {
    const { requestId, connection } = contextOf(request)
    return { requestId, connection }
  })
  .mapResponse({ as: "global" }, ({ response, request }) =>
    response instanceof Failure ? failureResponse(response, contextOf(request).requestId) : undefined,
  )

export interface EdgeOptions {
  readonly log: Log
  readonly now: () => number
  /** Whether a path that has a route is there now; left out, all are. */
  readonly isThere?: (path: string) => boolean
  /** The pages that any key lists; left out, none. */
  readonly pages?: { has(origin: string): boolean }
}

interface Route {
  readonly method: string
  readonly path: string
  readonly hooks?: unknown
}

interface Handler {
  readonly fetch: (request: Request) => Response | Promise<Response>
  readonly routes: readonly Route[]
}

/** Wraps the controllers into the one function that the server calls. */
export function edgeHandler(app: Handler, options: EdgeOptions) {
  const { isThere = () => true } = options
  const methodsOf = methodTable(app.routes)
  const methodsWithKey = methodTable(app.routes.filter(takesKey))
  const allowedMethods = (path: string) => (isThere(path) ? methodsOf(path) : undefined)
  return async (received: Request, findAddress: () => string, connection?: Connection): Promise<Response> => {
    const request = withHost(received)
    const requestId = newRequestId(options.now())
    contexts.set(request, new Context(requestId, findAddress, connection))
    let response: Response
    try {
      const asked = judged(request)
      response = asked instanceof Failure ? failureResponse(asked, requestId) : (asked ?? (await app.fetch(request)))
    } catch (error) {
      response = failureResponse(failureOf(error, requestId, options.log), requestId)
    }
    // A dry run tells with 200 that a body is too much to be read.
    const mayBeUnread = response.status >= 400 || request.headers.has(DRY_RUN)
    const whole = mayBeUnread && isMuchUnread(request) ? await discardingBody(request, response) : response
    const { allowedPage } = contextOf(request)
    if (allowedPage !== undefined) readableBy(allowedPage, whole)
    return named(whole, requestId)
  }

  /** What there is no route for is refused before it is routed, and a pre-flight of a page that some key lists is answered. */
  function judged(request: Request): Failure | Response | undefined {
    const path = pathOf(request)
    if (path === undefined) return new Failure("request.invalid", { message: "The Host header is not valid." })
    const methods = allowedMethods(path)
    if (methods === undefined) return new Failure("route.not_found", nearPath(path, allowedMethods))
    if (methods.includes(request.method)) return undefined
    if (request.method === "OPTIONS" && options.pages !== undefined && isThere(path)) {
      const met = preflight(request.headers, methodsWithKey(path), options.pages)
      if (met !== undefined) return met
    }
    return new Failure("request.method_not_allowed", { headers: { Allow: methods.join(", ") } })
  }
}

/** Calls with an API key, by their terms (route.ts). */
const takesKey = ({ hooks }: Route): boolean =>
  (hooks as { readonly detail?: { readonly credential?: unknown } } | undefined)?.detail?.credential === "key"

const VERSION = "/v1"

/** A client's base address has `/v1` too little or twice, or ends with a slash: the path that it meant, where there is one. */
function nearPath(path: string, isThere: (path: string) => unknown): { readonly hint?: string } {
  const bare = path.replace(/\/+$/, "").replace(/^(?:\/v1)+(?=\/|$)/, "")
  if (bare === "") return path.startsWith(VERSION) ? { hint: BASE_ADDRESS } : {}
  const meant = [VERSION + bare, bare].find((near) => near !== path && isThere(near) !== undefined)
  return meant === undefined ? {} : { hint: `Did you mean ${meant}? ${BASE_ADDRESS}` }
}

const BASE_ADDRESS =
  "As its base address a client of chat completions or responses takes this server with /v1, one of messages without it."

/** For what escapes even the edge: a bug in it. The answer has an id all the same, and the log has the same one. */
export function unhandled(error: unknown, { log, now }: EdgeOptions): Response {
  const requestId = newRequestId(now())
  return named(failureResponse(failureOf(error, requestId, log), requestId), requestId)
}

/**
 * The second name is the one that the messages format's SDK reads (decisions §1). Nobody guesses what an answer is, and
 * nobody keeps one unless it says otherwise. A page of another origin reads the answers of calls whose key lists it, and
 * no others: the dashboard's API is for the dashboard.
 */
function named(response: Response, requestId: string): Response {
  const { headers } = response
  headers.set("X-Request-Id", requestId)
  headers.set("request-id", requestId)
  headers.set("X-Content-Type-Options", "nosniff")
  if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store")
  return response
}

/** What a throw means to the client. Only a bug is logged, with its stack; the client sees nothing of it. */
export function failureOf(error: unknown, requestId: string, log: Log): Failure {
  if (error instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
  if (error instanceof NotArchived) {
    log.error("archive not read", { request_id: requestId, error: error.message })
    return new Failure("dependency.database_unavailable", {
      message: "The call's record is archived, and the archive cannot be read at the moment.",
    })
  }
  if (error instanceof NotFoundError) return new Failure("route.not_found")
  log.error("unhandled", {
    request_id: requestId,
    error: error instanceof Error ? (error.stack ?? error.message) : String(error),
  })
  return new Failure("internal.panic")
}

/**
 * HTTP/1.0 has no `Host`, and health checks of load balancers still speak it. A name that is reserved for nobody makes a
 * URL of their path, so that such a caller is on no trusted host either.
 */
function withHost(request: Request): Request {
  if (request.headers.has("host") || !request.url.startsWith("/")) return request
  return new Request(`http://none.invalid${request.url}`, request)
}

/**
 * The path of a request, or undefined when its `Host` header makes no URL, or comes twice: a proxy before us may have
 * gone by the other one (RFC 9112, 3.2).
 */
function pathOf({ url, headers }: Request): string | undefined {
  if (headers.get("host")?.includes(",") === true) return undefined
  const start = url.indexOf("/", "https://".length)
  const origin = url.slice(0, start)
  const path = url.slice(start)
  if (start > 0 && origins.has(origin) && PLAIN_PATH.test(path)) return path
  if (!URL.canParse(url)) return undefined
  if (origins.size < MOST_ORIGINS) origins.add(origin)
  return new URL(url).pathname
}

/** Of these a URL's parser would make the same. */
const PLAIN_PATH = /^[A-Za-z0-9/_-]+$/
/** Beginnings of URLs that were found to be valid. */
const origins = new Set<string>()
const MOST_ORIGINS = 100

/** Which methods a path takes: what makes a wrong method a 405 and not a 404 (gateway-api.md, "Method errors"). */
function methodTable(routes: Handler["routes"]) {
  const exact = new Map<string, string[]>()
  const patterns: { readonly pattern: RegExp; readonly methods: string[] }[] = []
  for (const { method, path } of routes) {
    const known = exact.get(path)
    const methods = known ?? []
    if (!methods.includes(method)) methods.push(method)
    if (known !== undefined) continue
    exact.set(path, methods)
    if (path.includes(":") || path.includes("*")) patterns.push({ pattern: patternOf(path), methods })
  }
  for (const methods of exact.values()) if (methods.includes("GET")) methods.push("HEAD")
  return (path: string): string[] | undefined =>
    exact.get(path) ?? patterns.find(({ pattern }) => pattern.test(path))?.methods
}

const patternOf = (path: string) =>
  new RegExp(
    `^${path
      .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
      .replace(/\*/g, ".+")
      .replace(/:\w+/g, "[^/]+")}$`,
  )

/**
 * How a failure leaves over HTTP: its body and headers (gateway-api.md, "Errors"; decisions §4). gateway-api.md,
 * "Error body".
 */
export const errorBody = Type.Object(
  {
    error: described(text, field("For people; may change.", "Untuk dibaca orang; dapat berubah.")),
    code: oneOf(failureCodes, field("The contract: branch on this.", "Inilah kontraknya: bercabanglah menurut ini.")),
    type: described(text, field("The part of `code` after its last dot.", "Bagian `code` setelah titik terakhir.")),
    request_id: text,
    retryable: described(
      flag,
      field("Whether the same request may succeed later.", "Apakah permintaan yang sama mungkin berhasil nanti."),
    ),
    hint: Type.Optional(text),
  },
  { $id: "Error" },
)
export type ErrorBody = Static<typeof errorBody>

export function failureResponse(failure: Failure, requestId: string): Response {
  const headers = new Headers(failure.detail.headers)
  headers.set("Content-Type", "application/json")
  headers.set("X-Error-Code", failure.code)
  if (!failure.retryable) headers.set("x-should-retry", "false")
  if (failure.detail.retryAfterS !== undefined) headers.set("Retry-After", String(failure.detail.retryAfterS))
  return new Response(JSON.stringify(failure.body(requestId)), { status: failure.status, headers })
}
