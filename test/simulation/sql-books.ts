/**
 * Books in a real database, kept by the product's own functions: what `model-books.ts` is held against. On the embedded
 * database, whose sessions are one, session locks are only remembered here, and nobody listens to notices.
 */
import type { Growth, Share, VersionedLease } from "../../actors/lease.ts"
import type { KeyRecord, Spent } from "../../actors/key-record.ts"
import type { AccountLease } from "../../actors/account.ts"
import type { Batch } from "../../actors/ledger.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import type { RunRecord } from "../../actors/run.ts"
import { type AccountStore, accountStore } from "../../src/store/accounts.ts"
import { apiKeyStore } from "../../src/store/api-keys.ts"
import { unbound } from "../../src/store/key-rows.ts"
import {
  type BudgetPeriod,
  type BudgetStatements,
  budgetStatements,
  type GrownBudget,
  returnBudget,
} from "../../src/store/budget-leases.ts"
import { type CallKeyStatements, callKeyStatements } from "../../src/store/call-keys.ts"
import { type Breaker, breakerPurses, breakerStore, type PurseLook } from "../../src/store/breakers.ts"
import { Connection } from "../../src/store/connection.ts"
import { growLease, returnLease } from "../../src/store/leases.ts"
import { ledgerStore } from "../../src/store/ledger.ts"
import { type KeyStatements, keyStatements } from "../../src/store/live-keys.ts"
import { type Notice, parseNotice } from "../../src/store/notices.ts"
import { type ProcessStatements, processStatements } from "../../src/store/processes.ts"
import { type NewRun, type RunStatements, runStatements } from "../../src/store/runs.ts"
import { lockKey } from "../../src/store/session-lock.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { onPostgres, type TestDatabase } from "../store/harness.ts"
import type { Books, KeyBudget, NewKey, NewTopUp } from "./books.ts"
import type { Dump } from "./dump.ts"
import { clear, readDump } from "./sql-dump.ts"

export class SqlBooks implements Books, AsyncDisposable {
  readonly callKeys: CallKeyStatements
  readonly #target: TestDatabase
  readonly #processes: ProcessStatements
  readonly #budgets: BudgetStatements
  readonly #keys: KeyStatements
  readonly #runs: RunStatements
  readonly #accounts: AccountStore
  #nowMs = 0
  readonly #listener: Connection | undefined
  readonly #locks = new Set<string>()
  #told: Notice[] = []
  #marked = () => {}

