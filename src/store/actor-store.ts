/** What the actors of one process read and lease of the store; each is repeated within its deadline, or fails. */
import type { AccountLease } from "../../actors/account.ts"
import type { LoadedKey } from "../../actors/key-record.ts"
import type { Growth, VersionedLease } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"
import { type BudgetPeriod, budgetStatements, growBudget, type GrownBudget, returnBudget } from "./budget-leases.ts"
import type { Database } from "./database.ts"
import { growLease, returnLease } from "./leases.ts"
import { keyStatements, loadKey } from "./live-keys.ts"

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
  /** `version` as it is known, 0 at first. Undefined when there is no such account, or this process was closed by another. */
  growLease(accountId: string, short: Micro, version: number): Promise<Growth<AccountLease> | undefined>
  /** `returned` is cumulative. Undefined when the lease is not open any more. */
  returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined>
  /** Undefined when this process was closed by another. */
  growBudget(of: BudgetPeriod, short: Micro, version: number): Promise<GrownBudget | undefined>
  /** `returned` is cumulative. Undefined when the lease is not there any more. */
  returnBudget(of: BudgetPeriod, returned: Micro): Promise<VersionedLease | undefined>
}

export const actorStore = (database: Database, processId: string): ActorStore => ({
  loadKey: (keyHash, nowMs, written) => loadKey(keyStatements(database), keyHash, nowMs, written),
  growLease: (accountId, short, version) => growLease(database, processId, accountId, short, version),
  returnLease: (leaseId, returned) => returnLease(database, leaseId, returned),
  growBudget: (of, short, version) => growBudget(budgetStatements(database), processId, of, short, version),
  returnBudget: (of, returned) => returnBudget(database, processId, of, returned),
})
