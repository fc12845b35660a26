/**
 * Top-ups: opening one, and crediting it when its payment has come. The row is there before the provider is asked for a
 * QR code, so that no payment can arrive for a top-up that nobody knows.
 *
 * Here too, top-ups and the providers that they are paid through are opened as the configuration has them.
 */
import { nanoid } from "nanoid"
import { micro, type Micro, MICRO_PER_RUPIAH, plus, zero } from "../../actors/money/micro.ts"
import type { Config } from "../config.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { Database } from "../store/database.ts"
import type { ChangeName } from "../store/idempotency-keys.ts"
import { type PaymentProblem, type PaymentProblemStore, paymentProblemStore } from "../store/payment-problems.ts"
import { refundStore } from "../store/refunds.ts"
import {
  type Breakdown,
  creditKey,
  OPEN_AT_ONCE,
  type TopUp,
  type TopUpStore,
  topUpStore,
  UNPAID_A_DAY,
} from "../store/top-ups.ts"
import { midtransProvider } from "./midtrans.ts"
import { type PaymentNotice, type PaymentProvider, simulatedProvider, wholeRupiah } from "./provider.ts"
import { Refunds, type RefundsParts } from "./refunds.ts"

export interface FeeRate {
  /** Hundredths of a percent of the balance purchased. */
  readonly basisPoints: number
  readonly fixedMicro: Micro
}

export interface Fees {
  readonly service: FeeRate
  /** What the QR provider takes. */
  readonly payment: FeeRate
}

const noFee: FeeRate = { basisPoints: 0, fixedMicro: zero }
/**
 * What a top-up costs, as shown before payment (gateway-api.md, "Billing rules" 7). Micro-rupiah. The balance
 * purchased is credited in full; fees come on top of it and are rounded up to whole rupiah, the smallest amount that
 * can be paid.
 */
export const noFees: Fees = { service: noFee, payment: noFee }

export function breakDown(amountRp: number, fees: Fees): Breakdown {
  const purchased = micro(BigInt(amountRp) * MICRO_PER_RUPIAH)
  return {
    balancePurchasedMicro: purchased,
    serviceFeeMicro: fee(purchased, fees.service),
    paymentFeeMicro: fee(purchased, fees.payment),
    networkFeeMicro: zero,
  }
}

export const total = (breakdown: Breakdown): Micro =>
  micro(
    breakdown.balancePurchasedMicro + breakdown.serviceFeeMicro + breakdown.paymentFeeMicro + breakdown.networkFeeMicro,
  )

function fee(amount: Micro, rate: FeeRate): Micro {
  const exact = amount * BigInt(rate.basisPoints) + rate.fixedMicro * 10_000n
  const unit = MICRO_PER_RUPIAH * 10_000n
  return micro(((exact + unit - 1n) / unit) * MICRO_PER_RUPIAH)
}

/** What went back of its payment, fees included. */
export const refundedTotal = ({ refundedMicro, refundedFeesMicro }: TopUp): Micro =>
  plus(refundedMicro, refundedFeesMicro)

/** How long a QR code is shown as payable. A payment that comes later is credited all the same. */
const TOP_UP_MINUTES = 15

/** Tells whoever holds the account's balance to look again; may come more than once for one payment. */
type Credited = (accountId: string, topUpId: string) => void

/** Hears once of each payment that an operator has to see to. */
type NeedsOperator = (problem: PaymentProblem) => void

/** Asked before the database is: what cannot be an id names nothing. */
export const isTopUpId = (text: string): boolean => /^top_[A-Za-z0-9_-]{1,40}$/.test(text)

export interface TopUpsParts {
  readonly store: TopUpStore
  /** What came and could not be credited, for the operator. */
  readonly problems: PaymentProblemStore
  /** Makes the charges. */
  readonly provider: PaymentProvider
  /** All whose payments are credited, so that one can be replaced by another while payments are under way. */
  readonly providers: readonly PaymentProvider[]
  readonly fees: Fees
  readonly credited: Credited
  readonly needsOperator: NeedsOperator
  /** Books what of a payment went back. */
  readonly refunds: Pick<Refunds, "reverse">
}

