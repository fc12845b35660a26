/**
 * Sends the messages of the outbox. Mails are sent one after the other. Webhooks are sent concurrently, at most one for each account.
 * Retries may take only some of the places, so that a slow receiver delays nobody else. Milliseconds.
 */
import { Webhook } from "standardwebhooks"
import type { Log } from "../log.ts"
import type { Mailer } from "../mail/mailer.ts"
import type { Outbox, TakenWebhook } from "../store/outbox.ts"
import { internet, post, type WebhookNetwork } from "../webhooks/post.ts"
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
  readonly #underWay = new Set<Promise<void>>()
  #stopped = false

  constructor(parts: DeliveriesOptions) {
    this.#parts = parts
  }

  /** Some of the mails that are due. */
  async sendMails(): Promise<void> {
    const { outbox, mailer, log } = this.#parts
    if (mailer === undefined) return
    for (let sent = 0; sent < MAILS_A_LOOK && !this.#stopped; sent++) {
      const taken = await outbox.takeMail()
      if (taken === undefined) return
      const mail = mailOf(taken)
      const delivery = mail === undefined ? "refused" : await mailer.send(mail)
      if (delivery !== "sent") log.warn("mail not sent", { account_id: taken.accountId, again: delivery === "later" })
      if (delivery === "later") {
        await outbox.putMailBack(taken.id)
        // A server that is unreachable is unreachable for the next mail too.
        return
      }
      await outbox.endMail(taken.id, delivery === "sent" ? undefined : delivery)
    }
  }

  /** Starts as many webhooks as there are places for, and waits for none. */
  async beginWebhooks(): Promise<void> {
    const { outbox, log } = this.#parts
    const free = PLACES - this.#underWay.size
    if (free <= 0 || this.#stopped) return
    for (const taken of await outbox.takeWebhooks(free, Math.min(free, AILING_PLACES))) {
      // What cannot be written down comes back by itself.
      const sending: Promise<void> = this.#send(taken)
        .catch((error: unknown) =>
          log.warn("webhook not written down", { account_id: taken.accountId, error: String(error) }),
        )
        .finally(() => this.#underWay.delete(sending))
      this.#underWay.add(sending)
    }
  }

  async sweep(): Promise<void> {
    await this.#parts.outbox.sweep()
  }

  /** Resolves when the webhooks in flight have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  async stop(): Promise<void> {
    this.#stopped = true
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
