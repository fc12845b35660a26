/**
 * What an owner sets against spending that runs away: for each key, and for all keys of the account together, the most within
 * ten minutes, and how many times the usual is worth a warning (alerts.ts). Micro-rupiah.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { Growth } from "../../actors/lease.ts"
import { largestMicro, micro, type Micro, smaller } from "../../actors/money/micro.ts"
import { type KeyName, type OwnedKey, type OwnedKeyRow, toOwnedKey } from "./account-settings.ts"
import { returnBudget } from "./budget-leases.ts"
import type { Database, Sql } from "./database.ts"
import { isAhead } from "./sql.ts"

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
        select breaker_ceiling_micro, breaker_factor, breaker_stops, breaker_pause_minutes,
          case when ${isPaused(sql, "accounts")} then paused_at end as paused_at, paused_until
        from accounts where id = ${accountId} and deleted_at is null`,
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

/** Unless its pause ends by itself and was begun by a clock of the database that has been set back since. */
export const isPaused = (sql: Sql, of: "accounts" | "a" | "k") =>
  sql`(${sql(of)}.paused_at is not null and (${sql(of)}.paused_until is null or not ${isAhead(sql, sql`${sql(of)}.paused_at`)}))`

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

// A breaker's purse: what a key, or an account, may spend within any ten minutes. It is leased like a key's budget (budget-leases.ts);
// what was charged to it is free again when it is ten minutes old, by the database's clock. Micro-rupiah.

/** A purse's id: of an account, or of one of its keys. */
export const purseOf = (accountId: string, keyId?: string): string =>
  keyId === undefined ? `brk_${accountId}` : `brk_${accountId}.${keyId}`

export function ownerOf(purse: string): { readonly accountId: string; readonly keyId: string | undefined } {
  const [accountId = "", keyId] = purse.slice("brk_".length).split(".")
  return { accountId, keyId }
}

/** A ceiling as it stands. */
export interface PurseLook {
  readonly ceiling: Micro
  /** What counts of the last ten minutes. */
  readonly spent: Micro
  /** By calls under way, of all processes. */
  readonly held: Micro
  /** Until nothing of what was spent counts any more; 0 where nothing does. */
  readonly resetS: number
}

export interface BreakerPurses {
  /** Nothing is leased by looking. Undefined where there is no ceiling that stops, any more. */
  look(purse: string): Promise<PurseLook | undefined>
  /** As of accounts: undefined when this process was closed by another. */
  grow(purse: string, short: Micro, version: number): Promise<Growth<AccountLease> | undefined>
  giveBack(purse: string, returned: Micro): Promise<AccountLease | undefined>
  /**
   * A call that needs so much was refused. The hashes (hex) of the keys that are paused now; undefined where there is room for it
   * once calls under way have ended.
   */
  trip(purse: string, least: Micro): Promise<readonly string[] | undefined>
}

/** Of budgets no lease has an id; the process is what tells one from another. */
const NO_ID = 0n

