/** Top-ups and the providers that they are paid through, as the configuration has them. */
import { MICRO_PER_RUPIAH, micro } from "../../actors/money/micro.ts"
import type { Config } from "../config.ts"
import type { Database } from "../store/database.ts"
import { paymentProblemStore } from "../store/payment-problems.ts"
import { type TopUpStore, topUpStore } from "../store/top-ups.ts"
import { midtransProvider } from "./midtrans.ts"
import type { PaymentProvider } from "./provider.ts"
import { simulatedProvider } from "./simulated.ts"
import { type Credited, TopUps } from "./top-ups.ts"

export interface Payments {
  readonly store: TopUpStore
  readonly topUps: TopUps
  /** Makes the charges. */
  readonly provider: PaymentProvider
  readonly providers: readonly PaymentProvider[]
}

export function openPayments(config: Config, database: Database, credited: Credited): Payments {
  const providers = [
    simulatedProvider({ secret: config.PAYMENT_SIMULATED_SECRET }),
    midtransProvider({ serverKey: config.MIDTRANS_SERVER_KEY, baseUrl: config.MIDTRANS_BASE_URL }),
  ]
  const provider = providers.find(({ id }) => id === config.PAYMENT_PROVIDER)
  if (provider === undefined) throw new Error(`no payment provider ${config.PAYMENT_PROVIDER}`)
  const store = topUpStore(database)
  const topUps = new TopUps({
    store,
    problems: paymentProblemStore(database),
    provider,
    providers,
    fees: {
      service: { basisPoints: config.PAYMENT_SERVICE_FEE_BPS, fixedMicro: rupiah(config.PAYMENT_SERVICE_FEE_RP) },
      payment: { basisPoints: config.PAYMENT_FEE_BPS, fixedMicro: rupiah(config.PAYMENT_FEE_RP) },
    },
    credited,
  })
  return { store, topUps, provider, providers }
}

const rupiah = (amount: number) => micro(BigInt(amount) * MICRO_PER_RUPIAH)
