/**
 * Sends the messages of the outbox. Mails are sent one after the other. Webhooks are sent concurrently, at most one for each
 * account. Retries may take only some of the places, so that a slow receiver delays nobody else. Milliseconds.
 *
 * A webhook is posted to an address that a customer named. The customer may be an attacker, and the address a way into the house's
 * network: https alone, at two ports, to a name whose every address is public. The name is resolved once, and the connection
 * goes to what was judged, so that a second answer of the name server changes nothing. No redirect is followed, no word of the
 * answer is read, and all of it takes ten seconds at most.
 */
import { Resolver } from "node:dns/promises"
import { request } from "node:https"
import { networkInterfaces } from "node:os"
import ipaddr from "ipaddr.js"
import { Webhook } from "standardwebhooks"
import type { Log } from "../log.ts"
import { isPutBack, type Mailer } from "./owner-mail.ts"
import type { Outbox, TakenWebhook } from "../store/outbox.ts"
import { mailOf } from "./alert-mails.ts"

export interface DeliveriesOptions {
  readonly outbox: Outbox
  /** Undefined without a mail server. */
  readonly mailer: Mailer | undefined
  readonly log: Pick<Log, "warn">
  readonly network?: WebhookNetwork
  readonly random?: () => number
}

/** Mails in one run, which bounds the load of the operator's mail server. */
const MAILS_A_LOOK = 20
/** At once, in one process. */
const PLACES = 16
const AILING_PLACES = 6

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
/** The schedule that Standard Webhooks proposes. There is no attempt after the last one. */
export const RETRY_DELAYS_MS: readonly number[] = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
]
/** Jitter, as a part of a delay: messages that failed together are not retried together. */
const SPREAD = 0.1

export class Deliveries {
  readonly #parts: DeliveriesOptions
  readonly #underWay = new Map<Promise<void>, TakenWebhook>()
  #beginning: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(parts: DeliveriesOptions) {
    this.#parts = parts
  }

  /** Some of the mails that are due. */
  async sendMails(): Promise<void> {
    const { outbox, mailer, log } = this.#parts
    if (mailer === undefined) return
    for (let tried = 0; tried < MAILS_A_LOOK && !this.#stopped;) {
      const taken = await outbox.takeMail()
      if (taken === undefined) return
      // Nothing of the mail server's. It ends: what is put off is not due any more.
      if (taken === "put off") continue
      tried++
      if (taken === "no address") continue
      const mail = mailOf(taken)
      const delivery = mail === undefined ? "refused" : await mailer.send(mail)
      const again = isPutBack(delivery)
      if (delivery !== "sent") log.warn("mail not sent", { account_id: taken.accountId, again })
      if (again) await outbox.putMailBack(taken.id)
      else await outbox.endMail(taken.id, delivery === "sent" ? undefined : delivery)
      // It is unreachable for the next mail too. One that takes nothing for this address takes others.
      if (delivery === "unreachable") return
    }
  }

  /** Starts as many webhooks as there are places for, and waits for none. */
  beginWebhooks(): Promise<void> {
    return (this.#beginning = this.#begin())
  }

  async #begin(): Promise<void> {
    const { outbox, log } = this.#parts
    const free = PLACES - this.#underWay.size
    if (free <= 0 || this.#stopped) return
    const ailing = this.#underWay.values().filter(({ isAiling }) => isAiling)
    for (const taken of await outbox.takeWebhooks(free, Math.min(free, AILING_PLACES - [...ailing].length))) {
      // What cannot be written down comes back by itself.
      const sending: Promise<void> = this.#send(taken)
        .catch((error: unknown) =>
          log.warn("webhook not written down", { account_id: taken.accountId, error: String(error) }),
        )
        .finally(() => this.#underWay.delete(sending))
      this.#underWay.set(sending, taken)
    }
  }

  async sweep(): Promise<void> {
    await this.#parts.outbox.sweep()
  }

  /** Resolves when the webhooks in flight have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay.keys())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    // What it has taken is begun. Whoever asked for it hears why it fails.
    await this.#beginning.catch(() => {})
    await this.settled()
  }

  async #send(taken: TakenWebhook): Promise<void> {
    const { outbox, network = internet, random = Math.random } = this.#parts
    const body = JSON.stringify({ type: taken.kind, timestamp: taken.createdAt.toISOString(), data: taken.data })
    const posted = await post({ url: taken.url, headers: signed(taken, body, new Date()), body }, network)
    if (typeof posted !== "string" && posted.status >= 200 && posted.status < 300)
      return await outbox.webhookTaken(taken, posted.status)
    const attempt = typeof posted === "string" ? { problem: posted } : posted
    const gone = typeof posted !== "string" && posted.status === 410
    const gap = gone || taken.kind === "webhook.test" ? undefined : RETRY_DELAYS_MS[taken.attempts - 1]
    await outbox.webhookFailed(taken, attempt, gap && gap * (1 + SPREAD * random()), gone)
  }
}

/** By Standard Webhooks: over id, time and body, by each secret that holds. */
function signed({ id, secrets }: Pick<TakenWebhook, "id" | "secrets">, body: string, now: Date) {
  return {
    "content-type": "application/json",
    "user-agent": "Loket-Webhook/1",
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(now.getTime() / SECOND)),
    "webhook-signature": secrets.map((secret) => new Webhook(secret).sign(id, now, body)).join(" "),
  }
}

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

const internet: WebhookNetwork = {
  resolve: addressesOf,
  isAllowed: isPublic,
  timeoutMs: 10_000,
}

/** Of one question to one name server, in milliseconds: asked twice, both are over before the delivery is. */
const NAME_MS = 2_000

/**
 * Of both families, the one first by which this machine is on a network. Name servers are asked without a thread of the system's: its
 * look-up holds one for as long as a customer's name server says nothing, and has the few that passwords, files and the names of
 * backends need too. `nameServers`: others than the machine's.
 */
export async function addressesOf(host: string, nameServers?: readonly string[]): Promise<string[]> {
  const resolver = new Resolver({ timeout: NAME_MS, tries: 2 })
  if (nameServers !== undefined) resolver.setServers(nameServers)
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const [of4 = [], of6 = []] = answers.map((answer) => (answer.status === "fulfilled" ? answer.value : []))
  return isOnIpv4() ? [...of4, ...of6] : [...of6, ...of4]
}

const isOnIpv4 = (): boolean =>
  Object.values(networkInterfaces()).some((addresses) =>
    addresses?.some(({ family, internal }) => family === "IPv4" && !internal),
  )

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
  // Of IPv6, what is given out (RFC 4291).
  return !(parsed instanceof ipaddr.IPv6) || parsed.match(ipaddr.IPv6.parse("2000::"), 3)
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
