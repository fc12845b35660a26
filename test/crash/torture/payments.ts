/**
 * Somebody who tops up again and again, and a payment provider as it should be: it repeats a notification until it is
 * answered 200, and sometimes after that, to any of the gateways.
 */
import type { Random } from "../../../actors/kernel/clock.ts"
import type { ChildGateway, Customer } from "../child.ts"
import type { Restoration } from "./restoration.ts"
import type { Slot } from "./slot.ts"

export const TOP_UP_RP = 10_000

export interface Payments {
  /** By their ids: when a notification was first answered 200, in milliseconds. All of them are to be credited once. */
  readonly paid: Map<string, number>
  readonly done: Promise<void>
}

export interface PaymentTerms {
  readonly slots: readonly Slot[]
  readonly customer: Customer
  readonly random: Random
  readonly restorations: readonly Restoration[]
  readonly over: AbortSignal
}

export function startPayments({ slots, customer, random, restorations, over }: PaymentTerms): Payments {
  const paid = new Map<string, number>()
  const any = () => slots[Math.floor(random() * slots.length)]?.gateway
  const pay = async (id: string) => {
    const done = await tries(any(), (gateway) => gateway.pay(id, TOP_UP_RP))
    if (done && !paid.has(id)) paid.set(id, performance.now())
    return done
  }
  const notify = async (id: string, openedMs: number) => {
    // One that is newer than a backup is unknown once that is restored.
    const mayBeUnknown = () => restorations.some(({ endedMs }) => endedMs > openedMs)
    while (!(await pay(id)) && !mayBeUnknown()) await Bun.sleep(100)
  }
  const run = async () => {
    while (!over.aborted) {
      let id: string | undefined
      await tries(any(), async (gateway) => {
        id = await gateway.openTopUp(customer, TOP_UP_RP)
      })
      if (id !== undefined) {
        const openedMs = performance.now()
        // Told twice at once, and once more later.
        await Promise.all([notify(id, openedMs), notify(id, openedMs)])
        await pay(id)
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
