/**
 * Books in memory: Postgres as a state machine, for simulations of many worlds. Each operation does what its statement does
 * (`differential.test.ts` holds the two against each other), at once and whole; nothing is ever lost.
 */
import type { AccountLease } from "../../actors/account.ts"
import type { KeyRecord, Spent } from "../../actors/key-record.ts"
import type { Batch } from "../../actors/ledger.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { Growth, Share, VersionedLease } from "../../actors/lease.ts"
import type { CalendarPeriod, PeriodStarts } from "../../actors/period.ts"
import type { RunRecord } from "../../actors/run.ts"
import type { BudgetPeriod, GrownBudget } from "../../src/store/budget-leases.ts"
import type { Breaker, PurseLook } from "../../src/store/breakers.ts"
import type { Notice } from "../../src/store/notices.ts"
import type { NewRun } from "../../src/store/runs.ts"
import type { Books, KeyBudget, NewKey, NewTopUp } from "./books.ts"
import type { Dump } from "./dump.ts"
import {
  breakersOfKey,
  growBreaker,
  lookBreaker,
  minutesPass,
  resumeBreaker,
  setBreaker,
  tripBreaker,
} from "./model-breakers.ts"
import { ModelCallKeys } from "./model-call-keys.ts"
import { commitBatch } from "./model-commit.ts"
import { growBudget, growLease, returnBudget, returnLease } from "./model-leases.ts"
import { type ModelKey, type PurseCharge, spendId, Tables, usageId } from "./model-tables.ts"
import { afterChange } from "./zones.ts"

export class ModelBooks implements Books {
  readonly #tables: Tables
  readonly callKeys: ModelCallKeys
  /** Processes whose session lock is held. */
  readonly #locks = new Set<string>()
  #lastPrice = 0n
  #lastServing = 0

