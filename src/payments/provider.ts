/**
 * A payment provider makes a QR code that a payer scans, and later notifies the gateway that the payment came.
 * Its notification is a stranger's word until `readNotification` has proved it; nothing else may lead to a credit. The simulated
 * provider is here too.
 */
import { type Static, Type } from "@sinclair/typebox"
import { TypeCompiler } from "@sinclair/typebox/compiler"
import { timingSafeEqual } from "node:crypto"
import type { Micro } from "../../actors/money/micro.ts"
import { Failure, invalid } from "../failure/failure.ts"
import { parseBody } from "../wire/body.ts"

export interface PaymentProvider {
  /** Names the provider in the webhook's path, in the top-up's row and in the credit's idempotency key. */
  readonly id: string
  /** The most that one payment may be, in whole rupiah; undefined without a limit. */
  readonly largestRp?: bigint
  createCharge(charge: Charge): Promise<CreatedCharge | Failure>
  /** Proves who sent the notification and what was paid. The body is the raw one, since signatures are over bytes. */
  readNotification(body: Uint8Array, headers: Headers): Promise<PaymentNotice | Failure>
  /** A page of this gateway where the charge can be paid beside its QR code: its path. Only the simulated provider has one. */
  readonly payPath?: (topUpId: string) => string
  /** Asks whether a charge was paid. A provider without it can only tell by itself. */
  readonly readStatus?: (topUpId: string) => Promise<PaymentNotice | Failure>
  /** Pays back a part of what was paid, once for each refund's id, however often it is asked. A Failure: nobody knows whether it did. */
  readonly refund?: (refund: ProviderRefund) => Promise<ProviderRefunded | Failure>
}

export interface ProviderRefund {
  readonly id: string
  readonly topUpId: string
  /** Whole rupiah. */
  readonly amountRp: bigint
  readonly reason: string
}

/** The provider's name for what it paid back, or why it will not. */
export type ProviderRefunded =
  | { readonly kind: "paid-out"; readonly reference: string }
  | { readonly kind: "refused"; readonly why: string }

export interface Charge {
  readonly topUpId: string
  /** What the payer pays, in whole rupiah. */
  readonly amountRp: bigint
  readonly validMinutes: number
}

interface CreatedCharge {
  /** The text of the QR code. */
  readonly qrPayload: string
}

export type PaymentNotice =
  | {
      readonly kind: "paid"
      readonly topUpId: string
      /** The provider's name for this payment: one credit for each, however often it is notified. */
      readonly reference: string
      readonly amountRp: bigint
    }
  /** It was paid, and some or all of it went back. */
  | {
      readonly kind: "reversed"
      readonly topUpId: string
      readonly reference: string
      /** What was paid at first. */
      readonly amountRp: bigint
      /** All that went back so far; undefined where the provider tells of each reversal alone. */
      readonly backRp: bigint | undefined
      readonly reversals: readonly ReportedReversal[]
    }
  /** Money came, but the notification does not match what the provider has: another order, amount or currency. */
  | { readonly kind: "mismatched"; readonly topUpId: string; readonly reference: string; readonly paid: string }
  /** Genuine, but not about money that came: a QR code that was made, or that expired unpaid. */
  | {
      readonly kind: "unpaid"
      /** What the provider calls it; `unknown` for a charge that it does not know. */
      readonly status: string
    }

/** One reversal, as the provider tells it. */
export interface ReportedReversal {
  /** The provider's name for it. */
  readonly reference: string
  /** The refund's id, where the gateway asked for it. */
  readonly refundId: string | undefined
  readonly kind: "provider_refund" | "chargeback"
  readonly amountRp: bigint
  readonly reason: string
  /** What of all that went back has no name: refunds that the gateway asked for may be in it. */
  readonly isRest?: true
}

/** Total of a top-up, always whole rupiah, because the fees are rounded up to them. */
export const wholeRupiah = (total: Micro): bigint => total / 1_000_000n

/**
 * Comparing signatures in constant time, so that the time of a refusal does not tell how many leading characters were
 * right.
 */
export function sameSignature(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

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

/**
 * A provider for development and tests: its QR code leads nowhere, and whoever knows the secret may say that it was paid.
 * Without a secret it believes nobody; it still makes charges, so that a dashboard can be shown without one.
 *
 * The notification is signed in `X-Signature`: lowercase hex of HMAC-SHA-256 over the raw body (decisions §10).
 */
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
        return invalid(
          'Expected {"top_up_id": string, "status": "paid", "amount_rp": integer}, or of "refund" and "chargeback" also "back_rp": integer and "reversal_id": string.',
        )
      }
      const sent: SimulatedNotification = parsed
      const payment = { topUpId: sent.top_up_id, reference: sent.top_up_id, amountRp: BigInt(sent.amount_rp) }
      if (sent.status === "paid") return { kind: "paid", ...payment }
      const reversal: ReportedReversal = {
        reference: sent.reversal_id,
        refundId: undefined,
        kind: sent.status === "refund" ? "provider_refund" : "chargeback",
        amountRp: BigInt(sent.back_rp),
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
