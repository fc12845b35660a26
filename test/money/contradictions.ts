/**
 * Recomputes all money from what is written and compares, as the product itself does (`src/reconciliation`). Each claim is
 * a query for what is wrong, so a failure names the rows.
 */
import type { Claim } from "../../src/reconciliation/claim.ts"
import { checkClaim } from "../../src/reconciliation/reconcile.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import type { Sql } from "../../src/store/database.ts"

export interface Expected {
  /** Calls may be under way: their openings are there. */
  readonly busy?: boolean
  /** The claims that are held; all unless told. */
  readonly held?: readonly Claim[]
}

/** Each claim that does not hold, with the rows that are against it. */
export async function contradictionsIn(
  sql: Sql,
  { busy = false, held = claims }: Expected = {},
): Promise<Record<string, unknown>> {
  const wrong: Record<string, unknown> = {}
  for (const claim of held) {
    const { differences, shown } = await checkClaim(sql, claim)
    if (differences > 0) wrong[claim.name] = shown
  }
  const open = busy ? [] : await sql`select request_id, process_id from openings`
  if (open.length > 0) wrong["no call is left open"] = [...open]
  return wrong
}
