/**
 * What an owner sets against spending that runs away: for each key, and for all keys of the account together, the most within
 * ten minutes, and how many times the usual is worth a warning (spending-alerts.ts). Micro-rupiah.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import { type OwnedKey, type OwnedKeyRow, toOwnedKey } from "./account-settings.ts"
import { purseOf } from "./breaker-purses.ts"
import type { Database } from "./database.ts"
import type { KeyName } from "./key-secrets.ts"

export interface Breaker {
  /** Within ten minutes. Undefined for none. */
  readonly ceilingMicro: Micro | undefined
  /** What happens at the ceiling: calls are refused from then on, or its owner is warned only. */
  readonly stops: boolean
  /** After so long it is resumed by itself; undefined for never. */
  readonly pauseMinutes: number | undefined
}

/** Its keys, or one of them, are refused. */
export interface Pause {
  readonly since: Date
  /** Undefined until it is resumed. */
  readonly until: Date | undefined
}

export interface AccountBreaker extends Breaker {
  /** More than so many times the usual is told; undefined for never. */
  readonly factor: number | undefined
}

export interface ShownAccountBreaker extends AccountBreaker {
  readonly paused: Pause | undefined
}

export interface BreakerStore {
  /** Undefined when there is no such account. */
  ofAccount(accountId: string): Promise<ShownAccountBreaker | undefined>
  /** Returns the account's keys that work. */
  setAccount(accountId: string, breaker: AccountBreaker): Promise<readonly OwnedKey[]>
  /** Undefined when there is no such key. */
  setKey(key: KeyName, breaker: Breaker): Promise<OwnedKey | undefined>
  /** Ends the account's pause, or the key's, and what was spent before counts no more. Returns the keys that it was of. */
  resume(accountId: string, keyId?: string): Promise<readonly OwnedKey[]>
}

const again = { retry: true } as const

export const breakerStore = (database: Database): BreakerStore => ({
  async ofAccount(accountId) {
    const [row] = await database.run(
      (sql) => sql<AccountRow[]>`
        select breaker_ceiling_micro, breaker_factor, breaker_stops, breaker_pause_minutes, paused_at, paused_until from accounts where id = ${accountId} and deleted_at is null`,
      again,
    )
    return (
      row && {
        ceilingMicro: row.breaker_ceiling_micro === null ? undefined : micro(row.breaker_ceiling_micro),
        factor: row.breaker_factor ?? undefined,
        stops: row.breaker_stops,
        pauseMinutes: row.breaker_pause_minutes ?? undefined,
        paused: pauseOf(row),
      }
    )
  },

  async setAccount(accountId, { ceilingMicro, factor, stops, pauseMinutes }) {
    await database.run(
      (sql) => sql`
        update accounts set breaker_ceiling_micro = ${ceilingMicro ?? null}, breaker_factor = ${factor ?? null},
          breaker_stops = ${stops}, breaker_pause_minutes = ${pauseMinutes ?? null}
        where id = ${accountId} and deleted_at is null`,
      again,
    )
    return await keysOf(database, accountId)
  },

  async setKey({ accountId, keyId }, { ceilingMicro, stops, pauseMinutes }) {
    const rows = await database.run(
      (sql) => sql<OwnedKeyRow[]>`
        update api_keys set breaker_ceiling_micro = ${ceilingMicro ?? null}, breaker_stops = ${stops},
          breaker_pause_minutes = ${pauseMinutes ?? null}
        where id = ${keyId} and account_id = ${accountId} returning id, key_hash`,
      again,
    )
    return rows.map(toOwnedKey)[0]
  },

  async resume(accountId, keyId) {
    const purse = purseOf(accountId, keyId)
    await database.run(
      (sql) => sql`
        with resumed as (
          ${
            keyId === undefined
              ? sql`update accounts set paused_at = null, paused_until = null where id = ${accountId} returning 1`
              : sql`update api_keys set paused_at = null, paused_until = null where id = ${keyId} and account_id = ${accountId} returning 1`
          }
        )
        delete from spending_minutes where purse = ${purse} and exists (select from resumed)`,
      again,
    )
    return await keysOf(database, accountId, keyId)
  },
})

async function keysOf(database: Database, accountId: string, keyId?: string): Promise<readonly OwnedKey[]> {
  const rows = await database.run(
    (sql) => sql<OwnedKeyRow[]>`
      select id, key_hash from api_keys
      where account_id = ${accountId} and ${keyId === undefined ? sql`revoked_at is null` : sql`id = ${keyId}`}`,
    again,
  )
  return rows.map(toOwnedKey)
}

/** Of one that is not over. */
export function pauseOf({ paused_at: since, paused_until: until }: PauseRow): Pause | undefined {
  if (since === null || (until !== null && until.getTime() <= Date.now())) return undefined
  return { since, until: until ?? undefined }
}

export interface PauseRow {
  readonly paused_at: Date | null
  readonly paused_until: Date | null
}
interface AccountRow extends PauseRow {
  readonly breaker_ceiling_micro: bigint | null
  readonly breaker_factor: number | null
  readonly breaker_stops: boolean
  readonly breaker_pause_minutes: number | null
}
