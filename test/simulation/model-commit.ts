/**
 * A batch, committed to the books in memory in the steps of `book_1` (src/store/migrations/0096_records_are_charges.sql), each of which
 * sees what the one before it has done. A constraint that does not hold undoes all of them.
 */
import { type Batch, BatchRefused, type Opening, type Settlement, type UsageRecord } from "../../actors/ledger.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import { addSpendingMinute } from "./model-breakers.ts"
import { type ModelUsage, spendId, type Tables, usageId } from "./model-tables.ts"

/** A record of a call that ends, and what the customer owes of it. */
interface Ended {
  readonly opening: Opening
  readonly record: UsageRecord
  readonly voided: boolean
  readonly open: boolean
  readonly due: bigint
}

/** What the purses of a call pay; negative when they are given back. */
interface Change {
  readonly opening: Opening
  readonly amount: bigint
}

interface Spending {
  readonly keyId: string
  readonly period: SpendingPeriod
  readonly start: number
  readonly amount: bigint
}

export function commitBatch(tables: Tables, processId: string, batch: Batch): readonly string[] {
  const booking = new Booking(tables, processId)
  try {
    return booking.book(batch)
  } catch (error) {
    booking.undo()
    throw error
  }
}

class Booking {
  readonly #tables: Tables
  readonly #processId: string
  readonly #undo: (() => void)[] = []
  /** Told when all is done. */
  readonly #notices: (() => void)[] = []
  readonly #fenced: string[] = []

  constructor(tables: Tables, processId: string) {
    this.#tables = tables
    this.#processId = processId
  }

  undo(): void {
    for (const back of this.#undo.reverse()) back()
  }

  book({ openings, settlements }: Batch): readonly string[] {
    const ended = settlements.flatMap((settlement) => this.#endedOf(settlement))
    const fresh = ended.filter((each) => this.#record(each))
    for (const { opening, record, due } of fresh) {
      this.#transfer("charge", opening.requestId, [opening.accountId, "house:revenue"], due)
      this.#transfer("absorb", opening.requestId, ABSORBED, record.absorbed + record.charge - due)
    }
    const charges = fresh.filter(({ due }) => due > 0n).map(({ opening, due }) => ({ opening, amount: due }))
    this.#apply([...charges, ...ended.flatMap((each) => this.#correct(each))])
    for (const opening of openings) this.#open(opening)
    for (const { opening } of settlements) this.#delete(this.#tables.openings, opening.requestId)
    for (const notice of this.#notices) notice()
    return this.#fenced
  }

  /** The customer pays only under an open lease. */
  #endedOf({ opening, records, voided }: Settlement): Ended[] {
    const open = this.#tables.leases.get(opening.leaseId)?.closed === false
    return records.map((record) => ({ opening, record, voided, open, due: open ? record.charge : 0n }))
  }

  /** Whether the record is new. */
  #record({ opening, record, open, due }: Ended): boolean {
    const absorbed = record.absorbed + record.charge - due
    const { tokens, excess, turns, attempts, member, cost } = record
    const counts = [tokens.input, tokens.output, tokens.cacheRead, tokens.cacheWrite, attempts, turns - 1]
    refuseUnless(Math.min(...counts) >= 0, "usage: counts")
    refuseUnless(due >= 0n && absorbed >= 0n && excess >= 0n && excess <= absorbed, "usage: amounts")
    refuseUnless(record.status === "ok" || due === 0n, "usage: status")
    const id = usageId(opening.requestId, record.part)
    if (this.#tables.usage.has(id)) return false
    const { part, model, priceId, errorCode } = record
    const { runId } = opening
    this.#put(this.#tables.usage, id, {
      ...callOf(opening),
      part,
      model,
      priceId,
      tokens,
      excess,
      turns,
      attempts,
      errorCode,
      member,
      cost,
      runId,
      absorbed,
      status: due < record.charge ? "billing_error" : record.status,
      charge: due,
      flagged: record.flagged || !open,
    })
    return true
  }

  /** Takes back what was booked of a voided call; gives a late one its costs. */
  #correct({ opening, record, voided, open }: Ended): Change[] {
    if (record.part !== 0 || (open && !voided)) return []
    const { requestId } = opening
    const row = this.#tables.usage.get(usageId(requestId, 0))!
    const { charge, absorbed } = row
    if (voided && (charge > 0n || absorbed > 0n)) {
      this.#update(row, { status: "billing_error", charge: 0n, absorbed: 0n, excess: 0n, flagged: true })
      this.#transfer("void", requestId, ["house:revenue", row.accountId], charge)
      this.#transfer("void-absorb", requestId, ["house:revenue", "house:absorbed"], absorbed)
      return charge > 0n ? [{ opening, amount: -charge }] : []
    }
    if (open) return []
    const costs = record.charge + record.absorbed
    const borneBefore = this.#tables.transfers.has(`absorb:${requestId}`)
    if (costs > 0n && row.status === "billing_error" && absorbed === 0n && !borneBefore) {
      const { tokens, model, priceId, turns, attempts, excess, member, cost } = record
      const told = { tokens, model, priceId, turns, attempts, excess, member, cost }
      this.#update<ModelUsage>(row, { ...told, absorbed: costs })
      this.#transfer("absorb", requestId, ABSORBED, costs)
    }
    // What an earlier sending has charged, while the lease was open, is charged.
    if (record.charge > 0n && charge === 0n) this.#fenced.push(requestId)
    return []
  }

