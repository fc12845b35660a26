/** Each side of each claim: a row that only one of the two compared has, each amount that is compared, and what is no difference. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { madeRun, moveBetween, withoutTrigger } from "./breaks.ts"
import { openHeld, type Work } from "./held.ts"
import type { BrokenBooks } from "./world.ts"

let world: Awaited<ReturnType<typeof openHeld>>
/** With money and an open lease, and without a call. */
let idle: { readonly accountId: string; readonly keyId: string }
beforeAll(async () => {
  world = await openHeld()
  idle = await world.books.customer()
})
afterAll(() => world.close())

type Who = "victim" | "bystander" | "idle" | "nobody"
type Figures = Readonly<Record<string, string | null>>

interface Side {
  readonly claim: string
  readonly when: string
  readonly by: Work
  /** Or an id. */
  readonly about: Who | `acc_${string}`
  readonly figures?: Figures
  /** It is of what is not new. */
  readonly isOld?: true
}

const ofUsage = (work: Work): Work => {
  const guard = { table: "usage", trigger: "usage_charge_is_final" }
  return (of) => withoutTrigger(of.sql, guard, () => work(of))
}
const [BALANCE, LEASED, SETTLED, BUDGET, TRANSFERS, TOKENS, SPENT, RUN, TOP_UP, FEE, BACK, OPERATOR] = [
  "a balance is the sum of its transfers",
  "what is leased of a balance is what its open leases have left, and is covered",
  "an open lease has settled the charges under it",
  "what is leased of a key's budget is what its leases have left",
  "the transfers of a call are its charge and what the house absorbed of it",
  "a charge is its tokens at its price version",
  "a key has spent its charges, and those of its children, in all three calendars",
  "a run has spent what its calls are charged, and no more than its budget",
  "a paid top-up was credited once, in full, and no other was",
  "the service fee of a paid top-up is revenue, once",
  "of a top-up no more goes back than was paid, and as much as its refunds say",
  "a refund that no provider made is an operator's",
] as const

const moreTokens = (column: string, of: string): Side => ({
  claim: TOKENS,
  when: `a call has more ${column}`,
  by: ({ sql, victim }) =>
    sql`update usage set ${sql(column)} = ${sql(column)} + 1 where request_id = ${victim.requestId} and part = 0`,
  about: "victim",
  figures: { of_tokens_micro: of },
})
/** Of the victim's top-up, with its fees. */
const refunded = ({ sql, victim }: BrokenBooks, amount: number, key = "operator:k") => sql`
  select * from refund_1('ref_x', 'refund', ${victim.accountId}, ${victim.topUpId}, ${amount}, ${key}, 'r', 'booked', null, null, false)`
const audited = ({ sql }: BrokenBooks, subject: string, action: string, amount: number) => sql`
  insert into audit_log (request_id, action, subject, after, reason)
  values ('req_audit', ${action}, ${subject}, jsonb_build_object('refund', 'ref_x', 'amount_micro', ${amount}::bigint), 'r')`

