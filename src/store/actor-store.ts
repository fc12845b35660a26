/** What the actors of one process read and lease of the store; each is repeated within its deadline, or fails. */
import type { AccountLease } from "../../actors/account.ts"
import type { LoadedKey } from "../../actors/key-record.ts"
import type { Growth, VersionedLease } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"
import type { RunLookup, RunRequest, RunRecord } from "../../actors/run.ts"
import { type BudgetPeriod, budgetStatements, growBudget, type GrownBudget, returnBudget } from "./budget-leases.ts"
import { type BreakerPurses, breakerPurses } from "./breaker-purses.ts"
import type { Database } from "./database.ts"
import { growLease, returnLease } from "./leases.ts"
import { keyStatements, loadKey } from "./live-keys.ts"
import { findOrOpenRun, runStatements } from "./runs.ts"

/** Everything throws `DatabaseUnavailable` when Postgres did not answer: then it is unknown whether it was done. */
export interface ActorStore {
  /**
   * Undefined when there is no such key. `keyHash` is the hex SHA-256 of the whole key. What was spent is read when `written`
   * has resolved for the key's account.
   */
  loadKey(
    keyHash: string,
    nowMs: number,
    written?: (accountId: string) => Promise<void>,
  ): Promise<LoadedKey | undefined>
  findRun(runId: string): Promise<RunRecord | undefined>
  /** Makes the run where there is none, if a budget is given. */
  findOrOpenRun(asked: RunRequest, nowMs: number): Promise<RunLookup>
  /** Whether the account may have one more. */
  mayOpenRun(accountId: string, nowMs: number): Promise<boolean>
  /** `version` as it is known, 0 at first. Undefined when there is no such account, or this process was closed by another. */
  growLease(accountId: string, short: Micro, version: number): Promise<Growth<AccountLease> | undefined>
  /** `returned` is cumulative. Undefined when the lease is not open any more. */
  returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined>
  /** Undefined when this process was closed by another. */
  growBudget(of: BudgetPeriod, short: Micro, version: number): Promise<GrownBudget | undefined>
  readonly breakers: BreakerPurses
  /** `returned` is cumulative. Undefined when the lease is not there any more. */
  returnBudget(of: BudgetPeriod, returned: Micro): Promise<VersionedLease | undefined>
}

export const actorStore = (database: Database, processId: string, sendsMail: boolean): ActorStore => ({
  breakers: breakerPurses(database, processId, sendsMail),
  loadKey: (keyHash, nowMs, written) => loadKey(keyStatements(database), keyHash, nowMs, written),
  findRun: (runId) => runStatements(database).findRun(runId),
  findOrOpenRun: (asked, nowMs) => findOrOpenRun(runStatements(database), asked, nowMs),
  mayOpenRun: (accountId, nowMs) => runStatements(database).mayOpenRun(accountId, nowMs),
  growLease: (accountId, short, version) => growLease(database, processId, accountId, short, version),
  returnLease: (leaseId, returned) => returnLease(database, leaseId, returned),
  growBudget: (of, short, version) => growBudget(budgetStatements(database), processId, of, short, version),
  returnBudget: (of, returned) => returnBudget(database, processId, of, returned),
})
