/** Faults in the statements that money is moved by. */
import type { Canary } from "./canary.ts"

const ledger = { file: "src/store/migrations/0020_book.sql", detector: "books" } as const
const processes = { file: "src/store/process-statements.ts", detector: "books" } as const

export const booksCanaries: readonly Canary[] = [
  {
    ...ledger,
    name: "a batch sent twice charges twice",
    means: "A commit whose answer was lost is sent again, and the customer pays the same call a second time.",
    find: "select r.payer, r.charge_micro as amount from unnest(fresh) r",
    replace: "select r.payer, r.charge_micro as amount from unnest(ended) r",
    reason: /"settled"|balances|a balance is the sum/,
  },
  {
    ...ledger,
    name: "the epoch of a lease is not checked",
    means: "A process that was taken for dead goes on charging, out of money that others have leased since.",
    find: "all_open := payers = coalesce(cardinality(open_leases), 0)",
    replace: "all_open := true",
    reason: /"commit/,
  },
  {
    ...ledger,
    name: "a void is dropped",
    means: "A client was told 503 and that nothing is charged, and is charged.",
    find: "if e.voided and (was.charge_micro > 0",
    replace: "if false and e.voided and (was.charge_micro > 0",
    reason: /"settled"|"move": "commit/,
  },
  {
    ...ledger,
    name: "a void gives a budget's lease more than it settled",
    means: "A lease of a budget has settled less than nothing, and more can be spent of the budget than its limit.",
    find: "greatest(-b.settled_micro, least(b.granted_micro - b.returned_micro - b.settled_micro, c.amount_micro)) as amount",
    replace: "c.amount_micro as amount",
    reason: /"settled": -|not true that a lease has settled and given back no more than it was granted/,
  },
  {
    ...ledger,
    name: "a charge counts in the period of its settlement",
    means: "A call admitted before midnight takes from the budget of the day after.",
    find: "p.period, to_timestamp(p.period_start_ms / 1000), sum(",
    replace:
      "p.period, case p.period when 'daily' then date_trunc('day', now()) else to_timestamp(p.period_start_ms / 1000) end, sum(",
    reason: /keySpend|budget/,
  },
  {
    ...ledger,
    name: "an opening stays when its call ends",
    means: "Money of calls that ended long ago is shown as held, and each is ended again when the process dies.",
    find: "delete from openings where request_id = any (array(select r.request_id from unnest(ended) r where r.part = 0))",
    replace:
      "delete from openings where request_id = any (array(select r.request_id from unnest(ended) r where r.part = 99))",
    reason: /not true that an ended call is not open/,
  },
  {
    ...ledger,
    name: "an opening that comes late opens an ended call",
    means: "A statement that was sent again opens a call that has its final record, for ever.",
    find: "where u.request_id = o.request_id and u.part = final_part) = 0",
    replace: "where u.request_id = o.request_id and u.part = final_part) >= 0",
    reason: /not true that an ended call is not open/,
  },
  {
    ...ledger,
    name: "what the house has had taken back is borne again",
    means: "The record of a call says that the house has paid for it, and the house's account does not.",
    find: "and not exists (select from transfers t where t.idempotency_key = any (array['absorb:' || e.request_id]))",
    replace: "",
    reason: /"move": "commit/,
  },
  {
    name: "a top-up told twice is credited twice",
    means: "The payment provider repeats a notification, and the customer is given the money again.",
    file: "src/store/top-ups.ts",
    find: "select ('account', credit_account, null, null, null, -amount_micro)::change_1 from fresh",
    replace: "select ('account', account_id, null, null, null, -balance_purchased_micro)::change_1 from top_up",
    detector: "books",
    reason: /not true that a balance is the sum of its transfers|"granted": \d+n/,
  },
  {
    name: "a return of a lease counts twice",
    means:
      "What a process gives back is free twice when the statement is sent again; others spend it, and it does too.",
    file: "src/store/leases.ts",
    find: "granted_micro - settled_micro) - returned_micro) as back",
    replace: "granted_micro - settled_micro)) as back",
    detector: "books",
    reason: /"move": "return-lease"|"leased"/,
  },
  {
    name: "a closed process leases",
    means: "A process that others have closed takes money which nobody gives back when it ends.",
    file: "src/store/leases.ts",
    find: "where id = ${processId} and closed_at is null for share",
    replace: "where id = ${processId} for share",
    detector: "books",
    reason: /"grow-lease/,
  },
  {
    name: "a budget is granted beyond its limit",
    means: "A key spends more than its owner allowed.",
    file: "src/store/budget-leases.ts",
    find: "k.spending_limit_micro - s.spent_micro - s.leased_micro",
    replace: "k.spending_limit_micro - s.spent_micro",
    detector: "books",
    reason: /"grow-/,
  },
  {
    ...processes,
    name: "a dead process's leases are given back each time that it is closed",
    means: "Two successors close the same process, and the balance has more free than there is.",
    find: "where p.id = ${id} and p.closed_at is not null and l.closed_at is null",
    replace: "where p.id = ${id} and p.closed_at is not null",
    reason: /return-leases|close|balances/,
  },
  {
    ...processes,
    name: "a dead process's calls get no record",
    means: "A client has a request id that nobody can ever say anything about.",
    find: "from gone order by request_id",
    replace: "from gone where false order by request_id",
    reason: /record-openings|close/,
  },
]