  private constructor(target: TestDatabase) {
    this.#target = target
    this.callKeys = callKeyStatements(target.db)
    this.#processes = processStatements(target.db)
    this.#budgets = budgetStatements(target.db)
    this.#keys = keyStatements(target.db)
    this.#runs = runStatements(target.db)
    this.#accounts = accountStore(target.db, () => this.#nowMs)
    if (!onPostgres) return
    this.#listener = new Connection({
      url: target.url,
      connectTimeoutMs: 10_000,
      statementTimeoutMs: 0,
      onNotify: (_, payload) => {
        const notice = parseNotice(payload)
        if (notice === undefined) this.#marked()
        else this.#told.push(notice)
      },
    })
  }

  static async open(target: TestDatabase): Promise<SqlBooks> {
    const books = new SqlBooks(target)
    const { sql } = books.#listener ?? target
    if (onPostgres) await sql`listen loket`
    return books
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#listener?.end()
  }

  /** Makes all tables empty, for another world. */
  async clear(): Promise<void> {
    for (const processId of this.#locks) await this.dropLock(processId)
    await clear(this.#target.sql)
    await this.notices()
  }

  async takeLock(processId: string): Promise<boolean> {
    if (this.#locks.has(processId)) return false
    this.#locks.add(processId)
    const { sql } = this.#target
    if (onPostgres) await sql`select pg_advisory_lock(${lockKey(sql, processId)})`
    return true
  }

  async dropLock(processId: string): Promise<void> {
    const { sql } = this.#target
    if (this.#locks.delete(processId) && onPostgres) await sql`select pg_advisory_unlock(${lockKey(sql, processId)})`
  }

  registerProcess(processId: string): Promise<void> {
    return this.#processes.registerProcess(processId)
  }

  serve(processId: string): Promise<void> {
    return this.#processes.serve(processId)
  }

  drain(processId: string): Promise<void> {
    return this.#processes.drain(processId)
  }

  share(processId: string): Promise<Share | undefined> {
    return this.#processes.share(processId)
  }

  async isClosed(processId: string): Promise<boolean> {
    const rows = await this.#target.sql`select from processes where id = ${processId} and closed_at is not null`
    return rows.length > 0
  }

  async findDead(own: string, exclusive: boolean): Promise<string[]> {
    if (!onPostgres && exclusive && !this.#locks.has(own)) return []
    const dead = await this.#processes.findDead(own, exclusive && onPostgres)
    return dead.filter((id) => onPostgres || !exclusive || !this.#locks.has(id))
  }

  async fence(processId: string, exclusive: boolean): Promise<void> {
    if (!onPostgres && exclusive && this.#locks.has(processId)) return
    await this.#processes.fence(processId, exclusive && onPostgres)
  }

  returnLeases(processId: string): Promise<number> {
    return this.#processes.returnLeases(processId)
  }

  returnBudgets(processId: string): Promise<void> {
    return this.#processes.returnBudgets(processId)
  }

  recordOpenings(processId: string): Promise<number> {
    return this.#processes.recordOpenings(processId)
  }

  growLease(
    processId: string,
    accountId: string,
    short: Micro,
    version: number,
  ): Promise<Growth<AccountLease> | undefined> {
    return growLease(this.#target.db, processId, accountId, short, version)
  }

  returnLease(leaseId: bigint, returned: Micro): Promise<AccountLease | undefined> {
    return returnLease(this.#target.db, leaseId, returned)
  }

  growBudget(processId: string, of: BudgetPeriod, short: Micro, version: number): Promise<GrownBudget | undefined> {
    return this.#budgets.growBudget(processId, of, short, version)
  }

  openBudget(of: BudgetPeriod): Promise<void> {
    return this.#budgets.openBudget(of)
  }

  returnBudget(processId: string, of: BudgetPeriod, returned: Micro): Promise<VersionedLease | undefined> {
    return returnBudget(this.#target.db, processId, of, returned)
  }

  growBreaker(processId: string, purse: string, short: Micro, version: number) {
    return breakerPurses(this.#target.db, processId, false).grow(purse, short, version)
  }

  async tripBreaker(purse: string, least: Micro): Promise<readonly string[] | undefined> {
    return await breakerPurses(this.#target.db, "", false).trip(purse, least)
  }

  lookBreaker(purse: string): Promise<PurseLook | undefined> {
    return breakerPurses(this.#target.db, "", false).look(purse)
  }

  async setBreaker(accountId: string, keyId: string | undefined, breaker: Breaker): Promise<void> {
    const store = breakerStore(this.#target.db)
    if (keyId === undefined) await store.setAccount(accountId, { ...breaker, factor: undefined })
    else await store.setKey({ accountId, keyId }, breaker)
  }

  async resumeBreaker(accountId: string, keyId: string | undefined): Promise<void> {
    await breakerStore(this.#target.db).resume(accountId, keyId)
  }

  /** By way of a time that no row has, because each row's place must be free when it comes. */
  async minutesPass(minutes: number): Promise<void> {
    const { sql } = this.#target
    await sql`update spending_minutes set minute = minute - interval '100 days'`
    await sql`update spending_minutes set minute = minute + interval '100 days' - make_interval(mins => ${minutes}::int)`
  }

  findKey(keyHash: string): Promise<KeyRecord | undefined> {
    return this.#keys.findKey(keyHash)
  }

  readSpent(keyId: string, starts: PeriodStarts): Promise<Spent> {
    return this.#keys.readSpent(keyId, starts)
  }

  findRun(runId: string): Promise<RunRecord | undefined> {
    return this.#runs.findRun(runId)
  }

  openRun(run: NewRun): Promise<boolean> {
    return this.#runs.openRun(run)
  }

  mayOpenRun(accountId: string, nowMs: number): Promise<boolean> {
    return this.#runs.mayOpenRun(accountId, nowMs)
  }

  async commit(processId: string, batch: Batch): Promise<readonly string[]> {
    const store = ledgerStore({ database: this.#target.db, processId, fenced: () => {}, archived: () => {} })
    // Nobody else is there whose locks could be met.
    return (await store.commit(batch, false)).fenced
  }

  async createAccount(accountId: string, timeZone: string): Promise<void> {
    const sessionHash = Buffer.from(`session ${accountId}`)
    await this.#accounts.create({
      id: accountId,
      email: `${accountId}@example.test`,
      emailUnproved: false,
      passwordHash: "x",
      sessionHash,
      from: { address: "127.0.0.1", userAgent: "test" },
      network: "127.0.0.1",
    })
    await this.#target.sql`update accounts set time_zone = ${timeZone} where id = ${accountId}`
  }

  async changeTimeZone(accountId: string, timeZone: string, nowMs: number): Promise<void> {
    this.#nowMs = nowMs
    await this.#accounts.change(accountId, { timeZone })
  }

  async deleteAccount(accountId: string): Promise<void> {
    await this.#accounts.delete(accountId)
  }

  async freezeAccount(accountId: string): Promise<void> {
    await this.#accounts.freeze(accountId, "books")
  }

  async unfreezeAccount(accountId: string): Promise<void> {
    await this.#accounts.unfreeze(accountId)
  }

  async createKey({
    keyId,
    accountId,
    keyHash,
    budget,
    parentId,
    replaysRetries = true,
    ...limits
  }: NewKey): Promise<void> {
    await apiKeyStore(this.#target.db).create(
      {
        id: keyId,
        accountId,
        name: "key",
        keyHash: Buffer.from(keyHash, "hex"),
        prefix: "sk-loket",
        last4: "last",
        requestsPerMinute: limits.requestsPerMinute ?? null,
        tokensPerMinute: limits.tokensPerMinute ?? null,
        spendingLimitMicro: budget?.limit ?? null,
        spendingPeriod: budget?.period ?? null,
        // So that calls are rerouted often.
        fallback: "any",
        showsBalance: true,
        replaysRetries,
        parentId,
        ...unbound,
      },
      { active: 1_000, aDay: 1_000, ...(parentId !== undefined && { ofKey: 1_000 }) },
    )
  }

  async changeBudget(keyId: string, budget: KeyBudget | undefined): Promise<void> {
    const change = { spendingLimitMicro: budget?.limit ?? null, spendingPeriod: budget?.period ?? null }
    await apiKeyStore(this.#target.db).change(await this.#nameOf(keyId), change)
  }

  async revokeKey(keyId: string): Promise<void> {
    await apiKeyStore(this.#target.db).revoke(await this.#nameOf(keyId))
  }

  async #nameOf(keyId: string) {
    const [row] = await this.#target.sql<{ id: string }[]>`select account_id as id from api_keys where id = ${keyId}`
    return { keyId, accountId: row?.id ?? "" }
  }

  async createTopUp({ topUpId, accountId, balancePurchased, serviceFee }: NewTopUp): Promise<void> {
    const fees = { serviceFeeMicro: serviceFee, paymentFeeMicro: zero, networkFeeMicro: zero }
    await topUpStore(this.#target.db).create({
      id: topUpId,
      accountId,
      provider: "simulated",
      breakdown: { balancePurchasedMicro: balancePurchased, ...fees },
      validMinutes: 15,
    })
  }

  async credit(topUpId: string, idempotencyKey: string): Promise<void> {
    await topUpStore(this.#target.db).credit(topUpId, { key: idempotencyKey, reference: topUpId })
  }

  async addPrice(model: string, rates: Rates, effectiveAt: number): Promise<bigint> {
    const [row] = await this.#target.sql<{ id: bigint }[]>`
      with sold as (
        insert into models (model, position, display_name, tier, provider, modality, supports_vision, supports_tools,
          context_window, max_output_tokens, endpoints, upstream_provider, upstream_format, upstream_model,
          max_concurrency, fallback, strip, unsupported, features)
        values (${model}, 0, ${model}, 't', 'p', 'text', false, false, null, 100, '{chat}', 'p', 'chat', ${model}, 1,
          '{}', '{}', '{}', '{}') on conflict do nothing
      )
      insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
      values (${model}, ${rates.input}, ${rates.output}, ${rates.cacheRead}, ${rates.cacheWrite}, ${new Date(effectiveAt)})
      returning id`
    return row!.id
  }

  async notices(): Promise<readonly Notice[]> {
    if (onPostgres) {
      // Notices come in the order of commits, so what comes before this one is all there is.
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#marked = resolve
      await this.#target.sql`select pg_notify('loket', 'mark')`
      await promise
    }
    const told = this.#told
    this.#told = []
    return told
  }

  dump(): Promise<Dump> {
    return readDump(this.#target.sql)
  }
}