  #transfer(kind: string, requestId: string, [debit, credit]: readonly [string, string], amount: bigint): void {
    if (amount === 0n) return
    const idempotencyKey = `${kind}:${requestId}`
    refuseUnless(!this.#tables.transfers.has(idempotencyKey), "transfers: idempotency_key")
    const reason = { charge: "charge", absorb: "absorbed" }[kind] ?? "void"
    this.#put(this.#tables.transfers, idempotencyKey, { idempotencyKey, debit, credit, amount, reason })
  }

  /** As `apply_1`: the one place that changes sums of money. */
  #apply(changes: readonly Change[]): void {
    const isOpen = ({ opening }: Change) => this.#tables.leases.get(opening.leaseId)?.closed === false
    for (const [leaseId, amount] of sums(changes.filter(isOpen), ({ opening }) => opening.leaseId)) {
      const lease = this.#tables.leases.get(leaseId)!
      const settled = lease.settled + amount
      refuseUnless(settled >= 0n && settled + lease.returned <= lease.granted, "leases: sums")
      this.#update(lease, { settled })
    }
    const ofLeases = sums(changes.filter(isOpen), ({ opening }) => opening.accountId)
    for (const [accountId, amount] of sums(changes, ({ opening }) => opening.accountId)) {
      const balance = this.#tables.balances.get(accountId)
      if (balance === undefined) continue
      const free = balance.posted - balance.leased
      const [posted, leased] = [balance.posted - amount, balance.leased - (ofLeases.get(accountId) ?? 0n)]
      refuseUnless(leased >= 0n && leased <= posted, "balances: leased_micro")
      this.#update(balance, { posted, leased })
      if (posted - leased > free) {
        this.#notices.push(() => this.#tables.tell({ what: "freed", about: "account", id: accountId }))
      }
    }
    for (const change of changes) this.#note(change)
    const freed = [...spending(changes)].filter(([id, change]) => this.#spend(id, change)).map(([, { keyId }]) => keyId)
    for (const id of new Set(freed)) this.#notices.push(() => this.#tables.tellFreed(id))
  }

