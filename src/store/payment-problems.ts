/**
 * Payments that came and could not be credited: an order that nobody knows, or not the amount of the top-up. And what a payer's
 * bank took back. Kept once each, however often it is told, until an operator has seen to it.
 */
import type { Database } from "./database.ts"

export const problemKinds = ["unknown_order", "wrong_amount", "mismatch", "chargeback", "over_refunded"] as const

export interface PaymentProblem {
  readonly provider: string
  /**
   * `mismatch`: what was told is not what the provider itself has of the payment. `chargeback`: the payer's bank took it back.
   * `over_refunded`: more went back than was paid; what is over is not booked.
   */
  readonly kind: (typeof problemKinds)[number]
  /** The provider's name for the payment. */
  readonly reference: string
  /** Undefined for an order that is none of this provider's top-ups. */
  readonly topUpId: string | undefined
  /** What came, as the provider says it: an amount and its currency. */
  readonly paid: string
}

export interface PaymentProblemStore {
  record(problem: PaymentProblem): Promise<void>
}

export const paymentProblemStore = (database: Database): PaymentProblemStore => ({
  async record({ provider, kind, reference, topUpId, paid }) {
    await database.run(
      (sql) => sql`
        insert into payment_problems (provider, kind, reference, top_up_id, paid)
        values (${provider}, ${kind}, ${told(reference)}, ${topUpId ?? null}, ${told(paid)})
        on conflict (provider, kind, reference, paid) do update set last_seen_at = now()`,
      { deadlineMs: 5_000, retry: true },
    )
  },
})

/** As a provider said it, in the length and the characters that a text column takes. */
const told = (text: string): string => text.replaceAll("\u0000", "").slice(0, 200)
