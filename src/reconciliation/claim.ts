/**
 * A claim: what must be true of the books, as a query for what contradicts it; what it has come to; and what of the books is new
 * since a proof, as SQL.
 */
import type { Proof } from "../store/reconciliations.ts"

/** What must be true of the books, as a query for what contradicts it. */
export interface Claim {
  readonly name: string
  /** The table whose rows are compared. */
  readonly of:
    | "balances"
    | "transfers"
    | "all_transfers"
    | "leases"
    | "key_spend"
    | "runs"
    | "usage"
    | "usage_hours"
    | "usage_spans"
    | "profit_hours"
    | "profit_days"
    | "profit_house"
    | "customer_days"
    | "call_hours"
    | "openings"
    | "archives"
    | "refunds"
    | "top_ups"
  /** What is counted of it, as SQL that can follow `from`; without it the whole table. */
  readonly compared?: string
  /** Yields `account_id` and whatever shows the contradiction. */
  readonly contradictions: string
  /** The same, of some rows of the table alone, which are SQL that can follow `from`: a claim about each by itself. */
  readonly ofSome?: (rows: string) => string
}

/** A claim about each row by itself. */
export const ofEach = (of: Claim["of"], name: string, contradictions: (rows: string) => string): Claim => ({
  name,
  of,
  contradictions: contradictions(of),
  ofSome: contradictions,
})

/** What holding one claim against what is there has come to. */
export interface Finding {
  readonly claim: string
  /** How many rows were compared. */
  readonly compared: number
  /** How many could not be, because somebody else gave no answer. Not differences. */
  readonly notCompared: number
  readonly differences: number
  /** That something is wrong with, and so are to be frozen. */
  readonly accounts: readonly string[]
  /** The first of the differences. */
  readonly shown: readonly Difference[]
}

export interface Difference {
  /** Null: it is about the house's books as a whole. */
  readonly accountId: string | null
  /** Ids and amounts; names in `_micro` are micro-rupiah. */
  readonly figures: Readonly<Record<string, string | null>>
  /** Put right at once. */
  readonly mended: boolean
}

const sum = (findings: readonly Finding[], of: "differences" | "notCompared"): number =>
  findings.reduce((total, finding) => total + finding[of], 0)

export const differencesIn = (findings: readonly Finding[]): number => sum(findings, "differences")
export const notComparedIn = (findings: readonly Finding[]): number => sum(findings, "notCompared")

/** What is new, as SQL. */
export interface New {
  readonly proof: bigint
  /** What the ids of new calls sort after, quoted. */
  readonly call: string
  /** Their records, and those that changed. */
  readonly usage: string
  readonly transfers: string
  /** Of them those that are rows of their own, and not records. */
  readonly booked: string
  /** The first whole hour of which every call is new, quoted. */
  readonly hour: string
}

const HOUR_MS = 3_600_000

/** New are calls whose ids sort after the proof's, with their charges, other transfers with higher ids, and calls whose records changed. */
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
    booked: `(select ${BOOKED_COLUMNS} from transfers where id > ${untilTransfer} union all
      select ${CHARGE_COLUMNS} from charges where request_id >= ${call})`,
    hour: `'${hour.toISOString()}'::timestamptz`,
  }
}

const BOOKED_COLUMNS = "idempotency_key, debit_account, credit_account, amount_micro"
const CHARGE_COLUMNS = "'charge:' || request_id, account_id, 'house:revenue', amount_micro"
/** All transfers that are rows of their own. */
export const BOOKED = `(select ${BOOKED_COLUMNS} from transfers union all select ${CHARGE_COLUMNS} from charges)`
/** Of calls from it on a record is its charge. */
export const OWN_CHARGES = "(select until_call from charges_end)"

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

/** The same with what a proof's accounts had, and what of its calls was charged or changed since. */
export const movedSince = ({ proof, call, transfers }: New): string => `
  select account_id, amount_micro as amount from proven_accounts where proof_id = ${proof} union all ${movedBy(transfers)}
  union all select m.account_id, m.amount from call_changes c cross join lateral (
    values ('house:revenue', c.charge_micro), (c.account_id, -c.charge_micro)
  ) as m(account_id, amount) where c.request_id < ${call} and c.request_id >= ${OWN_CHARGES}`
