/**
 * A batch, committed to the books in memory as the statement of `src/store/ledger.ts` does it, clause by clause: all of it
 * reads the tables as they were, then all is checked as the tables' constraints would, then all is changed or nothing.
 */
import { type Batch, BatchRefused, type Opening, type Settlement, type UsageRecord } from "../../actors/ledger.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import type { TransferRow } from "./dump.ts"
import { type ModelUsage, spendId, type Tables, usageId } from "./model-tables.ts"

/** A record of the batch, and what the customer owes of it. */
interface Due {
  readonly opening: Opening
  readonly record: UsageRecord
  readonly voided: boolean
  readonly open: boolean
  readonly due: bigint
}

/** What one call changes of its customer's money. */
interface Change {
  readonly opening: Opening
  readonly accountId: string
  readonly keyId: string
  readonly leaseId: bigint
  readonly amount: bigint
}

interface SpendChange {
  readonly keyId: string
  readonly period: SpendingPeriod
  readonly start: number
  amount: bigint
}

export function commitBatch(tables: Tables, processId: string, batch: Batch): readonly string[] {
  const due = batch.settlements.flatMap((settlement) => dueOf(tables, settlement))
  const charged = new Set(
    due.map(({ opening }) => opening.requestId).filter((id) => (tables.usage.get(usageId(id, 0))?.charge ?? 0n) > 0n),
  )
  const fresh = due.filter(({ opening, record }) => !tables.usage.has(usageId(opening.requestId, record.part)))
  const booked = due.flatMap((each) => bookedOf(tables, each))
  const late = due.flatMap((each) => lateOf(tables, each))
  const changes = [
    ...fresh.filter((each) => each.due > 0n).map((each) => changeOf(each.opening, each.opening, each.due)),
    ...booked.filter(({ row }) => row.charge > 0n).map(({ opening, row }) => changeOf(opening, row, -row.charge)),
  ]
  const opened = batch.openings.filter(({ requestId }) => !tables.usage.has(usageId(requestId, 0)))

  due.forEach(checkRecord)
  for (const { hold } of opened) refuseUnless(hold >= 0n, "openings: hold_micro")
  const leases = leaseChanges(tables, changes)
  const balances = balanceChanges(tables, changes)
  const spending = spendChanges(changes)
  for (const [id, { keyId }] of spending) {
    refuseUnless(tables.keySpend.has(id) || tables.keys.has(keyId), "key_spend: key_id")
  }

  const moved = transfersOf(fresh, booked, late)
  for (const each of fresh) tables.usage.set(usageId(each.opening.requestId, each.record.part), usageOf(each))
  for (const { row } of booked) {
    Object.assign(row, {
      status: "billing_error",
      charge: 0n,
      absorbed: 0n,
      excess: 0n,
      flagged: true,
    } satisfies Partial<ModelUsage>)
  }
  for (const { row, record } of late) {
    row.absorbed = record.charge + record.absorbed
    row.excess = record.excess
    const { tokens, model, priceId, turns, attempts } = record
    Object.assign(row, { tokens, model, priceId, turns, attempts } satisfies Partial<ModelUsage>)
  }
  for (const transfer of moved) {
    if (!tables.transfers.has(transfer.idempotencyKey)) tables.transfers.set(transfer.idempotencyKey, transfer)
  }
  for (const { lease, settled } of leases) lease.settled = settled
  for (const { balance, posted, leased } of balances) {
    if (posted - leased > balance.posted - balance.leased) {
      tables.tell({ what: "freed", about: "account", id: balance.accountId })
    }
    balance.posted = posted
    balance.leased = leased
  }
  const freed = [...spending].filter(([id, change]) => spend(tables, processId, id, change))
  for (const keyId of new Set(freed.map(([, change]) => change.keyId))) tables.tellKey(keyId, "freed")
  for (const opening of opened) {
    if (!tables.openings.has(opening.requestId)) tables.openings.set(opening.requestId, openingOf(processId, opening))
  }
  for (const { opening } of batch.settlements) tables.openings.delete(opening.requestId)
  // What an earlier sending has charged, while the lease was open, is charged.
  return due
    .filter(({ open, record }) => !open && record.part === 0 && record.charge > 0n)
    .filter(({ opening }) => !charged.has(opening.requestId))
    .map(({ opening }) => opening.requestId)
}

/** The customer pays only under an open lease. */
function dueOf(tables: Tables, { opening, records, voided }: Settlement): Due[] {
  const open = tables.leases.get(opening.leaseId)?.closed === false
  return records.map((record) => ({ opening, record, voided, open, due: open ? record.charge : 0n }))
}

function bookedOf(tables: Tables, { opening, record, voided }: Due) {
  if (!voided || record.part !== 0) return []
  const row = tables.usage.get(usageId(opening.requestId, 0))
  if (row === undefined || (row.charge === 0n && row.absorbed === 0n)) return []
  return [{ opening, row, charge: row.charge, absorbed: row.absorbed }]
}

function lateOf(tables: Tables, { opening, record, open }: Due) {
  if (open || record.part !== 0 || record.charge + record.absorbed <= 0n) return []
  const row = tables.usage.get(usageId(opening.requestId, 0))
  if (row?.status !== "billing_error" || row.absorbed > 0n || tables.transfers.has(`absorb:${row.requestId}`)) return []
  return [{ row, record }]
}

const changeOf = (
  opening: Opening,
  { accountId, keyId, leaseId }: Omit<Change, "opening" | "amount">,
  amount: bigint,
): Change => ({ opening, accountId, keyId, leaseId, amount })

