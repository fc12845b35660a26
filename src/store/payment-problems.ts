/** What came of a payment and needs an operator. */
import type { Database, Sql } from "./database.ts"

/**
 * Payments that came and could not be credited: an order that nobody knows, or not the amount of the top-up. What a payer's
 * bank took back, and what was paid after its account was closed. Kept once each, however often it is told, until an operator
 * has seen to it.
 */
export const problemKinds = [
  "unknown_order",
  "wrong_amount",
  "mismatch",
  "chargeback",
  "over_refunded",
  "closed_account",
] as const

export interface PaymentProblem {
  readonly provider: string
  /**
   * `mismatch`: what was told is not what the provider itself has of the payment. `chargeback`: the payer's bank took it back.
   * `over_refunded`: more went back than was paid; what is over is not booked. `closed_account`: credited, and nobody can spend it;
   * the credit's own statement keeps it (src/store/top-ups.ts). A reversal's are kept by its own (src/store/refunds.ts).
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
  /** Whether the top-up's payment could not be credited, and an operator has said of each such problem what was done. */
  areResolved(topUpId: string): Promise<boolean>
}

/** `kept` hears of each once, when it is new. */
export const paymentProblemStore = (
  database: Database,
  kept: (problem: PaymentProblem) => void = () => {},
): PaymentProblemStore => ({
  async record(problem) {
    const [row] = await database.run(
      (sql) =>
        sql<
          { is_new: boolean }[]
        >`${insertProblems(sql, problem, sql`select ${problem.kind}::text as kind, null::bigint as over_micro, null::bigint as up_to_micro`)}`,
      { deadlineMs: 5_000, retry: true },
    )
    if (row?.is_new === true) kept(problem)
  },

  async areResolved(topUpId) {
    const [row] = await database.run(
      (sql) => sql<{ resolved: boolean | null }[]>`
        select bool_and(resolved_at is not null) as resolved from payment_problems
        where top_up_id = ${topUpId} and kind in ('wrong_amount', 'mismatch')`,
      { deadlineMs: 5_000, retry: true },
    )
    return row?.resolved === true
  },
})

/**
 * Keeps a payment's problems, a row `(kind, over_micro, up_to_micro)` of a query each; one that is there already has been told again. With `kind` and `is_new`
 * of each. For the statement that finds the problem, too.
 */
export const insertProblems = (
  sql: Sql,
  { provider, reference, topUpId, paid }: Omit<PaymentProblem, "kind">,
  kinds: ReturnType<Sql>,
) => sql`
  insert into payment_problems (provider, kind, reference, top_up_id, paid, over_micro, up_to_micro)
  select ${provider}, kind, ${clipped(reference)}, ${topUpId ?? null}, ${clipped(paid)}, over_micro, up_to_micro from (${kinds}) found
  on conflict (provider, kind, reference, paid) do update set last_seen_at = now()
  returning kind, last_seen_at = first_seen_at as is_new`

/** Whether an operator was told that this reversal goes over what was paid: what is over is theirs to take, whatever is left of the top-up later. */
export const isLeftToOperator = (
  sql: Sql,
  { provider, reference }: Pick<PaymentProblem, "provider" | "reference">,
) => sql`
  exists (select from payment_problems where provider = ${provider} and kind = 'over_refunded' and reference = ${clipped(reference)})`

/** How long a provider that does not say whether it has paid is believed to say so yet, in days: until then a person might pay it a second time. */
export const UNANSWERED_DAYS = 3

/** Whether the provider was asked for a refund, at first or again by an operator, and has not said for so long whether it has paid. */
export const isUnanswered = (sql: Sql) => sql`
  greatest(refunds.created_at, (
    select max(at) from audit_log where subject = refunds.account_id and action = 'refund.sending' and after ->> 'refund' = refunds.id
  )) <= now() - make_interval(days => ${UNANSWERED_DAYS})`

/** As a provider said it, in the length and the characters that a text column takes. */
const clipped = (text: string): string => text.replaceAll("\u0000", "").slice(0, 200)
