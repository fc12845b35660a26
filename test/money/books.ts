/**
 * A small business to book calls in, without a gateway in front: accounts, keys, processes and leases as rows, and calls
 * as the ledger is handed them.
 */
import { growLease } from "../../src/store/leases.ts"
import type { AccountLease as Lease } from "../../actors/account.ts"
import type { Batch, Opening, Settlement, UsageRecord } from "../../actors/ledger.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens, price, type Rates, type Tokens } from "../../actors/money/price.ts"
import { ledgerStore } from "../../src/store/ledger.ts"
import type { TestDatabase } from "../store/harness.ts"

const rates: Rates = {
  input: micro(1_000n),
  output: micro(5_000n),
  cacheRead: micro(100n),
  cacheWrite: micro(1_250n),
}

export interface CallTerms {
  readonly id?: string
  readonly accountId: string
  readonly keyId: string
  readonly lease: Lease
  readonly tokens?: Partial<Tokens>
  /** What of the price the customer's money did not cover. */
  readonly absorbed?: bigint
  /** The part of `absorbed` that the tokens do not explain. */
  readonly excess?: bigint
  readonly markers?: number
}

export interface Balance {
  readonly posted: bigint
  readonly leased: bigint
}

let serial = 0

export class Books {
  readonly #target: TestDatabase
  readonly #priceId: bigint
  /** Calls that were settled under a lease that was no longer open. */
  readonly fenced: string[] = []
  /** Calls of archived months that came again. */
  readonly archived: string[] = []

  private constructor(target: TestDatabase, priceId: bigint) {
    this.#target = target
    this.#priceId = priceId
  }

  static async open(target: TestDatabase): Promise<Books> {
    const [row] = await target.sql<{ id: bigint }[]>`
      with model as (
        insert into models (model, position, display_name, tier, provider, modality, supports_vision, supports_tools,
          context_window, max_output_tokens, endpoints, upstream_provider, upstream_format, upstream_model,
          max_concurrency, fallback, strip, unsupported, features)
        values ('m', 0, 'm', 't', 'p', 'text', false, false, null, 100, '{chat}', 'p', 'chat', 'm', 1, '{}', '{}', '{}', '{}')
        returning model
      )
      insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
      select model, ${rates.input}, ${rates.output}, ${rates.cacheRead}, ${rates.cacheWrite}, '2026-01-01' from model
      returning id`
    return new Books(target, row!.id)
  }

  async account(postedMicro: bigint): Promise<{ accountId: string; keyId: string }> {
    const { sql } = this.#target
    const accountId = `acc_${++serial}`
    const keyId = `key_${serial}`
    await sql`insert into accounts (id, email, password_hash) values (${accountId}, ${`${accountId}@example.test`}, 'x')`
    await sql`
      insert into api_keys (id, account_id, name, key_hash, prefix, last4)
      values (${keyId}, ${accountId}, 'k', ${Buffer.from(keyId)}, 'sk', 'last')`
    await sql`insert into balances (account_id) values (${accountId})`
    if (postedMicro > 0n) await this.credit(accountId, postedMicro)
    return { accountId, keyId }
  }

