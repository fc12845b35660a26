/**
 * Posts an event to an address that a customer named. The customer may be an attacker, and the address a way into the house's
 * network: https alone, at two ports, to a name whose every address is public. The name is resolved once, and the connection
 * goes to what was judged, so that a second answer of the name server changes nothing. No redirect is followed, no word of the
 * answer is read, and all of it takes ten seconds at most.
 */
import { lookup } from "node:dns/promises"
import { request } from "node:https"
import ipaddr from "ipaddr.js"

export interface Posted {
  readonly status: number
}

/** Why nothing was answered. */
export type Problem = "address" | "dns" | "timeout" | "tls" | "connection"

export interface PostTerms {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What a test puts in the place of the Internet. */
export interface WebhookNetwork {
  /** All addresses of a name. */
  readonly resolve: (host: string) => Promise<readonly string[]>
  readonly isAllowed: (address: string) => boolean
  readonly timeoutMs: number
  /** Where a connection to an address is made in truth. */
  readonly connectTo?: (address: string) => { readonly address: string; readonly port: number }
  /** PEM of who is trusted beside those whom everybody trusts. */
  readonly ca?: string
}

export const internet: WebhookNetwork = {
  resolve: async (host) => (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address),
  isAllowed: isPublic,
  timeoutMs: 10_000,
}

const PORTS = new Set(["", "443", "8443"])
const LONGEST_URL = 2_000

/** Why an address is none for a webhook, as what it must be; undefined when it is one. */
export function urlProblem(text: string): string | undefined {
  const form = "an address that begins with https:// and has a host's name, such as https://example.com/loket"
  if (text.length > LONGEST_URL || /[\s\p{Cc}]/u.test(text) || !URL.canParse(text)) return form
  const url = new URL(text)
  const host = url.hostname
  if (url.protocol !== "https:" || url.username !== "" || url.password !== "" || url.hash !== "") return form
  if (ipaddr.isValid(host.replace(/^\[|\]$/g, "")) || !/^[a-z0-9-]+(\.[a-z0-9-]+)+\.?$/.test(host)) return form
  return PORTS.has(url.port) ? undefined : "an address at port 443 or 8443"
}

/** On the public Internet: no private, shared, local or metadata network, and no address that leads to one in another's clothes. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== "unicast") return false
  // Of IPv6, what is given out (RFC 4291); NAT64 of one's own (RFC 8215) and more lie outside. And documentation (RFC 9637).
  if (parsed instanceof ipaddr.IPv6)
    return parsed.match(ipaddr.IPv6.parse("2000::"), 3) && !parsed.match(ipaddr.IPv6.parse("3fff::"), 20)
  return true
}

export async function post(terms: PostTerms, network: WebhookNetwork = internet): Promise<Posted | Problem> {
  const deadline = Promise.withResolvers<"timeout">()
  const abort = new AbortController()
  const timer = setTimeout(() => {
    abort.abort()
    deadline.resolve("timeout")
  }, network.timeoutMs)
  try {
    return await Promise.race([deadline.promise, attempt(terms, network, abort.signal)])
  } finally {
    clearTimeout(timer)
  }
}

async function attempt(terms: PostTerms, network: WebhookNetwork, signal: AbortSignal): Promise<Posted | Problem> {
  // It was one when it was set; the rules may be others now.
  if (urlProblem(terms.url) !== undefined) return "address"
  const url = new URL(terms.url)
  const addresses = await network.resolve(url.hostname).catch(() => [])
  const [address] = addresses
  if (address === undefined) return "dns"
  if (!addresses.every(network.isAllowed)) return "address"
  return signal.aborted ? "timeout" : await send(url, address, terms, network, signal)
}

function send(url: URL, address: string, { headers, body }: PostTerms, network: WebhookNetwork, signal: AbortSignal) {
  const { resolve, promise } = Promise.withResolvers<Posted | Problem>()
  const { address: at, port } = network.connectTo?.(address) ?? { address, port: Number(url.port || 443) }
  const family = at.includes(":") ? 6 : 4
  const call = request({
    method: "POST",
    host: url.hostname,
    servername: url.hostname,
    port,
    path: url.pathname + url.search,
    headers: { ...headers, host: url.host, "content-length": String(Buffer.byteLength(body)) },
    // A connection of its own, to the address that was judged.
    agent: false,
    lookup: (_host, options, found) =>
      options.all === true ? found(null, [{ address: at, family }]) : found(null, at, family),
    signal,
    maxHeaderSize: 16_384,
    ...(network.ca !== undefined && { ca: network.ca }),
  })
  call.once("response", (answer) => {
    resolve({ status: answer.statusCode ?? 0 })
    answer.destroy()
    call.destroy()
  })
  call.on("error", (error) => resolve(signal.aborted ? "timeout" : problemOf(error)))
  call.end(body)
  return promise
}

const problemOf = (error: Error): Problem =>
  "code" in error && typeof error.code === "string" && /CERT|TLS|SSL|VERIFY|SIGNED/.test(error.code)
    ? "tls"
    : "connection"
