/**
 * Commits a batch of openings and settlements in one autocommit statement (decisions §3). Micro-rupiah. What is done in it,
 * and in what order, is in the function `book_1` of the database (migrations/0096_records_are_charges.sql).
 *
 * Idempotent: what moves money is what is inserted into `usage` for the first time, so the same batch may be sent again
 * whenever its outcome is unknown.
 */
import postgres from "postgres"
import {
  type Batch,
  BatchRefused,
  type LedgerStore,
  type Opening,
  RowsLocked,
  type UsageRecord,
} from "../../actors/ledger.ts"
import { arrayLiteral, rowLiteral } from "./sql.ts"
import { type Database, RowsHeld, type Sql } from "./database.ts"

/** How long one batch may take before it is given up and sent again on a fresh connection. */
const ATTEMPT_MS = 3_000
/** So the function names calls of archived months, among those whose lease was not open. */
const ARCHIVED = "archived:"

export interface LedgerStoreOptions {
  readonly database: Database
  readonly processId: string
  /** Calls whose lease was no longer open: what they cost went to `house:absorbed`. */
  readonly fenced: (requestIds: readonly string[]) => void
  /** Calls of archived months that came again: nothing was booked of them, and nothing taken back. */
  readonly archived: (requestIds: readonly string[]) => void
}

export const ledgerStore = ({ database, processId, fenced, archived }: LedgerStoreOptions): LedgerStore => ({
  async commit(batch, patient) {
    const options = { deadlineMs: ATTEMPT_MS }
    if (batch.openings.length === 0 && batch.settlements.length === 0) {
      await database.run((sql) => sql`select 1`, options)
      return { fenced: [], locked: [] }
    }
    const rows = await database.run((sql) => book(sql, processId, batch, patient), options).catch(refusal)
    const named = rows.flatMap(({ fenced_call: id }) => id ?? [])
    const ids = named.filter((id) => !id.startsWith(ARCHIVED))
    if (ids.length > 0) fenced(ids)
    if (ids.length < named.length)
      archived(named.flatMap((id) => (id.startsWith(ARCHIVED) ? id.slice(ARCHIVED.length) : [])))
    return { fenced: ids, locked: rows.flatMap(({ locked_account: id }) => id ?? []) }
  },
})

/**
 * SQLSTATE classes 22 and 23 blame the values: out of range, a constraint violated. Rows are waited for as long as the function
 * itself says. All else may pass.
 */
function refusal(error: unknown): never {
  if (error instanceof RowsHeld) throw new RowsLocked(error.message, { cause: error })
  if (error instanceof postgres.PostgresError && /^2[23]/.test(error.code)) {
    throw new BatchRefused(error.message, { cause: error })
  }
  throw error
}

/** Values are handed over as rows of the function's types, which is what the database reads with the least work. */
function book(sql: Sql, processId: string, batch: Batch, patient: boolean) {
  const payers = new Payers()
  const ended = batch.settlements.flatMap(({ opening, records, voided }) => {
    const payer = payers.of(opening)
    return records.map((record) => recordRow(opening, record, voided, payer))
  })
  return sql<{ locked_account: string | null; fenced_call: string | null }[]>`
    select locked_account, fenced_call from book_1(${processId}, ${patient}, ${rows(batch.openings.map(openingRow))}::book_1_opening[],
      ${rows(ended)}::book_1_record[], ${rows(payers.purses)}::book_1_purse[])`
}

type Row = Parameters<typeof rowLiteral>[0]

const rows = (of: readonly Row[]): string => arrayLiteral(of, rowLiteral)

/** In the order of `book_1_opening`. */
const openingRow = (o: Opening): Row => [
  o.requestId,
  o.accountId,
  o.keyId,
  o.leaseId,
  o.model,
  o.endpoint,
  o.streamed,
  o.hold,
  o.priceId,
  o.openedAt,
]

/** In the order of `book_1_record`. */
const recordRow = (o: Opening, r: UsageRecord, voided: boolean, payer: number): Row => [
  o.requestId,
  r.part,
  payer,
  o.accountId,
  o.keyId,
  o.leaseId,
  r.model,
  o.endpoint,
  o.streamed,
  r.status,

  r.tokens.input,
  r.tokens.output,
  r.tokens.cacheRead,
  r.tokens.cacheWrite,
  r.charge,
  r.absorbed,
  r.excess,
  r.priceId,
  r.turns,
  r.attempts,
  r.errorCode,
  r.flagged,
  o.openedAt,
  r.firstTokenMs,
  r.durationMs,
  voided,
  r.cost,
  r.member,
  o.runId,
]

/** Who pays for the calls of a batch: each once, with its purses in the order of `book_1_purse`. */
class Payers {
  readonly purses: Row[] = []
  readonly #known = new Map<string, number>()

  /** The number of a call's payer. */
  of({ accountId, keyId, leaseId, starts, parent, runId, breakers = [] }: Opening): number {
    const ofParent = parent && `${parent.keyId} ${parent.starts.daily} ${parent.starts.monthly}`
    const name = `${leaseId} ${keyId} ${starts.daily} ${starts.monthly} ${ofParent} ${runId} ${breakers.join(" ")}`
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const payer = this.#known.size
    this.#known.set(name, payer)
    this.purses.push([payer, "account", accountId, leaseId, undefined, undefined])
    for (const key of [{ keyId, starts }, ...(parent === undefined ? [] : [parent])]) {
      for (const period of ["daily", "monthly", "total"] as const) {
        this.purses.push([payer, "key", key.keyId, undefined, period, key.starts[period]])
      }
    }
    // A breaker's purse is to the books what a key is: its id says which it is, and it has the one period that does not end.
    for (const purse of breakers) this.purses.push([payer, "key", purse, undefined, "total", starts.total])
    // A run is to the books what a key is: its id says which it is, and it has the one period that does not end.
    if (runId !== undefined) this.purses.push([payer, "key", runId, undefined, "total", starts.total])
    return payer
  }
}
