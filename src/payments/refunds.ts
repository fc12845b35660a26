/**
 * Money back. An operator's refund is taken of the balance first, and then paid out: by a person, or by the provider, which
 * is asked under the refund's own id until it says yes or no, so that a crash between the two pays once. What the provider
 * takes back by itself is booked once for each of its reversals; what is spent of it becomes a claim.
 */
import { nanoid } from "nanoid"
import { MICRO_PER_RUPIAH, type Micro, micro, minus } from "../../actors/money/micro.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { Act } from "../store/operator/audit.ts"
import { type PaymentProblem, UNANSWERED_DAYS } from "../store/payment-problems.ts"
import { takeFree } from "../store/leases.ts"
import type { Booked, MadeRefund, Refund, RefundChange, RefundStore } from "../store/refunds.ts"
import type { TopUp } from "../store/top-ups.ts"
import type { PaymentNotice, PaymentProvider, ReportedReversal } from "./provider.ts"

export interface RefundsParts {
  readonly store: RefundStore
  readonly topUps: { find(id: string): Promise<TopUp | undefined> }
  readonly providers: readonly PaymentProvider[]
  /** Hears of what went back and is over what was paid, and of what a bank took back, once it is kept. */
  readonly needsOperator: (problem: PaymentProblem) => void
  /** Asks every process for so much of what it has leased of the account and does not need. */
  readonly recall: (accountId: string, amount: Micro) => void
  /** The balance, or what is claimed of it, is another. */
  readonly changed: (accountId: string) => void
}

export interface RefundTerms {
  readonly accountId: string
  readonly topUpId: string | undefined
  readonly amountMicro: Micro
  readonly reason: string
  readonly idempotencyKey: string
  readonly byProvider: boolean
}

type Reversed = Extract<PaymentNotice, { readonly kind: "reversed" }>

/** The refunds of one top-up that are looked through. */
export const OF_A_TOP_UP = { after: undefined, limit: 1_000 } as const

const isRefundId = (text: string): boolean => /^ref_[A-Za-z0-9_-]{1,40}$/.test(text)

export class Refunds {
  readonly #parts: RefundsParts

  constructor(parts: RefundsParts) {
    this.#parts = parts
  }

  /** Also the one that was made under this key before. One that the provider pays out has been asked for once. */
  async make(terms: RefundTerms, act: Act): Promise<Refund | Failure> {
    const { store } = this.#parts
    // The key first: whoever did not hear that it was made must not hear of another refusal than that.
    if ((await store.madeUnder(terms)) === undefined) {
      const refusal = await this.#book(terms, act)
      if (refusal !== undefined) return refusal
    }
    const made = await store.madeUnder(terms)
    if (made === undefined) throw new Error("a refund is not there after its booking")
    const { refund } = made
    if (!isSame(made, terms)) return invalid("'idempotency_key' was used for another refund of this account.")
    if (refund.status !== "sending") return refund
    if (await store.claim(refund.id)) await this.#send(refund)
    return (await store.find(refund.id)) ?? refund
  }

  /** A person paid it out, or the provider is to, or the balance gets it back. */
  async change(id: string, change: RefundChange, act: Act): Promise<Refund | Failure> {
    const { store, changed } = this.#parts
    const refund = isRefundId(id) ? await store.find(id) : undefined
    if (refund === undefined) return new Failure("resource.not_found")
    if (change.to === "sending") {
      const amountMicro = micro(refund.balanceMicro + refund.feesMicro)
      const refusal = await this.#unpayable({ topUpId: refund.topUpId, amountMicro })
      if (refusal !== undefined) return refusal
    }
    if (!(await store.change(id, change, act))) {
      const now = await store.find(id)
      // The same again, by whoever did not hear that it was done.
      const done = now?.status === change.to && (change.to !== "paid_out" || now.reference === change.reference)
      if (done) return now
      const { status } = now ?? refund
      const why =
        status === "sending" && change.to === "paid_out" ? `: the provider has ${UNANSWERED_DAYS} days to answer` : ""
      return invalid(`A refund that is '${status}' cannot become '${change.to}'${why}.`)
    }
    if (change.to === "sending" && (await store.claim(id))) await this.#send(refund)
    changed(refund.accountId)
    return (await store.find(id)) ?? new Failure("resource.not_found")
  }

