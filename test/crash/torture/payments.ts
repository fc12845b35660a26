/**
 * Somebody who tops up again and again, and a payment provider as it should be: it repeats a notification until it is
 * answered 200, and sometimes after that, to any of the gateways.
 */
import type { Random } from "../../../actors/kernel/random.ts"
import type { ChildGateway, Customer } from "../child.ts"
import type { Slot } from "./slot.ts"

export const TOP_UP_RP = 10_000

export interface Payments {
  /** Ids of top-ups that were paid; all of them are to be credited once. */
  readonly paid: Set<string>
  readonly done: Promise<void>
}

export interface PaymentTerms {
  readonly slots: readonly Slot[]
  readonly customer: Customer
  readonly random: Random
  readonly over: AbortSignal
}

export function startPayments({ slots, customer, random, over }: PaymentTerms): Payments {
  const paid = new Set<string>()
  const any = () => slots[Math.floor(random() * slots.length)]?.gateway
  const notify = async (id: string) => {
    while (!(await tries(any(), (gateway) => gateway.pay(id, TOP_UP_RP)))) await Bun.sleep(100)
  }
  const run = async () => {
    while (!over.aborted) {
      let id: string | undefined
      await tries(any(), async (gateway) => {
        id = await gateway.openTopUp(customer, TOP_UP_RP)
      })
      if (id !== undefined) {
        paid.add(id)
        // Told twice at once, and once more later.
        await Promise.all([notify(id), notify(id)])
        await tries(any(), (gateway) => gateway.pay(id ?? "", TOP_UP_RP))
      }
      await Bun.sleep(100 + random() * 200)
    }
  }
  return { paid, done: run() }
}

async function tries(
  gateway: ChildGateway | undefined,
  work: (gateway: ChildGateway) => Promise<void>,
): Promise<boolean> {
  if (gateway === undefined) return false
  return await work(gateway).then(
    () => true,
    () => false,
  )
}