  /** As an operator gives it. */
  async credit(accountId: string, amount: bigint): Promise<void> {
    const transfer = `adjustment:${accountId}:${++serial}`
    await this.#target.sql`
      with moved as (
        insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
        values (${transfer}, 'house:adjustments', ${accountId}, ${amount}, 'adjustment')
      ), logged as (
        insert into audit_log (request_id, action, subject, after) values (${`req_${transfer}`}, 'account.adjusted', ${accountId},
          jsonb_build_object('amount_micro', ${amount}::bigint, 'transfer', ${transfer}::text))
      )
      update balances set posted_micro = posted_micro + ${amount} where account_id = ${accountId}`
  }

  async process(id = `prc_${++serial}`): Promise<string> {
    await this.#target.sql`insert into processes (id) values (${id})`
    return id
  }

  async lease(processId: string, accountId: string, short = 0n): Promise<Lease> {
    const [known] = await this.#target.sql<{ version: number }[]>`
      select version from leases where account_id = ${accountId} and process_id = ${processId} and closed_at is null`
    const grown = await growLease(this.#target.db, processId, accountId, micro(short), known?.version ?? 0)
    if (grown === undefined) throw new Error(`no lease on ${accountId}`)
    return grown.lease
  }

  /** An account with money, a process, and its lease on all of it. */
  async customer(postedMicro = 1_000_000n) {
    const account = await this.account(postedMicro)
    const processId = await this.process()
    return { ...account, processId, lease: await this.lease(processId, account.accountId, postedMicro) }
  }

  /** The calls whose lease was not open any more. */
  async commit(processId: string, batch: Partial<Batch>): Promise<readonly string[]> {
    const fenced = (ids: readonly string[]) => void this.fenced.push(...ids)
    const archived = (ids: readonly string[]) => void this.archived.push(...ids)
    const store = ledgerStore({ database: this.#target.db, processId, fenced, archived })
    return (await store.commit({ openings: [], settlements: [], ...batch }, true)).fenced
  }

  opening({ id, accountId, keyId, lease }: CallTerms): Opening {
    return {
      requestId: id ?? `req_${++serial}`,
      accountId,
      keyId,
      leaseId: lease.id,
      model: "m",
      endpoint: "chat",
      streamed: true,
      hold: micro(500_000n),
      priceId: this.#priceId,
      openedAt: Date.UTC(2026, 10, 20, 1),
      starts: { daily: Date.UTC(2026, 10, 19, 17), monthly: Date.UTC(2026, 9, 31, 17), total: 0 },
    }
  }

  /** 100 input and 20 output tokens unless told otherwise: 200,000 micro. */
  settlement(terms: CallTerms): Settlement {
    const opening = this.opening(terms)
    const tokens = { ...noTokens, ...(terms.tokens ?? { input: 100, output: 20 }) }
    const absorbed = micro(terms.absorbed ?? 0n)
    const excess = micro(terms.excess ?? 0n)
    const charge = micro(price(tokens, rates) + excess - absorbed)
    const markers = Array.from({ length: terms.markers ?? 0 }, (_, index) =>
      this.#record({
        part: index + 1,
        status: "fallback_429",
        tokens: noTokens,
        charge: zero,
        absorbed: zero,
        excess: zero,
      }),
    )
    const final = this.#record({ part: 0, status: "ok", tokens, charge, absorbed, excess })
    return { opening, records: [final, ...markers], voided: false }
  }

  #record(fields: Pick<UsageRecord, "part" | "status" | "tokens" | "charge" | "absorbed" | "excess">): UsageRecord {
    return {
      ...fields,
      model: "m",
      priceId: this.#priceId,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: false,
      firstTokenMs: 3,
      durationMs: 8,
      member: "p/default/m",
      cost: micro(90_000n),
    }
  }

  async balance(accountId: string): Promise<Balance> {
    const [row] = await this.#target.sql<{ posted_micro: bigint; leased_micro: bigint }[]>`
      select posted_micro, leased_micro from balances where account_id = ${accountId}`
    return { posted: row!.posted_micro, leased: row!.leased_micro }
  }

  async spent(keyId: string): Promise<Record<string, bigint>> {
    const rows = await this.#target.sql<{ period: string; spent_micro: bigint }[]>`
      select period, spent_micro from key_spend where key_id = ${keyId}`
    return Object.fromEntries(rows.map((row) => [row.period, row.spent_micro]))
  }

  async records(requestId: string) {
    const rows = await this.#target.sql<{ part: number; status: string; charge: bigint; absorbed: bigint }[]>`
      select part, status, charge_micro as charge, absorbed_micro as absorbed from usage
      where request_id = ${requestId} order by part`
    return [...rows]
  }

  async house(account: string): Promise<bigint> {
    const [row] = await this.#target.sql<{ amount: bigint }[]>`
      select coalesce(sum(case credit_account when ${account} then amount_micro else -amount_micro end), 0)::bigint as amount
      from all_transfers where ${account} in (credit_account, debit_account)`
    return row!.amount
  }
}

/** As the ledger voids a settlement whose caller it could not answer in time. */
export function voidOf({ opening, records: [final, ...markers] }: Settlement): Settlement {
  const record: UsageRecord = {
    ...final,
    status: "billing_error",
    charge: zero,
    absorbed: zero,
    excess: zero,
    flagged: true,
  }
  return { opening, records: [record, ...markers], voided: true }
}