export const breakerPurses = (database: Database, processId: string, sendsMail: boolean): BreakerPurses => ({
  async grow(purse, short, version) {
    const { accountId, keyId } = ownerOf(purse)
    const [row] = await database.run(
      (sql) => sql<GrownRow[]>`
        select * from grow_breaker_1(${processId}, ${purse}, ${accountId}, ${keyId ?? null}, ${short}::bigint, ${version}::integer)`,
      again,
    )
    return (
      row && {
        lease: {
          id: NO_ID,
          granted: micro(row.granted_micro),
          returned: micro(row.returned_micro),
          settled: micro(row.settled_micro),
          version: row.version,
        },
        more: row.more,
      }
    )
  },

  async look(purse) {
    const { accountId, keyId } = ownerOf(purse)
    const [row] = await database.run(
      (sql) => sql<LookRow[]>`
        select ceiling_micro, spent_lately(${purse}) as spent_micro, least(
            (select coalesce(sum(leased_micro), 0) from key_spend where key_id = ${purse}),
            (select coalesce(sum(hold_micro), 0) from openings
              where account_id = ${accountId} ${keyId === undefined ? sql`` : sql`and key_id in (${chargedTo(sql, keyId)})`}))::bigint as held_micro,
          (select coalesce(ceil(extract(epoch from max(minute) + interval '11 minutes' - clock_timestamp())), 0)::integer
            from spending_minutes where purse = ${purse} and minute > clock_timestamp() - interval '11 minutes') as reset_s
        from (${
          keyId === undefined
            ? sql`select breaker_ceiling_micro as ceiling_micro from accounts where id = ${accountId} and breaker_stops`
            : sql`select breaker_ceiling_micro as ceiling_micro from api_keys where id = ${keyId} and account_id = ${accountId} and breaker_stops`
        }) as owner where ceiling_micro is not null`,
      again,
    )
    return (
      row && {
        ceiling: micro(row.ceiling_micro),
        spent: micro(row.spent_micro),
        held: micro(row.held_micro),
        resetS: row.reset_s,
      }
    )
  },

  async giveBack(purse, returned) {
    const lease = await returnBudget(database, processId, { keyId: purse, period: "total", start: 0 }, returned)
    return lease && { ...lease, id: NO_ID }
  },

  async trip(purse, least) {
    const { accountId, keyId } = ownerOf(purse)
    // Nothing where a clock that was ahead has left something behind.
    const tripped = async () =>
      await database.run(
        (sql) => sql<{ paused: boolean }[]>`
          select trip_breaker_1(${purse}, ${accountId}, ${keyId ?? null}, ${smaller(least, largestMicro)}::bigint, ${sendsMail}) as paused
          where not exists (select from spending_minutes where purse = ${purse} and ${isAhead(sql, sql`minute`)})
            and not exists (${aheadPause(sql, purse)})`,
        again,
      )
    let [row] = await tripped()
    if (row === undefined) {
      await database.run((sql) => comeBack(sql, purse), again)
      ;[row] = await tripped()
    }
    if (row?.paused !== true) return undefined
    const keys = await database.run(
      (sql) => sql<{ hash: string }[]>`
        select encode(key_hash, 'hex') as hash from api_keys
        where account_id = ${accountId} and revoked_at is null ${keyId === undefined ? sql`` : sql`and id = ${keyId}`}`,
      again,
    )
    return keys.map(({ hash }) => hash)
  },
})

/** Of its owner, a pause that is over (`isPaused`). */
function aheadPause(sql: Sql, purse: string) {
  const { accountId, keyId } = ownerOf(purse)
  const owner = keyId === undefined ? sql`accounts where id = ${accountId}` : sql`api_keys where id = ${keyId}`
  return sql`select id from ${owner} and paused_until is not null and ${isAhead(sql, sql`paused_at`)}`
}

/** What was charged by a clock that was ahead: of its last minutes it counts as of now, as before it was set back, and no more until it is there again. */
const comeBack = (sql: Sql, purse: string) => sql`
  with resumed as (
    update ${ownerOf(purse).keyId === undefined ? sql`accounts` : sql`api_keys`} set paused_at = null, paused_until = null
    where id in (${aheadPause(sql, purse)})
  ), ahead as (
    delete from spending_minutes where purse = ${purse} and ${isAhead(sql, sql`minute`)} returning minute, spent_micro
  )
  insert into spending_minutes as m
  select ${purse}, date_trunc('minute', clock_timestamp()), sum(spent_micro) from ahead
  where minute > (select max(minute) from ahead) - interval '11 minutes' having count(*) > 0
  on conflict (purse, minute) do update set spent_micro = m.spent_micro + excluded.spent_micro`

/** Calls of a key's children are charged to its purse too. */
const chargedTo = (sql: Sql, keyId: string) => sql`select id from api_keys where id = ${keyId} or parent_id = ${keyId}`

interface LookRow {
  readonly ceiling_micro: bigint
  readonly spent_micro: bigint
  readonly held_micro: bigint
  readonly reset_s: number
}
interface GrownRow {
  readonly granted_micro: bigint
  readonly returned_micro: bigint
  readonly settled_micro: bigint
  readonly version: number
  readonly more: boolean
}
