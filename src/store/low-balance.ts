/**
 * Accounts whose balance fell below what their owner set. Each fall is taken once, by one process: `low_balance_told_at` is set
 * with the taking, and cleared when the balance is up again or the owner wishes something else. Who wishes ever something else is told a
 * few times a day: the address may be anybody's.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Language } from "./account-settings.ts"
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
const MAILS_A_DAY = 5

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
            and (a.low_balance_mails < ${MAILS_A_DAY} or a.low_balance_mails_since < now() - interval '1 day')
          order by a.id limit ${TAKEN} for update of a skip locked
        )
        update accounts a set low_balance_told_at = now(),
          low_balance_mails = case when low_balance_mails_since > now() - interval '1 day' then low_balance_mails else 0 end + 1,
          low_balance_mails_since =
            case when low_balance_mails_since > now() - interval '1 day' then low_balance_mails_since else now() end
        from fallen f where a.id = f.id
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
    await database.run(
      (sql) => sql`
        update accounts set low_balance_told_at = null, low_balance_mails = low_balance_mails - 1
        where id = ${accountId} and low_balance_told_at is not null`,
      { retry: true },
    )
  },
})

interface Row {
  id: string
  email: string
  language: Language
  posted_micro: bigint
  threshold_micro: bigint
}
