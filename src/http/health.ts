/**
 * `/healthz`: the process lives. `/readyz`: the database and the ledger answer, and the gateway takes calls (decisions §11).
 * `/about`: what the dashboard has to know of the gateway that serves it, before and after a sign-in.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { edge } from "./edge.ts"
import { open } from "./route.ts"
import { described, field, flag, oneOf, orNull, text } from "./shapes.ts"

export interface Readiness {
  readonly draining: () => boolean
  readonly database: () => Promise<boolean>
  /** How long the ledger's commit under way has been tried, in milliseconds. */
  readonly ledgerLagMs: () => Promise<number>
}

const LAG_LIMIT_MS = 2_000

export interface Ready {
  readonly isReady: boolean
  readonly body: Static<typeof ReadinessShape>
}

export async function readyNow(readiness: Readiness): Promise<Ready> {
  const database = await readiness.database()
  const ledger = (await readiness.ledgerLagMs()) <= LAG_LIMIT_MS
  const draining = readiness.draining()
  const isReady = database && ledger && !draining
  return { isReady, body: { status: isReady ? "ready" : "not ready", database, ledger, draining } }
}

/** The same on a listener of the process's own, because a port that is shared is answered by any of them. */
export async function answerHealth(path: string, readiness: Readiness): Promise<Response | undefined> {
  if (path === "/healthz") return Response.json({ status: "ok" })
  if (path !== "/readyz") return undefined
  const { isReady, body } = await readyNow(readiness)
  return Response.json(body, { status: isReady ? 200 : 503 })
}

const ReadinessShape = Type.Object({
  status: oneOf(["ready", "not ready"]),
  database: flag,
  ledger: flag,
  draining: flag,
})

export const healthController = (readiness: Readiness) =>
  new Elysia({ name: "health" })
    .use(edge)
    .get(
      ...open(
        "/healthz",
        {
          tag: "Running",
          summary: { en: "The process lives", id: "Proses ini hidup" },
          answer: Type.Object({ status: oneOf(["ok"]) }),
        },
        async () => ({ status: "ok" as const }),
      ),
    )
    .get(
      ...open(
        "/readyz",
        {
          tag: "Running",
          summary: {
            en: "The gateway takes calls; 503 when it does not",
            id: "Gateway menerima panggilan; 503 jika tidak",
          },
          answer: ReadinessShape,
          alsoStatus: 503,
        },
        async ({ set }) => {
          const { isReady, body } = await readyNow(readiness)
          if (!isReady) set.status = 503
          return body
        },
      ),
    )

export interface About {
  /** Where its people reach the operator: an e-mail address, or one that begins with https://. */
  readonly supportContact: string | undefined
  /** Whether there is a mail server that mail could leave by. */
  readonly sendsMail: boolean
  /** Whether mail with links is sent: by it addresses are proved, and forgotten passwords replaced. */
  readonly sendsLinks: boolean
  /** The address whose pages can use passkeys; undefined where none can. */
  readonly passkeyOrigin: () => string | undefined
  /** Of the terms, privacy and refund texts. */
  readonly legalVersion: string
}

export const aboutController = ({ supportContact, sendsMail, sendsLinks, passkeyOrigin, legalVersion }: About) =>
  new Elysia({ name: "about" }).get(
    ...open(
      "/about",
      {
        tag: "Running",
        summary: {
          en: "What the dashboard has to know of this gateway",
          id: "Yang perlu diketahui dasbor tentang gateway ini",
        },
        answer: Type.Object({
          support_contact: orNull(
            text,
            field(
              "Where people reach the operator: an e-mail address, or that of a page.",
              "Cara menghubungi operator: alamat e-mail, atau alamat halaman.",
            ),
          ),
          sends_mail: Type.Boolean({
            description: field("Without it, nobody is written to.", "Tanpa ini, tidak ada e-mail yang dikirim."),
          }),
          sends_links: Type.Boolean({
            description: field(
              "Addresses are proved by a link in a mail, and forgotten passwords replaced by one.",
              "Alamat dibuktikan lewat tautan dalam e-mail, dan kata sandi yang lupa diganti dengannya.",
            ),
          }),
          passkey_origin: orNull(
            text,
            field(
              "The address whose pages can use passkeys; null where none can.",
              "Alamat yang halamannya dapat memakai passkey; null jika tidak ada.",
            ),
          ),
          legal_version: described(
            text,
            field(
              "Of the texts at `/terms`, `/privacy` and `/refunds`; who signs up agrees to it, and again when it is another.",
              "Dari `/terms`, `/privacy`, dan `/refunds`; yang mendaftar menyetujuinya, dan sekali lagi jika versinya berganti.",
            ),
          ),
        }),
      },
      async () => ({
        support_contact: supportContact ?? null,
        sends_mail: sendsMail,
        sends_links: sendsLinks,
        passkey_origin: passkeyOrigin() ?? null,
        legal_version: legalVersion,
      }),
    ),
  )
