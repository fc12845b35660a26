/**
 * A breaker's purse: what a key, or an account, may spend within any ten minutes. It is leased like a key's budget (budget-leases.ts);
 * what was charged to it is free again when it is ten minutes old, by the database's clock. Micro-rupiah.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { Growth } from "../../actors/lease.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import { returnBudget } from "./budget-leases.ts"
import type { Database } from "./database.ts"

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

const again = { retry: true } as const

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
              where account_id = ${accountId} ${keyId === undefined ? sql`` : sql`and key_id = ${keyId}`}))::bigint as held_micro,
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
    const [row] = await database.run(
      (sql) => sql<{ paused: boolean }[]>`
        select trip_breaker_1(${purse}, ${accountId}, ${keyId ?? null}, ${least}::bigint, ${sendsMail}) as paused`,
      again,
    )
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
