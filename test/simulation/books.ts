/**
 * What Postgres is to the gateway, one statement of ours an operation: each is atomic, and takes no time but what is put
 * around it. Two kinds of books answer alike: `model-books.ts` in memory, for a simulation of many worlds, and
 * `sql-books.ts` with the product's own statements. Money in micro-rupiah, times in milliseconds since the epoch.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { KeyRecord, Spent } from "../../actors/key.ts"
import type { Batch } from "../../actors/ledger.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { Lease } from "../../actors/money/purse.ts"
import type { PeriodStarts, SpendingPeriod } from "../../actors/period.ts"
import type { BudgetPeriod, GrownBudget } from "../../src/store/budget-leases.ts"
import type { Grown } from "../../src/store/leases.ts"
import type { Notice } from "../../src/store/notices.ts"
import type { Dump } from "./dump.ts"

export interface Books {
  // ---- Processes and their session locks (src/store/session-lock.ts, processes.ts) ----

  /** A session of the process takes its lock; false while the server still counts an older session of it as alive. */
  takeLock(processId: string): Promise<boolean>
  /** The server has noticed that the session is gone. */
  dropLock(processId: string): Promise<void>
  registerProcess(processId: string): Promise<void>
  /** Another process has closed this one. */
  isClosed(processId: string): Promise<boolean>
  /** Processes but `own` that are not wholly closed, and whose locks are free. In no order. */
  findDead(own: string): Promise<string[]>
  /** Closing takes these four, in this order. An exclusive fence does nothing to a process whose lock is not free. */
  fence(processId: string, exclusive: boolean): Promise<void>
  /** How many leases. */
  returnLeases(processId: string): Promise<number>
  returnBudgets(processId: string): Promise<void>
  /** How many records. */
  recordOpenings(processId: string): Promise<number>

  // ---- Leases (leases.ts, budget-leases.ts) ----

  /** Undefined when there is no such account, or the process is closed. */
  growLease(processId: string, accountId: string, short: Micro): Promise<Grown<AccountLease> | undefined>
  /** Undefined when the lease is not open any more. */
  returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined>
  /** Undefined also when the period was never opened: then `openBudget`, and once more. */
  growBudget(processId: string, of: BudgetPeriod, short: Micro): Promise<GrownBudget | undefined>
  openBudget(of: BudgetPeriod): Promise<void>
  returnBudget(processId: string, of: BudgetPeriod, returned: Micro): Promise<Lease | undefined>

  // ---- Keys (live-keys.ts): found and read in two statements ----

  /** By the hex of its hash. */
  findKey(keyHash: string): Promise<KeyRecord | undefined>
  readSpent(keyId: string, starts: PeriodStarts): Promise<Spent>

  // ---- Calls (ledger.ts) ----

  /** Request ids of the calls whose lease was no longer open. Rejects with `BatchRefused`, having booked nothing. */
  commit(processId: string, batch: Batch): Promise<readonly string[]>

  // ---- What customers and the operator do ----

  /** An account with an empty balance. */
  createAccount(accountId: string, timeZone: string): Promise<void>
  /** Its keys answer 403 from then on. */
  deleteAccount(accountId: string): Promise<void>
  createKey(key: NewKey): Promise<void>
  /** Undefined removes the limit. */
  changeBudget(keyId: string, budget: KeyBudget | undefined): Promise<void>
  revokeKey(keyId: string): Promise<void>
  createTopUp(topUp: NewTopUp): Promise<void>
  /** Credits the top-up once for each idempotency key. */
  credit(topUpId: string, idempotencyKey: string): Promise<void>
  /** Answers the price version's id. */
  addPrice(model: string, rates: Rates, effectiveAt: number): Promise<bigint>

  // ---- What can be seen ----

  /** What Postgres has told its listeners since this was last asked, without what one statement said twice. */
  notices(): Promise<readonly Notice[]>
  /** All tables that money is in. */
  dump(): Promise<Dump>
}

export interface KeyBudget {
  readonly limit: Micro
  readonly period: SpendingPeriod
}

export interface NewKey {
  readonly keyId: string
  readonly accountId: string
  /** Hex. */
  readonly keyHash: string
  readonly requestsPerMinute?: number
  readonly tokensPerMinute?: number
  readonly budget?: KeyBudget
}

export interface NewTopUp {
  readonly topUpId: string
  readonly accountId: string
  readonly balancePurchased: Micro
  readonly serviceFee: Micro
}
