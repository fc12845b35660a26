/** The dump of a real database, and how a database is emptied. */
import type { UsageStatus } from "../../actors/ledger.ts"
import { micro } from "../../actors/money/micro.ts"
import type { SpendingPeriod } from "../../actors/period.ts"
import type { Sql } from "../../src/store/database.ts"
import type {
  BalanceRow,
  BreakerRow,
  BudgetLeaseRow,
  Dump,
  KeyRow,
  KeySpendRow,
  LeaseRow,
  OpeningRow,
  ProcessRow,
  RefundAct,
  RefundRow,
  RunRow,
  TopUpRow,
  TransferRow,
} from "./dump.ts"

const tables = `accounts sessions api_keys running_periods key_spend balances transfers charges processes leases budget_leases openings usage runs
  spending_minutes top_ups refunds idempotency_keys audit_log models prices`

/** Some rows are guarded by triggers, which sleep meanwhile. To truncate takes a hundred times as long. */
export async function clear(sql: Sql): Promise<void> {
  const deletions = tables.split(/\s+/).map((table) => `delete from ${table};`)
  await sql.unsafe(`set session_replication_role = replica; ${deletions.join(" ")} reset session_replication_role`)
}

export async function readDump(sql: Sql): Promise<Dump> {
  const keys = await sql<
    (Omit<KeyRow, "limit" | "period" | "parentId"> & {
      limit: bigint | null
      period: SpendingPeriod | null
      parentId: string | null
    })[]
  >`
    select id as "keyId", account_id as "accountId", spending_limit_micro as limit, spending_period as period,
      parent_id as "parentId", revoked_at is not null as revoked from api_keys`
  const keySpend = await sql<(Omit<KeySpendRow, "start"> & { start: Date })[]>`
    select key_id as "keyId", period, period_start as start, spent_micro as spent, leased_micro as leased from key_spend`
  const balances = await sql<BalanceRow[]>`
    select account_id as "accountId", posted_micro as posted, leased_micro as leased, claim_micro as claim from balances`
  const transfers = await sql<TransferRow[]>`
    select idempotency_key as "idempotencyKey", debit_account as debit, credit_account as credit,
      amount_micro as amount, reason from all_transfers`
  const processes = await sql<ProcessRow[]>`
    select id as "processId", closed_at is not null as closed from processes`
  const leases = await sql<LeaseRow[]>`
    select id as "leaseId", account_id as "accountId", process_id as "processId", granted_micro as granted,
      returned_micro as returned, settled_micro as settled, version, closed_at is not null as closed from leases`
  const budgetLeases = await sql<(Omit<BudgetLeaseRow, "start"> & { start: Date })[]>`
    select key_id as "keyId", period, period_start as start, process_id as "processId", granted_micro as granted,
      returned_micro as returned, settled_micro as settled, version from budget_leases`
  const openings = await sql<(Omit<OpeningRow, "openedAt"> & { openedAt: Date })[]>`
    select request_id as "requestId", process_id as "processId", account_id as "accountId", key_id as "keyId",
      lease_id as "leaseId", model, price_id as "priceId", hold_micro as hold, opened_at as "openedAt" from openings`
  const topUps = await sql<TopUpRow[]>`
    select id as "topUpId", account_id as "accountId", balance_purchased_micro as "balancePurchased",
      service_fee_micro as "serviceFee", payment_fee_micro + network_fee_micro as "otherFees", status = 'paid' as paid,
      refunded_balance_micro as "refundedBalance", refunded_service_fee_micro as "refundedServiceFee",
      refunded_payment_fee_micro as "refundedOtherFees" from top_ups`
  const refunds = await sql<(Omit<RefundRow, "topUpId"> & { topUpId: string | null })[]>`
    select id as "refundId", account_id as "accountId", top_up_id as "topUpId", kind, status = 'cancelled' as cancelled,
      balance_micro as balance, service_fee_micro as "serviceFee", payment_fee_micro as "otherFees",
      claimed_micro as claimed from refunds`
  const refundActs = await sql<RefundAct[]>`
    select subject as "accountId", after ->> 'refund' as "refundId", (after ->> 'amount_micro')::bigint as amount
    from audit_log where action = 'account.refunded'`
  const runs = await sql<(Omit<RunRow, "endsAt"> & { endsAt: Date })[]>`
    select id as "runId", account_id as "accountId", key_id as "keyId", name, budget_micro as budget, ends_at as "endsAt"
    from runs`
  const breakers = await sql<(Omit<BreakerRow, "ceiling"> & { ceiling: bigint | null })[]>`
    select purse, ceiling, coalesce(stops, false) as stops, coalesce(paused, false) as paused, spent_lately(purse) as lately from (
      select 'brk_' || id as purse, breaker_ceiling_micro as ceiling, breaker_stops as stops, paused_at is not null as paused from accounts
      union all
      select 'brk_' || account_id || '.' || id, breaker_ceiling_micro, breaker_stops, paused_at is not null from api_keys
    ) as owners where ceiling is not null or paused or spent_lately(purse) > 0`
  return {
    breakers: breakers.map((row) => ({ ...row, ceiling: row.ceiling ?? undefined })),
    runs: runs.map((row) => ({ ...row, endsAt: row.endsAt.getTime() })),
    keys: keys.map(({ limit, period, parentId, ...row }) => ({
      ...row,
      limit: limit ?? undefined,
      period: period ?? undefined,
      parentId: parentId ?? undefined,
    })),
    keySpend: keySpend.map((row) => ({ ...row, start: row.start.getTime() })),
    balances: [...balances],
    transfers: [...transfers],
    processes: [...processes],
    leases: [...leases],
    budgetLeases: budgetLeases.map((row) => ({ ...row, start: row.start.getTime() })),
    openings: openings.map((row) => ({ ...row, openedAt: row.openedAt.getTime() })),
    usage: await readUsage(sql),
    topUps: [...topUps],
    refunds: refunds.map((row) => ({ ...row, topUpId: row.topUpId ?? undefined })),
    refundActs: [...refundActs],
    prices: await readPrices(sql),
  }
}

