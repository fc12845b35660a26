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
