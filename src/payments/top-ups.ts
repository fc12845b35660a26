/**
 * Top-ups: opening one, and crediting it when its payment has come. The row is there before the provider is asked for a
 * QR code, so that no payment can arrive for a top-up that nobody knows.
 */
import { nanoid } from "nanoid"
import { MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { Failure } from "../failure/failure.ts"
import type { TopUp, TopUpStore } from "../store/top-ups.ts"
import { breakDown, type Fees, total } from "./breakdown.ts"
import { type PaymentNotice, type PaymentProvider, wholeRupiah } from "./provider.ts"

/** How long a QR code is shown as payable. A payment that comes later is credited all the same. */
const TOP_UP_MINUTES = 15

/** Tells whoever holds the account's balance to look again; may come more than once for one payment. */
export type Credited = (accountId: string, topUpId: string) => void

/** Asked before the database is: what cannot be an id names nothing. */
export const isTopUpId = (text: string): boolean => /^top_[A-Za-z0-9_-]{1,40}$/.test(text)

export interface TopUpsParts {
  readonly store: TopUpStore
  /** Makes the charges; notifications of every known provider are read, so that one can be replaced by another. */
  readonly provider: PaymentProvider
  readonly fees: Fees
  readonly credited: Credited
}

export class TopUps {
  readonly #parts: TopUpsParts

  constructor(parts: TopUpsParts) {
    this.#parts = parts
  }

  async open(accountId: string, amountRp: number): Promise<TopUp | Failure> {
    const { store, provider, fees } = this.#parts
    const breakdown = breakDown(amountRp, fees)
    const id = `top_${nanoid()}`
    await store.create({ id, accountId, provider: provider.id, breakdown, validMinutes: TOP_UP_MINUTES })
    const charge = await provider.createCharge({
      topUpId: id,
      amountRp: wholeRupiah(total(breakdown)),
      validMinutes: TOP_UP_MINUTES,
    })
    if (charge instanceof Failure) {
      await store.abandon(id)
      return charge
    }
    return await store.showQr(id, charge.qrPayload)
  }

  /** Credits what a proved notification says was paid. When it resolves without a Failure, the credit is committed. */
  async settle(providerId: string, notice: PaymentNotice): Promise<void | Failure> {
    if (notice.kind === "unpaid") return undefined
    const topUp = isTopUpId(notice.topUpId) ? await this.#parts.store.find(notice.topUpId) : undefined
    // One provider's secret must not settle what another was to be paid for.
    if (topUp === undefined || topUp.provider !== providerId) return new Failure("resource.not_found")
    if (notice.amountRp * MICRO_PER_RUPIAH !== total(topUp.breakdown)) {
      return new Failure("request.invalid", { message: "The amount paid is not the amount of the top-up." })
    }
    await this.#parts.store.credit(topUp.id, `topup:${providerId}:${notice.reference}`)
    // Also when it had been credited before: the process that did so may not have lived to tell.
    this.#parts.credited(topUp.accountId, topUp.id)
    return undefined
  }
}
