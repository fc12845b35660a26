/**
 * Accounts whose balance fell below what their owner set. Each fall is taken once, by one process: `low_balance_told_at` is set
 * with the taking, and cleared when the balance is up again or the owner wishes something else.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Language } from "./accounts.ts"
import type { Database } from "./database.ts"

export interface LowBalance {
  readonly accountId: string
  /** Where to write to. */
  readonly email: string
  readonly language: Language
  readonly balanceMicro: Micro
  readonly thresholdMicro: Micro
}

export interface LowBalanceStore {
  /** Takes some that are to be told. One that is not told after this is never told of this fall. */
  take(): Promise<readonly LowBalance[]>
  /** Gives one back that was surely not told. */
  putBack(accountId: string): Promise<void>
}

const TAKEN = 20

export const lowBalanceStore = (database: Database): LowBalanceStore => ({
  async take() {
    const rows = await database.run(
      (sql) => sql<Row[]>`
        with risen as (
          update accounts a set low_balance_told_at = null from balances b
          where b.account_id = a.id and a.low_balance_threshold_micro is not null and a.low_balance_told_at is not null
            and b.posted_micro >= a.low_balance_threshold_micro
        ), fallen as (
          select a.id, b.posted_micro from accounts a join balances b on b.account_id = a.id
          where a.low_balance_threshold_micro is not null and a.low_balance_email is not null
            and a.low_balance_told_at is null and a.deleted_at is null and b.posted_micro < a.low_balance_threshold_micro
          order by a.id limit ${TAKEN} for update of a skip locked
        )
        update accounts a set low_balance_told_at = now() from fallen f where a.id = f.id
        returning a.id, a.low_balance_email as email, a.language, f.posted_micro,
          a.low_balance_threshold_micro as threshold_micro`,
    )
    return rows.map((row) => ({
      accountId: row.id,
      email: row.email,
      language: row.language,
      balanceMicro: micro(row.posted_micro),
      thresholdMicro: micro(row.threshold_micro),
    }))
  },

  async putBack(accountId) {
    await database.run((sql) => sql`update accounts set low_balance_told_at = null where id = ${accountId}`, {
      retry: true,
    })
  },
})

interface Row {
  id: string
  email: string
  language: Language
  posted_micro: bigint
  threshold_micro: bigint
}
