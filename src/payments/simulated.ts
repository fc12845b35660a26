/**
 * A provider for development and tests: its QR code leads nowhere, and whoever knows the secret may say that it was paid.
 * Without a secret it believes nobody; it still makes charges, so that a dashboard can be shown without one.
 *
 * The notification is signed in `X-Signature`: lowercase hex of HMAC-SHA-256 over the raw body (decisions §10).
 */
import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { Failure } from "../failure/failure.ts"
import { parseBody } from "../wire/body.ts"
import { type PaymentProvider, sameSignature } from "./provider.ts"

const Notification = Type.Object({
  top_up_id: Type.String(),
  status: Type.Literal("paid"),
  amount_rp: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
})
const notification = TypeCompiler.Compile(Notification)

export function simulatedProvider({ secret }: { readonly secret: string | undefined }): PaymentProvider {
  return {
    id: "simulated",
    // Without a secret there is no such page, since no notification could be verified.
    ...(secret !== undefined && secret !== "" && { payPath: (topUpId: string) => `/simulated-pay/${topUpId}` }),

    createCharge: async ({ topUpId, amountRp }) => ({ qrPayload: `loket-simulated:${topUpId}:${amountRp}` }),

    async readNotification(body, headers) {
      if (secret === undefined || secret === "") return unsigned()
      if (!sameSignature(headers.get("x-signature") ?? "", signature(secret, body))) return unsigned()

      const parsed = parseBody(body)
      if (parsed instanceof Failure) return parsed
      if (!notification.Check(parsed)) {
        return new Failure("request.invalid", {
          message: 'Expected {"top_up_id": string, "status": "paid", "amount_rp": integer}.',
        })
      }
      const paid: Static<typeof Notification> = parsed
      return {
        kind: "paid",
        topUpId: paid.top_up_id,
        reference: paid.top_up_id,
        amountRp: BigInt(paid.amount_rp),
      }
    },
  }
}

/** The notification that the provider would send when this has been paid. */
export function signSimulated(secret: string, topUpId: string, amountRp: bigint) {
  const body = new TextEncoder().encode(
    JSON.stringify({ top_up_id: topUpId, status: "paid", amount_rp: Number(amountRp) }),
  )
  return { body, headers: new Headers({ "X-Signature": signature(secret, body) }) }
}

const signature = (secret: string, body: Uint8Array): string =>
  new Bun.CryptoHasher("sha256", secret).update(body).digest("hex")

const unsigned = (): Failure =>
  new Failure("auth.unauthorized", { message: "The notification's signature is not valid." })
