/** What receipts and statements say, as it is kept: of the account, of a payment, and of a month. Whole rupiah. */
import { MICRO_PER_RUPIAH } from "../../../actors/money/micro.ts"
import type { Failure } from "../../failure/failure.ts"
import type { Language } from "../../store/account-settings.ts"
import type { Account } from "../../store/accounts.ts"
import type { Refund } from "../../store/refunds.ts"
import type { TopUp } from "../../store/top-ups.ts"
import { MAX_ROWS, type statement, type StatementEntry } from "./statement.ts"

export interface Party {
  readonly name: string
  readonly address: string | null
  /** Digits, or as the tax office writes it. */
  readonly npwp: string | null
}

export interface DocumentFrame {
  /** Of what is kept: papers are drawn of older ones too. */
  readonly format: 1
  readonly language: Language
  readonly time_zone: string
  readonly seller: Party | null
  readonly buyer: Party & { readonly email: string; readonly account_id: string }
}

/** Whole rupiah. */
export interface Vat {
  readonly bps: number
  readonly included: boolean
  readonly base_rp: number
  readonly vat_rp: number
}

export interface PaymentContent extends DocumentFrame {
  readonly kind: "receipt" | "refund"
  readonly top_up_id: string | null
  readonly refund_id: string | null
  readonly method: string | null
  readonly reference: string | null
  readonly reason: string | null
  readonly at: string
  readonly lines: readonly {
    readonly what: "balance" | "service_fee" | "payment_fee" | "network_fee" | "fees"
    readonly amount_rp: number
  }[]
  readonly total_rp: number
  readonly vat: Vat | null
}

export interface StatementContent extends DocumentFrame {
  readonly kind: "statement"
  readonly month: string
  readonly opening_rp: number
  readonly in_rp: number
  readonly out_rp: number
  readonly closing_rp: number
  readonly claim_rp: number
  readonly by_key: boolean
  readonly entries: readonly {
    readonly day: string
    readonly kind: StatementEntry["kind"]
    readonly amount_rp: number
    readonly balance_rp: number
    readonly calls: number | null
    /** A name. */
    readonly key: string | null
    readonly note: string | null
    readonly top_up_id: string | null
  }[]
}

export type DocumentContent = PaymentContent | StatementContent

/** Who sells, by the configuration. */
export interface Seller {
  readonly party: Party
  readonly vat: { readonly basisPoints: number; readonly isIncluded: boolean } | undefined
}

export const buyerOf = (account: Account): DocumentFrame["buyer"] => ({
  name: account.buyerName ?? account.email,
  address: account.buyerAddress ?? null,
  npwp: account.buyerNpwp ?? null,
  email: account.email,
  account_id: account.id,
})

/** Half up to whole rupiah. */
export function wholeRupiah(amountMicro: bigint): number {
  const up = amountMicro + MICRO_PER_RUPIAH / 2n
  const whole = up / MICRO_PER_RUPIAH
  return Number(up % MICRO_PER_RUPIAH < 0n ? whole - 1n : whole)
}

/**
 * Amounts in whole rupiah whose sum is that of the exact ones, rounded: each is the step from one rounded sum to the next, from what
 * other papers of the same payment have come to.
 */
function inWholeRupiah<What extends string>(lines: readonly (readonly [What, bigint])[], from = 0n) {
  let sum = from
  return lines.flatMap(([what, amount]) => {
    const before = wholeRupiah(sum)
    sum += amount
    return amount === 0n ? [] : [{ what, amount_rp: wholeRupiah(sum) - before }]
  })
}

/** The tax in a sum, or beside it, half up to whole rupiah; what is not tax is the rest, so that both add up. */
export function vatOf(totalRp: number, vat: Seller["vat"]): Vat | null {
  if (vat === undefined) return null
  const of = BigInt(vat.isIncluded ? 10_000 + vat.basisPoints : 10_000)
  const tax = Number((2n * BigInt(totalRp) * BigInt(vat.basisPoints) + of) / (2n * of))
  return {
    bps: vat.basisPoints,
    included: vat.isIncluded,
    vat_rp: tax,
    base_rp: vat.isIncluded ? totalRp - tax : totalRp,
  }
}

/** The tax in the step from one sum to a larger one, so that parts have together the tax of the whole. */
export function vatOfStep(beforeRp: number, totalRp: number, vat: Seller["vat"]): Vat | null {
  const [before, after] = [vatOf(beforeRp, vat), vatOf(beforeRp + totalRp, vat)]
  if (before === null || after === null) return null
  return { ...after, vat_rp: after.vat_rp - before.vat_rp, base_rp: after.base_rp - before.base_rp }
}

