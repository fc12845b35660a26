/** Every invariant of the books is seen to be named, by rows that are broken for it; and the same by the claims in SQL. */
import { expect, test } from "bun:test"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens, type Rates } from "../../actors/money/price.ts"
import type { Dump } from "./dump.ts"
import { toldOf, violations } from "./invariants.ts"

const rates: Rates = { input: micro(2n), output: micro(5n), cacheRead: zero, cacheWrite: zero }
const call = {
  requestId: "req_1",
  accountId: "acc_1",
  keyId: "key_1",
  leaseId: 1n,
  model: "m",
  priceId: 1n,
  openedAt: 0,
}
const spend = { keyId: "key_1", spent: 45n, leased: 0n }

const topUp = {
  topUpId: "top_1",
  accountId: "acc_1",
  balancePurchased: 1_000n,
  serviceFee: 7n,
  otherFees: 0n,
  paid: true,
  refundedBalance: 0n,
  refundedServiceFee: 0n,
  refundedOtherFees: 0n,
}

/** One top-up of 1,000 with a fee, and one call of 10 input and 5 output tokens. */
const sound: Dump = {
  keys: [{ keyId: "key_1", accountId: "acc_1", limit: 100n, period: "daily", parentId: undefined, revoked: false }],
  keySpend: [
    { ...spend, period: "daily", start: 5, leased: 55n },
    { ...spend, period: "monthly", start: 1 },
    { ...spend, period: "total", start: 0 },
  ],
  balances: [{ accountId: "acc_1", posted: 955n, leased: 455n, claim: 0n }],
  transfers: [
    credit("topup:simulated:top_1", "acc_1", 1_000n, "top_up"),
    credit("topup:simulated:top_1:service_fee", "house:revenue", 7n, "service_fee"),
    { idempotencyKey: "charge:req_1", debit: "acc_1", credit: "house:revenue", amount: 45n, reason: "charge" },
  ],
  processes: [{ processId: "prc_1", closed: false }],
  leases: [
    {
      leaseId: 1n,
      accountId: "acc_1",
      processId: "prc_1",
      granted: 600n,
      returned: 100n,
      settled: 45n,
      version: 2,
      closed: false,
    },
  ],
  budgetLeases: [
    {
      keyId: "key_1",
      period: "daily",
      start: 5,
      processId: "prc_1",
      granted: 100n,
      returned: 0n,
      settled: 45n,
      version: 1,
    },
  ],
  openings: [],
  usage: [
    {
      ...call,
      part: 0,
      status: "ok",
      tokens: { ...noTokens, input: 10, output: 5 },
      charge: 45n,
      absorbed: 0n,
      excess: 0n,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: false,
      member: undefined,
      cost: undefined,
      runId: undefined,
    },
  ],
  runs: [],
  breakers: [],
  topUps: [topUp],
  refunds: [],
  refundActs: [],
  prices: [{ priceId: 1n, model: "m", rates, effectiveAt: 0 }],
}

function credit(idempotencyKey: string, account: string, amount: bigint, reason: string) {
  return { idempotencyKey, debit: "house:cash_clearing", credit: account, amount, reason }
}

/** The one row of a table, or its first, with some columns changed. */
function changed<Table extends keyof Dump>(table: Table, columns: Partial<Dump[Table][number]>): Dump {
  const [first, ...others] = sound[table]
  return { ...sound, [table]: [{ ...first, ...columns }, ...others] }
}

const added = <Table extends keyof Dump>(table: Table, ...rows: Dump[Table][number][]): Dump => ({
  ...sound,
  [table]: [...sound[table], ...rows],
})

const usage = sound.usage[0]!
const lease = sound.leases[0]!
const transfer = sound.transfers[2]!
const refund = {
  refundId: "ref_1",
  accountId: "acc_1",
  topUpId: "top_1",
  kind: "refund",
  cancelled: false,
  balance: 5n,
  serviceFee: 0n,
  otherFees: 0n,
  claimed: 0n,
} as const