export class TopUps {
  readonly #parts: TopUpsParts

  constructor(parts: TopUpsParts) {
    this.#parts = parts
  }

  /** What a top-up of so many rupiah would cost, before there is one. */
  quote(amountRp: number): Breakdown | Failure {
    const { provider, fees } = this.#parts
    const breakdown = breakDown(amountRp, fees)
    const { largestRp } = provider
    if (largestRp !== undefined && wholeRupiah(total(breakdown)) > largestRp) {
      return invalid(`A payment is at most Rp ${largestRp}, fees included.`)
    }
    return breakdown
  }

  /** Where an unpaid top-up can be paid beside its QR code, if anywhere. */
  payPath(topUp: TopUp): string | undefined {
    const { provider } = this.#parts
    return topUp.status === "paid" || topUp.provider !== provider.id ? undefined : provider.payPath?.(topUp.id)
  }

  async open(accountId: string, amountRp: number, change?: ChangeName): Promise<TopUp | Failure> {
    const { store, provider } = this.#parts
    const breakdown = this.quote(amountRp)
    if (breakdown instanceof Failure) return breakdown
    const id = `top_${nanoid()}`
    if (!(await store.create({ id, accountId, provider: provider.id, breakdown, validMinutes: TOP_UP_MINUTES }))) {
      return new Failure("gateway.capacity", {
        message: `${OPEN_AT_ONCE} top-ups wait for their payment, or ${UNPAID_A_DAY} of a day were not paid; pay one, or retry later.`,
        retryAfterS: TOP_UP_MINUTES * 60,
      })
    }
    const charge = await provider.createCharge({
      topUpId: id,
      amountRp: wholeRupiah(total(breakdown)),
      validMinutes: TOP_UP_MINUTES,
    })
    if (charge instanceof Failure) {
      await store.abandon(id)
      return charge
    }
    const shown = await store.showQr(id, charge.qrPayload, change)
    if (shown !== "done before") return shown
    await store.abandon(id)
    return new Failure("idempotency.finished")
  }

  /**
   * Credits what a proved notice says was paid, and books what it says went back. When it resolves without a Failure, both are
   * committed.
   */
  async settle(providerId: string, notice: PaymentNotice): Promise<void | Failure> {
    if (notice.kind === "unpaid") return undefined
    const { topUpId, reference } = notice
    const topUp = isTopUpId(topUpId) ? await this.#parts.store.find(topUpId) : undefined
    // One provider's secret must not settle what another was to be paid for.
    const known = topUp?.provider === providerId ? topUp : undefined
    const paid = notice.kind === "mismatched" ? notice.paid : `${notice.amountRp} IDR`
    const problem = { provider: providerId, reference, topUpId: known?.id, paid }
    if (known === undefined) {
      await this.#keep({ ...problem, kind: "unknown_order" })
      return new Failure("resource.not_found")
    }
    if (notice.kind === "mismatched") {
      await this.#keep({ ...problem, kind: "mismatch" })
      return invalid("The notification does not match the payment.")
    }
    if (notice.amountRp * MICRO_PER_RUPIAH !== total(known.breakdown)) {
      await this.#keep({ ...problem, kind: "wrong_amount" })
      return invalid("The amount paid is not the amount of the top-up.")
    }
    const isClosed = await this.#parts.store.credit(known.id, { key: creditKey(providerId, reference), reference })
    if (isClosed) this.#parts.needsOperator({ ...problem, kind: "closed_account" })
    // Also when it had been credited before: the process that did so may not have lived to tell.
    this.#parts.credited(known.accountId, known.id)
    if (notice.kind === "reversed") await this.#parts.refunds.reverse(known, notice)
    return undefined
  }

  /** Whether its payment could not be credited, and an operator has handled that. */
  isHandled({ id }: TopUp): Promise<boolean> {
    return this.#parts.problems.areResolved(id)
  }

