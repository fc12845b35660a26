/** Leases of the books in memory, as the statements of `src/store/leases.ts` and `budget-leases.ts` move them. Micro-rupiah. */
import type { AccountLease } from "../../actors/account.ts"
import type { Growth, VersionedLease } from "../../actors/lease.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { BudgetPeriod, GrownBudget } from "../../src/store/budget-leases.ts"
import { type ModelKey, type ModelLease, put, spendId, type Tables } from "./model-tables.ts"

type Sums = Record<"granted" | "returned" | "settled", bigint> & { version: number }

export function growLease(
  tables: Tables,
  processId: string,
  accountId: string,
  short: Micro,
  version: number,
): Growth<AccountLease> | undefined {
  const balance = tables.balances.get(accountId)
  if (balance === undefined || !tables.lives(processId)) return undefined
  const free = balance.posted - balance.leased
  const lease = tables.openLeases.get(accountId)?.get(processId) ?? openLease(tables, processId, accountId)
  const overtaken = lease.version++ !== version
  const share = overtaken ? 0n : shareOf(tables, free, short, processId)
  balance.leased += share
  lease.granted += share
  const neighbours = othersHaveLeft(tables.openLeases.get(accountId), processId)
  const amount = micro(short - share)
  if (neighbours && amount > 0n && !overtaken)
    tables.tell({ what: "short", about: "account", id: accountId, processId, amount })
  return { lease: { id: lease.leaseId, ...sumsOf(lease) }, more: neighbours || free > share }
}

function openLease(tables: Tables, processId: string, accountId: string): ModelLease {
  const leaseId = BigInt(tables.leases.size + 1)
  const lease = { leaseId, accountId, processId, ...nothing, closed: false }
  tables.leases.set(leaseId, lease)
  put(tables.openLeases, accountId, processId, lease)
  return lease
}

export function returnLease(tables: Tables, leaseId: bigint, returned: Micro): AccountLease | undefined {
  const lease = tables.leases.get(leaseId)
  if (lease === undefined || lease.closed) return undefined
  const back = backOf(lease, returned)
  lease.returned += back
  lease.version++
  tables.balances.get(lease.accountId)!.leased -= back
  if (back > 0n) tables.tell({ what: "freed", about: "account", id: lease.accountId })
  return { id: leaseId, ...sumsOf(lease) }
}

export function growBudget(
  tables: Tables,
  processId: string,
  of: BudgetPeriod,
  short: Micro,
  version: number,
): GrownBudget | undefined {
  const { keyId, period, start } = of
  const id = spendId(keyId, period, start)
  const spend = tables.keySpend.get(id)
  // The statement forgets also where it grants nothing.
  forgetOver(tables, processId, of)
  if (spend === undefined || !tables.lives(processId)) return undefined
  const key = tables.keys.get(keyId)
  const run = tables.runs.get(keyId)
  const limit = keyId.startsWith("run_") ? (run?.budget ?? 0n) : key?.period === period ? key.limit : undefined
  const left = limit === undefined ? short : limit - spend.spent - spend.leased
  const free = left > 0n && !(limit !== undefined && runsOn(key, of)) ? left : 0n
  const leases = tables.budgetLeases.get(id)
  const lease = leases?.get(processId) ?? { keyId, period, start, processId, ...nothing }
  const overtaken = lease.version++ !== version
  const share = overtaken ? 0n : shareOf(tables, free, short, processId)
  spend.leased += share
  lease.granted += share
  put(tables.budgetLeases, id, processId, lease)
  const neighbours = othersHaveLeft(leases, processId)
  const amount = micro(short - share)
  if (neighbours && amount > 0n && key !== undefined && !overtaken) {
    tables.tell({ what: "short", about: "key", id: key.keyHash, processId, amount })
  }
  if (neighbours && amount > 0n && run !== undefined && !overtaken) {
    tables.tell({ what: "short", about: "run", id: run.runId, processId, amount })
  }
  const elsewhere = micro(spend.spent - lease.settled)
  return { lease: sumsOf(lease), more: neighbours || free > share, elsewhere }
}

/** A period that would begin while an older one runs on. */
function runsOn(key: ModelKey | undefined, { period, start }: BudgetPeriod): boolean {
  const running = period === "total" ? undefined : key?.running[period]
  return running !== undefined && running.start < start && start < running.end
}

/** Periods that are over, and settled. */
function forgetOver(tables: Tables, processId: string, { keyId, period, start }: BudgetPeriod): void {
  for (const leases of tables.budgetLeases.values()) {
    const lease = leases.get(processId)
    if (lease?.keyId !== keyId || lease.period !== period || lease.start >= start) continue
    if (lease.granted === lease.returned + lease.settled) leases.delete(processId)
  }
}

export function returnBudget(
  tables: Tables,
  processId: string,
  { keyId, period, start }: BudgetPeriod,
  returned: Micro,
): VersionedLease | undefined {
  const id = spendId(keyId, period, start)
  const lease = tables.budgetLeases.get(id)?.get(processId)
  if (lease === undefined) return undefined
  const back = backOf(lease, returned)
  lease.returned += back
  lease.version++
  tables.keySpend.get(id)!.leased -= back
  if (back > 0n) tables.tellFreed(keyId)
  return sumsOf(lease)
}

/** A process that is alone takes all; where others live, what it is short of, or half. */
export function shareOf(tables: Tables, free: bigint, short: bigint, processId: string): bigint {
  if (!tables.anotherLives(processId)) return free
  const half = free / 2n
  const wanted = short > half ? short : half
  return wanted < free ? wanted : free
}

export function othersHaveLeft(leases: ReadonlyMap<string, Sums> | undefined, processId: string): boolean {
  for (const [owner, lease] of leases ?? []) {
    if (owner !== processId && lease.granted > lease.returned + lease.settled) return true
  }
  return false
}

/** What more comes back of a lease that is to have given back `returned` over its life. */
function backOf({ granted, settled, returned: already }: Sums, returned: bigint): bigint {
  const most = granted - settled
  const back = (returned < most ? returned : most) - already
  return back > 0n ? back : 0n
}

export const nothing = { granted: 0n, returned: 0n, settled: 0n, version: 0 } as const

export const sumsOf = ({ granted, returned, settled, version }: Sums): VersionedLease => ({
  granted: micro(granted),
  returned: micro(returned),
  settled: micro(settled),
  version,
})
