/**
 * From where a request comes: its own origin, as the browser must name it, and the client's network address.
 */
import type { Whereabouts } from "../../store/accounts.ts"
import { contextOf } from "../edge.ts"

export const whereabouts = (request: Request): Whereabouts => ({
  address: contextOf(request).address,
  userAgent: request.headers.get("user-agent") ?? "",
})

const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/

/** What a listener of this machine alone is told to listen on: a name or an address, without brackets. */
export function isLoopback(host: string): boolean {
  const url = `http://${host.includes(":") ? `[${host}]` : host}`
  return URL.canParse(url) && LOOPBACK.test(new URL(url).hostname)
}

/** Plain http on loopback: where a browser refuses `__Host-` cookies, and where nobody can listen in. */
export function isPlainLoopback(request: Request): boolean {
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
