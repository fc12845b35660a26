/** Sends mail through an SMTP server (nodemailer). Times in milliseconds. */
import { createTransport } from "nodemailer"

export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

/**
 * `refused`: the server will not take it for this address. `later`: it surely did not take it now. `unknown`: the connection
 * was lost when it may have taken it.
 */
export type Delivery = "sent" | "refused" | "later" | "unknown"

export interface Mailer {
  /** Never throws. */
  send(mail: Mail): Promise<Delivery>
}

export interface SmtpTerms {
  /** `smtp://` (STARTTLS where offered) or `smtps://`, with user and password if need be. */
  readonly url: string
  readonly from: string
}

/** By nodemailer's names, which an operator may also put in the address's query. */
const WAITS_MS = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 30_000 }

export function smtpMailer({ url, from }: SmtpTerms): Mailer {
  const address = new URL(url)
  for (const [name, ms] of Object.entries(WAITS_MS)) {
    if (!address.searchParams.has(name)) address.searchParams.set(name, String(ms))
  }
  const transport = createTransport(address.href, { from })
  return {
    async send({ to, subject, text }) {
      try {
        // A server that cannot be reached, or does not know us, has surely taken nothing.
        await transport.verify()
      } catch {
        return "later"
      }
      try {
        // As an object, because a text would be read as a list of addresses.
        await transport.sendMail({ to: { name: "", address: to }, subject, text })
        return "sent"
      } catch (error) {
        const code = responseCode(error)
        if (code === undefined) return "unknown"
        return code >= 500 ? "refused" : "later"
      }
    },
  }
}

/** What the server answered, if it did (RFC 5321 §4.2). */
const responseCode = (error: unknown): number | undefined =>
  error instanceof Error && "responseCode" in error && typeof error.responseCode === "number"
    ? error.responseCode
    : undefined
