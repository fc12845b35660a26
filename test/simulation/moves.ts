/**
 * Moves on books: what processes, customers and the operator may do to Postgres, in any order and as often as they like.
 * A move names everything by its place in the world, so that it means the same in all books (`course.ts`). Micro-rupiah.
 */
import * as fc from "fast-check"

const kinds = {
  register: 2,
  serve: 2,
  drain: 1,
  share: 1,
  "take-lock": 1,
  "drop-lock": 2,
  "is-closed": 1,
  "find-dead": 2,
  close: 4,
  fence: 3,
  "return-leases": 2,
  "return-budgets": 1,
  "record-openings": 2,
  "grow-lease": 12,
  "return-lease": 5,
  "grow-budget": 8,
  "grow-opened-budget": 2,
  "open-budget": 1,
  "return-budget": 4,
  "load-key": 2,
  commit: 40,
  "commit-again": 10,
  credit: 2,
  "create-top-up": 1,
  "change-budget": 2,
  "revoke-key": 1,
  "delete-account": 1,
  "freeze-account": 1,
  "unfreeze-account": 1,
  "create-key": 1,
  "add-price": 1,
  "change-time-zone": 3,
  "grow-breaker": 8,
  "return-breaker": 3,
  "trip-breaker": 2,
  "look-breaker": 2,
  "set-breaker": 2,
  "resume-breaker": 1,
  "minutes-pass": 1,
} as const
/** Of keys that calls carry. */
const keyKinds = {
  "claim-call-key": 24,
  "take-call-key-late": 3,
  "take-call-key-over-late": 2,
  "read-call-key": 3,
  "free-call-key": 2,
} as const
type Kind = keyof typeof kinds | keyof typeof keyKinds

/** What an entry of a batch is; a call is opened or settled, or both at once, or its settlement taken back. */
type Entry = "open" | "settle" | "void" | "open-and-settle"

export interface Move {
  readonly kind: Kind
  readonly process: number
  readonly account: number
  readonly key: number
  /** Of what there are more and more of: a lease, a call, a batch, a top-up. */
  readonly pick: number
  readonly amount: number
  readonly flag: boolean
  readonly entries: readonly {
    readonly entry: Entry
    readonly pick: number
    readonly input: number
    readonly output: number
  }[]
}

const amounts = fc.oneof({ weight: 3, arbitrary: fc.nat(3_000) }, { weight: 1, arbitrary: fc.nat(30_000) })
const entries = fc.array(
  fc.record({
    entry: fc.constantFrom<Entry>(
      "open",
      "open",
      "settle",
      "settle",
      "settle",
      "void",
      "void",
      "open-and-settle",
      "open-and-settle",
    ),
    pick: fc.nat(1_000),
    input: fc.nat(200),
    output: fc.oneof({ weight: 9, arbitrary: fc.nat(200) }, { weight: 1, arbitrary: fc.nat(3_000) }),
  }),
  { maxLength: 5 },
)

const movesOf = (weights: Readonly<Partial<Record<Kind, number>>>): fc.Arbitrary<Move> =>
  fc.record({
    kind: fc.oneof(
      ...Object.entries(weights).map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind as Kind) })),
    ),
    process: fc.oneof(
      { weight: 5, arbitrary: fc.constant(0) },
      { weight: 3, arbitrary: fc.constant(1) },
      { weight: 2, arbitrary: fc.nat(3) },
    ),
    account: fc.nat(1),
    key: fc.nat(2),
    pick: fc.nat(1_000),
    amount: amounts,
    flag: fc.boolean(),
    entries,
  })

export const moves = movesOf(kinds)
/** Those, and what is done to the keys that calls carry. */
export const allMoves = movesOf({ ...kinds, ...keyKinds })
