/**
 * Who is signed in (decisions §10): a bearer token, or the session cookie. A cookie travels by itself, so a call that
 * changes something by cookie must also come from a page of ours. An API key opens nothing here, wherever it stands.
 */
import type { Accounts, Session } from "../../accounts/accounts.ts"
import { API_KEY_PREFIX } from "../../accounts/api-key.ts"
import { SESSION_DAYS } from "../../store/session-days.ts"
import { Failure } from "../../failure/failure.ts"
import { isOwnOrigin, isPlainLoopback, whereabouts } from "./address.ts"

export type Authenticate = (request: Request) => Promise<Session | Failure>

export function authenticator(accounts: Pick<Accounts, "session">): Authenticate {
  return async (request) => {
    const presented = presentedToken(request)
    return presented instanceof Failure ? presented : await accounts.session(presented, whereabouts(request))
  }
}

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
