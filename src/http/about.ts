/**
 * `/about`: what the dashboard has to know of the gateway that serves it, before and after a sign-in. Nothing in it is
 * anybody's in particular.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { open } from "./route.ts"
import { orNull, text } from "./shapes.ts"

export interface About {
  /** Where its people reach the operator: an e-mail address, or one that begins with https://. */
  readonly supportContact: string | undefined
  /** Whether there is a mail server that mail could leave by. */
  readonly sendsMail: boolean
}

export const aboutController = ({ supportContact, sendsMail }: About) =>
  new Elysia({ name: "about" }).get(
    ...open(
      "/about",
      {
        tag: "Running",
        summary: "What the dashboard has to know of this gateway",
        answer: Type.Object({
          support_contact: orNull(text, "Where people reach the operator: an e-mail address, or that of a page."),
          sends_mail: Type.Boolean({ description: "Without it, nobody is written to." }),
        }),
      },
      async () => ({ support_contact: supportContact ?? null, sends_mail: sendsMail }),
    ),
  )