const RUNS = "a run has spent what its calls are charged, and no more than its budget"
const run = { runId: "run_1", accountId: "acc_1", keyId: "key_1", name: "1", budget: 45n, endsAt: 9 }
/** The call is one of a run, which it has cost all that there was. */
const ofRun = (rows: Partial<Dump>): Dump => ({
  ...sound,
  usage: [{ ...usage, runId: "run_1" }],
  runs: [run],
  keySpend: [...sound.keySpend, { ...spend, keyId: "run_1", period: "total", start: 0 }],
  ...rows,
})

const SPENDING = "a key has spent its charges, and those of its children, in all three calendars"
const LIMITED = "nothing is spent below zero, nor more than the limit"
const parent = { ...sound.keys[0]!, keyId: "key_0" }
const child = { ...sound.keys[0]!, parentId: "key_0" }
const spentBy = (keyId: string) => [
  ...sound.keySpend,
  { ...spend, keyId, period: "daily" as const, start: 5 },
  { ...spend, keyId, period: "monthly" as const, start: 1 },
  { ...spend, keyId, period: "total" as const, start: 0 },
]
/** The call is one of a child, and so its parent's too. */
const ofChild = (rows: Partial<Dump>): Dump => ({
  ...sound,
  keys: [child, parent],
  keySpend: spentBy("key_0"),
  ...rows,
})

