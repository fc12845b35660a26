/**
 * The HTTP edge: every response gets its request id here, every failure its body, and whatever throws becomes an error
 * of the catalogue. One of the two places that turn a throw into an outcome (the other is the actor loop).
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia, NotFoundError } from "elysia"
import { customAlphabet } from "nanoid"
import { Failure } from "../failure/failure.ts"
import { failureCodes } from "../failure/table.ts"
import { unreadBody } from "../gateway/read-body.ts"
import type { Log } from "../log.ts"
import { NotArchived } from "../store/archive-file.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import { type Connection, discardingBody, isStream, preflight, readableBy } from "./connection.ts"
import { described, field, flag, oneOf, text } from "./shapes.ts"

/** The header that makes a call a dry run (dry-runs.ts). */
export const DRY_RUN = "X-Dry-Run"

class Context {
  readonly requestId: string
  /** Undefined without a server, as in tests of controllers. */
  readonly connection: Connection | undefined
  /** The origin of a page that may read the response. */
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

  /** The client's network address. It is looked up at the first access; a closed connection has none. */
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
  /** Whether a path with a route is served now. Without it, all are. */
  readonly isThere?: (path: string) => boolean
  /** The origins that any key lists. Without it, none. */
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
    const isHead = received.method === "HEAD"
    const request = isHead ? getOf(withHost(received)) : withHost(received)
    const requestId = newRequestId(options.now())
    contexts.set(request, new Context(requestId, findAddress, connection))
    let response: Response
    try {
      const asked = precheck(request)
      response = asked instanceof Failure ? failureResponse(asked, requestId) : (asked ?? (await app.fetch(request)))
      if (isHead) response = await withoutBody(response)
    } catch (error) {
      response = failureResponse(failureOf(error, requestId, options.log), requestId)
    }
    // A dry run reports a body that is too large with a 200.
    const mayBeUnread = response.status >= 400 || request.headers.has(DRY_RUN)
    const unread = mayBeUnread ? unreadBody(request) : undefined
    const whole = unread === undefined ? response : await discardingBody(request, response, unread)
    const { allowedPage } = contextOf(request)
    if (allowedPage !== undefined) readableBy(allowedPage, whole)
    return named(whole, requestId)
  }

  /** Refuses a path without a route before routing, and answers pre-flights of pages that some key lists. */
  function precheck(request: Request): Failure | Response | undefined {
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

/** Calls with an API key, by their route's options (route.ts). */
const takesKey = ({ hooks }: Route): boolean =>
  (hooks as { readonly detail?: { readonly credential?: unknown } } | undefined)?.detail?.credential === "key"

const VERSION = "/v1"

/**
 * The intended path of a client whose base address lacks `/v1`, has it twice, ends with a slash, or is the whole address of an endpoint, if
 * there is one.
 */
function nearPath(path: string, isThere: (path: string) => unknown): { readonly hint?: string } {
  const steps = path.split("/").filter((step) => step !== "" && step !== "v1")
  if (steps.length === 0) return path.startsWith(VERSION) ? { hint: BASE_ADDRESS } : {}
  const half = steps.slice(0, steps.length / 2)
  const isTwice = steps.length > 1 && half.join("/") === steps.slice(half.length).join("/")
  const bare = `/${(isTwice ? half : steps).join("/")}`
  const meant = [VERSION + bare, bare].find((near) => near !== path && isThere(near) !== undefined)
  return meant === undefined ? {} : { hint: `Did you mean ${meant}? ${BASE_ADDRESS}` }
}

const BASE_ADDRESS =
  "As its base address a client of chat completions or responses takes this server with /v1, one of messages without it."

/** Handles a throw of the edge itself, which is a bug. The response and the log have the same id. */
export function unhandled(error: unknown, { log, now }: EdgeOptions): Response {
  const requestId = newRequestId(now())
  return named(failureResponse(failureOf(error, requestId, log), requestId), requestId)
}

/**
 * The headers of every response. The SDK of the messages format reads the second name of the request id (decisions §1). Browsers must
 * not guess content types, and must not cache unless a response allows it. A page of another origin can only read responses of calls
 * whose key lists it: the dashboard's API is for the dashboard.
 */
function named(response: Response, requestId: string): Response {
  const { headers } = response
  headers.set("X-Request-Id", requestId)
  headers.set("request-id", requestId)
  headers.set("X-Content-Type-Options", "nosniff")
  if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store")
  return response
}

/** The failure of a throw. Only a bug is logged, with its stack. The client sees nothing of it. */
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
 * The host of requests without one. HTTP/1.0 has no `Host`, and some load balancers still use it for health checks. The name is reserved,
 * so such a caller is on no trusted host either.
 */
function withHost(request: Request): Request {
  if (request.headers.has("host") || !request.url.startsWith("/")) return request
  return new Request(`http://none.invalid${request.url}`, request)
}

/**
 * A HEAD is answered as its GET. The framework would read the answer to its end to count its bytes: a whole file that nobody gets, and of
 * events one that never ends, also when its client has left.
 */
const getOf = ({ url, headers, signal }: Request): Request => new Request(url, { headers, signal })

async function withoutBody(response: Response): Promise<Response> {
  const { status, headers, body } = response
  const isOpen = body !== null && isStream(headers)
  if (isOpen) await body.cancel()
  else if (body !== null) headers.set("Content-Length", String((await response.bytes()).length))
  // Of none Bun would say that its length is 0.
  return new Response(isOpen ? new ReadableStream() : null, { status, headers })
}

/**
 * The path of a request. Undefined if its `Host` header is invalid or comes twice: a proxy may have used the other one (RFC 9112, 3.2).
 */
function pathOf({ url, headers }: Request): string | undefined {
  if (headers.get("host")?.includes(",") === true) return undefined
  const start = url.indexOf("/", "https://".length)
  const origin = url.slice(0, start)
  const path = url.slice(start)
  if (start > 0 && origins.has(origin) && PLAIN_PATH.test(path)) return path
  if (!URL.canParse(url)) return undefined
  if (origins.size < MAX_ORIGINS) origins.add(origin)
  return new URL(url).pathname
}

/** Characters that a URL parser leaves unchanged. */
const PLAIN_PATH = /^[A-Za-z0-9/_-]+$/
/** A cache of URL prefixes that are valid. */
const origins = new Set<string>()
const MAX_ORIGINS = 100

/** The methods of each path. They make a wrong method a 405 and not a 404 (gateway-api.md, "Method errors"). */
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

/**
 * Request ids: `req_`, nine characters of milliseconds since the epoch in base 36, and a nanoid. Ids sort by the time of
 * their creation, which keeps the usage table's index append-mostly (decisions §1).
 */
// Without `_` and `-`, so that ids of one millisecond differ only in letters and digits and select with a double click.
const suffix = customAlphabet("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 18)

/** The prefix of all ids of this millisecond, which sorts before them. Nine characters last until the year 5188. */
export const firstRequestId = (ms: number): string =>
  `req_${Math.min(Math.max(0, ms), 36 ** 9 - 1)
    .toString(36)
    .padStart(9, "0")}`

export const newRequestId = (nowMs: number): string => `req_${nowMs.toString(36).padStart(9, "0")}${suffix()}`
