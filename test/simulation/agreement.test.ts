/**
 * The invariants of a dump and the claims in SQL say the same of the same rows: of books that are right, and of books in
 * which somebody's hand has changed a row.
 */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { claims } from "../../src/reconciliation/claims.ts"
import { contradictionsIn } from "../money/contradictions.ts"
import { openTestDatabase } from "../store/harness.ts"
import { Course } from "./course.ts"
import { violations } from "./invariants.ts"
import { type Move, moves } from "./moves.ts"
import { Side } from "./side.ts"
import { SqlBooks } from "./sql-books.ts"

/** What a hand in the database may do; each finds a row to do it to in one of the worlds at least. */
const hands = {
  "a balance is raised": "update balances set posted_micro = posted_micro + 1 where account_id = 'acc_0'",
  "a balance is lost": "delete from balances where account_id = 'acc_0'",
  "what is leased is forgotten": "update balances set leased_micro = 0 where account_id = 'acc_0'",
  "a lease is closed and not given back": "update leases set closed_at = now() where closed_at is null",
  "a lease is settled for nothing": `update leases set settled_micro = settled_micro + 1
    where closed_at is null and settled_micro + returned_micro < granted_micro`,
  "a budget's lease is lost": "delete from budget_leases where granted_micro > returned_micro + settled_micro",
  "a key has spent more": "update key_spend set spent_micro = spent_micro + 1 where period = 'monthly'",
  "a key has spent nothing": `delete from key_spend s where period = 'total'
    and not exists (select from budget_leases b where b.key_id = s.key_id and b.period = s.period)`,
  "a charge is not booked": "delete from transfers where reason = 'charge'",
  "a charge is another's": `update transfers set debit_account = 'acc_9' where reason = 'charge'`,
  "the house has borne more": "update usage set absorbed_micro = absorbed_micro + 1 where part = 0",
  "a record has more tokens": "update usage set output_tokens = output_tokens + 1 where status = 'ok'",
  "a record has no price": "update usage set price_id = 999999999 where status = 'ok'",
  "a final record is a marker": "update usage set part = 7 where part = 0",
  "a marker is charged": `update usage set part = 7 where part = 0 and charge_micro > 0`,
  "an ended call is open": `insert into openings select request_id, 'prc_0', account_id, key_id, lease_id, model, endpoint,
    streamed, 1, price_id, opened_at from usage where part = 0 on conflict do nothing`,
  "a top-up was not paid": "update top_ups set status = 'pending' where status = 'paid'",
  "a top-up was larger": "update top_ups set balance_purchased_micro = balance_purchased_micro + 1",
  "somebody was given something": `insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values ('adjustment:acc_0:1', 'house:adjustments', 'acc_0', 5, 'adjustment')`,
  "somebody gave another something": `insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values ('gift', 'acc_0', 'acc_1', 5, 'gift')`,
  "a charge is called another thing": "update transfers set reason = 'void' where reason = 'charge'",
  "a key is another account's": "update api_keys set account_id = (select max(id) from accounts)",
  "a price begins later": "update prices set effective_at = effective_at + interval '100 years'",
  "a fee was larger": "update top_ups set service_fee_micro = service_fee_micro + 1",
} as const

/** Sums by the hour are kept by triggers, which a dump and books in memory have not. */
const plain = { process: 7, account: 0, key: 0, pick: 1, amount: 1_000, flag: false, entries: [] }
/** Whatever happened before, a process is at work at the end, with leases and a charge. */
const last: readonly Move[] = [
  { ...plain, kind: "register" },
  { ...plain, kind: "grow-lease" },
  { ...plain, kind: "grow-budget", amount: 100 },
  { ...plain, kind: "commit", entries: [{ entry: "open-and-settle", pick: 1, input: 20, output: 20 }] },
]

const inSql = new Set(claims.filter(({ of }) => of !== "usage_hours" && of !== "profit_hours").map(({ name }) => name))

test("claims in SQL and invariants of rows agree on what is wrong, whatever row is changed", async () => {
  await using target = await openTestDatabase()
  await using books = await SqlBooks.open(target)
  const { sql } = target
  const wrongInSql = async () =>
    Object.keys(await contradictionsIn(sql, { busy: true }))
      .filter((claim) => inSql.has(claim))
      .sort()
  const wrongInRows = async () => {
    const named = new Set(violations(await books.dump()).map(({ claim }) => claim))
    return [...named].filter((claim) => inSql.has(claim)).sort()
  }
  const seen = new Set<string>()
  for (const made of fc.sample(fc.array(moves, { minLength: 60, maxLength: 90, size: "max" }), {
    seed: 7,
    numRuns: 3,
  })) {
    await books.clear()
    const side = new Side(books)
    const course = new Course()
    await course.begin(side)
    for (const move of [...made, ...last]) course.learn(move, await course.plan(move)(side))
    expect([await wrongInSql(), await wrongInRows()]).toEqual([[], []])
    for (const [hand, change] of Object.entries(hands)) {
      await sql.unsafe(`begin; set local session_replication_role = replica; ${change}`)
      const [ofSql, ofRows] = [await wrongInSql(), await wrongInRows()]
      await sql`rollback`
      expect({ hand, wrong: ofRows }).toEqual({ hand, wrong: ofSql })
      for (const claim of ofSql) seen.add(claim)
    }
  }
  expect([...inSql].filter((claim) => !seen.has(claim))).toEqual([])
}, 60_000)