  /** Books what the provider took back of a top-up, whose payment has been credited. True when some of it was new. */
  async reverse(topUp: TopUp, notice: Reversed): Promise<boolean> {
    const others: ReportedReversal[] = []
    let ours = 0n
    for (const reversal of notice.reversals) {
      if (await this.#isOurs(topUp, reversal)) ours += reversal.amountRp
      else others.push(reversal)
    }
    for (const reversal of others)
      if (reversal.isRest === true) ours += await this.#oursIn(topUp, reversal, notice.reversals)
    const upToMicro = notice.backRp === undefined ? undefined : micro((notice.backRp - ours) * MICRO_PER_RUPIAH)
    let isNew = false
    for (const each of others) {
      const reversal = {
        id: `ref_${nanoid()}`,
        accountId: topUp.accountId,
        topUpId: topUp.id,
        kind: each.kind,
        amountMicro: micro(each.amountRp * MICRO_PER_RUPIAH),
        reason: each.reason.replaceAll("\u0000", "").slice(0, 200),
        provider: topUp.provider,
        reference: each.reference,
        upToMicro,
      }
      const booked = await this.#freed(topUp.accountId, (mayClaim) =>
        this.#parts.store.reverse({ ...reversal, mayClaim }),
      )
      isNew ||= booked.outcome === "booked"
      for (const problem of booked.problems) this.#parts.needsOperator(problem)
    }
    if (isNew) {
      this.#parts.changed(topUp.accountId)
      await this.collect()
    }
    return isNew
  }

  /** Asks the provider again about what it was asked to pay out, a few at a time; each is one process's. */
  async poll(): Promise<void> {
    await Promise.all((await this.#parts.store.claimDue()).map((refund) => this.#send(refund)))
    await this.collect()
  }

  /** Calls back what is leased of accounts with a claim: what comes back settles it. */
  async collect(): Promise<void> {
    for (const { accountId, claimMicro } of await this.#parts.store.claimed()) this.#parts.recall(accountId, claimMicro)
  }

  /** What is booked at the provider under a refund of ours, and moves no money a second time. */
  async #isOurs(topUp: TopUp, { refundId, reference }: ReportedReversal): Promise<boolean> {
    const { store, changed } = this.#parts
    const refund = refundId !== undefined && isRefundId(refundId) ? await store.find(refundId) : undefined
    if (refund?.topUpId !== topUp.id) return false
    if (refund.status === "sending" || refund.status === "booked") {
      await store.ended(refund.id, { reference })
      changed(refund.accountId)
    }
    const now = await store.find(refund.id)
    // One that a person paid out, or that was cancelled, went out a second time.
    return now?.status === "paid_out" && now.payout === "provider"
  }

  /** Why it cannot be; somebody else may have made one under its key meanwhile. */
  async #book(terms: RefundTerms, act: Act): Promise<Failure | undefined> {
    if (terms.byProvider) {
      const refusal = await this.#unpayable(terms)
      if (refusal !== undefined) return refusal
    }
    const booked = await this.#freed(terms.accountId, () =>
      this.#parts.store.book({ id: `ref_${nanoid()}`, ...terms }, act),
    )
    switch (booked.outcome) {
      case "booked":
        this.#parts.changed(terms.accountId)
        break
      case "before":
        break
      case "no account":
        return new Failure("resource.not_found")
      case "not paid":
        return invalid("'top_up_id' is none of this account's top-ups that were paid.")
      case "over":
      case "nothing":
        return invalid(`'amount_micro' is more than what is left to refund: ${booked.refundableMicro} micro-rupiah.`)
      case "short":
        return invalid(
          `'amount_micro' takes more than is free: ${booked.freeMicro} micro-rupiah can be taken now; the balance is ${booked.postedMicro}.`,
        )
    }
    return undefined
  }

