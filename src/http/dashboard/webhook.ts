/** `/account/webhook`: where an account's events are posted to, and what became of the last of them. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import type { Delivery, Outbox } from "../../store/outbox.ts"
import { OVERLAP_HOURS, TEST_GAP, type Webhook, type WebhookStore } from "../../store/account-events.ts"
import { urlProblem } from "../../accounts/deliveries.ts"
import { refused } from "../route.ts"
import { described, field, integer, listOf, oneOf, orNull, text, time } from "../shapes.ts"
import { type Authenticate, isSeen, signedInBy, withoutPath } from "./session.ts"

export interface WebhookDeps {
  readonly webhooks: WebhookStore
  readonly outbox: Pick<Outbox, "deliveries">
  readonly authenticate: Authenticate
}

const DELIVERIES_SHOWN = 20
const SECRET_BYTES = 32

const Url = Type.String({
  minLength: 1,
  maxLength: 2_000,
  description: field("an address by https, with the name of a host", "alamat https, dengan nama host"),
})
const webhookShape = Type.Object(
  {
    url: text,
    created_at: time,
    former_secret_until: orNull(
      time,
      field(
        "Until when deliveries carry a signature by the secret before, too.",
        "Sampai kapan kiriman juga ditandatangani dengan rahasia yang lama.",
      ),
    ),
    failing_since: orNull(
      time,
      field("Since when no delivery was taken.", "Sejak kapan tidak ada kiriman yang diterima."),
    ),
    disabled_at: orNull(
      time,
      field(
        "Nothing is sent until its address is saved again.",
        "Tidak ada yang dikirim sampai alamatnya disimpan lagi.",
      ),
    ),
  },
  { $id: "Webhook" },
)
const secret = described(text, field("`whsec_…`, this once.", "`whsec_…`, sekali ini."))
const deliveryShape = Type.Object({
  id: described(text, field("The `webhook-id` of all its attempts.", "`webhook-id` dari semua percobaannya.")),
  type: text,
  created_at: time,
  tried_at: orNull(time),
  attempts: integer,
  state: oneOf(["waiting", "taken", "failed"]),
  status: orNull(
    integer,
    field("What the receiver answered to the last attempt.", "Jawaban penerima pada percobaan terakhir."),
  ),
  problem: orNull(
    text,
    field(
      "Why it did not: address, dns, timeout, tls, connection, disabled, late.",
      "Mengapa tidak: address, dns, timeout, tls, connection, disabled, late.",
    ),
  ),
  next_at: orNull(time),
})

export const webhookController = ({ webhooks, outbox, authenticate }: WebhookDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/webhook" })
    .get(
      ...signedIn(
        "/account/webhook",
        {
          may: "build",
          tag: "Account",
          summary: { en: "The webhook", id: "Webhook akun" },
          answer: Type.Object({ webhook: orNull(webhookShape) }),
        },
        async ({ session }) => {
          const webhook = await webhooks.read(session.accountId)
          if (webhook === undefined) return { webhook: null }
          const { url, ...rest } = webhookJson(webhook)
          // The path may be a secret, which is for whoever builds on the account.
          return { webhook: { ...rest, url: isSeen(session) ? withoutPath(url) : url } }
        },
      ),
    )
    .put(
      ...signedIn(
        "/account/webhook",
        {
          may: "build",
          tag: "Account",
          summary: {
            en: "Have events posted to an address, or to another one",
            id: "Kirim peristiwa ke sebuah alamat, atau ke alamat lain",
          },
          description: {
            en: "A new webhook has a secret, which is shown this once. Saving an address turns on what was turned off.",
            id: "Webhook baru mendapat rahasia, yang hanya ditampilkan sekali ini. Menyimpan alamat mengaktifkan lagi yang sudah dimatikan.",
          },
          body: Type.Object({ url: Url }),
          answer: Type.Object({ webhook: webhookShape, secret: orNull(secret) }),
        },
        async ({ session, body }) => {
          const problem = urlProblem(body.url)
          if (problem !== undefined) return refused("url", problem)
          const made = newSecret()
          const isNew = await webhooks.set(session.accountId, body.url, made)
          const webhook = await webhooks.read(session.accountId)
          if (webhook === undefined) return new Failure("resource.not_found")
          return { webhook: webhookJson(webhook), secret: isNew ? made : null }
        },
      ),
    )
    .delete(
      ...signedIn(
        "/account/webhook",
        {
          may: "build",
          tag: "Account",
          summary: { en: "Have events posted nowhere", id: "Jangan kirim peristiwa ke mana pun" },
          status: 204,
        },
        async ({ session }) => {
          await webhooks.remove(session.accountId)
          return undefined
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/webhook/rotate",
        {
          may: "build",
          tag: "Account",
          summary: { en: "Another secret", id: "Rahasia baru untuk webhook" },
          description: {
            en: `For ${OVERLAP_HOURS} hours deliveries carry a signature by the secret before, too.`,
            id: `Selama ${OVERLAP_HOURS} jam, kiriman juga ditandatangani dengan rahasia yang lama.`,
          },
          answer: Type.Object({ webhook: webhookShape, secret }),
        },
        async ({ session }) => {
          const made = newSecret()
          const rotated = await webhooks.rotate(session.accountId, made)
          const webhook = rotated ? await webhooks.read(session.accountId) : undefined
          if (webhook === undefined) return new Failure("resource.not_found")
          return { webhook: webhookJson(webhook), secret: made }
        },
      ),
    )
    .post(
      ...signedIn(
        "/account/webhook/test",
        {
          may: "build",
          tag: "Account",
          summary: { en: "Send a `webhook.test` event", id: "Kirim peristiwa `webhook.test`" },
          status: 204,
        },
        async ({ session }) => {
          if (await webhooks.test(session.accountId)) return undefined
          return new Failure("request.invalid", {
            message: `There is no webhook that is on, or a test was sent less than ${TEST_GAP} seconds ago.`,
          })
        },
      ),
    )
    .get(
      ...signedIn(
        "/account/webhook/deliveries",
        {
          may: "build",
          tag: "Account",
          summary: {
            en: `The last ${DELIVERIES_SHOWN} deliveries, the newest first; answers' bodies are not read`,
            id: `${DELIVERIES_SHOWN} kiriman terakhir, dari yang terbaru; isi jawabannya tidak dibaca`,
          },
          answer: listOf(deliveryShape),
        },
        async ({ session }) => ({
          data: (await outbox.deliveries(session.accountId, DELIVERIES_SHOWN)).map(deliveryJson),
        }),
      ),
    )
}

const newSecret = (): string =>
  `whsec_${Buffer.from(crypto.getRandomValues(new Uint8Array(SECRET_BYTES))).toString("base64")}`

const webhookJson = (webhook: Webhook) => ({
  url: webhook.url,
  created_at: webhook.createdAt.toISOString(),
  former_secret_until: webhook.formerUntil?.toISOString() ?? null,
  failing_since: webhook.failingSince?.toISOString() ?? null,
  disabled_at: webhook.disabledAt?.toISOString() ?? null,
})

const states = { sent: "taken", failed: "failed" } as const

const deliveryJson = (delivery: Delivery) => ({
  id: delivery.id,
  type: delivery.kind,
  created_at: delivery.createdAt.toISOString(),
  tried_at: delivery.triedAt?.toISOString() ?? null,
  attempts: delivery.attempts,
  state: delivery.outcome === null ? ("waiting" as const) : states[delivery.outcome],
  status: delivery.status,
  problem: delivery.problem,
  next_at: delivery.dueAt?.toISOString() ?? null,
})