export const receiptOf = ({ id, provider, reference, breakdown }: TopUp, paidAt: Date) =>
  ({
    kind: "receipt",
    top_up_id: id,
    refund_id: null,
    method: provider,
    reference: reference ?? null,
    reason: null,
    at: paidAt.toISOString(),
    lines: inWholeRupiah([
      ["balance", breakdown.balancePurchasedMicro],
      ["service_fee", breakdown.serviceFeeMicro],
      ["payment_fee", breakdown.paymentFeeMicro],
      ["network_fee", breakdown.networkFeeMicro],
    ]),
  }) as const

const amountOf = ({ balanceMicro, feesMicro }: Refund): bigint => balanceMicro + feesMicro

/** What of its top-up had gone back before this refund was paid out, by all refunds of the top-up. */
export const backBefore = (refund: Refund, others: readonly Refund[]): bigint =>
  others.filter((other) => isPaidOutBefore(other, refund)).reduce((sum, other) => sum + amountOf(other), 0n)

function isPaidOutBefore(other: Refund, { id, paidOutAt }: Refund): boolean {
  if (other.paidOutAt === undefined || paidOutAt === undefined) return false
  const later = paidOutAt.getTime() - other.paidOutAt.getTime()
  return later > 0 || (later === 0 && other.id < id)
}

/** `beforeMicro`: what of its top-up had gone back before. */
export const refundReceiptOf = (refund: Refund, paidOutAt: Date, beforeMicro: bigint) =>
  ({
    kind: "refund",
    top_up_id: refund.topUpId ?? null,
    refund_id: refund.id,
    method: null,
    reference: refund.reference ?? null,
    reason: refund.reason,
    at: paidOutAt.toISOString(),
    lines: inWholeRupiah(
      [
        ["balance", refund.balanceMicro],
        ["fees", refund.feesMicro],
      ],
      beforeMicro,
    ),
  }) as const

const whole = (amount: number) => wholeRupiah(BigInt(amount))

/**
 * From the oldest. Balances are rounded, and each amount is the step from one to the next, so that everything adds up in whole
 * rupiah and a month begins with what the one before ended with.
 */
export function statementOf(
  month: Exclude<Awaited<ReturnType<typeof statement>>, Failure>,
  keyNames: ReadonlyMap<string, string>,
): Omit<StatementContent, keyof DocumentFrame> {
  const all = month.entries.toReversed()
  const isFolded = all.length > MAX_ROWS
  let before = whole(month.opening_micro)
  const entries = (isFolded ? folded(all) : all).map((entry) => {
    const balance = whole(entry.balance_micro)
    const amount = balance - before
    before = balance
    return {
      day: entry.day,
      kind: entry.kind,
      amount_rp: amount,
      balance_rp: balance,
      calls: entry.calls,
      key: entry.key_id === null ? null : (keyNames.get(entry.key_id) ?? entry.key_id),
      note: entry.note,
      top_up_id: entry.top_up_id,
    }
  })
  const sum = (sign: 1 | -1) => entries.reduce((total, { amount_rp: amount }) => total + Math.max(0, sign * amount), 0)
  return {
    kind: "statement",
    month: month.month,
    opening_rp: whole(month.opening_micro),
    in_rp: sum(1),
    out_rp: sum(-1),
    closing_rp: before,
    claim_rp: whole(month.claim_micro),
    by_key: month.by_key && !isFolded,
    entries,
  }
}

/** One row for each day and kind. */
function folded(entries: readonly StatementEntry[]): readonly StatementEntry[] {
  const days = Map.groupBy(entries, ({ day }) => day)
  return [...days.values()].flatMap((ofDay) => {
    let balance = (ofDay[0]?.balance_micro ?? 0) - (ofDay[0]?.amount_micro ?? 0)
    return [...Map.groupBy(ofDay, ({ kind }) => kind).values()].flatMap((alike) => {
      const [first] = alike
      if (first === undefined) return []
      const amount = alike.reduce((sum, { amount_micro: each }) => sum + each, 0)
      balance += amount
      const calls = alike.reduce((sum, { calls: each }) => sum + (each ?? 0), 0)
      return [
        {
          ...first,
          amount_micro: amount,
          balance_micro: balance,
          calls: first.calls === null ? null : calls,
          key_id: null,
          note: null,
          top_up_id: null,
        },
      ]
    })
  })
}