  /**
   * What refunds of ours are in a rest without names: those that the provider has paid out and does not list. Of a refund also those
   * that it was asked for and has not answered about: they are likelier to be it than another of the same top-up.
   */
  async #oursIn(topUp: TopUp, rest: ReportedReversal, all: readonly ReportedReversal[]): Promise<bigint> {
    const listed = new Set(all.map(({ refundId }) => refundId))
    const refunds = await this.#parts.store.list({ topUpId: topUp.id }, OF_A_TOP_UP)
    const back = refunds
      .filter(({ id, kind, status, payout }) => {
        const isOut =
          (status === "paid_out" && payout === "provider") || (status === "sending" && rest.kind !== "chargeback")
        return kind === "refund" && isOut && !listed.has(id)
      })
      .reduce((sum, { balanceMicro, feesMicro }) => sum + balanceMicro + feesMicro, 0n)
    const backRp = back / MICRO_PER_RUPIAH
    return backRp < rest.amountRp ? backRp : rest.amountRp
  }

  /** Until it is booked, or what is free is not enough however long it waits. The last time a claim is made of it. */
  #freed<T extends Booked>(accountId: string, book: (mayClaim: boolean) => Promise<T>): Promise<T> {
    return takeFree({
      async attempt(isLast) {
        const booked = await book(isLast)
        return booked.outcome === "short" && isOver(booked) && !isLast ? await book(true) : booked
      },
      shortOf: (booked) =>
        booked.outcome === "short" && !isOver(booked) ? minus(booked.amountMicro, booked.freeMicro) : undefined,
      recall: (amount) => this.#parts.recall(accountId, amount),
    })
  }

  async #send(refund: Refund): Promise<void> {
    const { store, topUps, changed } = this.#parts
    const topUp = refund.topUpId === undefined ? undefined : await topUps.find(refund.topUpId)
    const provider = this.#parts.providers.find(({ id }) => id === topUp?.provider)
    if (topUp === undefined || provider?.refund === undefined) return
    const outcome = await provider.refund({
      id: refund.id,
      topUpId: topUp.id,
      amountRp: (refund.balanceMicro + refund.feesMicro) / MICRO_PER_RUPIAH,
      reason: refund.reason,
    })
    // Whether it was paid out is not known: it is asked again.
    if (outcome instanceof Failure) return
    await store.ended(
      refund.id,
      outcome.kind === "paid-out" ? { reference: outcome.reference } : { problem: outcome.why.slice(0, 200) },
    )
    if (outcome.kind === "paid-out") await this.#bookSecond(topUp, refund, outcome.reference)
    changed(refund.accountId)
  }

  /** What a person had ended by the time at which the provider paid it out went out a second time, as its notification will say too. */
  async #bookSecond(topUp: TopUp, { id, balanceMicro, feesMicro, reason }: Refund, reference: string): Promise<void> {
    const amountRp = (balanceMicro + feesMicro) / MICRO_PER_RUPIAH
    const reversal = { reference, refundId: id, kind: "provider_refund", amountRp, reason } as const
    const of = { topUpId: topUp.id, reference: topUp.id, amountRp }
    await this.reverse(topUp, { kind: "reversed", ...of, backRp: undefined, reversals: [reversal] })
  }

  async #unpayable({
    topUpId,
    amountMicro,
  }: Pick<RefundTerms, "topUpId" | "amountMicro">): Promise<Failure | undefined> {
    const topUp = topUpId === undefined ? undefined : await this.#parts.topUps.find(topUpId)
    if (topUp === undefined) return invalid("The provider can refund a top-up alone: 'top_up_id' must name one.")
    const provider = this.#parts.providers.find(({ id }) => id === topUp.provider)
    if (provider?.refund === undefined) return invalid("This top-up's provider cannot be asked for a refund.")
    return amountMicro % MICRO_PER_RUPIAH === 0n
      ? undefined
      : invalid("The provider pays out whole rupiah: 'amount_micro' must be a multiple of 1000000.")
  }
}

/** It takes more than there is: nothing that is called back would be enough. */
const isOver = ({ postedMicro, amountMicro }: Booked): boolean => postedMicro < amountMicro

const isSame = ({ refund, byProvider }: MadeRefund, terms: RefundTerms): boolean =>
  micro(refund.balanceMicro + refund.feesMicro) === terms.amountMicro &&
  refund.topUpId === terms.topUpId &&
  refund.reason === terms.reason &&
  (byProvider === undefined || byProvider === terms.byProvider)
