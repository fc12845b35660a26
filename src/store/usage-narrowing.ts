/** What questions about calls may be narrowed to. */
import type { UsageStatus } from "../../actors/ledger.ts"
import type { Sql } from "./sql.ts"

/** Each of it may be left out. */
export interface UsageNarrowing {
  readonly model?: string | undefined
  readonly keyId?: string | undefined
  readonly endpoint?: string | undefined
  readonly status?: UsageStatus | undefined
}

/** A condition to add to others, on records or on their sums, which are called `u` either way. */
export const narrowed = (sql: Sql, { model, keyId, endpoint, status }: UsageNarrowing) => sql`
  ${model === undefined ? sql`` : sql`and u.model = ${model}`}
  ${keyId === undefined ? sql`` : sql`and u.key_id = ${keyId}`}
  ${endpoint === undefined ? sql`` : sql`and u.endpoint = ${endpoint}`}
  ${status === undefined ? sql`` : sql`and u.status = ${status}`}`
