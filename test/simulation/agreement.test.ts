/**
 * The invariants of a dump and the claims in SQL say the same of the same rows: of books that are right, and of books in
 * which somebody's hand has changed a row.
 */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { claims } from "../../src/reconciliation/claims.ts"
import { micro } from "../../actors/money/micro.ts"
import { refundStore } from "../../src/store/refunds.ts"
import { contradictionsIn } from "../money/contradictions.ts"
import { openTestDatabase, type TestDatabase } from "../store/harness.ts"
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
  "a run has spent more": "update key_spend set spent_micro = spent_micro + 1 where key_id like 'run%'",
  "a run had less to spend": "update runs set budget_micro = 1",
  "a run's call names none": "update usage set run_id = null where run_id is not null",
  "a run is forgotten": "delete from runs where exists (select from key_spend s where s.key_id = runs.id)",
  "a charged call is lost": "delete from usage where charge_micro > 0",
  "a charge is another's": "update usage set account_id = 'acc_9' where charge_micro > 0",
  "a charge was larger": "update usage set charge_micro = charge_micro + 1 where charge_micro > 0",
  "a charge was none": "update usage set charge_micro = 0",
  "a charge is taken back for another": `insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    select 'void:' || request_id, 'house:revenue', 'acc_9', charge_micro, 'void' from usage where charge_micro > 0`,
  "a charge is booked twice": `insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    select idempotency_key, debit_account, credit_account, amount_micro, reason from all_transfers where request_id is not null`,
  "a call that never was is charged": `insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values ('charge:req_x', 'acc_0', 'house:revenue', 5, 'charge')`,
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
  "a charge is called another thing": `insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
    values ('charge:req_x', 'acc_0', 'house:revenue', 5, 'void')`,
  "a key is another account's": "update api_keys set account_id = (select max(id) from accounts)",
  "a price begins later": "update prices set effective_at = effective_at + interval '100 years'",
  "a fee was larger": "update top_ups set service_fee_micro = service_fee_micro + 1",
  "a claim is forgotten": "update balances set claim_micro = 0 where claim_micro > 0",
  "a claim was settled of another account": "update transfers set debit_account = 'acc_9' where reason = 'claim'",
  "a claim is settled to the house": "update transfers set credit_account = 'house:revenue' where reason = 'claim'",
  "a refund is lost": "delete from refunds where kind = 'refund' and top_up_id is not null",
  "a refund is not booked": "delete from transfers where reason = 'refund'",
  "a refund is booked of another": "update transfers set debit_account = 'acc_9' where reason = 'refund'",
  "a refund was larger": "update refunds set balance_micro = balance_micro + 1",
  "a refund has no fees": "update transfers set amount_micro = amount_micro - 1 where reason = 'fee_refund'",
  "a refund is of another's top-up": "update refunds set top_up_id = 'top_0' where top_up_id is not null",
  "a cancelled refund is not": "update refunds set status = 'booked', cancelled_at = null where status = 'cancelled'",
  "a top-up has less refunded": `update top_ups set refunded_balance_micro = refunded_balance_micro - 1
    where refunded_balance_micro > 0`,
  "a chargeback is an operator's": "update refunds set kind = 'refund' where kind = 'chargeback'",
  "no operator refunded": "delete from audit_log where action = 'account.refunded'",
  "an operator refunded less": `update audit_log set after = after || '{"amount_micro": 1}'
    where action = 'account.refunded'`,
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

const act = (of: string) => ({ requestId: `req_${of}`, operatorId: undefined, address: undefined })

/** Of the second account money goes back, more than it has: one refund is cancelled, one stays, the bank takes the rest. */
async function giveBack({ db }: TestDatabase, books: SqlBooks): Promise<void> {
  const refunds = refundStore(db)
  const accountId = "acc_1"
  const credit = async (topUpId: string, balance: bigint) => {
    const balancePurchased = micro(balance)
    await books.createTopUp({ topUpId, accountId, balancePurchased, serviceFee: micro(70n) })
    await books.credit(topUpId, `topup:simulated:${topUpId}`)
  }
  const book = async (id: string, topUpId: string | undefined, amount: bigint) => {
    const terms = { accountId, topUpId, amountMicro: micro(amount), reason: "asked", idempotencyKey: id }
    return refunds.book({ id, ...terms, byProvider: false }, act(id))
  }
  await credit("top_back", 1_000n)
  expect(await book("ref_1", "top_back", 1_070n)).toMatchObject({ outcome: "booked" })
  expect(await refunds.change("ref_1", { to: "cancelled", reason: "asked" }, act("cancel"))).toBe(true)
  expect(await book("ref_2", "top_back", 300n)).toMatchObject({ outcome: "booked" })
  const free = await book("ref_3", undefined, 1n)
  expect(await book("ref_4", undefined, free.freeMicro - 1n)).toMatchObject({ outcome: "booked" })
  const chargeback = await refunds.reverse({
    id: "ref_5",
    accountId,
    topUpId: "top_back",
    kind: "chargeback",
    amountMicro: micro(770n),
    reason: "bank",
    provider: "simulated",
    reference: "5",
    upToMicro: micro(770n),
    mayClaim: true,
  })
  expect(chargeback).toMatchObject({ outcome: "booked", amountMicro: micro(770n) })
  await credit("top_claimed", 500n)
}

/** Of what moves no money, and of months in files, which the simulation has none of. */
const NOT_SIMULATED: readonly string[] = [
  "usage_hours",
  "usage_spans",
  "usage_groups",
  "profit_hours",
  "profit_days",
  "profit_house",
  "profit_account_days",
  "profit_account_months",
  "profit_account_models",
  "customer_days",
  "model_customers",
  "call_hours",
  "archives",
]
const held = claims.filter(({ of }) => !NOT_SIMULATED.includes(of))
const inSql = new Set(held.map(({ name }) => name))

test("claims in SQL and invariants of rows agree on what is wrong, whatever row is changed", async () => {
  await using target = await openTestDatabase()
  await using books = await SqlBooks.open(target)
  const { sql } = target
  const wrongInSql = async () => Object.keys(await contradictionsIn(sql, { busy: true, held })).sort()
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
    await giveBack(target, books)
    expect([await wrongInSql(), await wrongInRows()]).toEqual([[], []])
    // Once for all hands, because each change of it makes the session plan every claim anew.
    await sql.unsafe("set session_replication_role = replica; set plan_cache_mode = force_generic_plan")
    for (const [hand, change] of Object.entries(hands)) {
      await sql.unsafe(`begin; ${change}`)
      const [ofSql, ofRows] = [await wrongInSql(), await wrongInRows()]
      await sql`rollback`
      expect({ hand, wrong: ofRows }).toEqual({ hand, wrong: ofSql })
      for (const claim of ofSql) seen.add(claim)
    }
    await sql.unsafe("reset session_replication_role; reset plan_cache_mode")
  }
  expect([...inSql].filter((claim) => !seen.has(claim))).toEqual([])
})