const sides: readonly Side[] = [
  {
    claim: BALANCE,
    when: "no transfer was ever its account's",
    by: ({ sql }) => sql`
      with somebody as (insert into accounts (id, email, password_hash) values ('acc_new', 'new@example.test', 'x') returning id)
      insert into balances (account_id, posted_micro) select id, 7 from somebody`,
    about: "acc_new",
    figures: { posted_micro: "7", of_transfers_micro: null },
  },
  {
    claim: BALANCE,
    when: "there is none for what was transferred",
    by: ({ sql }) => sql`
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      values ('adjustment:x', 'house:adjustments', 'acc_none', 7, 'adjustment')`,
    about: "acc_none",
    figures: { posted_micro: null, of_transfers_micro: "7" },
  },
  {
    claim: LEASED,
    when: "more is leased than there is",
    by: async ({ sql }) => {
      await sql`alter table balances drop constraint balances_check`
      await sql`update balances set posted_micro = leased_micro - 1 where account_id = ${idle.accountId}`
    },
    about: "idle",
    figures: { posted_micro: "999999", leased_micro: "1000000" },
  },
  {
    claim: SETTLED,
    when: "there is no charge under it",
    by: ({ sql }) => sql`update leases set settled_micro = 1 where account_id = ${idle.accountId}`,
    about: "idle",
    figures: { settled_micro: "1", charged_micro: null },
  },
  {
    claim: BUDGET,
    when: "it is a run's",
    by: async (of) => {
      await madeRun(of, { budget: 300_000, spent: 200_000 })
      await of.sql`update key_spend set leased_micro = 5 where key_id = 'run_1'`
    },
    about: "victim",
    figures: { key_id: "run_1", leased_micro: "5" },
  },
  {
    claim: TRANSFERS,
    when: "the house absorbed of a call that has no record",
    by: ({ sql }) =>
      moveBetween(sql, { key: "absorb:req_z", from: "house:absorbed", to: "house:revenue", reason: "absorbed" }),
    about: "nobody",
    figures: { request_id: "req_z", absorbed_booked_micro: "7", absorbed_recorded_micro: null },
  },
  {
    claim: TRANSFERS,
    when: "a record says that the house absorbed, and it did not",
    by: ofUsage(
      ({ sql, victim }) => sql`update usage set absorbed_micro = 7 where request_id = ${victim.requestId} and part = 0`,
    ),
    about: "victim",
    figures: { absorbed_booked_micro: null, absorbed_recorded_micro: "7" },
  },
  moreTokens("output_tokens", "205000"),
  moreTokens("cache_read_tokens", "200100"),
  moreTokens("cache_write_tokens", "201250"),
  {
    claim: TOKENS,
    when: "the house absorbed of a call that was no answer",
    by: ofUsage(
      ({ sql, victim }) => sql`update usage set absorbed_micro = 7 where request_id = ${victim.requestId} and part = 1`,
    ),
    about: "victim",
    figures: { part: "1", absorbed_micro: "7" },
  },
  {
    claim: TOKENS,
    when: "there is no such price version",
    by: ({ sql, victim }) => sql`update usage set price_id = 999 where request_id = ${victim.requestId} and part = 0`,
    about: "victim",
    figures: { price_id: "999", of_tokens_micro: null },
  },
  {
    claim: SPENT,
    when: "it has no charges",
    by: ({ sql }) => sql`
      insert into key_spend (key_id, period, period_start, spent_micro) values (${idle.keyId}, 'total', 'epoch', 7)`,
    about: "idle",
    figures: { total_micro: "7", charged_micro: null },
    isOld: true,
  },
  {
    claim: SPENT,
    when: "there is no such key",
    by: ({ sql }) =>
      sql`insert into key_spend (key_id, period, period_start, spent_micro) values ('key_none', 'total', 'epoch', 7)`,
    about: "nobody",
    figures: { key_id: "key_none", total_micro: "7" },
    isOld: true,
  },
  {
    claim: SPENT,
    when: "it has spent nothing",
    by: ({ sql, victim }) => sql`delete from key_spend where key_id = ${victim.keyId}`,
    about: "victim",
    figures: { total_micro: null, charged_micro: "200000" },
  },
  {
    claim: RUN,
    when: "it has spent in a day",
    by: async (of) => {
      await madeRun(of, { budget: 300_000, spent: 200_000 })
      await of.sql`update key_spend set period = 'daily' where key_id = 'run_1'`
    },
    about: "victim",
    figures: { period: "daily" },
  },
  {
    claim: RUN,
    when: "there is no such run",
    by: ({ sql }) =>
      sql`insert into key_spend (key_id, period, period_start, spent_micro) values ('run_2', 'total', 'epoch', 7)`,
    about: "nobody",
    figures: { run_id: "run_2", budget_micro: null, spent_micro: "7" },
  },
  {
    claim: RUN,
    when: "it has no calls",
    by: async (of) => {
      await madeRun(of, { budget: 300_000, spent: 200_000 })
      await of.sql`update usage set run_id = null`
    },
    about: "victim",
    figures: { spent_micro: "200000", charged_micro: null },
  },
  {
    claim: TOP_UP,
    when: "it was made long before it was paid",
    by: ({ sql, victim }) => sql`
      update top_ups set created_at = '2020-01-01', balance_purchased_micro = balance_purchased_micro + 1 where id = ${victim.topUpId}`,
    about: "victim",
    figures: { status: "paid" },
  },
  {
    claim: FEE,
    when: "it was made long before it was paid",
    by: ({ sql, victim }) =>
      sql`update top_ups set created_at = '2020-01-01', service_fee_micro = 0 where id = ${victim.topUpId}`,
    about: "nobody",
    figures: { status: "paid" },
  },
  {
    claim: BACK,
    when: "more went back than was bought",
    by: async (of) => {
      await refunded(of, 7)
      await of.sql`alter table top_ups drop constraint top_ups_refunded`
      await of.sql`update top_ups set balance_purchased_micro = 6 where id = ${of.victim.topUpId}`
    },
    about: "victim",
    figures: { refunded_micro: "7", kept_micro: "7", balance_purchased_micro: "6" },
  },
  {
    claim: BACK,
    when: "more of the fee went back than was paid",
    by: async (of) => {
      await of.sql`update leases set returned_micro = granted_micro - settled_micro where account_id = ${of.victim.accountId}`
      await of.sql`update balances set leased_micro = 0, posted_micro = 10000000000 where account_id = ${of.victim.accountId}`
      await refunded(of, 10_000_000_007)
      await of.sql`alter table top_ups drop constraint top_ups_refunded`
      await of.sql`update top_ups set service_fee_micro = 6 where id = ${of.victim.topUpId}`
    },
    about: "victim",
    figures: { refunded_fees_micro: "7" },
  },
  {
    claim: BACK,
    when: "it went to another account",
    by: async (of) => {
      await refunded(of, 7)
      await of.sql`update top_ups set account_id = ${of.bystander.accountId} where id = ${of.victim.topUpId}`
    },
    about: "bystander",
    figures: { refunded_micro: "7", kept_micro: "7" },
  },
  ...(
    [
      ["of another account", "bystander", "account.refunded", 7],
      ["of another amount", "victim", "account.refunded", 8],
      ["of something else", "victim", "account.adjusted", 7],
    ] as const
  ).map(([what, subject, action, amount]): Side => ({
    claim: OPERATOR,
    when: `the row of the audit log is ${what}`,
    by: async (of) => {
      await refunded(of, 7)
      await audited(of, of[subject].accountId, action, amount)
    },
    about: "victim",
    figures: { refund_id: "ref_x" },
  })),
]

const idOf = (who: Side["about"]) => {
  if (who === "nobody") return null
  if (who === "idle") return idle.accountId
  return who === "victim" || who === "bystander" ? world[who].accountId : who
}

describe("is told:", () => {
  test.each(sides.map((side) => [`${side.claim}, where ${side.when}`, side] as const))(
    "%s",
    async (_, { claim, by, about, figures = {}, isOld }) => {
      const { all, since } = await world.found(claim, by)
      const told = [{ accountId: idOf(about), mended: false, figures: expect.objectContaining(figures) }]
      expect(all.shown).toEqual(told)
      expect(since.shown).toEqual(isOld === true ? [] : told)
    },
  )
})
