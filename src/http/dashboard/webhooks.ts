/**
 * `/webhooks/payments/{provider}`: what payment providers tell (decisions §10). Answers 200 only when the credit is
 * committed: whatever else is answered, a provider tells again.
 */
import { Elysia } from "elysia"
import { Failure } from "../../failure/failure.ts"
import type { PaymentProvider } from "../../payments/provider.ts"
import type { TopUps } from "../../payments/top-ups.ts"
import { readBytes } from "./body.ts"

export interface WebhooksDeps {
  readonly topUps: TopUps
  /** All whose notifications are read, also those that make no new charges. */
  readonly providers: readonly PaymentProvider[]
}

export const webhooksController = ({ topUps, providers }: WebhooksDeps) =>
  new Elysia({ name: "dashboard/webhooks" }).post(
    "/webhooks/payments/:provider",
    async ({ request, params }) => {
      const provider = providers.find(({ id }) => id === params.provider)
      if (provider === undefined) return new Failure("resource.not_found")
      const body = await readBytes(request)
      if (body instanceof Failure) return body
      const notice = await provider.readNotification(body, request.headers)
      if (notice instanceof Failure) return notice
      const settled = await topUps.settle(provider.id, notice)
      return settled instanceof Failure ? settled : { received: true }
    },
    { parse: "none" },
  )