function refuseUnless(holds: boolean, constraint: string): void {
  if (!holds) throw new BatchRefused(`violates ${constraint}`)
}

function checkRecord({ record, due }: Due): void {
  const { tokens, charge, absorbed, excess, status, turns, attempts } = record
  const counts = [tokens.input, tokens.output, tokens.cacheRead, tokens.cacheWrite, attempts, turns - 1]
  refuseUnless(
    counts.every((count) => count >= 0),
    "usage: counts",
  )
  refuseUnless(due >= 0n && absorbed + charge - due >= 0n, "usage: amounts")
  refuseUnless(excess >= 0n && excess <= absorbed + charge - due, "usage: excess_micro")
  refuseUnless(status === "ok" || due === 0n, "usage: status")
}

function leaseChanges(tables: Tables, changes: readonly Change[]) {
  return [...sums(changes, ({ leaseId }) => leaseId)].flatMap(([leaseId, amount]) => {
    const lease = tables.leases.get(leaseId)
    if (lease === undefined || lease.closed) return []
    const settled = lease.settled + amount
    refuseUnless(settled >= 0n && settled + lease.returned <= lease.granted, "leases: sums")
    return [{ lease, settled }]
  })
}

function balanceChanges(tables: Tables, changes: readonly Change[]) {
  const underOpen = changes.filter(({ leaseId }) => tables.leases.get(leaseId)?.closed === false)
  const leasedSums = sums(underOpen, ({ accountId }) => accountId)
  return [...sums(changes, ({ accountId }) => accountId)].flatMap(([accountId, amount]) => {
    const balance = tables.balances.get(accountId)
    if (balance === undefined) return []
    const posted = balance.posted - amount
    const leased = balance.leased - (leasedSums.get(accountId) ?? 0n)
    refuseUnless(leased >= 0n && leased <= posted, "balances: leased_micro")
    return [{ balance, posted, leased }]
  })
}

function sums<By>(changes: readonly Change[], by: (change: Change) => By): Map<By, bigint> {
  const found = new Map<By, bigint>()
  for (const change of changes) found.set(by(change), (found.get(by(change)) ?? 0n) + change.amount)
  return found
}

/** By `spendId`: each charge counts in a period of each kind. */
function spendChanges(changes: readonly Change[]): Map<string, SpendChange> {
  const found = new Map<string, SpendChange>()
  for (const { keyId, opening, amount } of changes) {
    const starts = { ...opening.starts, total: 0 }
    for (const period of ["daily", "monthly", "total"] as const) {
      const start = starts[period]
      const id = spendId(keyId, period, start)
      const change = found.get(id)
      if (change === undefined) found.set(id, { keyId, period, start, amount })
      else change.amount += amount
    }
  }
  return found
}

/** Whether more of the budget is free then. */
function spend(tables: Tables, processId: string, id: string, change: SpendChange): boolean {
  const { keyId, period, start, amount } = change
  const lease = tables.budgetLeases.get(id)?.get(processId)
  let ofBudget = 0n
  if (lease !== undefined) {
    const left = lease.granted - lease.returned - lease.settled
    ofBudget = left < amount ? left : amount
    if (ofBudget < -lease.settled) ofBudget = -lease.settled
    lease.settled += ofBudget
  }
  const row = tables.keySpend.get(id)
  if (row === undefined) {
    tables.keySpend.set(id, { keyId, period, start, spent: amount, leased: -ofBudget })
    return false
  }
  row.spent += amount
  row.leased -= ofBudget
  return amount < ofBudget
}

function transfersOf(
  fresh: readonly Due[],
  booked: readonly ReturnType<typeof bookedOf>[number][],
  late: readonly ReturnType<typeof lateOf>[number][],
): TransferRow[] {
  const revenue = "house:revenue"
  const house = "house:absorbed"
  const rows: TransferRow[] = []
  const move = (kind: string, requestId: string, way: readonly [string, string], amount: bigint, reason: string) => {
    if (amount > 0n) {
      rows.push({ idempotencyKey: `${kind}:${requestId}`, debit: way[0], credit: way[1], amount, reason })
    }
  }
  for (const { opening, record, due } of fresh) {
    move("charge", opening.requestId, [opening.accountId, revenue], due, "charge")
    move("absorb", opening.requestId, [house, revenue], record.absorbed + record.charge - due, "absorbed")
  }
  for (const { row, record } of late) {
    move("absorb", row.requestId, [house, revenue], record.charge + record.absorbed, "absorbed")
  }
  for (const { row, charge, absorbed } of booked) {
    move("void", row.requestId, [revenue, row.accountId], charge, "void")
    move("void-absorb", row.requestId, [revenue, house], absorbed, "void")
  }
  return rows
}

const callOf = ({ requestId, accountId, keyId, leaseId, openedAt }: Opening) => ({
  requestId,
  accountId,
  keyId,
  leaseId,
  openedAt,
})

const usageOf = ({ opening, record, open, due }: Due): ModelUsage => ({
  ...callOf(opening),
  part: record.part,
  model: record.model,
  priceId: record.priceId,
  status: due < record.charge ? "billing_error" : record.status,
  tokens: record.tokens,
  charge: due,
  absorbed: record.absorbed + record.charge - due,
  excess: record.excess,
  turns: record.turns,
  attempts: record.attempts,
  errorCode: record.errorCode,
  flagged: record.flagged || !open,
})

const openingOf = (processId: string, opening: Opening) => ({
  ...callOf(opening),
  model: opening.model,
  priceId: opening.priceId,
  processId,
  hold: opening.hold,
})
