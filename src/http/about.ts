/**
 * `/about`: what the dashboard has to know of the gateway that serves it, before and after a sign-in. Nothing in it is
 * anybody's in particular.
 */
import { Elysia } from "elysia"

export interface About {
  /** Where its people reach the operator: an e-mail address, or one that begins with https://. */
  readonly supportContact: string | undefined
  /** Whether there is a mail server that mail could leave by. */
  readonly sendsMail: boolean
}

export const aboutController = ({ supportContact, sendsMail }: About) =>
  new Elysia({ name: "about" }).get("/about", () => ({
    support_contact: supportContact ?? null,
    sends_mail: sendsMail,
  }))
