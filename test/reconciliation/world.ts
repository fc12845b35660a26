/** Books that agree, of two customers with a call and a top-up each, to be broken one way or another. */
import { readConfig } from "../../src/config.ts"
import { reconcileBooks } from "../../src/reconcile.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"

export interface Report {
  readonly reconciliation: number
  readonly differences: number
  readonly not_compared: number
  readonly frozen: readonly string[]
  readonly claims: readonly {
    readonly claim: string
    readonly compared: number
    readonly differences: number
    readonly shown: readonly Readonly<Record<string, string | boolean | null>>[]
  }[]
}

/** In an empty database, which they close. */
export async function openBooks(empty?: TestDatabase) {
  const target = empty ?? (await openTestDatabase())
  const { sql, db } = target
  const books = await Books.open(target)
  const topUps = topUpStore(db)
  const customer = async () => {
    const someone = await books.customer()
    const requestId = `req_of_${someone.accountId}`
    const settlement = books.settlement({ ...someone, id: requestId, markers: 1 })
    await books.commit(someone.processId, { settlements: [settlement] })
    const topUpId = `top_of_${someone.accountId}`
    const breakdown = {
      balancePurchasedMicro: micro(10_000_000_000n),
      serviceFeeMicro: micro(500_000_000n),
      paymentFeeMicro: zero,
      networkFeeMicro: zero,
    }
    const { accountId } = someone
    await topUps.create({ id: topUpId, accountId, provider: "simulated", breakdown, validMinutes: 15 })
    await topUps.credit(topUpId, { key: `topup:simulated:${topUpId}`, reference: topUpId })
    return { ...someone, requestId, topUpId }
  }
  return {
    ...target,
    books,
    victim: await customer(),
    bystander: await customer(),
    /** As `loket reconcile --json` is run. */
    async command(): Promise<{ code: number; report: Report }> {
      const config = readConfig({ DATABASE_URL: target.url })
      if (Array.isArray(config)) throw new Error(config.join("\n"))
      let printed = ""
      const code = await reconcileBooks(config, { json: true, print: (text) => void (printed = text) })
      return { code, report: JSON.parse(printed) as Report }
    },
    async frozen(): Promise<string[]> {
      const rows = await sql<{ id: string }[]>`select id from accounts where frozen_at is not null order by id`
      return rows.map(({ id }) => id)
    },
  }
}

export type BrokenBooks = Awaited<ReturnType<typeof openBooks>>