const broken: readonly (readonly [claim: string, dump: Dump])[] = [
  ["a balance is the sum of its transfers", changed("balances", { posted: 956n })],
  ["a balance is the sum of its transfers", { ...sound, balances: [] }],
  ["what customers have, the house owes", changed("balances", { posted: 956n })],
  ["a transfer moves something from one account to another, once", added("transfers", { ...transfer, amount: 0n })],
  [
    "a transfer moves something from one account to another, once",
    added("transfers", { ...transfer, idempotencyKey: "x", credit: "acc_1" }),
  ],
  [
    "what is leased of a balance is what its open leases have left, and is covered",
    changed("balances", { leased: 454n }),
  ],
  [
    "what is leased of a balance is what its open leases have left, and is covered",
    changed("leases", { closed: true }),
  ],
  [
    "what is leased of a balance is what its open leases have left, and is covered",
    changed("leases", { granted: 601n }),
  ],
  ["a lease has settled and given back no more than it was granted", changed("leases", { returned: 556n })],
  ["a lease has settled and given back no more than it was granted", changed("budgetLeases", { settled: -1n })],
  ["an open lease has settled the charges under it", changed("leases", { settled: 44n })],
  ["a process has one open lease on an account", added("leases", { ...lease, leaseId: 2n })],
  ["what is leased of a key's budget is what its leases have left", changed("keySpend", { leased: 54n })],
  ["what is leased of a key's budget is what its leases have left", { ...sound, budgetLeases: [] }],
  [SPENDING, changed("keySpend", { spent: 44n })],
  [SPENDING, changed("usage", { keyId: "key_2" })],
  [LIMITED, changed("keySpend", { spent: -1n })],
  [LIMITED, changed("keys", { limit: 44n })],
  [
    "a budget begins anew when its day or month is over, and not before",
    added("keySpend", { ...spend, period: "daily", start: 23 * 3_600_000 + 4, leased: 0n }),
  ],
  [
    "the transfers of a call are its charge and what the house absorbed of it",
    { ...sound, transfers: sound.transfers.slice(0, 2) },
  ],
  [
    "the transfers of a call are its charge and what the house absorbed of it",
    added("transfers", { ...transfer, idempotencyKey: "absorb:req_1", debit: "house:absorbed", amount: 1n }),
  ],
  [
    "a charge goes from its own account to revenue, and is taken back the same way",
    { ...sound, transfers: sound.transfers.map((row) => (row === transfer ? { ...row, debit: "acc_2" } : row)) },
  ],
  ["a charge is its tokens at its price version", changed("usage", { tokens: { ...usage.tokens, input: 9 } })],
  ["a charge is its tokens at its price version", changed("usage", { priceId: 2n })],
  [SPENDING, ofChild({ keySpend: sound.keySpend })],
  [SPENDING, ofChild({ keySpend: spentBy("key_2") })],
  [LIMITED, ofChild({ keys: [{ ...child, limit: 44n }, parent] })],
  [LIMITED, ofChild({ keys: [child, { ...parent, limit: 44n }] })],
  [RUNS, ofRun({ runs: [] })],
  [RUNS, ofRun({ runs: [{ ...run, budget: 44n }] })],
  [RUNS, ofRun({ keySpend: sound.keySpend })],
  [RUNS, ofRun({ keySpend: [...sound.keySpend, { ...spend, keyId: "run_1", period: "total", start: 0, spent: 44n }] })],
  [RUNS, ofRun({ keySpend: [...sound.keySpend, { ...spend, keyId: "run_1", period: "daily", start: 5 }] })],
  ["only an answer is charged", changed("usage", { status: "usage_missing" })],
  ["only an answer is charged", changed("usage", { status: "fallback_429", part: 1 })],
  ["a call has one final record", changed("usage", { part: 1 })],
  ["a call has one final record", added("usage", usage)],
  ["an ended call is not open", added("openings", { ...call, processId: "prc_1", hold: 1n })],
  ["no call is left open", added("openings", { ...call, requestId: "req_2", processId: "prc_1", hold: 1n })],
  ["a paid top-up was credited once, in full, and no other was", changed("topUps", { paid: false })],
  ["a paid top-up was credited once, in full, and no other was", changed("topUps", { balancePurchased: 999n })],
  [
    "a paid top-up was credited once, in full, and no other was",
    added("transfers", credit("topup:again:top_1", "acc_1", 1_000n, "top_up")),
  ],
  ["a paid top-up was credited once, in full, and no other was", { ...sound, topUps: [] }],
  ["the service fee of a paid top-up is revenue, once", changed("topUps", { serviceFee: 8n })],
  ...[
    { idempotencyKey: "by-hand", reason: "gift", debit: "house:adjustments", credit: "acc_1" },
    { idempotencyKey: "adjustment:acc_1:1", reason: "adjustment", debit: "house:adjustments", credit: "acc_1" },
    { idempotencyKey: "charge:req_1", reason: "charge", debit: "acc_1", credit: "acc_2" },
    { idempotencyKey: "absorb:req_1", reason: "absorbed", debit: "acc_1", credit: "house:revenue" },
    { idempotencyKey: "void:req_1", reason: "void", debit: "house:absorbed", credit: "acc_1" },
    { idempotencyKey: "void-absorb:req_1", reason: "void", debit: "house:revenue", credit: "acc_1" },
    {
      idempotencyKey: "topup:simulated:top_1",
      reason: "top_up",
      debit: "house:cash_clearing",
      credit: "house:revenue",
    },
    {
      idempotencyKey: "topup:simulated:top_1:service_fee",
      reason: "service_fee",
      debit: "acc_1",
      credit: "house:revenue",
    },
  ].map(
    (row) => ["a transfer is of a known kind, and an adjustment is an operator's", changed("transfers", row)] as const,
  ),
  ["a claim is what its transfers leave, and is settled before anything is free", changed("balances", { claim: 1n })],
  ["a refund is booked once, in full, of its own account and of the house", added("refunds", refund)],
  ["of a top-up no more goes back than was paid, and as much as its refunds say", added("refunds", refund)],
  ["a refund that no provider made is an operator's", added("refunds", refund)],
  [
    "a claim is settled of its own account",
    added("transfers", { ...transfer, idempotencyKey: "claim:acc_1:1", credit: "house:claims:acc_2", reason: "claim" }),
  ],
  ["a record is of its key's account", changed("keys", { accountId: "acc_2" })],
  ["a price had begun when a call was opened at it", changed("prices", { effectiveAt: 2 * 3_600_000 + 1 })],
]

const circumstances = { quiet: true, limitsStay: true, clockGoesOn: true }

test("books that are right violate nothing", () => {
  for (const dump of [sound, ofRun({}), ofChild({})]) expect(violations(dump, circumstances).map(toldOf)).toEqual([])
})

test.each(broken)("it is named when it is not true that %s", (claim, dump) => {
  const named = violations(dump, circumstances)
  expect(named.map((violation) => violation.claim)).toContain(claim)
})
