/** A key as its actor needs it: found by its hash, with its account's state and what it has spent. */
import type { Fallback, KeyBinding, KeyRecord, LoadedKey, ParentKey, Spent } from "../../actors/key-record.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { readNetwork } from "../../actors/network.ts"
import { calendarAt, type PeriodStarts, type SpendingPeriod } from "../../actors/period.ts"
import { isPaused, purseOf } from "./breakers.ts"
import type { Database } from "./database.ts"
import { runningOf, runningPeriods, type RunningRow } from "./account-settings.ts"

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
  readonly replays_retries: boolean
  /** In milliseconds; 0 for a time that is over by the database's clock, which may be ahead of this machine's. */
  readonly expires_ms: bigint | null
  readonly models: readonly string[] | null
  readonly endpoints: readonly string[] | null
  readonly networks: readonly string[] | null
  readonly origins: readonly string[] | null
  readonly max_rate_micro: bigint | null
  readonly parent_id: string | null
  /** Hex of the parent's first secret's hash. */
  readonly parent_actor: string | null
  readonly breaker: boolean
  readonly account_breaker: boolean
  /** The longest pause that is on; null where there is none. `infinity` is until it is resumed. */
  readonly paused_until_ms: number | null
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
  k.spending_limit_micro, k.spending_period, k.fallback, k.replays_retries, encode(k.key_hash, 'hex') as actor,
  k.breaker_stops and k.breaker_ceiling_micro is not null as breaker,
  a.breaker_stops and a.breaker_ceiling_micro is not null as account_breaker,
  (select extract(epoch from greatest(case when ${isPaused(sql, "k")} then coalesce(k.paused_until, 'infinity') end,
    case when ${isPaused(sql, "a")} then coalesce(a.paused_until, 'infinity') end))::float8 * 1000) as paused_until_ms,
  case when k.expires_at <= now() then 0 else (extract(epoch from k.expires_at) * 1000)::bigint end as expires_ms,
  k.models, k.endpoints, k.networks, k.origins, k.max_rate_micro, k.parent_id,
  (select encode(p.key_hash, 'hex') from api_keys p where p.id = k.parent_id) as parent_actor,
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
    replaysRetries: row.replays_retries ? undefined : false,
    parent: parentOf(row),
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
    expiresAt: row.expires_ms === null ? undefined : Number(row.expires_ms),
    binding: bindingOf(row),
    secretEnds: row.secret_ends ?? undefined,
    breakers: breakersOf(row),
    paused: row.paused_until_ms === null ? undefined : { until: row.paused_until_ms },
  }
}

/** Undefined where there is none, as most keys have it. */
function breakersOf({ id, account_id: accountId, breaker, account_breaker: ofAccount }: KeyRow): string[] | undefined {
  if (!breaker && !ofAccount) return undefined
  return [...(breaker ? [purseOf(accountId, id)] : []), ...(ofAccount ? [purseOf(accountId)] : [])]
}

function parentOf({ parent_id: keyId, parent_actor: keyHash }: KeyRow): ParentKey | undefined {
  if (keyId === null) return undefined
  if (keyHash === null) throw new Error(`the parent ${keyId} of a key is not there`)
  return { keyId, keyHash }
}

/** Undefined where nothing is bound, so that such a key is not asked about any of it. */
function bindingOf({ models, endpoints, networks, origins, max_rate_micro: rate }: KeyRow): KeyBinding | undefined {
  if ([models, endpoints, networks, origins, rate].every((bound) => bound === null)) return undefined
  return {
    models: models === null ? undefined : new Set(models),
    endpoints: endpoints === null ? undefined : new Set(endpoints),
    // What cannot be read lets nobody in.
    networks: networks?.flatMap((text) => readNetwork(text) ?? []),
    origins: origins === null ? undefined : new Set(origins),
    maxRate: rate === null ? undefined : micro(rate),
  }
}

// Keys that were taken back beside the gateway, for a process on the embedded database: there a command or a person with SQL
// writes beside it, and no notice comes of it, as it does from a server.

/** Hashes of the keys of frozen accounts, and of those that were revoked a moment ago, as hex. */
export async function frozenKeys(database: Database): Promise<ReadonlySet<string>> {
  const rows = await database.run(
    (sql) => sql<{ hash: string }[]>`
      select encode(k.key_hash, 'hex') as hash from accounts a join api_keys k on k.account_id = a.id
      where a.frozen_at is not null or k.revoked_at > now() - interval '1 minute'`,
  )
  return new Set(rows.map(({ hash }) => hash))
}

/** Which origins any key is for that works now, for answers to pre-flights, which carry no key. */
export interface PageOriginStore {
  read(): Promise<readonly string[]>
}

/** Different ones. */
const MAX_OF_AN_ACCOUNT = 200
/** About 100 bytes each. Each account's first come before anybody's second, so that nobody's list keeps another account's from being read. */
const MOST = 50_000

export const pageOriginStore = (database: Database): PageOriginStore => ({
  async read() {
    const rows = await database.run(
      (sql) => sql<{ origin: string }[]>`
        select origin from (
          select listed.origin, min(k.created_at) as made,
            row_number() over (partition by k.account_id order by min(k.created_at), listed.origin) as place
          from api_keys k join accounts a on a.id = k.account_id cross join lateral unnest(k.origins) as listed (origin)
          where k.origins is not null and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
            and a.frozen_at is null and a.deleted_at is null
          group by k.account_id, listed.origin
        ) ranked where place <= ${MAX_OF_AN_ACCOUNT}
        group by origin order by min(place), min(made) limit ${MOST}`,
      { deadlineMs: 5_000, retry: true },
    )
    return rows.map(({ origin }) => origin)
  },
})
