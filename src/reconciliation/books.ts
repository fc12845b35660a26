/**
 * The books held against their claims, one after the other, on a connection that nothing else uses. Nothing is locked that
 * a call needs. What comes back is bounded, whatever is wrong.
 */
import { within } from "../store/deadline.ts"
import type { Connection } from "../store/connection.ts"
import type { Sql } from "../store/database.ts"
import type { Claim, Difference, Finding } from "./finding.ts"

/** How many differences of one claim are shown; all are counted. */
const SHOWN = 100
/** How many accounts one claim freezes at once. The next reconciliation finds the rest. */
const ACCOUNTS = 10_000
/** A claim reads a table or two from one end to the other. */
export const CLAIM_MS = 600_000

/** Told before each claim how many were held. */
export type Progress = (held: number, of: number) => void

/** Throws when the database does not answer, or when `signal` ends it; the connection is not fit for use then. */
export async function checkBooks(
  connection: Connection,
  claims: readonly Claim[],
  { signal, progress = () => {} }: { readonly signal: AbortSignal; readonly progress?: Progress | undefined },
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const end = () => reject(new Error("the reconciliation was ended"))
  signal.addEventListener("abort", end, { once: true })
  // postgres.js may leave a statement unsettled whose connection was lost.
  connection.onClosed(() => reject(new Error("the connection was lost")))
  ended.catch(() => {})
  using _listening = { [Symbol.dispose]: () => signal.removeEventListener("abort", end) }
  for (const claim of claims) {
    if (signal.aborted) end()
    progress(findings.length, claims.length)
    findings.push(await Promise.race([ended, within(CLAIM_MS, checkClaim(connection.sql, claim))]))
  }
  return findings
}

interface Row {
  readonly compared: bigint
  readonly differences: bigint
  readonly accounts: readonly string[]
  readonly shown: readonly { readonly account_id: string | null; readonly figures: Difference["figures"] }[]
}

/** One statement, and so one moment. Figures are text, because JSON's numbers end at 2^53. */
export async function checkClaim(sql: Sql, { name, of, compared, contradictions }: Claim): Promise<Finding> {
  const [row] = await sql<Row[]>`
    with found as materialized (${sql.unsafe(contradictions)}),
    first as (
      select f.account_id, (
        select jsonb_object_agg(key, value) from jsonb_each_text(to_jsonb(f) - 'account_id')
      ) as figures
      from (select * from found order by account_id nulls first limit ${SHOWN}) f
    )
    select (select count(*) from ${compared === undefined ? sql(of) : sql.unsafe(compared)}) as compared, (select count(*) from found) as differences,
      array(select distinct account_id from found where account_id is not null order by 1 limit ${ACCOUNTS}) as accounts,
      (select coalesce(jsonb_agg(first), '[]') from first) as shown`
  if (row === undefined) throw new Error(`no answer to whether ${name}`)
  return {
    claim: name,
    compared: Number(row.compared),
    notCompared: 0,
    differences: Number(row.differences),
    accounts: row.accounts,
    shown: row.shown.map(({ account_id, figures }) => ({ accountId: account_id, figures, mended: false })),
  }
}
