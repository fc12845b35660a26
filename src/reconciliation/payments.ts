/**
 * Top-ups held against what their provider says was paid and went back. What was paid there and not credited here is credited
 * at once, and what went back is booked, by the same way as a notification. A provider that gives no answer is no difference: those top-ups were not compared.
 */
import { MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { Failure } from "../failure/failure.ts"
import { type TopUps, total } from "../payments/top-ups.ts"
import type { PaymentNotice, PaymentProvider } from "../payments/provider.ts"
import type { Refunds } from "../payments/refunds.ts"
import type { TopUp, TopUpStore } from "../store/top-ups.ts"
import type { Difference, Finding } from "./claim.ts"

const CLAIM = "a top-up is credited if it was paid at its provider, in the same amount"

export interface PaymentsParts {
  readonly store: Pick<TopUpStore, "find" | "createdSince">
  readonly providers: readonly PaymentProvider[]
  readonly topUps: Pick<TopUps, "settle" | "isHandled">
  readonly refunds: Pick<Refunds, "reverse">
  /** How far back, in days; 0 compares none. */
  readonly days: number
  readonly now: () => number
  /** Between two questions to a provider, in milliseconds: its limits are for the payers' traffic. */
  readonly pauseMs?: number
}

const DAY_MS = 86_400_000
const PAUSE_MS = 100
const PAGE = 500
/** How many questions in a row a provider may leave unanswered before it is asked no more. */
const PATIENCE = 3
const SHOWN = 100

/** Throws when the database does not answer, or when `signal` ends it. */
export async function comparePayments(parts: PaymentsParts, signal: AbortSignal): Promise<Finding> {
  const comparison = new Comparison(parts)
  const since = new Date(parts.now() - parts.days * DAY_MS)
  for await (const topUp of parts.days === 0 ? [] : topUpsSince(parts.store, since)) {
    if (signal.aborted) throw new Error("the reconciliation was ended")
    // A code that can still be paid has its turn the next time.
    if (topUp.status !== "pending") await comparison.compare(topUp)
  }
  return comparison.finding()
}

async function* topUpsSince(store: PaymentsParts["store"], since: Date): AsyncGenerator<TopUp> {
  for (let after: TopUp | undefined; ;) {
    const page = await store.createdSince(since, after?.id, PAGE)
    yield* page
    after = page.at(-1)
    if (after === undefined || page.length < PAGE) return
  }
}

/** How a provider has answered so far. */
interface Standing {
  unanswered: number
  /** It knew one of ours. */
  knows: boolean
  /** Credited here and not known there, while it has known none: the key may be another merchant's. */
  readonly strangers: TopUp[]
}

class Comparison {
  readonly #parts: PaymentsParts
  readonly #standings = new Map<string, Standing>()
  #compared = 0
  #notCompared = 0
  #differences = 0
  readonly #accounts = new Set<string>()
  readonly #shown: Difference[] = []

  constructor(parts: PaymentsParts) {
    this.#parts = parts
  }

  async compare(topUp: TopUp): Promise<void> {
    const standing = this.#standings.get(topUp.provider) ?? { unanswered: 0, knows: false, strangers: [] }
    this.#standings.set(topUp.provider, standing)
    const payment = await this.#ask(topUp, standing)
    if (payment === undefined) {
      this.#notCompared++
    } else if (isUnknown(payment) && topUp.status === "paid" && !standing.knows) {
      standing.strangers.push(topUp)
    } else {
      if (!isUnknown(payment)) this.#recognised(standing)
      await this.#judge(topUp, payment)
    }
  }

  finding(): Finding {
    for (const standing of this.#standings.values()) {
      if (standing.strangers.length < PATIENCE) this.#recognised(standing)
      else this.#notCompared += standing.strangers.length
    }
    return {
      claim: CLAIM,
      compared: this.#compared,
      notCompared: this.#notCompared,
      differences: this.#differences,
      accounts: [...this.#accounts],
      shown: this.#shown,
    }
  }

  /** Undefined when there is no answer, or none that could be believed. */
  async #ask(topUp: TopUp, standing: Standing): Promise<PaymentNotice | Failure | undefined> {
    const provider = this.#parts.providers.find(({ id }) => id === topUp.provider)
    // The simulated provider keeps no list of payments.
    if (provider?.readStatus === undefined || standing.unanswered >= PATIENCE || standing.strangers.length >= PATIENCE)
      return undefined
    const payment = await provider.readStatus(topUp.id)
    if (payment instanceof Failure && payment.code.startsWith("dependency.")) {
      standing.unanswered++
      return undefined
    }
    standing.unanswered = 0
    await Bun.sleep(this.#parts.pauseMs ?? PAUSE_MS)
    return payment
  }

  /** The provider is the right one, so what it does not know was not paid there. */
  #recognised(standing: Standing): void {
    standing.knows = true
    for (const topUp of standing.strangers.splice(0)) {
      this.#compared++
      this.#differ(topUp, { provider_says: "unknown" })
    }
  }

  async #judge(topUp: TopUp, payment: PaymentNotice | Failure): Promise<void> {
    this.#compared++
    if (payment instanceof Failure) return this.#differ(topUp, { provider_says: payment.message })
    if (payment.kind === "unpaid") {
      return topUp.status === "paid" ? this.#differ(topUp, { provider_says: payment.status }) : undefined
    }
    const figures =
      payment.kind === "paid" || payment.kind === "reversed"
        ? { provider_says: payment.kind, paid_micro: String(payment.amountRp * MICRO_PER_RUPIAH) }
        : { provider_says: payment.paid }
    const credited = topUp.status === "paid" || (await this.#parts.store.find(topUp.id))?.status === "paid"
    if (credited && payment.kind === "reversed" && figures.paid_micro === String(total(topUp.breakdown))) {
      const isNew = await this.#parts.refunds.reverse(topUp, payment)
      return isNew ? this.#differ(topUp, figures, true) : undefined
    }
    if (credited)
      return figures.paid_micro === String(total(topUp.breakdown)) ? undefined : this.#differ(topUp, figures)
    const settled = await this.#parts.topUps.settle(topUp.provider, payment)
    // What an operator has paid back or given by hand is still another amount there, and stays so.
    if (settled instanceof Failure && (await this.#parts.topUps.isHandled(topUp))) return undefined
    return this.#differ(topUp, figures, !(settled instanceof Failure))
  }

  #differ({ id, accountId, provider, status, breakdown }: TopUp, figures: Difference["figures"], mended = false): void {
    this.#differences++
    if (!mended) this.#accounts.add(accountId)
    if (this.#shown.length === SHOWN) return
    const due = { top_up_id: id, provider, status, due_micro: String(total(breakdown)) }
    this.#shown.push({ accountId, figures: { ...due, ...figures }, mended })
  }
}

const isUnknown = (payment: PaymentNotice | Failure): boolean =>
  !(payment instanceof Failure) && payment.kind === "unpaid" && payment.status === "unknown"
