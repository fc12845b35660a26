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
import { type PaymentProvider, sameSignature, type ToldReversal } from "./provider.ts"

const amount = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Notification = Type.Union([
  Type.Object({ top_up_id: Type.String(), status: Type.Literal("paid"), amount_rp: amount }),
  // Some of what was paid went back: `back_rp` of `amount_rp`, under a name of its own.
  Type.Object({
    top_up_id: Type.String(),
    status: Type.Union([Type.Literal("refund"), Type.Literal("chargeback")]),
    amount_rp: amount,
    back_rp: amount,
    reversal_id: Type.RegExp(/^[A-Za-z0-9_-]{1,60}$/),
  }),
])
export type SimulatedNotification = Static<typeof Notification>
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
          message:
            'Expected {"top_up_id": string, "status": "paid", "amount_rp": integer}, or of "refund" and "chargeback" also "back_rp": integer and "reversal_id": string.',
        })
      }
      const told: SimulatedNotification = parsed
      const payment = { topUpId: told.top_up_id, reference: told.top_up_id, amountRp: BigInt(told.amount_rp) }
      if (told.status === "paid") return { kind: "paid", ...payment }
      const reversal: ToldReversal = {
        reference: told.reversal_id,
        refundId: undefined,
        kind: told.status === "refund" ? "provider_refund" : "chargeback",
        amountRp: BigInt(told.back_rp),
        reason: "",
      }
      return { kind: "reversed", ...payment, backRp: undefined, reversals: [reversal] }
    },

    // No money moves, so that it is paid out as soon as it is asked for.
    refund: async ({ id }) => ({ kind: "paid-out", reference: `simulated-${id}` }),
  }
}

/** The notification that the provider would send. */
export function signSimulated(secret: string, notice: SimulatedNotification) {
  const body = new TextEncoder().encode(JSON.stringify(notice))
  return { body, headers: new Headers({ "X-Signature": signature(secret, body) }) }
}

const signature = (secret: string, body: Uint8Array): string =>
  new Bun.CryptoHasher("sha256", secret).update(body).digest("hex")

const unsigned = (): Failure =>
  new Failure("auth.unauthorized", { message: "The notification's signature is not valid." })