async function readUsage(sql: Sql): Promise<Dump["usage"]> {
  const rows = await sql<UsageColumns[]>`
    select request_id, part, account_id, key_id, lease_id, model, status, input_tokens, output_tokens, cache_read_tokens,
      cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns, attempts, error_code, flagged, opened_at,
      member, cost_micro, run_id from usage`
  return rows.map((row) => ({
    requestId: row.request_id,
    part: row.part,
    accountId: row.account_id,
    keyId: row.key_id,
    leaseId: row.lease_id,
    model: row.model,
    priceId: row.price_id,
    status: row.status,
    tokens: {
      input: Number(row.input_tokens),
      output: Number(row.output_tokens),
      cacheRead: Number(row.cache_read_tokens),
      cacheWrite: Number(row.cache_write_tokens),
    },
    charge: row.charge_micro,
    absorbed: row.absorbed_micro,
    excess: row.excess_micro,
    turns: row.turns,
    attempts: row.attempts,
    errorCode: row.error_code ?? undefined,
    flagged: row.flagged,
    member: row.member ?? undefined,
    cost: row.cost_micro ?? undefined,
    runId: row.run_id ?? undefined,
    openedAt: row.opened_at.getTime(),
  }))
}

interface UsageColumns {
  readonly request_id: string
  readonly part: number
  readonly account_id: string
  readonly key_id: string
  readonly lease_id: bigint
  readonly model: string
  readonly status: UsageStatus
  readonly input_tokens: bigint
  readonly output_tokens: bigint
  readonly cache_read_tokens: bigint
  readonly cache_write_tokens: bigint
  readonly charge_micro: bigint
  readonly absorbed_micro: bigint
  readonly excess_micro: bigint
  readonly price_id: bigint
  readonly turns: number
  readonly attempts: number
  readonly error_code: string | null
  readonly flagged: boolean
  readonly opened_at: Date
  readonly member: string | null
  readonly cost_micro: bigint | null
  readonly run_id: string | null
}

async function readPrices(sql: Sql): Promise<Dump["prices"]> {
  const rows = await sql<
    {
      id: bigint
      model: string
      input_micro: bigint
      output_micro: bigint
      cache_read_micro: bigint
      cache_write_micro: bigint
      effective_at: Date
    }[]
  >`select * from prices`
  return rows.map((row) => ({
    priceId: row.id,
    model: row.model,
    rates: {
      input: micro(row.input_micro),
      output: micro(row.output_micro),
      cacheRead: micro(row.cache_read_micro),
      cacheWrite: micro(row.cache_write_micro),
    },
    effectiveAt: row.effective_at.getTime(),
  }))
}
