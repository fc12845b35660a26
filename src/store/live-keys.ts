/** A key as its actor needs it: found by its hash, with its account's state and what it has spent. */
import type { Fallback, KeyRecord, LoadedKey, Spent } from "../../actors/key-record.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { calendarAt, type PeriodStarts, type SpendingPeriod } from "../../actors/period.ts"
import type { Database } from "./database.ts"
import { runningOf, runningPeriods, type RunningRow } from "./running-periods.ts"

interface KeyRow {
  readonly id: string
  readonly account_id: string
  readonly revoked: boolean
  readonly account_deleted: boolean
  readonly account_frozen: boolean
  readonly time_zone: string
  readonly running: readonly RunningRow[] | null
  readonly requests_per_minute: number | null
  readonly tokens_per_minute: number | null
  readonly spending_limit_micro: bigint | null
  readonly spending_period: SpendingPeriod | null
  readonly fallback: Fallback
  /** Hex of the first secret's hash. */
  readonly actor: string
  /** 0 for one that has ended by the database's clock, which may be ahead of this machine's. */
  readonly secret_ends: Readonly<Record<string, number>> | null
}

/** One statement each. */
export interface KeyStatements {
  /** Undefined when there is no such key. `keyHash` is the hex SHA-256 of the whole key. */
  findKey(keyHash: string): Promise<KeyRecord | undefined>
  readSpent(keyId: string, starts: PeriodStarts): Promise<Spent>
}

export const keyStatements = (database: Database): KeyStatements => ({
  findKey: async (keyHash) => {
    const hash = Buffer.from(keyHash, "hex")
    const [row] = await database.run(
      (sql) => sql<KeyRow[]>`
select k.id, k.account_id, k.revoked_at is not null as revoked, a.deleted_at is not null as account_deleted,
  a.frozen_at is not null as account_frozen, a.time_zone, ${runningPeriods(sql)} as running, k.requests_per_minute, k.tokens_per_minute,
  k.spending_limit_micro, k.spending_period, k.fallback, encode(k.key_hash, 'hex') as actor,
  (select jsonb_object_agg(encode(s.secret_hash, 'hex'),
      case when s.expires_at <= now() then 0 else (extract(epoch from s.expires_at) * 1000)::bigint end)
    from key_secrets s where s.key_id = k.id and s.expires_at is not null) as secret_ends
from api_keys k join accounts a on a.id = k.account_id
where k.id = coalesce((select id from api_keys where key_hash = ${hash}),
  (select key_id from key_secrets where secret_hash = ${hash}))`,
      { retry: true },
    )
    return row && toRecord(row, keyHash)
  },
  readSpent: async (keyId, starts) => {
    const rows = await database.run(
      (sql) => sql<{ period: SpendingPeriod; spent_micro: bigint }[]>`
select period, spent_micro from key_spend where key_id = ${keyId} and (
  (period = 'daily' and period_start = ${new Date(starts.daily)}) or
  (period = 'monthly' and period_start = ${new Date(starts.monthly)}) or period = 'total')`,
      { retry: true },
    )
    const spent = { daily: zero, monthly: zero, total: zero }
    for (const row of rows) spent[row.period] = micro(row.spent_micro)
    return spent
  },
})

/** Undefined when there is no such key. `keyHash` is the hex SHA-256 of the whole key. */
export async function loadKey(
  statements: KeyStatements,
  keyHash: string,
  nowMs: number,
  written: (accountId: string) => Promise<void> = async () => {},
): Promise<LoadedKey | undefined> {
  const record = await statements.findKey(keyHash)
  if (record === undefined) return undefined
  await written(record.accountId)
  const { starts } = calendarAt(nowMs, record.timeZone, record.running)
  return { record, starts, spent: await statements.readSpent(record.keyId, starts) }
}

function toRecord(row: KeyRow, keyHash: string): KeyRecord {
  const limit = row.spending_limit_micro
  const period = row.spending_period
  const record = {
    keyId: row.id,
    accountId: row.account_id,
    revoked: row.revoked,
    accountDeleted: row.account_deleted,
    accountFrozen: row.account_frozen,
    timeZone: row.time_zone,
    running: runningOf(row.running),
    fallback: row.fallback,
  }
  // Where the key is not, there is nothing to be counted and nothing to be spent.
  if (row.actor !== keyHash) {
    return {
      ...record,
      requestsPerMinute: undefined,
      tokensPerMinute: undefined,
      budget: undefined,
      movedTo: row.actor,
    }
  }
  return {
    ...record,
    requestsPerMinute: row.requests_per_minute ?? undefined,
    tokensPerMinute: row.tokens_per_minute ?? undefined,
    budget: limit === null || period === null ? undefined : { limit: micro(limit), period },
    secretEnds: row.secret_ends ?? undefined,
  }
}
