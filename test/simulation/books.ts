/**
 * What Postgres is to the gateway, one statement of ours an operation: each is atomic, and takes no time but what is put
 * around it. Two kinds of books answer alike: `model-books.ts` in memory, for a simulation of many worlds, and
 * `sql-books.ts` with the product's own statements. Money in micro-rupiah, times in milliseconds since the epoch.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { Batch } from "../../actors/ledger.ts"
import type { Growth, VersionedLease } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import type { Breaker, PurseLook } from "../../src/store/breakers.ts"
import type { BudgetPeriod, BudgetStatements } from "../../src/store/budget-leases.ts"
import type { CallKeyStatements } from "../../src/store/call-keys.ts"
import type { KeyStatements } from "../../src/store/live-keys.ts"
import type { Notice } from "../../src/store/notices.ts"
import type { ProcessStatements } from "../../src/store/processes.ts"
import type { RunStatements } from "../../src/store/runs.ts"
import type { Dump } from "./dump.ts"

export interface Books extends ProcessStatements, BudgetStatements, KeyStatements, RunStatements {
  // ---- The session locks of processes (src/store/session-lock.ts) ----

  /** A session of the process takes its lock; false while the server still counts an older session of it as alive. */
  takeLock(processId: string): Promise<boolean>
  /** The server has noticed that the session is gone. */
  dropLock(processId: string): Promise<void>
  /** Another process has closed this one. */
  isClosed(processId: string): Promise<boolean>

  // ---- Leases (leases.ts, budget-leases.ts) ----

  /** Undefined when there is no such account, or the process is closed. */
  growLease(
    processId: string,
    accountId: string,
    short: Micro,
    version: number,
  ): Promise<Growth<AccountLease> | undefined>
  /** Undefined when the lease is not open any more. */
  returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined>
  returnBudget(processId: string, of: BudgetPeriod, returned: Micro): Promise<VersionedLease | undefined>

  // ---- Ceilings of ten minutes (breakers.ts) ----

  /** As of accounts. */
  growBreaker(
    processId: string,
    purse: string,
    short: Micro,
    version: number,
  ): Promise<Growth<AccountLease> | undefined>
  tripBreaker(purse: string, least: Micro): Promise<readonly string[] | undefined>
  lookBreaker(purse: string): Promise<PurseLook | undefined>
  /** Without a key it is the account's. */
  setBreaker(accountId: string, keyId: string | undefined, breaker: Breaker): Promise<void>
  resumeBreaker(accountId: string, keyId: string | undefined): Promise<void>
  /** What counts of the last ten minutes is so much older. */
  minutesPass(minutes: number): Promise<void>

  // ---- Calls (ledger.ts) ----

  /** Request ids of the calls whose lease was no longer open. Rejects with `BatchRefused`, having booked nothing. */
  commit(processId: string, batch: Batch): Promise<readonly string[]>

  /** Keys that calls carry (call-keys.ts). */
  readonly callKeys: CallKeyStatements

  // ---- What customers and the operator do ----

  /** An account with an empty balance. */
  createAccount(accountId: string, timeZone: string): Promise<void>
  /** What is running of its keys' budgets runs on. Does nothing where the account is deleted. */
  changeTimeZone(accountId: string, timeZone: string, nowMs: number): Promise<void>
  /** Its keys answer 403 from then on. */
  deleteAccount(accountId: string): Promise<void>
  /** Its keys answer 403 while it is frozen, and no key is made. */
  freezeAccount(accountId: string): Promise<void>
  unfreezeAccount(accountId: string): Promise<void>
  /** Does nothing where the account is frozen. */
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
  /** Whose child it is. */
  readonly parentId?: string
  /** On, if it is not said. */
  readonly replaysRetries?: boolean
}

export interface NewTopUp {
  readonly topUpId: string
  readonly accountId: string
  readonly balancePurchased: Micro
  readonly serviceFee: Micro
}
