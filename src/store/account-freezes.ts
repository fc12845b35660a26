/** Accounts whose keys are refused until an operator has looked at them, with the row of the audit log where an operator did it. */
import { type OwnedKey, type OwnedKeyRow, toOwnedKey } from "./account-settings.ts"
import type { Database, Sql } from "./database.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"

export interface FreezeStore {
  /** Returns the account's keys, which make no more calls. A frozen account stays frozen for its first reason. */
  freeze(id: string, reason: string, act?: Act): Promise<readonly OwnedKey[]>
  unfreeze(id: string, by?: { readonly act: Act; readonly reason: string }): Promise<readonly OwnedKey[]>
}

const once = { deadlineMs: 5_000, retry: true } as const

export const freezeStore = (database: Database): FreezeStore => {
  /** Makes the change, if there is one to make, and returns the account's keys in either case. */
  const changed = async (id: string, change: (sql: Sql) => ReturnType<Sql>, by: Signed | undefined) => {
    const rows = await database.run(
      (sql) => sql<OwnedKeyRow[]>`
        with changed as (${change(sql)})${by === undefined ? sql`` : sql`, logged as (${logged(sql, by)})`}
        select id, key_hash from api_keys where account_id = ${id} and revoked_at is null`,
      once,
    )
    return rows.map(toOwnedKey)
  }
  return {
    freeze: (id, reason, act) =>
      changed(
        id,
        (sql) => sql`
          update accounts set frozen_at = now(), frozen_reason = ${reason} where id = ${id} and frozen_at is null returning id`,
        act && { act, reason, becomesFrozen: true },
      ),

    unfreeze: (id, by) =>
      changed(
        id,
        (sql) => sql`
          update accounts set frozen_at = null, frozen_reason = null where id = ${id} and frozen_at is not null returning id`,
        by && { ...by, becomesFrozen: false },
      ),
  }
}

interface Signed {
  readonly act: Act
  readonly reason: string
  readonly becomesFrozen: boolean
}

const logged = (sql: Sql, { act, reason, becomesFrozen }: Signed) => sql`
  insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
  select ${signature(sql, act)}, ${becomesFrozen ? "account.frozen" : "account.unfrozen"}, id,
    jsonb_build_object('frozen', ${!becomesFrozen}::boolean), jsonb_build_object('frozen', ${becomesFrozen}::boolean), ${reason}
  from changed`