  /**
   * Asks the provider now whether a top-up was paid, and credits it if so. Does nothing for one that was paid, that the
   * provider cannot be asked about, or that somebody asked about a moment ago.
   */
  async check(topUp: TopUp): Promise<void | Failure> {
    const provider = this.#askable().find(({ id }) => id === topUp.provider)
    if (provider === undefined || topUp.status === "paid") return undefined
    return (await this.#parts.store.claim(topUp.id)) ? await this.#ask(provider, topUp.id) : undefined
  }

  /**
   * Asks about unpaid top-ups whose turn has come, a few at a time. Each is one process's: whoever takes it sets when it is
   * asked about next. A provider that is away, or a payment that cannot be credited, waits for that next time.
   */
  async poll(): Promise<void> {
    const askable = this.#askable()
    if (askable.length === 0) return
    const due = await this.#parts.store.claimDue(askable.map(({ id }) => id))
    const asked = due.flatMap((topUp) =>
      askable.filter(({ id }) => id === topUp.provider).map((provider) => this.#ask(provider, topUp.id)),
    )
    await Promise.all(asked)
  }

  async #ask({ id, readStatus }: Askable, topUpId: string): Promise<void | Failure> {
    const notice = await readStatus(topUpId)
    return notice instanceof Failure ? notice : await this.settle(id, notice)
  }

  #askable(): Askable[] {
    return this.#parts.providers.flatMap(({ id, readStatus }) => (readStatus === undefined ? [] : [{ id, readStatus }]))
  }

  #keep(problem: PaymentProblem): Promise<void> {
    return this.#parts.problems.record(problem)
  }
}

type Askable = Required<Pick<PaymentProvider, "id" | "readStatus">>

export interface Payments {
  readonly store: TopUpStore
  readonly topUps: TopUps
  readonly refunds: Refunds
  /** Makes the charges. */
  readonly provider: PaymentProvider
  readonly providers: readonly PaymentProvider[]
}

/** Whoever must hear of what was booked. */
export interface PaymentPorts extends Pick<RefundsParts, "recall" | "changed"> {
  readonly credited: Credited
  readonly needsOperator: NeedsOperator
}

export function openPayments(config: Config, database: Database, ports: PaymentPorts): Payments {
  const providers = [
    simulatedProvider({ secret: config.PAYMENT_SIMULATED_SECRET }),
    midtransProvider({ serverKey: config.MIDTRANS_SERVER_KEY, baseUrl: config.MIDTRANS_BASE_URL }),
  ]
  const provider = providers.find(({ id }) => id === config.PAYMENT_PROVIDER)
  if (provider === undefined) throw new Error(`no payment provider ${config.PAYMENT_PROVIDER}`)
  const store = topUpStore(database)
  const { recall, changed, credited, needsOperator } = ports
  const problems = paymentProblemStore(database, needsOperator)
  const refunds = new Refunds({
    store: refundStore(database),
    topUps: store,
    providers,
    needsOperator,
    recall,
    changed,
  })
  const topUps = new TopUps({
    store,
    problems,
    provider,
    providers,
    fees: {
      service: { basisPoints: config.PAYMENT_SERVICE_FEE_BPS, fixedMicro: rupiah(config.PAYMENT_SERVICE_FEE_RP) },
      payment: { basisPoints: config.PAYMENT_FEE_BPS, fixedMicro: rupiah(config.PAYMENT_FEE_RP) },
    },
    credited,
    needsOperator,
    refunds,
  })
  return { store, topUps, refunds, provider, providers }
}

const rupiah = (amount: number) => micro(BigInt(amount) * MICRO_PER_RUPIAH)

/** Stands for a process that asks for money and has none of its own; it sorts before all of them. */
const ASKER = "-"

/** Of a command beside the gateways, which hear of it from the database. A lost notice is harmless: each looks again by itself. */
export const besideGateways = (database: Database, needsOperator: NeedsOperator = () => {}): PaymentPorts => ({
  needsOperator,
  credited: () => {},
  changed: () => {},
  recall(accountId, amount) {
    const notice = `short account ${accountId} ${ASKER} ${amount}`
    database.run((sql) => sql`select pg_notify('loket', ${notice})`).catch(() => {})
  },
})
