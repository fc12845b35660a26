/**
 * Who is signed in (decisions §10): a bearer token, or the session cookie. A cookie travels by itself, so a call that
 * changes something by cookie must also come from a page of ours. An API key opens nothing here, wherever it stands.
 */
import type { Accounts, Session } from "../../accounts/accounts.ts"
import { API_KEY_PREFIX } from "../../accounts/api-key.ts"
import { SESSION_DAYS } from "../../store/session-days.ts"
import { Failure } from "../../failure/failure.ts"
import type { Whereabouts } from "../../store/accounts.ts"
import type { Act } from "../../store/operator/audit.ts"
import { contextOf } from "../edge.ts"
import { routesFor } from "../route.ts"

export type Authenticate = (request: Request) => Promise<Session | Failure>

export function authenticator(accounts: Pick<Accounts, "session">): Authenticate {
  return async (request) => {
    const presented = presentedToken(request)
    return presented instanceof Failure ? presented : await accounts.session(presented, whereabouts(request))
  }
}

/** Makes the routes of whoever is signed in. */
export const signedInBy = (authenticate: Authenticate) =>
  routesFor("session", async (request) => {
    const session = await authenticate(request)
    return session instanceof Failure ? session : { session }
  })

export interface Operator {
  readonly accountId: string
  /** In which plain days are meant. */
  readonly timeZone: string
  /** Who acts, for the audit log. */
  readonly act: Act
}

/**
 * Makes the routes of operators. Everybody else who is signed in gets a 403, whatever the route, so that nothing shows of
 * what there is.
 */
export const operatorBy = (authenticate: Authenticate) =>
  routesFor("session", async (request) => {
    const session = await authenticate(request)
    if (session instanceof Failure) return session
    if (session.role !== "operator") return new Failure("auth.forbidden", { message: "This is for operators." })
    const { requestId, address } = contextOf(request)
    const { accountId, timeZone } = session
    const operator: Operator = { accountId, timeZone, act: { requestId, operatorId: accountId, address } }
    return { operator }
  })

function presentedToken(request: Request): string | Failure {
  const authorization = request.headers.get("authorization") ?? ""
  const bearer = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  if (bearer?.startsWith(API_KEY_PREFIX) || request.headers.get("x-api-key")?.startsWith(API_KEY_PREFIX)) {
    return new Failure("auth.unauthorized", {
      message: "An API key is not accepted here; sign in for a session token.",
    })
  }
  if (bearer !== undefined) return bearer
  const cookie = cookieToken(request)
  if (cookie === undefined || authorization !== "") return new Failure("auth.unauthorized")
  if (changesSomething(request) && !isOwnOrigin(request, request.headers.get("origin") ?? "")) {
    return new Failure("auth.forbidden", { message: "A call by cookie must come from the dashboard's own origin." })
  }
  return cookie
}

const changesSomething = ({ method }: Request): boolean => method !== "GET" && method !== "HEAD"

/** `__Host-` keeps other hosts of the domain from setting it, but needs https. */
const cookieName = (request: Request): string => (isPlainLoopback(request) ? "session" : "__Host-session")

export function cookieToken(request: Request): string | undefined {
  const name = cookieName(request)
  for (const pair of (request.headers.get("cookie") ?? "").split(";")) {
    const at = pair.indexOf("=")
    if (pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/** The `Set-Cookie` of a new session; an empty token ends the cookie. */
export function sessionCookie(request: Request, token: string): string {
  const lifetime = token === "" ? 0 : SESSION_DAYS * 24 * 60 * 60
  const secure = isPlainLoopback(request) ? "" : "; Secure"
  return `${cookieName(request)}=${token}; Path=/; Max-Age=${lifetime}; HttpOnly; SameSite=Strict${secure}`
}

export const whereabouts = (request: Request): Whereabouts => ({
  address: contextOf(request).address,
  userAgent: request.headers.get("user-agent") ?? "",
})

const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/

/** Whether a listener on this name or address (without brackets) can be reached from this machine alone. */
export function isLoopback(host: string): boolean {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`
  return URL.canParse(url) && LOOPBACK.test(new URL(url).hostname)
}

/** Plain http on loopback: where a browser refuses `__Host-` cookies, and where nobody can listen in. */
function isPlainLoopback(request: Request): boolean {
  const { protocol, hostname } = new URL(request.url)
  return protocol === "http:" && LOOPBACK.test(hostname)
}

/**
 * Whether the page that sent this is ours. The scheme is not compared with the request's, because behind a proxy that
 * ends TLS ours is always http; it must be https unless on loopback.
 */
export function isOwnOrigin(request: Request, origin: string): boolean {
  const page = URL.parse(origin)
  if (page === null || page.host !== new URL(request.url).host) return false
  return page.protocol === "https:" || isPlainLoopback(request)
}
