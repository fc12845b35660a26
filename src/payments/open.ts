/** Top-ups and the providers that they are paid through, as the configuration has them. */
import { MICRO_PER_RUPIAH, micro } from "../../actors/money/micro.ts"
import type { Config } from "../config.ts"
import type { Database } from "../store/database.ts"
import { paymentProblemStore } from "../store/operator/payments.ts"
import { refundStore } from "../store/refunds.ts"
import { type TopUpStore, topUpStore } from "../store/top-ups.ts"
import { midtransProvider } from "./midtrans.ts"
import { type PaymentProvider, simulatedProvider } from "./provider.ts"
import { Refunds, type RefundsParts } from "./refunds.ts"
import { type Credited, TopUps } from "./top-ups.ts"

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
}

export function openPayments(config: Config, database: Database, ports: PaymentPorts): Payments {
  const providers = [
    simulatedProvider({ secret: config.PAYMENT_SIMULATED_SECRET }),
    midtransProvider({ serverKey: config.MIDTRANS_SERVER_KEY, baseUrl: config.MIDTRANS_BASE_URL }),
  ]
  const provider = providers.find(({ id }) => id === config.PAYMENT_PROVIDER)
  if (provider === undefined) throw new Error(`no payment provider ${config.PAYMENT_PROVIDER}`)
  const store = topUpStore(database)
  const problems = paymentProblemStore(database)
  const { recall, changed, credited } = ports
  const refunds = new Refunds({ store: refundStore(database), topUps: store, providers, problems, recall, changed })
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
    refunds,
  })
  return { store, topUps, refunds, provider, providers }
}

const rupiah = (amount: number) => micro(BigInt(amount) * MICRO_PER_RUPIAH)

/** Stands for a process that asks for money and has none of its own; it sorts before all of them. */
const ASKER = "-"

/** Of a command beside the gateways, which hear of it from the database. A lost notice is harmless: each looks again by itself. */
export const besideGateways = (database: Database): PaymentPorts => ({
  credited: () => {},
  changed: () => {},
  recall(accountId, amount) {
    const notice = `short account ${accountId} ${ASKER} ${amount}`
    database.run((sql) => sql`select pg_notify('loket', ${notice})`).catch(() => {})
  },
})