  /** What is taken back was not spent when it was charged. */
  #note({ opening: { requestId, breakers = [] }, amount }: Change): void {
    for (const purse of breakers) {
      const charges = this.#tables.purseCharges.get(purse) ?? []
      this.#tables.purseCharges.set(purse, charges)
      const at = amount > 0n ? this.#tables.now() : charges.find((charge) => charge.requestId === requestId)?.at
      if (at === undefined) continue
      charges.push({ requestId, at, amount })
      this.#undo.push(() => charges.pop())
    }
  }

  /** Whether more of the budget is free then. */
  #spend(id: string, { keyId, period, start, amount }: Spending): boolean {
    const lease = this.#tables.budgetLeases.get(id)?.get(this.#processId)
    let ofBudget = 0n
    if (lease !== undefined) {
      const left = lease.granted - lease.returned - lease.settled
      ofBudget = left < amount ? left : amount
      if (ofBudget < -lease.settled) ofBudget = -lease.settled
      this.#update(lease, { settled: lease.settled + ofBudget })
    }
    const row = this.#tables.keySpend.get(id)
    if (row === undefined) {
      this.#put(this.#tables.keySpend, id, { keyId, period, start, spent: amount, leased: -ofBudget })
      return false
    }
    this.#update(row, { spent: row.spent + amount, leased: row.leased - ofBudget })
    if (keyId.startsWith("brk_") && amount > 0n) this.#undo.push(addSpendingMinute(this.#tables, keyId, amount))
    return amount < ofBudget
  }

  #open(opening: Opening): void {
    const { requestId, model, priceId, hold } = opening
    if (this.#tables.usage.has(usageId(requestId, 0))) return
    refuseUnless(hold >= 0n, "openings: hold_micro")
    if (this.#tables.openings.has(requestId)) return
    const row = { ...callOf(opening), model, priceId, hold, processId: this.#processId }
    this.#put(this.#tables.openings, requestId, row)
  }

  #put<Row>(table: Map<string, Row>, id: string, row: Row): void {
    table.set(id, row)
    this.#undo.push(() => table.delete(id))
  }

  #delete<Row>(table: Map<string, Row>, id: string): void {
    const row = table.get(id)
    table.delete(id)
    if (row !== undefined) this.#undo.push(() => table.set(id, row))
  }

  #update<Row extends object>(row: Row, columns: Partial<Row>): void {
    const before = { ...row }
    Object.assign(row, columns)
    this.#undo.push(() => Object.assign(row, before))
  }
}

const ABSORBED = ["house:absorbed", "house:revenue"] as const

function refuseUnless(holds: boolean, constraint: string): void {
  if (!holds) throw new BatchRefused(`violates ${constraint}`)
}

function sums<By>(changes: readonly Change[], by: (change: Change) => By): Map<By, bigint> {
  const found = new Map<By, bigint>()
  for (const change of changes) found.set(by(change), (found.get(by(change)) ?? 0n) + change.amount)
  return found
}

/** By `spendId`: each change counts in a period of each kind, its key's parent's too, under its ceilings, and in its run. */
function spending(changes: readonly Change[]): Map<string, Spending> {
  const found = new Map<string, Spending>()
  const add = (keyId: string, period: SpendingPeriod, start: number, amount: bigint) => {
    const id = spendId(keyId, period, start)
    found.set(id, { keyId, period, start, amount: (found.get(id)?.amount ?? 0n) + amount })
  }
  for (const { opening, amount } of changes) {
    const { keyId, parent, runId, breakers = [], starts } = opening
    for (const key of [{ keyId, starts }, ...(parent === undefined ? [] : [parent])]) {
      for (const period of ["daily", "monthly", "total"] as const) add(key.keyId, period, key.starts[period], amount)
    }
    for (const purse of breakers) add(purse, "total", starts.total, amount)
    if (runId !== undefined) add(runId, "total", starts.total, amount)
  }
  return found
}

const callOf = ({ requestId, accountId, keyId, leaseId, openedAt }: Opening) => ({
  requestId,
  accountId,
  keyId,
  leaseId,
  openedAt,
})