  /** `now`: the database's clock. */
  constructor(now: () => number = () => 0) {
    this.#tables = new Tables(now)
    this.callKeys = new ModelCallKeys(this.#tables)
  }

  async takeLock(processId: string): Promise<boolean> {
    if (this.#locks.has(processId)) return false
    this.#locks.add(processId)
    return true
  }

  async dropLock(processId: string): Promise<void> {
    this.#locks.delete(processId)
  }

  async registerProcess(processId: string): Promise<void> {
    const { processes } = this.#tables
    if (!processes.has(processId)) processes.set(processId, { processId, closed: false, servingSince: undefined })
  }

  async serve(processId: string): Promise<void> {
    const row = this.#tables.processes.get(processId)
    if (row === undefined || row.servingSince !== undefined) return
    row.servingSince = ++this.#lastServing
    this.#tables.tell({ what: "changed", about: "processes" })
  }

  async drain(processId: string): Promise<void> {
    const row = this.#tables.processes.get(processId)
    if (row?.servingSince === undefined) return
    row.servingSince = undefined
    this.#tables.tell({ what: "changed", about: "processes" })
  }

  async share(processId: string): Promise<Share | undefined> {
    const serving = [...this.#tables.processes.values()]
      .filter((row) => row.servingSince !== undefined && !row.closed)
      .sort((a, b) => (a.servingSince ?? 0) - (b.servingSince ?? 0))
    const index = serving.findIndex((row) => row.processId === processId)
    return index < 0 ? undefined : { index, count: serving.length }
  }

  async isClosed(processId: string): Promise<boolean> {
    return this.#tables.processes.get(processId)?.closed === true
  }

  async findDead(own: string, exclusive: boolean): Promise<string[]> {
    if (exclusive && !this.#locks.has(own)) return []
    const unfinished = new Set<string>()
    for (const row of this.#tables.processes.values()) if (!row.closed) unfinished.add(row.processId)
    for (const row of this.#tables.openings.values()) unfinished.add(row.processId)
    for (const leases of this.#tables.openLeases.values()) for (const id of leases.keys()) unfinished.add(id)
    for (const leases of this.#tables.budgetLeases.values()) for (const id of leases.keys()) unfinished.add(id)
    return [...unfinished].filter((id) => id !== own && !(exclusive && this.#locks.has(id)))
  }

  async fence(processId: string, exclusive: boolean): Promise<void> {
    const row = this.#tables.processes.get(processId)
    if (row === undefined || row.closed || (exclusive && this.#locks.has(processId))) return
    row.closed = true
    this.#tables.tell({ what: "changed", about: "processes" })
  }

  async returnLeases(processId: string): Promise<number> {
    if (!(await this.isClosed(processId))) return 0
    let count = 0
    for (const [accountId, leases] of this.#tables.openLeases) {
      const lease = leases.get(processId)
      if (lease === undefined) continue
      count++
      lease.closed = true
      leases.delete(processId)
      const back = lease.granted - lease.returned - lease.settled
      this.#tables.balances.get(accountId)!.leased -= back
      if (back > 0n) this.#tables.tell({ what: "freed", about: "account", id: accountId })
    }
    return count
  }

  async returnBudgets(processId: string): Promise<void> {
    if (!(await this.isClosed(processId))) return
    const freed = new Set<string>()
    for (const [id, leases] of this.#tables.budgetLeases) {
      const lease = leases.get(processId)
      if (lease === undefined) continue
      leases.delete(processId)
      const back = lease.granted - lease.returned - lease.settled
      this.#tables.keySpend.get(id)!.leased -= back
      if (back > 0n) freed.add(lease.keyId)
    }
    for (const id of freed) this.#tables.tellFreed(id)
  }

  async recordOpenings(processId: string): Promise<number> {
    if (!(await this.isClosed(processId))) return 0
    const { openings, usage } = this.#tables
    let count = 0
    for (const { processId: owner, hold: _, ...call } of openings.values()) {
      if (owner !== processId) continue
      openings.delete(call.requestId)
      const id = usageId(call.requestId, 0)
      if (usage.has(id)) continue
      count++
      usage.set(id, {
        ...call,
        part: 0,
        status: "billing_error",
        tokens: { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 },
        charge: 0n,
        absorbed: 0n,
        excess: 0n,
        turns: 1,
        attempts: 0,
        errorCode: "internal.error",
        flagged: true,
        member: undefined,
        cost: undefined,
        runId: undefined,
      })
    }
    return count
  }

  async growLease(
    processId: string,
    accountId: string,
    short: Micro,
    version: number,
  ): Promise<Growth<AccountLease> | undefined> {
    return growLease(this.#tables, processId, accountId, short, version)
  }

  async returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined> {
    return returnLease(this.#tables, leaseId, returned)
  }

  async growBudget(
    processId: string,
    of: BudgetPeriod,
    short: Micro,
    version: number,
  ): Promise<GrownBudget | undefined> {
    return growBudget(this.#tables, processId, of, short, version)
  }

  async openBudget({ keyId, period, start }: BudgetPeriod): Promise<void> {
    const id = spendId(keyId, period, start)
    if (!this.#tables.keySpend.has(id)) this.#tables.keySpend.set(id, { keyId, period, start, spent: 0n, leased: 0n })
  }

  async returnBudget(processId: string, of: BudgetPeriod, returned: Micro): Promise<VersionedLease | undefined> {
    return returnBudget(this.#tables, processId, of, returned)
  }

  async growBreaker(processId: string, purse: string, short: Micro, version: number) {
    return growBreaker(this.#tables, processId, purse, short, version)
  }

  async tripBreaker(purse: string, least: Micro): Promise<readonly string[] | undefined> {
    return tripBreaker(this.#tables, purse, least)
  }

  async lookBreaker(purse: string): Promise<PurseLook | undefined> {
    return lookBreaker(this.#tables, purse)
  }

  async setBreaker(accountId: string, keyId: string | undefined, breaker: Breaker): Promise<void> {
    setBreaker(this.#tables, accountId, keyId, breaker)
  }

  async resumeBreaker(accountId: string, keyId: string | undefined): Promise<void> {
    resumeBreaker(this.#tables, accountId, keyId)
  }

  async minutesPass(minutes: number): Promise<void> {
    minutesPass(this.#tables, minutes)
  }

  /** What no call holds of an account, as its owner is told. */
  async available(accountId: string): Promise<Micro> {
    const { balances, openings } = this.#tables
    let left = balances.get(accountId)?.posted ?? 0n
    for (const opening of openings.values()) if (opening.accountId === accountId) left -= opening.hold
    return micro(left > 0n ? left : 0n)
  }

  /** What was charged under each ceiling since it was last resumed, and when. */
  get purseCharges(): ReadonlyMap<string, readonly PurseCharge[]> {
    return this.#tables.purseCharges
  }

  async findKey(keyHash: string): Promise<KeyRecord | undefined> {
    const key = this.#tables.keysByHash.get(keyHash)
    if (key === undefined) return undefined
    const { keyId, accountId, revoked, requestsPerMinute, tokensPerMinute, limit, period } = key
    const its = key.parentId === undefined ? undefined : this.#tables.keys.get(key.parentId)
    const parent = its && { keyId: its.keyId, keyHash: its.keyHash }
    const { timeZone, deleted, frozen } = this.#tables.accounts.get(accountId)!
    const budget = limit === undefined || period === undefined ? undefined : { limit: micro(limit), period }
    const account = { accountId, accountDeleted: deleted, accountFrozen: frozen, timeZone, running: key.running }
    const limits = { requestsPerMinute, tokensPerMinute, budget, ...breakersOfKey(this.#tables, accountId, keyId) }
    const replaysRetries = key.replaysRetries === false ? false : undefined
    return { keyId, revoked, ...account, ...limits, fallback: "any", replaysRetries, parent, ...key.bound }
  }

  async readSpent(keyId: string, starts: PeriodStarts): Promise<Spent> {
    const spent = (period: keyof PeriodStarts) =>
      micro(this.#tables.keySpend.get(spendId(keyId, period, starts[period]))?.spent ?? zero)
    return { daily: spent("daily"), monthly: spent("monthly"), total: spent("total") }
  }

  async findRun(runId: string): Promise<RunRecord | undefined> {
    const run = this.#tables.runs.get(runId)
    const spent = this.#tables.keySpend.get(spendId(runId, "total", 0))?.spent
    return run && { ...run, budget: micro(run.budget), spent: micro(spent ?? zero) }
  }

  async openRun({ runId, accountId, keyId, name, budget, endsAt }: NewRun): Promise<boolean> {
    const { runs } = this.#tables
    if (!runs.has(runId)) runs.set(runId, { runId, accountId, keyId, name, budget, endsAt })
    return true
  }

  /** Worlds have few. */
  async mayOpenRun(): Promise<boolean> {
    return true
  }

  async commit(processId: string, batch: Batch): Promise<readonly string[]> {
    return commitBatch(this.#tables, processId, batch)
  }

  async createAccount(accountId: string, timeZone: string): Promise<void> {
    if (this.#tables.accounts.has(accountId)) return
    this.#tables.accounts.set(accountId, { timeZone, deleted: false, frozen: false, keyHashes: [] })
    this.#tables.balances.set(accountId, { accountId, posted: 0n, leased: 0n, claim: 0n })
  }

  async changeTimeZone(accountId: string, timeZone: string, nowMs: number): Promise<void> {
    const account = this.#tables.accounts.get(accountId)
    if (account === undefined || account.deleted || account.timeZone === timeZone) return
    const carried = (key: ModelKey, period: CalendarPeriod) => ({
      period,
      ...afterChange(nowMs, period, [account.timeZone, timeZone], key.running[period]),
    })
    for (const keyHash of account.keyHashes) {
      const key = this.#tables.keysByHash.get(keyHash)!
      if (!key.revoked) key.running = { daily: carried(key, "daily"), monthly: carried(key, "monthly") }
    }
    this.#tellKeysOf(account)
    account.timeZone = timeZone
  }

  async deleteAccount(accountId: string): Promise<void> {
    const account = this.#tables.accounts.get(accountId)
    if (account === undefined || account.deleted) return
    account.deleted = true
    this.#tellKeysOf(account)
  }

  async freezeAccount(accountId: string): Promise<void> {
    this.#setFrozen(accountId, true)
  }

  async unfreezeAccount(accountId: string): Promise<void> {
    this.#setFrozen(accountId, false)
  }

  #setFrozen(accountId: string, frozen: boolean): void {
    const account = this.#tables.accounts.get(accountId)
    if (account === undefined || account.frozen === frozen) return
    account.frozen = frozen
    this.#tellKeysOf(account)
  }

  /** A revoked key is refused as such, whatever becomes of its account. */
  #tellKeysOf({ keyHashes }: { readonly keyHashes: readonly string[] }): void {
    for (const id of keyHashes) {
      if (this.#tables.keysByHash.get(id)?.revoked === false) this.#tables.tell({ what: "changed", about: "key", id })
    }
  }

  async createKey(key: NewKey): Promise<void> {
    const { keyId, accountId, keyHash, budget, requestsPerMinute, tokensPerMinute, parentId, replaysRetries } = key
    const account = this.#tables.accounts.get(accountId)
    if (account === undefined || account.frozen || this.#tables.keys.has(keyId)) return
    const { limit, period } = budget ?? { limit: undefined, period: undefined }
    const limits = { limit, period, requestsPerMinute, tokensPerMinute }
    const row = {
      keyId,
      accountId,
      keyHash,
      parentId,
      ...limits,
      replaysRetries,
      revoked: false,
      running: {},
      bound: undefined,
    }
    this.#tables.keys.set(keyId, row)
    this.#tables.keysByHash.set(keyHash, row)
    account.keyHashes.push(keyHash)
  }

  async changeBudget(keyId: string, budget: KeyBudget | undefined): Promise<void> {
    const key = this.#tables.keys.get(keyId)
    if (key === undefined) return
    key.limit = budget?.limit
    key.period = budget?.period
    this.#tables.tellKey(keyId, "changed")
  }

  async revokeKey(keyId: string): Promise<void> {
    const key = this.#tables.keys.get(keyId)
    if (key === undefined || key.revoked) return
    key.revoked = true
    this.#tables.tellKey(keyId, "changed")
  }

  async bindKey(keyId: string, bound: Pick<KeyRecord, "binding" | "expiresAt">): Promise<void> {
    const key = this.#tables.keys.get(keyId)
    if (key === undefined) return
    key.bound = bound
    this.#tables.tellKey(keyId, "changed")
  }

  async createTopUp({ topUpId, accountId, balancePurchased, serviceFee }: NewTopUp): Promise<void> {
    const { topUps } = this.#tables
    if (topUps.has(topUpId)) return
    const refunded = { refundedBalance: 0n, refundedServiceFee: 0n, refundedOtherFees: 0n }
    topUps.set(topUpId, { topUpId, accountId, balancePurchased, serviceFee, otherFees: 0n, paid: false, ...refunded })
  }

  async credit(topUpId: string, idempotencyKey: string): Promise<void> {
    const topUp = this.#tables.topUps.get(topUpId)
    const { transfers, balances } = this.#tables
    if (topUp === undefined || transfers.has(idempotencyKey)) return
    const { accountId, balancePurchased, serviceFee } = topUp
    const debit = "house:cash_clearing"
    transfers.set(idempotencyKey, {
      idempotencyKey,
      debit,
      credit: accountId,
      amount: balancePurchased,
      reason: "top_up",
    })
    if (serviceFee > 0n) {
      const feeKey = `${idempotencyKey}:service_fee`
      const fee = { idempotencyKey: feeKey, debit, credit: "house:revenue", amount: serviceFee, reason: "service_fee" }
      transfers.set(feeKey, fee)
    }
    balances.get(accountId)!.posted += balancePurchased
    this.#tables.tell({ what: "freed", about: "account", id: accountId })
    topUp.paid = true
  }

  async addPrice(model: string, rates: Rates, effectiveAt: number): Promise<bigint> {
    const priceId = ++this.#lastPrice
    this.#tables.prices.set(priceId, { priceId, model, rates, effectiveAt })
    this.#tables.tell({ what: "changed", about: "catalogue" })
    return priceId
  }

  async notices(): Promise<readonly Notice[]> {
    return this.#tables.takeNotices()
  }

  async dump(): Promise<Dump> {
    return this.#tables.dump()
  }
}
