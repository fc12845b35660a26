/**
 * What is new since a proof, as SQL: calls whose ids sort after the proof's, with their charges, other transfers with higher ids, and calls
 * whose records changed.
 */
import type { Proof } from "../store/proofs.ts"
import type { Claim } from "./finding.ts"

/** What is new, as SQL. */
export interface New {
  readonly proof: bigint
  /** What the ids of new calls sort after, quoted. */
  readonly call: string
  /** Their records, and those that changed. */
  readonly usage: string
  readonly transfers: string
  /** The first whole hour of which every call is new, quoted. */
  readonly hour: string
}

const HOUR_MS = 3_600_000

export function newSince({ id, untilCall, untilTransfer }: Proof): New {
  if (!/^req_[0-9a-z]{9}$/.test(untilCall)) throw new Error(`a proof until the call ${untilCall}`)
  const call = `'${untilCall}'`
  const untilMs = Number.parseInt(untilCall.slice("req_".length), 36)
  // An id is given up to an hour before the time of the call.
  const hour = new Date((Math.floor(untilMs / HOUR_MS) + 2) * HOUR_MS)
  return {
    proof: id,
    call,
    usage: `(select * from usage where request_id >= ${call} union all
      select * from usage where request_id < ${call} and request_id in (select request_id from call_changes))`,
    // Each half by its own key: with "or" neither could be used.
    transfers: `(select * from all_transfers where id > ${untilTransfer} union all
      select * from all_transfers where request_id >= ${call})`,
    hour: `'${hour.toISOString()}'::timestamptz`,
  }
}

/** Calls whose ids sort before it are archived (`archives`), and the time that is in it. */
export const ARCHIVED_CALLS = "(select coalesce(max(until_call), '') from archives)"
export const ARCHIVED_AT = "(select coalesce(max(until_at), '-infinity') from archives)"

/** By a claim's name, how it is held against what is new. */
export type Replaced = Readonly<Record<string, Pick<Claim, "contradictions" | "compared">>>

/** What transfers add to each account, or take, as rows of `account_id` and `amount`. */
export const movedBy = (transfers: string): string => `
  select m.account_id, m.amount from ${transfers} t cross join lateral (
    values (t.credit_account, t.amount_micro), (t.debit_account, -t.amount_micro)
  ) as m(account_id, amount)`

/** The same with what a proof's accounts had. */
export const movedSince = ({ proof, transfers }: New): string => `
  select account_id, amount_micro as amount from proven_accounts where proof_id = ${proof} union all ${movedBy(transfers)}`
